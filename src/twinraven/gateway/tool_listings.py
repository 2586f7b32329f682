"""Lists the tools that a caller may call, under names that its client accepts, and caches each list.

A learned tool is shown only to those who may call each of its steps; the catalogue knows that. Upstream tools keep the
definition with which they were accepted, word by word, under their name in the catalogue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp_types import methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from twinraven.catalog import Catalog, Effect, ToolEntry
from twinraven.connectors import PinnedTool, ToolQuarantined, UpstreamTools, legal_name
from twinraven.foundation.errors import NotFound
from twinraven.gateway.answers import WRAPPER, Form

Definition = dict[str, Any]

_UPSTREAM: Final = "mcp"
_SERVICE: Final = "mcp_service"
UNCACHED: Final[Definition] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@dataclass(frozen=True, slots=True)
class ToolListing:
    """One caller's tool list: the entries by the names they are shown under, and their definitions per revision."""

    entries: list[ToolEntry]
    by_name: dict[str, ToolEntry]
    older: list[Definition]
    newer: list[Definition]

    def listing(self, protocol_version: str) -> Definition:
        """Return the answer to a client that asks for tools."""
        if protocol_version in MODERN_PROTOCOL_VERSIONS:
            return {"tools": self.newer, **UNCACHED}
        return {"tools": self.older}


class ToolListings:
    """Builds tool lists per caller, and caches each until the catalogue changes."""

    def __init__(self, catalog: Catalog, tools: UpstreamTools, *, prefix: bool = True) -> None:
        """`prefix` shows every upstream tool under its server's name, not only where two tools share one."""
        self._prefix = prefix
        self._catalog = catalog
        self._tools = tools
        self._kept: dict[tuple[str, str | None], ToolListing] = {}

    def to(self, tenant_id: str, caller: str | None) -> ToolListing:
        """Return the tool list of this caller."""
        entries = self._catalog.offered(tenant_id, caller)
        kept = self._kept.get((tenant_id, caller))
        if kept is not None and _is_same(kept.entries, entries):
            return kept
        by_name = self._named(entries)
        whole = [self._definition(tenant_id, name, entry) for name, entry in by_name.items()]
        older, newer = ([_fitted(definition, version) for definition in whole] for version in _ERAS)
        offered = self._kept[tenant_id, caller] = ToolListing(entries, by_name, older, newer)
        return offered

    def _named(self, entries: list[ToolEntry]) -> dict[str, ToolEntry]:
        """Return the entries by the names they are shown under."""
        named = {_shown_name(entry): entry for entry in entries}
        if self._prefix:
            return named
        bare = {name: entry.target.name for name, entry in named.items() if isinstance(entry.target, PinnedTool)}
        shared = Counter([*bare.values(), *named])
        free = {name for name, short in bare.items() if shared[short] == 1 and legal_name(short) == short}
        return {bare[name] if name in free else name: entry for name, entry in named.items()}

    def find(self, tenant_id: str, caller: str | None, name: str) -> ToolEntry:
        """Find the entry behind a name, for a caller who may call it; else NotFound, or why it is in quarantine."""
        try:
            return self._catalog.resolve(tenant_id, name, caller)
        except ToolQuarantined:
            raise
        except NotFound:
            entry = self.to(tenant_id, caller).by_name.get(name)
            if entry is None:
                raise
            return entry

    def header_schema(self, tenant_id: str, name: str) -> Definition | None:
        """Return the schema by which an upstream tool may ask for arguments in headers; no other tool does."""
        entry = None if self._prefix else self.to(tenant_id, None).by_name.get(name)
        pinned = self._tools.pinned(tenant_id, name if entry is None else entry.tool_id)
        return None if pinned is None else _as_object(pinned.definition.get("inputSchema"))

    @staticmethod
    def form(entry: ToolEntry) -> Form:
        """Return how a tool's object output is encoded; structured content needs an output schema of the server."""
        if entry.connector not in (_UPSTREAM, _SERVICE):
            return "structured"
        if entry.output_schema is None:
            return "plain"
        # The SDK's servers put what is no object into one with this member alone, and say the bare value as text.
        members: Any = entry.output_schema.get("properties")
        is_wrapped = isinstance(members, dict) and cast("Definition", members).keys() == {WRAPPER}
        return "wrapped" if is_wrapped else "structured"

    def _definition(self, tenant_id: str, name: str, entry: ToolEntry) -> Definition:
        pinned = self._tools.pinned(tenant_id, entry.tool_id) if entry.connector == _UPSTREAM else None
        if pinned is not None:
            return {**pinned.definition, "name": name, "inputSchema": _as_object(pinned.definition.get("inputSchema"))}
        definition: Definition = {
            "name": name,
            "description": entry.description,
            "inputSchema": _as_object(entry.input_schema),
            "annotations": {"readOnlyHint": entry.effect is Effect.READ},
        }
        promised = entry.output_schema
        # What is not an object goes out as text, so only an object can be promised.
        is_object = promised is not None and promised.get("type") == "object"
        return {**definition, "outputSchema": promised} if is_object else definition


_ERAS: Final = (LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION)


def _fitted(definition: Definition, version: str) -> Definition:
    """Return a definition as a revision knows it; what it cannot say is left out rather than cost the whole list."""
    plain = {name: definition[name] for name in ("name", "inputSchema")}
    described = {**plain, "description": str(definition.get("description") or "")}
    unpromised = {name: value for name, value in definition.items() if name != "outputSchema"}
    for candidate in (definition, unpromised, described):
        try:
            methods.validate_server_result("tools/list", version, {"tools": [candidate], **UNCACHED})
        except ValidationError:
            continue
        return candidate
    return {**described, "inputSchema": {"type": "object"}}


def _shown_name(entry: ToolEntry) -> str:
    return entry.tool_id if entry.connector == _UPSTREAM else legal_name(entry.tool_id)


def _as_object(schema: Any) -> Definition:
    """Return a schema of arguments as every revision wants it: of an object, and saying so."""
    return {**(cast("Definition", schema) if isinstance(schema, dict) else {}), "type": "object"}


def _is_same(one: list[ToolEntry], other: list[ToolEntry]) -> bool:
    return len(one) == len(other) and all(a is b or a == b for a, b in zip(one, other, strict=True))
