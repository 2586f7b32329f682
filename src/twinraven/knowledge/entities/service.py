"""Implements the use cases of entities: create, read, state facts, find duplicates, merge and undo, enrich."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import orjson

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.foundation.actors import Actor
from twinraven.foundation.clock import from_micros, now_micros, to_micros
from twinraven.foundation.errors import NotFound
from twinraven.foundation.ids import new_id
from twinraven.knowledge.entities.duplicates import DEFAULT_THRESHOLD, PossibleDuplicate, find_duplicates
from twinraven.knowledge.entities.enrichment import DEFAULT_EDGES, Enrichment
from twinraven.knowledge.entities.mentions import state_fact
from twinraven.knowledge.entities.mentions_sql import let_ripen, ripe_entities
from twinraven.knowledge.entities.merges_sql import list_merges
from twinraven.knowledge.entities.merging import merge_certain, merge_entities, settle_proposal, undo_merge
from twinraven.knowledge.entities.model import (
    EntityDetails,
    EntityMerge,
    KnownEntity,
    MergeProposal,
    ProposalStatus,
    TemporalFact,
    check_category,
)
from twinraven.knowledge.entities.neighbourhood import EntityNeighbourhood, explore
from twinraven.knowledge.entities.proposals import decided_pairs, one_proposal, open_proposals, propose, take_proposal
from twinraven.knowledge.entities.relevance import DEFAULT_PLACE, ActiveEntity, active_entities
from twinraven.knowledge.entities.sql import (
    facts_of,
    insert_entities,
    list_entities,
    put_place,
    sources_of,
    surviving,
)
from twinraven.knowledge.model import check_text
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.knowledge.sql import recent_episodes
from twinraven.knowledge.thinking import NoModel
from twinraven.muninn import check_name
from twinraven.storage import Database, Transaction, chunks

DEFAULT_GROUP: Final = "default"
_MOST_COMPARED: Final = 20_000
_MOST_PROPOSED: Final = 1_000
"""Most pairs that one search stores, the most alike first."""
_PROPOSED_AT_ONCE: Final = 100
_LONGEST_SUMMARY: Final = 10_000
_LONGEST_NAME: Final = 300
_RECENT: Final = 100

StartWork = Callable[[Transaction, str, str], None]
"""Starts the enrichment of a tenant's entity, with the caller's rows."""

PathOf = Callable[[Transaction, str, str], Sequence[str] | None]
"""Says which episodes stand on the active path of a tenant's conversation; None for a group that is none."""


class Entities:
    """Manages the entities of a tenant's episodes."""

    def __init__(  # noqa: PLR0913 - everything it stands on, each by name
        self,
        database: Database,
        *,
        threshold: float = DEFAULT_THRESHOLD,
        edges: int = DEFAULT_EDGES,
        start_work: StartWork | None = None,
        path_of: PathOf = lambda _tx, _tenant_id, _group_id: None,
        enrichment: Enrichment | None = None,
        audit: AuditLog | None = None,
        redact: Callable[[str, bytes], bytes] = lambda _, text: text,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        """`start_work` starts enrichment in the background; without it nothing is enriched unasked.

        `path_of` tells conversations, which have a path, from other groups.
        """
        self._audit = audit
        self._redact = redact
        self._database = database
        self._threshold = threshold
        self._edges = edges
        self._start_work = start_work
        self._path_of = path_of
        self._enrichment = enrichment or Enrichment(database, NoModel, micros=micros)
        self._micros = micros

    def on_mentions(self, tx: Transaction, tenant_id: str, touched: Sequence[str]) -> None:
        """Start the enrichment of entities whose mentions have reached the threshold, with the caller's rows."""
        if self._start_work is None or not touched:
            return
        for entity_id in ripe_entities(tx, tenant_id, touched, self._edges):
            self._start_work(tx, tenant_id, entity_id)

    def on_end(self, tx: Transaction, tenant_id: str, entity_id: str, *, is_done: bool) -> None:
        """Hear that the enrichment of an entity ended: where it failed, the next mention starts another."""
        if not is_done:
            let_ripen(tx, tenant_id, entity_id)

    async def create(
        self,
        tenant_id: str,
        name: str,
        summary: str,
        *,
        category: str | None = None,
        group_id: str = DEFAULT_GROUP,
        created_by: str | None = None,
    ) -> KnownEntity:
        """Create a user's own entity, in force at once; its name and id survive every merge."""
        check_name(name, field="name", limit=_LONGEST_NAME)
        check_name(group_id, field="group_id", limit=_LONGEST_NAME)
        check_text(summary, field="summary", limit=_LONGEST_SUMMARY)
        name, group_id, summary = await self._cleaned(tenant_id, name, group_id, summary)
        at = self._micros()
        made = KnownEntity(
            new_id(), group_id, name, check_category(category), summary, "user", {"category": 1.0}, {}, (), created_by,
            from_micros(at), None,
        )  # fmt: skip

        def work(tx: Transaction) -> None:
            insert_entities(tx, tenant_id, [made], at=at)
            put_place(tx, tenant_id, group_id, made.entity_id, DEFAULT_PLACE, at=at)

        await self._database.write(tenant_id, work)
        return made

    async def _cleaned(self, tenant_id: str, *texts: str) -> list[str]:
        """These texts without secrets."""
        return orjson.loads(await asyncio.to_thread(self._redact, tenant_id, orjson.dumps(texts)))

    async def place(
        self,
        tenant_id: str,
        group_id: str,
        entity_id: str,
        *,
        is_active: bool = True,
        include_summary: bool = True,
        include_facets: bool = False,
        include_relationships: bool = False,
    ) -> list[ActiveEntity]:
        """Put an entity into a conversation or take it out, and say what of it is included."""
        check_name(group_id, field="group_id", limit=_LONGEST_NAME)
        flags = {
            "is_active": is_active,
            "include_summary": include_summary,
            "include_facets": include_facets,
            "include_relationships": include_relationships,
        }

        def work(tx: Transaction) -> None:
            found = _present(surviving(tx, tenant_id, entity_id), entity_id)
            put_place(tx, tenant_id, group_id, found.entity_id, flags, at=self._micros())

        await self._database.write(tenant_id, work)
        return await self.active(tenant_id, group_id)

    async def active(
        self, tenant_id: str, group_id: str, *, episode_ids: Sequence[str] | None = None, limit: int = 50
    ) -> list[ActiveEntity]:
        """Return the entities of a group by relevance: to these episodes, else to its active path or its last ones."""

        def work(tx: Transaction) -> list[ActiveEntity]:
            path = self._path_of(tx, tenant_id, group_id) if episode_ids is None else episode_ids
            if path is None:
                path = recent_episodes(tx, tenant_id, group_id, _RECENT)
            return active_entities(tx, tenant_id, group_id, path, limit=limit)

        return await self._database.read(tenant_id, work)

    async def neighbourhood(self, tenant_id: str, entity_id: str) -> EntityNeighbourhood:
        """Return the neighbourhood of an entity: who shares its turns, its relations, and its centrality."""
        return await self._database.read(
            tenant_id,
            lambda tx: explore(tx, tenant_id, _present(surviving(tx, tenant_id, entity_id), entity_id)),
        )

    async def entities(
        self,
        tenant_id: str,
        *,
        group_id: str | None = None,
        category: str | None = None,
        text: str | None = None,
        limit: int = 50,
        after: str | None = None,
        hidden: HiddenGroups | None = None,
    ) -> list[KnownEntity]:
        """Entities that were not merged away."""
        check_category(category)
        which: dict[str, Any] = {"group_id": group_id, "category": category, "text": text, "hidden": hidden}
        return await self._database.read(
            tenant_id, lambda tx: list_entities(tx, tenant_id, limit=limit, after=after, **which)
        )

    async def details(self, tenant_id: str, entity_id: str, *, hidden: HiddenGroups | None = None) -> EntityDetails:
        """Return an entity with its sources, facts and relations; of one merged away, the one that was kept."""

        def work(tx: Transaction) -> EntityDetails:
            found = _present(surviving(tx, tenant_id, entity_id), entity_id)
            facts = facts_of(tx, tenant_id, found.entity_id)
            return EntityDetails(
                found,
                tuple(sources_of(tx, tenant_id, found, hidden=hidden)),
                tuple(each for each in facts if each.object_id is None),
                tuple(each for each in facts if each.object_id is not None),
            )

        return await self._database.read(tenant_id, work)

    async def facts(
        self, tenant_id: str, entity_id: str, *, relation: str | None = None, at: datetime | None = None
    ) -> list[TemporalFact]:
        """Facts and relations of an entity in the order of their time: all of its history, or what held at a time."""

        def work(tx: Transaction) -> list[TemporalFact]:
            found = _present(surviving(tx, tenant_id, entity_id), entity_id)
            return [
                each
                for each in facts_of(tx, tenant_id, found.entity_id)
                if relation in (None, each.relation) and (at is None or each.holds_at(at))
            ]

        return await self._database.read(tenant_id, work)

    async def state(
        self,
        tenant_id: str,
        entity_id: str,
        relation: str,
        value: str,
        *,
        valid_at: datetime | None = None,
        object_id: str | None = None,
        is_single: bool = True,
    ) -> EntityDetails:
        """State a fact; where a relation holds one value at a time, an earlier one ends and stays as history."""
        check_name(relation, field="relation", limit=_LONGEST_NAME)
        check_text(value, field="value", limit=_LONGEST_SUMMARY)
        relation, value = await self._cleaned(tenant_id, relation, value)
        at = self._micros()
        begins = at if valid_at is None else to_micros(valid_at, field="valid_at")

        def work(tx: Transaction) -> None:
            found = _present(surviving(tx, tenant_id, entity_id), entity_id)
            about = None if object_id is None else _present(surviving(tx, tenant_id, object_id), object_id).entity_id
            fact = TemporalFact(new_id(), found.entity_id, relation, value, about, None, None, None, "user", 1.0)
            state_fact(tx, tenant_id, fact, {"valid_at": begins}, is_single=is_single, at=at)

        await self._database.write(tenant_id, work)
        return await self.details(tenant_id, entity_id)

    async def merge(self, tenant_id: str, first_id: str, second_id: str, *, by: str | None = None) -> EntityMerge:
        """Make one of two; a user's own name and id win, and every reference follows."""
        at = self._micros()

        def work(tx: Transaction) -> EntityMerge:
            merged = merge_entities(tx, tenant_id, first_id, second_id, by=by, at=at)
            self.on_mentions(tx, tenant_id, [merged.kept_id])
            return merged

        return await self._database.write(tenant_id, work)

    async def undo(self, tenant_id: str, merge_id: str, *, hidden: HiddenGroups | None = None) -> EntityMerge:
        """Put everything back as it was before a merge."""
        at = self._micros()
        return await self._database.write(
            tenant_id, lambda tx: undo_merge(tx, tenant_id, merge_id, at=at, hidden=hidden)
        )

    async def merges(
        self,
        tenant_id: str,
        *,
        entity_id: str | None = None,
        limit: int = 50,
        after: str | None = None,
        hidden: HiddenGroups | None = None,
    ) -> list[EntityMerge]:
        """Merges that were carried out, the newest first, also those that were undone."""
        which: dict[str, Any] = {"entity_id": entity_id, "limit": limit, "after": after, "hidden": hidden}
        return await self._database.read(tenant_id, lambda tx: list_merges(tx, tenant_id, **which))

    async def find_proposals(
        self,
        tenant_id: str,
        *,
        group_id: str | None = None,
        merges_certain: bool = False,
        hidden: HiddenGroups | None = None,
    ) -> list[MergeProposal]:
        """Look for duplicates, store what is new, and list what is open; certain ones are merged if wished."""
        at = self._micros()

        def look(tx: Transaction) -> tuple[list[KnownEntity], dict[tuple[str, str], ProposalStatus]]:
            which: dict[str, Any] = {"group_id": group_id, "category": None, "text": None, "hidden": hidden}
            entities = list_entities(tx, tenant_id, limit=_MOST_COMPARED, after=None, **which)
            return entities, decided_pairs(tx, tenant_id)

        known, decided = await self._database.read(tenant_id, look)
        # Comparing takes seconds where there is much to compare: in no transaction, because all writers would wait.
        found = await asyncio.to_thread(find_duplicates, known, self._threshold)
        undecided = [pair for pair in found if pair.ids not in decided]
        told_apart = {pair for pair, status in decided.items() if status == "rejected"}

        def store(tx: Transaction, pairs: Sequence[PossibleDuplicate]) -> None:
            for pair in pairs:
                status = propose(tx, tenant_id, pair, at)
                if merges_certain and pair.is_certain and status == "open":
                    merge_certain(tx, tenant_id, pair, told_apart, at=at)

        for some in chunks(undecided[:_MOST_PROPOSED], _PROPOSED_AT_ONCE):
            await self._database.write(tenant_id, partial(store, pairs=some))
        return await self.proposals(tenant_id, hidden=hidden)

    async def reject(self, tenant_id: str, first_id: str, second_id: str, *, by: str | None = None) -> None:
        """Say that two entities are not one; they are not proposed again."""
        at = self._micros()
        pair = (first_id, second_id)
        changed = await self._database.write(
            tenant_id, lambda tx: settle_proposal(tx, tenant_id, pair, "rejected", by=by, at=at)
        )
        if not changed:
            raise NotFound(f"no proposal about {first_id!r} and {second_id!r}", field="entity_id")

    async def proposals(self, tenant_id: str, *, hidden: HiddenGroups | None = None) -> list[MergeProposal]:
        """Return the open proposals, the most alike first."""
        return await self._database.read(tenant_id, lambda tx: open_proposals(tx, tenant_id, hidden=hidden))

    async def proposal(self, tenant_id: str, proposal_id: str) -> MergeProposal:
        """Return one proposal, also one that was decided."""
        return await self._database.read(tenant_id, lambda tx: one_proposal(tx, tenant_id, proposal_id))

    async def decide_proposal(
        self, tenant_id: str, proposal_id: str, *, is_one: bool, by: str, actor: Actor
    ) -> MergeProposal:
        """Merge the two of a proposal or say that they are two; of two who decide at once one is told."""
        at = self._micros()

        def work(tx: Transaction) -> MergeProposal:
            found = take_proposal(tx, tenant_id, proposal_id, status="merged" if is_one else "rejected", by=by, at=at)
            if is_one:
                merge_entities(tx, tenant_id, found.first_id, found.second_id, by=by, at=at)
            if self._audit is not None:
                event = "entities.merged" if is_one else "entities.told_apart"
                pair = {"first_id": found.first_id, "second_id": found.second_id, "similarity": found.similarity}
                self._audit.append(tx, NewAuditEntry(tenant_id, event, "merge_proposal", proposal_id, actor, data=pair))
            return one_proposal(tx, tenant_id, proposal_id)

        return await self._database.write(tenant_id, work)

    async def enrich(self, tenant_id: str, entity_id: str) -> EntityDetails:
        """Add what the episodes say of an entity: a summary where it has none, and facets; nothing is removed."""
        if not await self._enrichment.enrich(tenant_id, entity_id):
            raise NotFound(f"no entity {entity_id!r}", field="entity_id")
        return await self.details(tenant_id, entity_id)


def _present(found: KnownEntity | None, entity_id: str) -> KnownEntity:
    if found is None:
        raise NotFound(f"no entity {entity_id!r}", field="entity_id")
    return found
