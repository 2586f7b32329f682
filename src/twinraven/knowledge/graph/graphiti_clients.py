"""Connects Graphiti: its driver, and the clients through which it asks our model and our embedder.

Graphiti lives on the event loop of a thread of its own, because what it opens belongs to one loop and it computes on
it. A question to the model goes back to the loop of whoever waits for the episode: the call path belongs to that one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Final
from urllib.parse import SplitResult, unquote

from twinraven.foundation.errors import InvalidSetting
from twinraven.knowledge.embedding import Embedder
from twinraven.knowledge.thinking import LanguageModel

FALKOR: Final = ("falkor", "redis")
NEO4J: Final = ("bolt", "bolt+s", "neo4j", "neo4j+s")
_FALKOR_PORT: Final = 6379
_NEO4J_PORT: Final = 7687

ASKING_LOOP: Final[ContextVar[asyncio.AbstractEventLoop]] = ContextVar("ASKING_LOOP")
"""The event loop on which the model is asked."""


@cache
def load(scheme: str, embedder: Embedder) -> None:
    """Import Graphiti, which takes seconds, and tell it how long our vectors are."""
    # It reports its use to its makers unless it is told not to before it is imported.
    os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"
    os.environ["EMBEDDING_DIM"] = str(len(embedder.embed(["a"])[0]))
    try:
        _clients()
        import_module(f"graphiti_core.driver.{'falkordb' if scheme in FALKOR else 'neo4j'}_driver")
    except ImportError as error:
        raise InvalidSetting(
            f"knowledge.graph_url is set, but Graphiti is not installed ({error})",
            field="knowledge.graph_url",
            fix="pip install 'twinraven[graphiti]'",
        ) from error


def connect(address: SplitResult, model: Callable[[], LanguageModel], embedder: Embedder, tenant_id: str) -> Any:
    asking, embedding, ranking = _clients()
    return import_module("graphiti_core").Graphiti(
        graph_driver=_driver(address),
        llm_client=asking(model, tenant_id),
        embedder=embedding(embedder),
        cross_encoder=ranking(),
        max_coroutines=1,
    )


def _driver(address: SplitResult) -> Any:
    user = unquote(address.username) if address.username else None
    password = unquote(address.password) if address.password else None
    if address.scheme in FALKOR:
        falkor = import_module("graphiti_core.driver.falkordb_driver")
        port = address.port or _FALKOR_PORT
        return falkor.FalkorDriver(host=address.hostname, port=port, username=user, password=password)
    place = f"{address.scheme}://{address.hostname}:{address.port or _NEO4J_PORT}"
    return import_module("graphiti_core.driver.neo4j_driver").Neo4jDriver(place, user, password)


@cache
def _clients() -> tuple[Any, Any, Any]:
    """Return the classes through which Graphiti asks our model and our embedder.

    Its own are loaded only where it is used.
    """
    base: Any = import_module("graphiti_core.llm_client.client")
    embedders: Any = import_module("graphiti_core.embedder.client")
    rankers: Any = import_module("graphiti_core.cross_encoder.client")

    class Asking(base.LLMClient):
        def __init__(self, model: Callable[[], LanguageModel], tenant_id: str) -> None:
            base.LLMClient.__init__(self, None)
            self._asked, self._tenant_id = model, tenant_id

        async def _generate_response(self, messages: Any, response_model: Any = None, *_: Any, **__: Any) -> Any:
            system = "\n\n".join(each.content for each in messages if each.role == "system")
            text = "\n\n".join(each.content for each in messages if each.role != "system")
            schema = {"type": "object"} if response_model is None else response_model.model_json_schema()
            asked = self._asked().ask(self._tenant_id, text, system=system, schema=schema)
            future = asyncio.run_coroutine_threadsafe(asked, ASKING_LOOP.get())
            return (await asyncio.wrap_future(future)).value

    class Embedding(embedders.EmbedderClient):
        def __init__(self, embedder: Embedder) -> None:
            self._embedder = embedder

        async def create(self, input_data: Any) -> list[float]:
            [vector] = await self.create_batch([input_data if isinstance(input_data, str) else " ".join(input_data)])
            return vector

        async def create_batch(self, input_data_list: list[str]) -> list[list[float]]:
            return self._embedder.embed(input_data_list).tolist()

    class Ranking(rankers.CrossEncoderClient):
        """Keeps the order: what is searched here is fused by rank."""

        async def rank(self, query: str, passages: list[str]) -> list[tuple[str, float]]:
            del query
            return [(passage, 1.0 / (1 + place)) for place, passage in enumerate(passages)]

    return Asking, Embedding, Ranking
