"""Opens summaries and introspection, and their part of a working memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from twinraven.app.calling import runs
from twinraven.app.catalogue import process_tools
from twinraven.app.foundations import audit, database
from twinraven.app.knowing import knowledge
from twinraven.app.parts import Home, Part
from twinraven.app.running import processes
from twinraven.foundation.errors import NotFound
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.conversations import EntityItem, NoteItem, PathPlace, SummaryItem
    from twinraven.knowledge import ActiveEntity, Introspections, PreparedProcess, Summaries
    from twinraven.processes import Process

_TURN: Final = "Turn:"
"""What the names of turns' episodes begin with, before the alternative's id."""


@Part
def summaries(home: Home) -> Summaries:
    """Open summaries of dialogues."""
    from twinraven.knowledge import Summaries

    made = Summaries(
        database(home),
        knowledge(home),
        processes=_BuiltIn(home),
        runs=lambda: runs(home),
        audit=audit(home),
        process_id=home.settings.knowledge.compression_process,
        count_tokens=_token_counter(),
        micros=home.micros,
    )
    made.register(introspections(home).on_compressed)
    return made


@Part
def introspections(home: Home) -> Introspections:
    """Open the notes that an agent keeps of each user."""
    from twinraven.knowledge import CarouselRules, Introspections

    wanted = home.settings.knowledge
    rules = CarouselRules(
        wanted.introspection_notes, wanted.introspection_compression_threshold, wanted.reflection_process
    )
    return Introspections(
        database(home),
        knowledge(home),
        processes=_BuiltIn(home),
        runs=lambda: runs(home),
        rules=rules,
        micros=home.micros,
    )


def _token_counter() -> Callable[[str], int]:
    """Return the tokenizer of conversations where it is installed, else an estimate."""
    from importlib.util import find_spec

    from twinraven.conversations import count_tokens
    from twinraven.knowledge import estimate_tokens

    return estimate_tokens if find_spec("splintr") is None else count_tokens


class _BuiltIn:
    """The processes that compress and reflect, saved in a tenant when they are first needed."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def prepare(self, tenant_id: str, process_id: str) -> PreparedProcess:
        from twinraven.knowledge import PreparedProcess
        from twinraven.tenancy import Principal

        kept = processes(self._home)
        try:
            found = await kept.get(tenant_id, process_id)
        except NotFound:
            built_in = _built_in().get(process_id)
            if built_in is None:
                raise
            found = await kept.save(built_in, by=Principal(tenant_id, "twinraven", "admin"))
        tools = process_tools(self._home)
        await tools.refresh(tenant_id)
        flow = tools.flow(tenant_id, process_id)
        if flow is None:
            raise NotFound(f"the process {process_id!r} is disabled; enable it or name another", process_id=process_id)
        return PreparedProcess(process_id, found.version, flow)


def _built_in() -> dict[str, Process]:
    from twinraven.knowledge import COMPRESS_PROCESS, COMPRESS_TOOL, REFLECT_PROCESS, REFLECT_TOOL

    compress = ("sources", "text", "level", "most_characters")
    reflect = ("warning", "replaces", "positions", "notes", "compressions", "conversation_id", "user_id")
    return {
        COMPRESS_PROCESS: _one_step(
            COMPRESS_PROCESS, "Compress memory", "Sums a part of a dialogue up.", COMPRESS_TOOL, compress
        ),
        REFLECT_PROCESS: _one_step(
            REFLECT_PROCESS, "Reflect", "Reconsiders the notes about a user.", REFLECT_TOOL, reflect
        ),
    }


def _one_step(process_id: str, name: str, description: str, tool_id: str, context: Sequence[str]) -> Process:
    from twinraven.processes import Process, ProcessStep, StepOutput

    inputs: dict[str, Any] = {each: f"{{step.{each}}}" for each in context}
    step = ProcessStep(id="think", output=StepOutput(variable="thought"), tool=tool_id, inputs=inputs)
    return Process(id=process_id, name=name, description=description, initial_context=tuple(context), steps=(step,))


class KnowledgeCompressor:
    """Lets the path of a conversation be summed up by the process that compresses."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def begin(
        self, tenant_id: str, owner_id: str, conversation_id: str, episode_ids: Sequence[str], *, up_to: PathPlace
    ) -> str:
        from twinraven.knowledge import CompressionRequest
        from twinraven.tenancy import Principal

        wish = CompressionRequest(conversation_id, tuple(episode_ids), up_to.turn_id, up_to.alternative_id)
        begun = await summaries(self._home).compress(wish, by=Principal(tenant_id, owner_id, "member"))
        return begun.compression_id

    async def is_running(self, tenant_id: str, compression_id: str) -> bool:
        return (await summaries(self._home).compression(tenant_id, compression_id)).state == "running"


class KnowledgeSources:
    """Adds knowledge to a working memory: the summaries, entities and notes of its path."""

    def summaries(
        self, tx: Transaction, tenant_id: str, conversation_id: str, path: Sequence[PathPlace]
    ) -> Sequence[SummaryItem]:
        from twinraven.conversations import SummaryItem
        from twinraven.knowledge import list_summaries

        active = {place.alternative_id for place in path}
        found = list_summaries(tx, tenant_id, group_id=conversation_id, with_deleted=False, limit=1_000, after=None)
        items: list[SummaryItem] = []
        for each in found:
            covers = tuple(name.removeprefix(_TURN) for name in each.covers if name.startswith(_TURN))
            is_whole = len(covers) == len(each.covers) and active.issuperset(covers)
            if is_whole and each.covers_up_to_turn is not None and each.covers_up_to_alternative is not None:
                items.append(
                    SummaryItem(
                        each.summary_id,
                        each.content,
                        each.level,
                        covers,
                        each.covers_up_to_turn,
                        each.covers_up_to_alternative,
                        each.contents[-1].episode_id,
                    )
                )
        return items

    def entities(
        self, tx: Transaction, tenant_id: str, conversation_id: str, path: Sequence[PathPlace]
    ) -> Sequence[EntityItem]:
        from twinraven.knowledge import active_entities

        episodes = [place.episode_id for place in path if place.episode_id is not None]
        return [_entity_item(each) for each in active_entities(tx, tenant_id, conversation_id, episodes)]

    def notes(self, tx: Transaction, tenant_id: str, user_id: str) -> Sequence[NoteItem]:
        from twinraven.conversations import NoteItem
        from twinraven.knowledge import list_notes

        return [
            NoteItem(each.introspection_id, each.position, each.content, each.contents[-1].episode_id)
            for each in list_notes(tx, tenant_id, user_id)
        ]


def _entity_item(each: ActiveEntity) -> EntityItem:
    from twinraven.conversations import EntityItem

    entity = each.entity
    source = {"user": "user", "enrichment_process": "enrichment"}.get(entity.inferred_by, "graphiti")
    return EntityItem(
        entity_id=entity.entity_id,
        name=entity.name,
        category=entity.category,
        relevance=each.relevance,
        why=each.why,
        source=source,
        added_at=each.added_at,
        summary=entity.summary,
        facets=dict(entity.facets),
        relationships=tuple(f"{fact.relation.replace('_', ' ')}: {fact.value}" for fact in each.facts),
        include_summary=each.include_summary,
        include_facets=each.include_facets,
        include_relationships=each.include_relationships,
    )
