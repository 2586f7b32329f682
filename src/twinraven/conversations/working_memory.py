"""Computes the working memory of a conversation: what the next call of a model would be sent, item by item.

It is a function of what the tables hold and of a budget, and of nothing else; nothing of it is stored. The path is the
active alternative of each turn from the root to the current turn. Where summaries hold a beginning of that path, and
every alternative they hold is active on it, they stand in its place. Texts of alternatives that are not on the path
enter only as quotes, where an alternative on the path took them in, and are marked as such.

What does not fit the budget is left out in this order, each listed with the reason: what summaries cover (always), then
entities, the least relevant first, then notes, the last position first, then the oldest places of the path with what
they quote, then summaries, the oldest first. The last place of the path always stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from twinraven.conversations.ports import EntityItem, NoteItem, PathPlace, SummaryItem
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.clock import iso

Kind = Literal["note", "summary", "entity", "quote", "path"]
Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class PathText:
    """A place of the path with what was said there."""

    place: PathPlace
    speaker: str
    content: str
    tokens: int
    quotes: tuple[QuotedText, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotedText:
    """An alternative of another branch, as an alternative on the path took it in."""

    alternative_id: str
    turn_id: str
    sequence: int
    speaker: str
    content: str


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One text of a working memory, exactly as it is sent."""

    kind: Kind
    id: str
    role: Role
    text: str
    tokens: int
    why: str
    turn_id: str | None = None
    alternative_id: str | None = None
    episode_id: str | None = None
    relevance: float | None = None

    def as_json(self) -> dict[str, Any]:
        names = ("kind", "id", "role", "text", "tokens", "why", "turn_id", "alternative_id", "episode_id", "relevance")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An item that was left out of a working memory, and why."""

    kind: Kind
    id: str
    tokens: int
    why: str

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "id": self.id, "tokens": self.tokens, "why": self.why}


@dataclass(frozen=True, slots=True)
class MemoryMaterial:
    """The stored material of one path."""

    conversation_id: str
    current_turn_id: str | None
    current_alternative_id: str | None
    path: Sequence[PathText]
    summaries: Sequence[SummaryItem]
    entities: Sequence[EntityItem]
    notes: Sequence[NoteItem]
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """The working memory: the items that the next model call would be sent."""

    material: MemoryMaterial
    items: tuple[MemoryItem, ...]
    left_out: tuple[LeftOut, ...]
    budget: int

    @property
    def total_tokens(self) -> int:
        return sum(item.tokens for item in self.items)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The items as messages, one each, so that their tokens add up."""
        return [{"role": item.role, "content": item.text} for item in self.items]

    @property
    def context(self) -> str:
        """Everything that is not path, as one text, for processes with a prompt of their own."""
        return "\n\n".join(item.text for item in self.items if item.kind != "path")

    def of(self, kind: Kind) -> list[MemoryItem]:
        return [item for item in self.items if item.kind == kind]

    def as_json(self) -> dict[str, Any]:
        kept = {item.id for item in self.of("entity")}
        return {
            "conversation_id": self.material.conversation_id,
            "current_turn_id": self.material.current_turn_id,
            "current_alternative_id": self.material.current_alternative_id,
            "immediate_path": [
                {"turn_id": item.turn_id, "alternative_id": item.alternative_id, "episode_id": item.episode_id}
                for item in self.of("path")
            ],
            "summaries": [item.id for item in self.of("summary")],
            "active_entities": [_entity_json(each) for each in self.material.entities if each.entity_id in kept],
            "introspection_context": [item.episode_id or item.id for item in self.of("note")],
            "items": [item.as_json() for item in self.items],
            "left_out": [each.as_json() for each in self.left_out],
            "total_tokens": self.total_tokens,
            "budget": self.budget,
            "fits": self.total_tokens <= self.budget,
            "last_updated": iso(self.material.updated_at),
        }


def assemble(material: MemoryMaterial, *, budget: int, count: Callable[[str], int]) -> WorkingMemory:
    """Return the working memory of a path within a budget of tokens."""
    used, covered = _standing_in(material)
    groups: list[list[MemoryItem]] = [
        [_note(each, count) for each in material.notes],
        [_summary(each, count) for each in used],
        [_entity(each, count) for each in sorted(material.entities, key=_by_relevance)],
    ]
    places = [_place(each, count) for each in material.path if each.place.alternative_id not in covered]
    out = [
        LeftOut("path", each.place.alternative_id, each.tokens, f"summary {covered[each.place.alternative_id]} has it")
        for each in material.path
        if each.place.alternative_id in covered
    ]
    out += _shed(groups, places, budget)
    items = [item for group in (*groups, *places) for item in group]
    return WorkingMemory(material, tuple(items), tuple(out), budget)


def _standing_in(material: MemoryMaterial) -> tuple[list[SummaryItem], dict[str, str]]:
    """Return the summaries that stand for places of the path, oldest first, and which place each one has.

    From the end: always the one that reaches furthest, then among those that end before it begins.
    """
    order = {each.place.alternative_id: number for number, each in enumerate(material.path)}
    usable = [each for each in material.summaries if each.covers and all(one in order for one in each.covers)]
    used: list[SummaryItem] = []
    covered: dict[str, str] = {}
    end = len(order)
    for each in sorted(usable, key=lambda one: (max(order[a] for a in one.covers), len(one.covers)), reverse=True):
        if max(order[one] for one in each.covers) < end:
            used.insert(0, each)
            covered |= dict.fromkeys(each.covers, each.summary_id)
            end = min(order[one] for one in each.covers)
    return used, covered


def _shed(groups: list[list[MemoryItem]], places: list[list[MemoryItem]], budget: int) -> list[LeftOut]:
    """Take out what does not fit, in the stated order; says what and why."""
    notes, summaries, entities = groups
    total = sum(item.tokens for group in (*groups, *places) for item in group)
    out: list[LeftOut] = []

    def drop(items: list[MemoryItem], reason: str) -> None:
        nonlocal total
        for item in items:
            total -= item.tokens
            out.append(LeftOut(item.kind, item.id, item.tokens, reason))

    while total > budget and entities:
        drop([entities.pop()], "the budget is spent; it was the least relevant entity")
    while total > budget and notes:
        drop([notes.pop()], "the budget is spent; it was the last note")
    while total > budget and len(places) > 1:
        drop(places.pop(0), "the budget is spent; it was the oldest place of the path, and no summary has it")
    while total > budget and summaries:
        drop([summaries.pop(0)], "the budget is spent; it was the oldest summary")
    return out


def _by_relevance(entity: EntityItem) -> tuple[float, str]:
    return -entity.relevance, entity.entity_id


def _note(note: NoteItem, count: Callable[[str], int]) -> MemoryItem:
    text = f"Note to self: {note.content}"
    why = f"position {note.position} of the owner's notes"
    return MemoryItem("note", note.note_id, "system", text, count(text), why, episode_id=note.episode_id)


def _summary(summary: SummaryItem, count: Callable[[str], int]) -> MemoryItem:
    text = f"Summary of what was said before: {summary.content}"
    why = f"stands for {len(summary.covers)} places of the path, all of them active"
    return MemoryItem(
        "summary",
        summary.summary_id,
        "system",
        text,
        count(text),
        why,
        turn_id=summary.covers_up_to_turn,
        alternative_id=summary.covers_up_to_alternative,
        episode_id=summary.episode_id,
    )


def _entity(entity: EntityItem, count: Callable[[str], int]) -> MemoryItem:
    said = [entity.name if entity.category is None else f"{entity.name} ({entity.category})"]
    if entity.include_summary and entity.summary:
        said.append(entity.summary)
    if entity.include_facets and entity.facets:
        said.append(canonical_json(entity.facets).decode())
    if entity.include_relationships and entity.relationships:
        said.append("; ".join(entity.relationships))
    text = f"Known: {'. '.join(said)}"
    why = f"relevance {entity.relevance:.2f}: {entity.why}"
    return MemoryItem("entity", entity.entity_id, "system", text, count(text), why, relevance=entity.relevance)


def _place(said: PathText, count: Callable[[str], int]) -> list[MemoryItem]:
    """Return a place of the path, after what it quotes."""
    role: Role = {"user": "user", "agent": "assistant"}.get(said.speaker, "system")  # type: ignore[assignment]
    place = said.place
    own = MemoryItem(
        "path",
        place.alternative_id,
        role,
        said.content,
        said.tokens,
        f"the active alternative of turn {place.sequence}",
        turn_id=place.turn_id,
        alternative_id=place.alternative_id,
        episode_id=place.episode_id,
    )
    return [*(_quote(each, place, count) for each in said.quotes), own]


def _quote(quoted: QuotedText, by: PathPlace, count: Callable[[str], int]) -> MemoryItem:
    text = f"Quoted from another branch (turn {quoted.sequence}, {quoted.speaker}): {quoted.content}"
    return MemoryItem(
        "quote",
        quoted.alternative_id,
        "system",
        text,
        count(text),
        f"turn {by.sequence} quotes it",
        turn_id=quoted.turn_id,
        alternative_id=quoted.alternative_id,
    )


def _entity_json(entity: EntityItem) -> dict[str, Any]:
    return {
        "entity_uuid": entity.entity_id,
        "name": entity.name,
        "category": entity.category,
        "relevance_score": entity.relevance,
        "why": entity.why,
        "source": entity.source,
        "added_at": iso(entity.added_at),
        "include_summary": entity.include_summary,
        "include_facets": entity.include_facets,
        "include_relationships": entity.include_relationships,
    }
