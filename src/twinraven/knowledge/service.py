"""Implements the use cases of knowledge: remember episodes, search them, read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound
from twinraven.knowledge.embedding import Embedder
from twinraven.knowledge.entities import store_mentions
from twinraven.knowledge.graph.fusing import fuse
from twinraven.knowledge.graph.model import GraphContent, GraphFind, KnowledgeGraph
from twinraven.knowledge.ingestion import ReadEpisode, by_group, read_episode, store_episodes
from twinraven.knowledge.line_files import EpisodeImport, portions, read_episodes
from twinraven.knowledge.model import Episode, EpisodeFilter, Hit, Ingestion, NewEpisode, check_text
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.knowledge.searching import EVERYTHING, QueryVector, best_of_groups, search_group
from twinraven.knowledge.sql import find_episode, find_named, groups_of, list_episodes
from twinraven.knowledge.vectors import VectorIndex, pack_vector
from twinraven.storage import Database, Transaction, chunks

Redact = Callable[[str, bytes], bytes]
"""A tenant's JSON text without secrets."""

OnMentions = Callable[[Transaction, str, Sequence[str]], None]
"""Told, in their transaction, which entities new episodes mention."""

OnStored = Callable[[Transaction, str, str, int], None]
"""Told, in their transaction, that a group has new episodes, and the number of the first new part."""

BATCH = 500
_SHORT = 4_000
_TEXTS: Final = ("content", "group_id", "name", "source", "speaker", "source_description")
_LONGEST_QUERY = 10_000
_MOST_HITS = 1_000


class Knowledge:
    """Episodes of a tenant's groups, and the search over them."""

    def __init__(
        self,
        database: Database,
        *,
        redact: Redact = lambda _, text: text,
        micros: Callable[[], int] = now_micros,
        on_mentions: OnMentions = lambda _tx, _tenant_id, _touched: None,
        embedder: Embedder | None = None,
        graph: KnowledgeGraph | None = None,
        on_stored: OnStored = lambda _tx, _tenant_id, _group_id, _first: None,
    ) -> None:
        self._database = database
        self._vectors = None if embedder is None else VectorIndex(embedder)
        self._graph = graph
        self._on_stored = on_stored
        self._on_mentions = on_mentions
        self._redact = redact
        self._micros = micros

    async def remember(self, tenant_id: str, new: NewEpisode) -> Episode:
        """Store one episode; the same once more changes nothing, other content under its name is a conflict."""
        [new] = await asyncio.to_thread(self._cleaned, tenant_id, [new])
        done = await self.remember_all(tenant_id, [new])
        if done.conflicts:
            raise Conflict(
                f"episode {new.name!r} of group {new.group_id!r} exists with other content; choose another name",
                field="name",
            )
        return await self.named_episode(tenant_id, new.group_id, new.name)

    async def remember_all(self, tenant_id: str, episodes: Sequence[NewEpisode]) -> Ingestion:
        """Store what is not there yet, a group and a batch at a time."""
        if len(episodes) == 1 and len(episodes[0].content) <= _SHORT and self._vectors is None:
            return await self._remember_short(tenant_id, episodes[0])
        total = Ingestion()
        async for done in self._stored(tenant_id, episodes):
            total += done
        return total

    async def import_lines(
        self, tenant_id: str, lines: Iterable[bytes], *, progress: Callable[[int], None] = lambda _: None
    ) -> EpisodeImport:
        """Store the episodes of a JSON Lines file; lines that hold none are reported and left out."""
        report = EpisodeImport()
        for some in portions(read_episodes(lines, report)):
            async for done in self._stored(tenant_id, some):
                report.done += done
                progress(report.done.added + report.done.present)
        return report

    async def _stored(self, tenant_id: str, episodes: Sequence[NewEpisode]) -> AsyncIterator[Ingestion]:
        """Return what becomes of each batch of each group, in the order in which its turns were said."""
        clean = await asyncio.to_thread(self._cleaned, tenant_id, episodes)
        for group_id, listed in by_group(clean):
            for some in chunks(listed, BATCH):
                yield await self._store(tenant_id, group_id, some)

    async def _store(self, tenant_id: str, group_id: str, some: Sequence[NewEpisode]) -> Ingestion:
        batch = await asyncio.to_thread(self._read, some)
        at = self._micros()

        return await self._database.write(
            tenant_id, lambda tx: self._store_batch(tx, tenant_id, group_id, batch, at=at)
        )

    async def _remember_short(self, tenant_id: str, new: NewEpisode) -> Ingestion:
        """Store one turn, read where it is stored: the way to a thread and back costs more than reading it does."""
        at = self._micros()

        def work(tx: Transaction) -> Ingestion:
            [clean] = self._cleaned(tenant_id, [new])
            return self._store_batch(tx, tenant_id, clean.group_id, [read_episode(clean)], at=at)

        return await self._database.write(tenant_id, work)

    def store_in(self, tx: Transaction, tenant_id: str, new: NewEpisode, *, at: int) -> str:
        """Store one episode with the caller's own rows, and say its id; its name must be new."""
        [new] = self._cleaned(tenant_id, [new])
        [read] = self._read([new])
        self._store_batch(tx, tenant_id, new.group_id, [read], at=at)
        found = find_named(tx, tenant_id, new.group_id, new.name)
        assert found is not None
        return found.episode_id

    def _store_batch(
        self, tx: Transaction, tenant_id: str, group_id: str, batch: Sequence[ReadEpisode], *, at: int
    ) -> Ingestion:
        done, parts = store_episodes(tx, tenant_id, group_id, batch, at=at)
        vectors = [(part.seq, part.vector) for part in parts if part.vector is not None]
        if vectors and self._vectors is not None:
            self._vectors.store(tx, tenant_id, group_id, vectors)
        if parts:
            touched = store_mentions(tx, tenant_id, group_id, parts, at=at)
            self._on_mentions(tx, tenant_id, touched)
            self._on_stored(tx, tenant_id, group_id, parts[0].seq)
        return done

    def _cleaned(self, tenant_id: str, some: Sequence[NewEpisode]) -> Sequence[NewEpisode]:
        """Return the episodes without secrets, in what is said and in what it is called by."""
        raw = orjson.dumps([[getattr(each, name) for name in _TEXTS] for each in some])
        clean = self._redact(tenant_id, raw)
        if clean is raw:
            return some
        texts: list[list[Any]] = orjson.loads(clean)
        return [replace(each, **dict(zip(_TEXTS, told, strict=True))) for each, told in zip(some, texts, strict=True)]

    def _read(self, some: Sequence[NewEpisode]) -> list[ReadEpisode]:
        return self._with_vectors([read_episode(each) for each in some])

    def _with_vectors(self, some: list[ReadEpisode]) -> list[ReadEpisode]:
        if self._vectors is None:
            return some
        spoken = [f"{each.speaker}: {text}" if each.speaker else text for each in some for text, _ in each.parts]
        made = iter(pack_vector(vector) for vector in self._vectors.embedder.embed(spoken))
        return [replace(each, vectors=tuple(next(made) for _ in each.parts)) for each in some]

    async def _asked(self, texts: Sequence[str]) -> list[QueryVector | None]:
        """Return what questions mean, where an embedder is installed."""
        index = self._vectors
        if index is None:
            return [None] * len(texts)
        vectors = await asyncio.to_thread(index.embedder.embed, texts)
        return [QueryVector(index, vector) for vector in vectors]

    async def search(
        self,
        tenant_id: str,
        text: str,
        *,
        group_id: str | None = None,
        limit: int = 10,
        wanted: EpisodeFilter = EVERYTHING,
        neighbours: int = 0,
        hidden: HiddenGroups | None = None,
    ) -> list[Hit]:
        """Search the episodes that answer a question best, of one group or of all that are not hidden."""
        _check_query(text, limit)
        [meaning] = await self._asked([text])
        groups = await self._groups(tenant_id, group_id, hidden)
        finds = await self._found_in_graph(tenant_id, groups, text, limit)

        def work(tx: Transaction) -> list[Hit]:
            found: list[Hit] = []
            for each in groups:
                hits = search_group(
                    tx, tenant_id, each, text, limit=limit, wanted=wanted, neighbours=neighbours, meaning=meaning
                )
                found += fuse(tx, tenant_id, hits, finds[each], wanted, limit=limit) if finds else hits
            return best_of_groups(found, limit=limit)

        return await self._database.read(tenant_id, work)

    async def _groups(self, tenant_id: str, group_id: str | None, hidden: HiddenGroups | None) -> list[str]:
        """Return the group that is named or all of them, without those that are hidden."""

        def work(tx: Transaction) -> list[str]:
            if group_id is None:
                return [row["group_id"] for row in groups_of(tx, tenant_id, hidden=hidden)]
            return [] if hidden is not None and hidden.holds(tx, tenant_id, group_id) else [group_id]

        return await self._database.read(tenant_id, work)

    async def _found_in_graph(
        self, tenant_id: str, groups: Sequence[str], text: str, limit: int
    ) -> dict[str, list[GraphFind]]:
        """Return what the graph leads to in each group; empty without a graph."""
        if self._graph is None:
            return {}
        return {each: await self._graph.search(tenant_id, each, text, limit=limit) for each in groups}

    async def graph_content(self, tenant_id: str, group_id: str) -> GraphContent:
        """Return the content of the graph for a group."""
        if self._graph is None:
            raise InvalidInput(
                "there is no knowledge graph beside the tables",
                field="knowledge.graph_url",
                fix="set knowledge.graph_url",
            )
        return await self._graph.content(tenant_id, group_id)

    async def search_all(
        self,
        tenant_id: str,
        questions: Iterable[tuple[str | None, str]],
        *,
        limit: int = 10,
        wanted: EpisodeFilter = EVERYTHING,
    ) -> list[list[str]]:
        """Return the names of the best hits for each (group, question); many questions share one transaction."""
        asked = list(questions)
        for _, text in asked:
            _check_query(text, limit)
        if self._graph is not None:
            found = [
                await self.search(tenant_id, text, group_id=group_id, limit=limit, wanted=wanted)
                for group_id, text in asked
            ]
            return [[hit.name for hit in hits] for hits in found]
        meanings = await self._asked([text for _, text in asked])

        def work(tx: Transaction) -> list[list[str]]:
            groups = [row["group_id"] for row in groups_of(tx, tenant_id)]
            answers: list[list[str]] = []
            for (group_id, text), meaning in zip(asked, meanings, strict=True):
                within = groups if group_id is None else [group_id]
                hits = [
                    hit
                    for each in within
                    for hit in search_group(tx, tenant_id, each, text, limit=limit, wanted=wanted, meaning=meaning)
                ]
                answers.append([hit.name for hit in best_of_groups(hits, limit=limit)])
            return answers

        return await self._database.read(tenant_id, work)

    async def episodes(
        self,
        tenant_id: str,
        *,
        group_id: str | None = None,
        wanted: EpisodeFilter = EVERYTHING,
        limit: int = 50,
        after: str | None = None,
        hidden: HiddenGroups | None = None,
    ) -> list[Episode]:
        """Episodes in their order; of long ones the first part of the content."""
        return await self._database.read(
            tenant_id,
            lambda tx: list_episodes(tx, tenant_id, group_id, wanted, limit=limit, after=after, hidden=hidden),
        )

    async def episode(self, tenant_id: str, episode_id: str, *, hidden: HiddenGroups | None = None) -> Episode:
        def work(tx: Transaction) -> Episode | None:
            found = find_episode(tx, tenant_id, episode_id=episode_id)
            is_hidden = found is not None and hidden is not None and hidden.holds(tx, tenant_id, found.group_id)
            return None if is_hidden else found

        found = await self._database.read(tenant_id, work)
        if found is None:
            raise NotFound(f"no episode {episode_id!r}", field="episode_id")
        return found

    async def named_episode(self, tenant_id: str, group_id: str, name: str) -> Episode:
        found = await self._database.read(tenant_id, lambda tx: find_named(tx, tenant_id, group_id, name))
        if found is None:
            raise NotFound(f"group {group_id!r} has no episode {name!r}", field="name")
        return found


def _check_query(text: str, limit: int) -> None:
    check_text(text, field="query", limit=_LONGEST_QUERY)
    if not 1 <= limit <= _MOST_HITS:
        raise InvalidInput(f"limit must be 1 to {_MOST_HITS}, it is {limit}", field="limit")
