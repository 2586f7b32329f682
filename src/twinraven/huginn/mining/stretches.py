"""Splits sessions into stretches, in which an agent went from call to call without outside input.

Where breaks are respected, outside input ends a stretch; otherwise a stretch is a session. The kernels for gapped
chains see a log as stretches of the tools that can matter at all, renumbered from 0 without holes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining.columns import EventColumns, Flags, Ints, SmallInts
from twinraven.huginn.mining.ordering import group_starts, stable_order
from twinraven.huginn.mining.search import Search, Tree

_MOST_EVENTS = 2**31 - 1
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Events of the tools that matter, cut at `offsets`; `kept` leads back to the tools of the columns.

    A *place* is an event's number in the order by tool, each tool's calls as they come; `events` gives the event at
    each place and `first_of_tool` the first place of each tool. All ends of one chain are calls of one tool, so what is
    kept by place lies close together for them. `positions` leads from events to rows of the columns; None says that
    every row was kept. `session` is the session at each place; None says that a stretch is a session.
    """

    columns: EventColumns
    kept: Ints
    offsets: Ints
    positions: SmallInts | None
    events: SmallInts
    first_of_tool: Ints
    session: SmallInts | None

    def __len__(self) -> int:
        return len(self.events)

    @classmethod
    def cut(cls, columns: EventColumns, kept: Ints, *, respect_breaks: bool, usable: Flags | None = None) -> Stretches:
        """Return the stretches of `columns`, without the tools not in `kept` and the events that are not usable."""
        check_size(columns)
        tools = _renumbered(columns, kept)
        staying = tools < len(kept) if usable is None else (tools < len(kept)) & usable
        positions = None if staying.all() else np.flatnonzero(staying).astype(np.int32)
        tools = tools if positions is None else tools[positions]
        stretch = np.cumsum(stretch_heads(columns, respect_breaks=respect_breaks), dtype=np.int32)
        offsets = np.append(group_starts(stretch if positions is None else stretch[positions]), len(tools))
        del stretch, staying
        events = stable_order(tools, len(kept)).astype(np.int32)
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(tools, minlength=len(kept)))))
        bare = cls(columns, kept, offsets, positions, events, first, None)
        if not respect_breaks or not columns.breaks.any():
            return bare
        session = np.repeat(np.arange(columns.sessions, dtype=np.int32), np.diff(columns.offsets))
        return replace(bare, session=bare.by_place(session))

    def by_place(self, column: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Return a column's value at each place."""
        return column[self.events if self.positions is None else self.positions[self.events]]

    def places(self, tool: int) -> slice[int, int, None]:
        """Return the positions of a tool's calls."""
        return slice(int(self.first_of_tool[tool]), int(self.first_of_tool[tool + 1]))

    def tool_at_place(self) -> SmallInts:
        return np.repeat(np.arange(len(self.kept), dtype=np.int32), np.diff(self.first_of_tool))

    def stretch_at_place(self) -> SmallInts:
        lengths = np.diff(self.offsets)
        return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[self.events]

    def repeats(self) -> Flags:
        """For each place but the last: whether the next place is the same tool in the same stretch."""
        stretch = self.stretch_at_place()
        same = stretch[1:] == stretch[:-1]
        begins = self.first_of_tool[1:-1]
        same[begins[(begins > 0) & (begins < len(stretch))] - 1] = False
        return same


def kept_tools(columns: EventColumns, search: Search, usable: Flags | None = None) -> Ints:
    """Return the tools that a chain of this search can contain."""
    if search.wanted is not None:
        return np.array(sorted(tools_of(search.wanted)), np.int64)
    tools = columns.tools if usable is None else columns.tools[usable]
    return np.flatnonzero(np.bincount(tools, minlength=len(columns.names)) >= search.minimum)


def tools_of(tree: Tree) -> set[int]:
    """Return every tool in a tree of chains."""
    found = set(tree)
    for child in tree.values():
        found |= tools_of(child)
    return found


def stretch_heads(columns: EventColumns, *, respect_breaks: bool) -> Flags:
    """Return which events begin a stretch."""
    heads = columns.breaks.copy() if respect_breaks else np.zeros(len(columns), np.bool_)
    heads[columns.offsets[:-1][np.diff(columns.offsets) > 0]] = True
    return heads


def check_size(columns: EventColumns) -> None:
    if len(columns) > _MOST_EVENTS:
        raise InvalidInput(
            f"{len(columns)} events are too many for one partition: mine them in several", field="events"
        )


def _renumbered(columns: EventColumns, kept: Ints) -> NDArray[np.integer]:
    """Return the tools by their place among the kept, in the fewest bytes; `len(kept)` stands for all others."""
    small = np.min_scalar_type(len(kept))
    number = np.full(len(columns.names), len(kept), small)
    number[kept] = np.arange(len(kept), dtype=small)
    return number[columns.tools]
