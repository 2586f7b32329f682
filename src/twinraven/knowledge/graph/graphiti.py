"""Holds episodes in Graphiti, on FalkorDB or Neo4j: the configured model extracts entities and temporal facts.

Graphiti asks a model four to eight times for an episode. It asks ours through `LanguageModel`, so that its questions
are governed and recorded like all others; vectors come from the installed embedder. A group of a tenant is a group of
the graph under a hash of both names: its letters are few, and no tenant can name another's.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from twinraven.foundation.errors import InvalidSetting, StorageUnavailable
from twinraven.knowledge.embedding import Embedder
from twinraven.knowledge.graph.graphiti_clients import ASKING_LOOP, FALKOR, NEO4J, connect, load
from twinraven.knowledge.graph.loop_thread import LoopThread
from twinraven.knowledge.graph.model import GraphContent, GraphEntity, GraphFact, GraphFind
from twinraven.knowledge.model import Episode
from twinraven.knowledge.thinking import LanguageModel

_UNREACHABLE: Final = frozenset({"ConnectionError", "TimeoutError", "ServiceUnavailable", "AuthenticationError"})
_SHARES: Final = {"episodes": 1.0, "facts": 1.0, "entities": 0.5}
"""What being found so adds to an episode: its place, as 1 / (1 + place), times this."""
_MOST_CONTENT: Final = 100_000


class GraphitiGraph:
    """A knowledge graph in Graphiti; connected on first use."""

    def __init__(self, url: str, model: Callable[[], LanguageModel], embedder: Embedder) -> None:
        self._address = urlsplit(url)
        if self._address.scheme not in (*FALKOR, *NEO4J) or not self._address.hostname:
            raise InvalidSetting(
                "knowledge.graph_url is no address of FalkorDB or Neo4j",
                field="knowledge.graph_url",
                fix="write falkor://host:6379 or neo4j://user:password@host:7687",
            )
        self._model = model
        self._embedder = embedder
        self._loop = LoopThread("graphiti")
        self._opened: dict[str, Any] = {}
        self._drivers: dict[str, Any] = {}

    def close(self) -> None:
        """Let go of the connections."""

        async def let_go() -> None:
            for graphiti in self._opened.values():
                await graphiti.close()

        self._loop.close(let_go)

    async def add(self, tenant_id: str, episode: Episode) -> None:
        await self._loop.run(self._add(tenant_id, episode, asyncio.get_running_loop()))

    async def search(self, tenant_id: str, group_id: str, text: str, *, limit: int) -> list[GraphFind]:
        return await self._loop.run(self._search(tenant_id, group_id, text, limit))

    async def content(self, tenant_id: str, group_id: str) -> GraphContent:
        return await self._loop.run(self._content(tenant_id, group_id))

    async def _add(self, tenant_id: str, episode: Episode, asking: asyncio.AbstractEventLoop) -> None:
        ASKING_LOOP.set(asking)
        group = _group(tenant_id, episode.group_id)
        graphiti, driver = await self._graphiti(tenant_id, group)
        known = await driver.execute_query(
            "MATCH (e:Episodic {uuid: $uuid}) RETURN e.taken_in AS taken_in", uuid=episode.episode_id
        )
        rows = list(known[0]) if known else []
        if rows and rows[0]["taken_in"]:
            return
        if not rows:
            await _save(driver, group, episode)
        await graphiti.add_episode(
            name=episode.name,
            episode_body=_spoken(episode),
            source_description=episode.source_description or episode.source,
            reference_time=episode.valid_at or episode.created_at,
            group_id=group,
            uuid=episode.episode_id,
        )
        await driver.execute_query("MATCH (e:Episodic {uuid: $uuid}) SET e.taken_in = true", uuid=episode.episode_id)

    async def _search(self, tenant_id: str, group_id: str, text: str, limit: int) -> list[GraphFind]:
        group = _group(tenant_id, group_id)
        graphiti, driver = await self._graphiti(tenant_id, group)
        found = await graphiti.search_(text, config=_search_config(limit), group_ids=[group], driver=driver)
        finds: dict[str, GraphFind] = {}
        for place, episode in enumerate(found.episodes):
            _credit(finds, episode.uuid, place, "episodes").by_words = True
        for place, edge in enumerate(found.edges):
            for each in edge.episodes or ():
                _credit(finds, each, place, "facts").facts.append(edge.fact)
        for place, node in enumerate(found.nodes):
            for each in await _mentioning(driver, node.uuid, limit):
                _credit(finds, each, place, "entities").entities.append(node.name)
        return sorted(finds.values(), key=lambda each: -each.score)[:limit]

    async def _content(self, tenant_id: str, group_id: str) -> GraphContent:
        group = _group(tenant_id, group_id)
        _, driver = await self._graphiti(tenant_id, group)
        nodes, edges = import_module("graphiti_core.nodes"), import_module("graphiti_core.edges")
        absent = import_module("graphiti_core.errors").GroupsEdgesNotFoundError
        episodes = await nodes.EpisodicNode.get_by_group_ids(driver, [group])
        entities = await nodes.EntityNode.get_by_group_ids(driver, [group])
        facts: Sequence[Any] = ()
        with suppress(absent):
            facts = await edges.EntityEdge.get_by_group_ids(driver, [group])
        return GraphContent(
            tuple(sorted(each.uuid for each in episodes)),
            tuple(GraphEntity(each.uuid, each.name, each.summary) for each in sorted(entities, key=_name_of)),
            tuple(_fact(each) for each in sorted(facts, key=lambda each: str(each.fact))),
        )

    async def _graphiti(self, tenant_id: str, group: str) -> tuple[Any, Any]:
        """Return the connection that asks the model for this tenant, and its driver for this group."""
        load(self._address.scheme, self._embedder)
        try:
            if tenant_id not in self._opened:
                self._opened[tenant_id] = connect(self._address, self._model, self._embedder, tenant_id)
            graphiti = self._opened[tenant_id]
            if group not in self._drivers:
                driver = graphiti.driver.clone(database=group)
                await driver.build_indices_and_constraints()
                self._drivers[group] = driver
        except Exception as error:
            if type(error).__name__ not in _UNREACHABLE:
                raise
            raise StorageUnavailable(
                f"the knowledge graph at {self._address.hostname}:{self._address.port} cannot be reached",
                field="knowledge.graph_url",
                fix="start it, or take knowledge.graph_url out of the settings",
            ) from error
        return graphiti, self._drivers[group]


def _group(tenant_id: str, group_id: str) -> str:
    return hashlib.sha256(f"{tenant_id}\0{group_id}".encode()).hexdigest()[:32]


def _spoken(episode: Episode) -> str:
    spoken = f"{episode.speaker}: {episode.content}" if episode.speaker else episode.content
    return spoken[:_MOST_CONTENT]


async def _save(driver: Any, group: str, episode: Episode) -> None:
    """Write an episode under the id that it has in the tables; extraction follows."""
    nodes = import_module("graphiti_core.nodes")
    node = nodes.EpisodicNode(
        uuid=episode.episode_id,
        name=episode.name,
        group_id=group,
        labels=[],
        source=nodes.EpisodeType.message,
        content=_spoken(episode),
        source_description=episode.source_description or episode.source,
        created_at=episode.created_at,
        valid_at=episode.valid_at or episode.created_at,
    )
    await node.save(driver)


def _name_of(node: Any) -> str:
    return str(node.name)


def _fact(edge: Any) -> GraphFact:
    return GraphFact(edge.uuid, edge.name, edge.fact, edge.valid_at, edge.invalid_at, tuple(edge.episodes or ()))


def _credit(finds: dict[str, GraphFind], episode_id: str, place: int, way: str) -> GraphFind:
    find = finds.setdefault(episode_id, GraphFind(episode_id))
    find.score += _SHARES[way] / (1 + place)
    return find


async def _mentioning(driver: Any, entity_uuid: str, limit: int) -> list[str]:
    found = await driver.execute_query(
        "MATCH (e:Episodic)-[:MENTIONS]->(n:Entity {uuid: $uuid}) "
        "RETURN e.uuid AS uuid ORDER BY e.valid_at LIMIT $most",
        uuid=entity_uuid,
        most=limit,
    )
    return [row["uuid"] for row in found[0]] if found else []


def _search_config(limit: int) -> Any:
    config = import_module("graphiti_core.search.search_config")
    return config.SearchConfig(
        edge_config=config.EdgeSearchConfig(
            search_methods=[config.EdgeSearchMethod.bm25, config.EdgeSearchMethod.cosine_similarity]
        ),
        node_config=config.NodeSearchConfig(
            search_methods=[config.NodeSearchMethod.bm25, config.NodeSearchMethod.cosine_similarity]
        ),
        episode_config=config.EpisodeSearchConfig(search_methods=[config.EpisodeSearchMethod.bm25]),
        limit=limit,
    )
