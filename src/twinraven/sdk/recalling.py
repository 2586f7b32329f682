"""Requests knowledge: episodes, search over them, and entities."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime

from twinraven.foundation.clock import iso
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.reading import read
from twinraven.sdk.recalling_model import (
    ActiveEntityInfo,
    Category,
    EntityInfo,
    EntityMergeInfo,
    EntityProposal,
    EpisodeInfo,
    FactInfo,
    GraphInfo,
    KnowledgeHit,
    ListBody,
    NeighbourhoodInfo,
)
from twinraven.sdk.server_requests import ServerRequests, stated


class KnowledgeOperations(ServerRequests):
    """Remembering and recalling."""

    async def add_episode(
        self,
        group_id: str,
        name: str,
        content: str,
        *,
        source: str | None = None,
        speaker: str | None = None,
        valid_at: datetime | None = None,
    ) -> EpisodeInfo:
        """Remember an episode; the same again changes nothing."""
        body = {"group_id": group_id, "name": name, "content": content}
        more = {"source": source, "speaker": speaker, "valid_at": None if valid_at is None else iso(valid_at)}
        return await self._make(EpisodeInfo, {**body, **stated(more)}, "episodes")

    def episodes(
        self,
        *,
        group_id: str | None = None,
        speaker: str | None = None,
        source: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncGenerator[EpisodeInfo]:
        """Episodes in the order of their groups; of long ones the first part."""
        return self._list(
            EpisodeInfo, "episodes", group_id=group_id, speaker=speaker, source=source, **_times(since, until)
        )

    async def episode(self, episode_id: str) -> EpisodeInfo:
        """Return one episode, whole."""
        return read(EpisodeInfo, await self._get("episodes", episode_id))

    async def search_knowledge(
        self,
        query: str,
        *,
        group_id: str | None = None,
        limit: int = 10,
        speaker: str | None = None,
        source: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        neighbours: int = 0,
    ) -> list[KnowledgeHit]:
        """Return the episodes that answer a question best, each with its reasons."""
        wanted = stated({"group_id": group_id, "speaker": speaker, "source": source, **_times(since, until)})
        body = {"query": query, "limit": limit, "neighbours": neighbours, **wanted}
        ask = RequestSpec("POST", path_of("knowledge", "search"), body=body, is_safe=True)
        found = read(ListBody, await self._exchange.json(ask))
        return [read(KnowledgeHit, item) for item in found.items]

    def entities(
        self, *, group_id: str | None = None, category: Category | None = None, name: str | None = None
    ) -> AsyncGenerator[EntityInfo]:
        """Entities, without those merged away."""
        return self._list(EntityInfo, "entities", group_id=group_id, category=category, name=name)

    async def entity(self, entity_id: str) -> EntityInfo:
        """Return one entity with its sources, facts and relations."""
        return read(EntityInfo, await self._get("entities", entity_id))

    async def add_entity(
        self, name: str, summary: str, *, category: Category | None = None, group_id: str | None = None
    ) -> EntityInfo:
        """Make an entity of one's own, in force at once."""
        body = {"name": name, "summary": summary, **stated({"category": category, "group_id": group_id})}
        return await self._make(EntityInfo, body, "entities")

    async def state_fact(
        self,
        entity_id: str,
        relation: str,
        value: str,
        *,
        valid_at: datetime | None = None,
        object_id: str | None = None,
        is_single: bool = True,
    ) -> EntityInfo:
        """State a fact; an earlier one that it contradicts ends and stays as history."""
        more = stated({"valid_at": None if valid_at is None else iso(valid_at), "object_id": object_id})
        body = {"relation": relation, "value": value, "is_single": is_single, **more}
        ask = RequestSpec("POST", path_of("entities", entity_id, "facts"), body=body, is_safe=valid_at is not None)
        return read(EntityInfo, await self._exchange.json(ask))

    async def facts(self, entity_id: str, *, relation: str | None = None, at: datetime | None = None) -> list[FactInfo]:
        """Return the facts and relations of an entity, also those that have ended, or what was true at a time."""
        wanted = stated({"relation": relation, "at": None if at is None else iso(at)})
        ask = RequestSpec("GET", path_of("entities", entity_id, "facts"), wanted)
        return [read(FactInfo, item) for item in read(ListBody, await self._exchange.json(ask)).items]

    async def extract_anew(self, group_id: str, *, by: str | None = None) -> list[str]:
        """Let spaCy or the model read a group from its beginning; says which of them will."""
        body = {"group_id": group_id, **stated({"by": by})}
        ask = RequestSpec("POST", path_of("knowledge", "extractions"), body=body, is_safe=True)
        return list((await self._exchange.json(ask))["extractors"])

    async def knowledge_graph(self, group_id: str) -> GraphInfo:
        """Return the content of the knowledge graph for a group."""
        ask = RequestSpec("GET", path_of("knowledge", "graph"), {"group_id": group_id})
        return read(GraphInfo, await self._exchange.json(ask))

    async def neighbourhood(self, entity_id: str) -> NeighbourhoodInfo:
        """Return the neighbourhood of an entity: who shares its turns, its relations, and its centrality."""
        return read(NeighbourhoodInfo, await self._get("entities", entity_id, "neighbourhood"))

    async def enrich_entity(self, entity_id: str) -> EntityInfo:
        """Add what the episodes say of an entity now."""
        ask = RequestSpec("POST", path_of("entities", entity_id, "enrich"), is_safe=True)
        return read(EntityInfo, await self._exchange.json(ask))

    async def place_entity(
        self,
        entity_id: str,
        group_id: str,
        *,
        is_active: bool = True,
        include_summary: bool = True,
        include_facets: bool = False,
        include_relationships: bool = False,
    ) -> list[ActiveEntityInfo]:
        """Put an entity into a conversation or take it out."""
        body = {
            "group_id": group_id,
            "is_active": is_active,
            "include_summary": include_summary,
            "include_facets": include_facets,
            "include_relationships": include_relationships,
        }
        ask = RequestSpec("POST", path_of("entities", entity_id, "place"), body=body, is_safe=True)
        return [read(ActiveEntityInfo, item) for item in read(ListBody, await self._exchange.json(ask)).items]

    async def active_entities(self, group_id: str) -> list[ActiveEntityInfo]:
        """Return the entities of a conversation by relevance, each with the reason."""
        ask = RequestSpec("GET", path_of("active-entities"), {"group_id": group_id})
        return [read(ActiveEntityInfo, item) for item in read(ListBody, await self._exchange.json(ask)).items]

    async def merge_entities(self, entity_id: str, other_id: str) -> EntityMergeInfo:
        """Make one of two entities; a user's own name and id win."""
        ask = RequestSpec("POST", path_of("entities", entity_id, "merge"), body={"other_id": other_id})
        return read(EntityMergeInfo, await self._exchange.json(ask))

    def entity_merges(self, *, entity_id: str | None = None) -> AsyncGenerator[EntityMergeInfo]:
        """Merges of entities, the newest first, also those that were undone."""
        return self._list(EntityMergeInfo, "entity-merges", entity_id=entity_id)

    async def undo_merge(self, merge_id: str) -> EntityMergeInfo:
        """Put back what a merge moved."""
        ask = RequestSpec("POST", path_of("entity-merges", merge_id, "undo"))
        return read(EntityMergeInfo, await self._exchange.json(ask))

    async def propose_merges(self, *, group_id: str | None = None, merge_certain: bool = False) -> list[EntityProposal]:
        """Look for entities that may be one, and list what is open."""
        body = {"merge_certain": merge_certain, **stated({"group_id": group_id})}
        ask = RequestSpec("POST", path_of("entity-proposals"), body=body, is_safe=True)
        return [read(EntityProposal, item) for item in read(ListBody, await self._exchange.json(ask)).items]


def _times(since: datetime | None, until: datetime | None) -> dict[str, str | None]:
    return {"since": None if since is None else iso(since), "until": None if until is None else iso(until)}
