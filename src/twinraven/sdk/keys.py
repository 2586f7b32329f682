"""Chooses the idempotency key of a call that names none.

A write gets a key of its own, so that it can be sent again; a tool that derives keys from arguments is left to do so; a
read needs none. A call that waits for somebody's approval is asked about by making it again, so its key is kept until
it has run or was refused.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twinraven.foundation.canonical import content_hash
from twinraven.foundation.ids import new_id
from twinraven.sdk.exchange import encode
from twinraven.sdk.model import ToolInfo

BELIEVED_S: Final = 30.0
"""How long what a tool declares is taken for true without asking again."""

_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class ChosenKey:
    """The key of one call, and whether the call may be sent again."""

    key: str | None
    is_repeatable: bool
    place: str = ""
    """Under which a key that waits is kept."""


class Keys:
    """Chooses keys."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tools: OrderedDict[str, tuple[ToolInfo, float]] = OrderedDict()
        self._waiting: OrderedDict[str, str] = OrderedDict()

    def known(self, tool_id: str) -> ToolInfo | None:
        """Return the cached declaration of the tool."""
        found = self._tools.get(tool_id)
        return None if found is None or self._clock() >= found[1] else found[0]

    def learn(self, tool: ToolInfo) -> None:
        self._tools[tool.tool_id] = (tool, self._clock() + BELIEVED_S)
        _trim(self._tools)

    def forget(self, tool_id: str) -> None:
        """It may declare something else now."""
        self._tools.pop(tool_id, None)

    def choose(self, tool: ToolInfo, arguments: Mapping[str, Any], session_id: str) -> ChosenKey:
        """Return the key of a call that came without one."""
        if not tool.writes:
            return ChosenKey(None, is_repeatable=True)
        if tool.idempotent_by is not None:
            # A key that holds for a span of time is another one once the span is over.
            return ChosenKey(None, is_repeatable=tool.idempotent_by.get("within") == "session")
        place = content_hash(encode([session_id, tool.tool_id, dict(arguments)]))
        return ChosenKey(self._waiting.get(place) or new_id(), is_repeatable=True, place=place)

    def settle(self, chosen: ChosenKey, *, is_pending: bool) -> None:
        """Keep the key of a call that waits; let go of any other."""
        if not chosen.place or chosen.key is None:
            return
        if is_pending:
            self._waiting[chosen.place] = chosen.key
            _trim(self._waiting)
        else:
            self._waiting.pop(chosen.place, None)


def _trim(kept: OrderedDict[str, Any]) -> None:
    while len(kept) > _MOST:
        kept.popitem(last=False)
