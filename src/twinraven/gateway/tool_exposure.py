"""Decides what `tools/list` shows: every tool, or two tools that find and call all others.

In `search` mode a client searches and calls by name, in `code` mode it searches and runs scripts. Both lists are the
same for everybody and never change, so a client's prompt stays as short with a thousand tools as with ten, and stays
cached when a tool is learned. What a caller finds is what it would have been shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from twinraven.foundation.errors import InvalidInput
from twinraven.gateway.identifiers import identifiers_for
from twinraven.gateway.tool_listings import UNCACHED, Definition, ToolListing, ToolListings
from twinraven.gateway.tool_search import ToolIndex

Mode = Literal["tools", "search", "code"]

SEARCH_TOOLS: Final = "search_tools"
CALL_TOOL: Final = "call_tool"
RUN_CODE_NAME: Final = "run_code"
LEARNED: Final = "learned"

_FEW: Final = 8
_MOST: Final = 50
_SHOWN: Final = ("name", "description", "inputSchema", "outputSchema")

_SEARCH: Final[Definition] = {
    "name": SEARCH_TOOLS,
    "description": (
        "Finds tools by words. Returns the best matches with name, description and input schema. "
        "Search before you call; the list of tools grows."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the tool should do, in a few words; empty lists all."},
            "limit": {"type": "integer", "minimum": 1, "maximum": _MOST, "default": _FEW},
        },
        "required": ["query"],
    },
    "annotations": {"readOnlyHint": True},
}
_CALL: Final[Definition] = {
    "name": CALL_TOOL,
    "description": "Calls a tool that search_tools found, by its name, with arguments that fit its input schema.",
    "inputSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object", "default": {}}},
        "required": ["name"],
    },
}
_RUN: Final[Definition] = {
    "name": RUN_CODE_NAME,
    "description": (
        "Runs a Python script in a sandbox: no files, no network, few imports (json, re, math, datetime, asyncio). "
        "Every tool is a function: `order = await get_order(order_id='W1')` returns the tool's JSON. search_tools says "
        "which (as `function`); `await call_tool(name, arguments)` works for all. Await several at once with "
        "asyncio.gather. A call that fails raises RuntimeError('CODE: message'). Do loops, filters and joins in the "
        "script and return only what you need: the last expression, or `result`, is the answer; print() is kept, too."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "key": {
                "type": "string",
                "description": "Of an earlier run of this code, to go on: its writes are not repeated.",
            },
        },
        "required": ["code"],
    },
}
_LISTS: Final[Mapping[str, list[Definition]]] = {"search": [_SEARCH, _CALL], "code": [_SEARCH, _RUN]}


@dataclass(frozen=True, slots=True)
class _Searchable:
    offered: ToolListing
    index: ToolIndex
    functions: dict[str, str]
    function_of: dict[str, str]


class ToolExposure:
    """Builds the tool list of a mode, and searches the tools behind it."""

    def __init__(self, offers: ToolListings, mode: Mode) -> None:
        self.mode: Final = mode
        self.offers: Final = offers
        self._kept: dict[tuple[str, str | None], _Searchable] = {}

    def listing(self, tenant_id: str, caller: str | None, protocol_version: str) -> Definition:
        """Return the answer to a client that asks for tools."""
        if self.mode == "tools":
            return self.offers.to(tenant_id, caller).listing(protocol_version)
        listed = _LISTS[self.mode]
        return {"tools": listed, **UNCACHED} if protocol_version in MODERN_PROTOCOL_VERSIONS else {"tools": listed}

    def shown(self, tenant_id: str) -> list[Definition]:
        """Return what a tenant is shown; where it differs from before, clients are notified."""
        return self.offers.to(tenant_id, None).newer if self.mode == "tools" else _LISTS[self.mode]

    def search(self, tenant_id: str, caller: str | None, arguments: dict[str, Any]) -> Definition:
        """Search the tools that a caller may call."""
        query, limit = _asked(arguments)
        known = self._searchable(tenant_id, caller)
        listed = known.offered.newer
        found = [listed[match.place] for match in known.index.search(query)] if query.strip() else listed
        described = [self._described(known, definition) for definition in found[:limit]]
        return {"tools": described, "found": len(found), "of": len(listed)}

    def functions(self, tenant_id: str, caller: str | None) -> dict[str, str]:
        """Return the names of the tools that a caller may call, by the functions that a script calls them as."""
        return self._searchable(tenant_id, caller).functions

    def _described(self, known: _Searchable, definition: Definition) -> Definition:
        name = definition["name"]
        entry = known.offered.by_name[name]
        shown: Definition = {part: definition[part] for part in _SHOWN if part in definition}
        shown["effect"] = entry.effect.value
        if LEARNED in entry.tags:
            shown[LEARNED] = True
        if self.mode == "code":
            shown["function"] = known.function_of[name]
        return shown

    def _searchable(self, tenant_id: str, caller: str | None) -> _Searchable:
        offered = self.offers.to(tenant_id, caller)
        kept = self._kept.get((tenant_id, caller))
        if kept is not None and kept.offered is offered:
            return kept
        names = list(offered.by_name)
        learned = [place for place, name in enumerate(names) if LEARNED in offered.by_name[name].tags]
        functions = identifiers_for(names)
        function_of = {name: function for function, name in functions.items()}
        made = _Searchable(offered, ToolIndex(offered.newer, learned=learned), functions, function_of)
        self._kept[tenant_id, caller] = made
        return made


def unwrapped(arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments inside a `call_tool`."""
    name, inner = arguments.get("name"), arguments.get("arguments")
    if not isinstance(name, str) or not name:
        raise InvalidInput("name must be the name of a tool", field="name", fix=f"{SEARCH_TOOLS} says which there are")
    if inner is not None and not isinstance(inner, dict):
        raise InvalidInput("arguments must be an object", field="arguments", fix="send the tool's arguments by name")
    _refuse_others(arguments, ("name", "arguments"))
    return name, cast("dict[str, Any]", inner or {})


def _asked(arguments: dict[str, Any]) -> tuple[str, int]:
    query, limit = arguments.get("query"), arguments.get("limit", _FEW)
    if not isinstance(query, str):
        raise InvalidInput("query must be a text", field="query", fix="say in a few words what the tool should do")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise InvalidInput(f"limit must be a whole number from 1 to {_MOST}", field="limit", fix="leave it out")
    _refuse_others(arguments, ("query", "limit"))
    return query, limit


def _refuse_others(arguments: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in arguments:
        if name not in known:
            raise InvalidInput(f"there is no argument {name!r}", field=name, fix=f"send {' and '.join(known)}")
