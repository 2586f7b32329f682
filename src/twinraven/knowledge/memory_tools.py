"""Offers memory as built-in tools: memory_search, memory_remember and memory_entities.

They are a source of the catalogue and a connector of the call path, so that a call of one is governed and recorded like
every other. A caller reaches its own tenant's memory, which the call path names, and of that nothing that belongs to
another user; no argument can name more.
"""

from __future__ import annotations

from typing import Any, Final

from twinraven.calls import CallFrame
from twinraven.catalog import Effect, ToolEntry
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.foundation.ids import new_id
from twinraven.knowledge.access import GroupAccess, no_group
from twinraven.knowledge.entities import Entities
from twinraven.knowledge.model import NewEpisode
from twinraven.knowledge.moments import parse_moment
from twinraven.knowledge.service import Knowledge

CONNECTOR: Final = "memory"
DEFAULT_MEMORY: Final = "memory"
"""The group of what is remembered without naming one."""
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 10_000}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 300}
_LIMIT: Final = {"type": "integer", "minimum": 1, "maximum": 100, "default": 10}


def _entry(tool_id: str, description: str, effect: Effect, required: list[str], **properties: Any) -> ToolEntry:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolEntry(
        tool_id=tool_id,
        description=description,
        input_schema=schema,
        effect=effect,
        effect_origin="declared",
        connector=CONNECTOR,
        definition=f"{tool_id}/1",
    )


_ENTRIES: Final = {
    entry.tool_id: entry
    for entry in (
        _entry(
            "memory_search",
            "Search what was remembered, by a question or some words. Each hit says why it was found.",
            Effect.READ,
            ["query"],
            query=_TEXT,
            group_id={**_NAME, "description": "Search only this group; by default all."},
            limit=_LIMIT,
        ),
        _entry(
            "memory_remember",
            "Remember a text for later. The same name with the same content again changes nothing.",
            Effect.WRITE,
            ["content"],
            content={"type": "string", "minLength": 1, "maxLength": 2_000_000},
            group_id={**_NAME, "default": DEFAULT_MEMORY},
            name={**_NAME, "description": "What to call it; by default an id is made up."},
            speaker=_NAME,
            valid_at={"type": "string", "description": "When it was so, in ISO 8601."},
        ),
        _entry(
            "memory_entities",
            "List the people, places and things that were remembered, or show all that is known of one.",
            Effect.READ,
            [],
            entity_id=_NAME,
            name={**_NAME, "description": "Only those whose name holds this text."},
            group_id=_NAME,
            limit=_LIMIT,
        ),
    )
}


class MemoryTools:
    """The three tools: what they are, and what runs them."""

    name = CONNECTOR

    def __init__(self, knowledge: Knowledge, entities: Entities, access: GroupAccess) -> None:
        self._knowledge = knowledge
        self._entities = entities
        self._access = access

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return _ENTRIES.get(tool_id)

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return list(_ENTRIES.values())

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> Any:
        """Run one of the tools in the caller's tenant."""
        if entry.tool_id == "memory_search":
            return await self._search(call, params)
        if entry.tool_id == "memory_remember":
            return await self._remember(call, params)
        if entry.tool_id == "memory_entities":
            return await self._list_entities(call, params)
        raise NotFound(f"no memory tool {entry.tool_id!r}", field="tool_id")

    async def _search(self, call: CallFrame, params: dict[str, Any]) -> Any:
        hits = await self._knowledge.search(
            call.tenant_id,
            params["query"],
            group_id=params.get("group_id"),
            limit=params.get("limit", 10),
            hidden=self._access.hidden_from(call.caller),
        )
        return {"hits": [hit.as_json() for hit in hits]}

    async def _remember(self, call: CallFrame, params: dict[str, Any]) -> Any:
        said = params.get("valid_at")
        new = NewEpisode(
            params.get("group_id", DEFAULT_MEMORY),
            # A repeated call under one key must not remember twice.
            params.get("name") or call.key or call.spare_key or new_id(),
            params["content"],
            source=CONNECTOR,
            speaker=params.get("speaker"),
            valid_at=None if said is None else parse_moment(said, field="valid_at"),
        )
        otherwise = no_group(new.group_id)
        await self._access.check_group(call.tenant_id, call.caller, new.group_id, otherwise=otherwise)
        stored = await self._knowledge.remember(call.tenant_id, new)
        return {"episode_id": stored.episode_id, "group_id": stored.group_id, "name": stored.name}

    async def _list_entities(self, call: CallFrame, params: dict[str, Any]) -> Any:
        tenant_id, hidden = call.tenant_id, self._access.hidden_from(call.caller)
        if "entity_id" in params:
            if len(params.keys() - {"limit"}) > 1:
                raise InvalidInput("entity_id stands alone; leave name and group_id out", field="entity_id")
            await self._access.check_entities(tenant_id, call.caller, [params["entity_id"]])
            return (await self._entities.details(tenant_id, params["entity_id"], hidden=hidden)).as_json()
        found = await self._entities.entities(
            tenant_id,
            group_id=params.get("group_id"),
            text=params.get("name"),
            limit=params.get("limit", 10),
            hidden=hidden,
        )
        return {"entities": [each.as_json() for each in found]}
