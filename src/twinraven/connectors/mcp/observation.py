"""Compares a server's tool list with the pinned definitions: names, unusable tools, and what changed.

A server cannot know what else a home has. So a tool of its own that would be called like one that is there already
gets the longer name with a hash in it, and the one that was there keeps its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any, Final

from twinraven.connectors.mcp.model import Definition, PinnedTool, ToolChanges, UnusableTool, definition_hash
from twinraven.connectors.mcp.naming import distinct_tool_id, upstream_tool_id
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput

_LONGEST_DEFINITION: Final = 256 * 1024
_LONGEST_SHOWN: Final = 100
_UNREADABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names of a server's tools, and the tools that could not be named."""

    ids: dict[str, str]
    apart: tuple[str, ...]
    """New tools that are not called as they would be, because something else is."""
    left_out: tuple[UnusableTool, ...]


def sort_out(definitions: Iterable[Definition]) -> tuple[dict[str, Definition], tuple[UnusableTool, ...]]:
    """Return the definitions by name, and those that cannot be kept; of two with one name, the first counts."""
    seen: dict[str, Definition] = {}
    left_out: list[UnusableTool] = []
    for definition in definitions:
        name = definition.get("name")
        fault = _fault(name, definition, seen)
        if fault is None:
            seen[str(name)] = definition
        else:
            left_out.append(
                UnusableTool(name[:_LONGEST_SHOWN] if isinstance(name, str) and name else "(no name)", fault)
            )
    return seen, tuple(left_out)


def name_tools(
    server: str, names: Iterable[str], pinned: Iterable[PinnedTool], is_taken: Callable[[str], bool]
) -> ToolNames:
    """Return a name for each tool of a server that no other tool has.

    `is_taken` knows those that come from elsewhere.
    """
    every = list(pinned)
    used = {tool.tool_id for tool in every}
    own = {tool.name: tool.tool_id for tool in every if tool.server == server}
    ids: dict[str, str] = {}
    apart: list[str] = []
    left_out: list[UnusableTool] = []
    for name in names:
        if name in own:
            tool_id = None if is_taken(own[name]) else own[name]
        else:
            tool_id = _free(server, name, lambda one: one in used or is_taken(one))
            apart += [name] if tool_id not in (None, upstream_tool_id(server, name)) else []
        if tool_id is None:
            called = own.get(name) or upstream_tool_id(server, name)
            left_out.append(
                UnusableTool(name[:_LONGEST_SHOWN], f"another tool is called {called!r}; rename that or the server")
            )
        else:
            ids[name] = tool_id
            used.add(tool_id)
    return ToolNames(ids, tuple(apart), tuple(left_out))


def differences(
    known: list[PinnedTool], seen: dict[str, Definition], *, is_held: Callable[[Definition, Definition], bool]
) -> ToolChanges:
    """Compute added, changed, reverted and removed tools; `is_held` tells a rewording from another tool."""
    names = {tool.name for tool in known}
    changed, reworded, restored, gone = list[str](), list[str](), list[str](), list[str]()
    for tool in known:
        now = seen.get(tool.name)
        if now is None:
            gone += [tool.name] if tool.is_present else []
        elif is_same(now, tool.definition):
            restored += [tool.name] if tool.changed is not None or not tool.is_present else []
        elif tool.changed is None or not is_same(now, tool.changed) or not tool.is_present:
            (reworded if is_held(tool.definition, now) else changed).append(tool.name)
    added = (name for name in seen if name not in names)
    return ToolChanges(tuple(added), tuple(changed), tuple(reworded), tuple(restored), tuple(gone))


def is_same(one: Definition, other: Definition) -> bool:
    return definition_hash(one) == definition_hash(other)


def _free(server: str, name: str, is_taken: Callable[[str], bool]) -> str | None:
    candidates = (upstream_tool_id(server, name), distinct_tool_id(server, name))
    return next((tool_id for tool_id in candidates if not is_taken(tool_id)), None)


def _fault(name: Any, definition: Definition, seen: Container[str]) -> str | None:
    if not isinstance(name, str) or not name:
        return "it has no name"
    if _UNREADABLE.search(name):
        return "its name holds control characters"
    if name in seen:
        return "the server lists it twice; the first definition counts"
    try:
        length = len(canonical_json(definition))
    except InvalidInput as error:
        return f"its definition cannot be kept: {error.message}"
    return f"its definition is longer than {_LONGEST_DEFINITION} bytes" if length > _LONGEST_DEFINITION else None
