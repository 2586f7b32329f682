"""Offers compression and reflection to processes as two tools, which the built-in processes call.

They are found by name and not listed. With a configured model `memory_compress` lets it write the summary, and
`memory_reflect` lets it work as the reflective agent: it may search what was said and look entities up before it
writes, as far as the user whose notes it writes may. Without a model the most telling sentences are chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from twinraven.calls import CallFrame
from twinraven.catalog import Effect, ToolEntry
from twinraven.foundation.errors import InvalidOutput, NotFound
from twinraven.knowledge.access import GroupAccess
from twinraven.knowledge.entities import Entities
from twinraven.knowledge.extractive import SourceText, summarise
from twinraven.knowledge.model import Hit
from twinraven.knowledge.service import Knowledge
from twinraven.knowledge.thinking import LanguageModel

COMPRESS_TOOL: Final = "memory_compress"
REFLECT_TOOL: Final = "memory_reflect"
CONNECTOR: Final = "thinking"
_LIST: Final = {"type": "array", "items": {"type": "object"}}
_WHOLE: Final = {"type": "integer", "minimum": 0}
_TEXT: Final = {"type": "string"}
_REFLECT_MS: Final = 600_000
"""The timeout of a reflection, which runs in the background."""
_STEPS: Final = 8
_MOST_NOTE: Final = 1_200
_MOST_HITS: Final = 6

_COMPRESS_SYSTEM: Final = (
    "You compress a dialogue into a summary that will stand for it. Keep names, dates, numbers, decisions, preferences "
    "and open questions; say who said what. Write plain sentences. Invent nothing."
)
_COMPRESS_SCHEMA: Final = {
    "type": "object",
    "properties": {"summary": {"type": "string", "minLength": 1}},
    "required": ["summary"],
    "additionalProperties": False,
}
_REFLECT_SYSTEM: Final = (
    "You keep a carousel of notes to yourself about the person you work with: an evolving understanding across "
    "conversations. You may use the positions as you like: rewrite several, reorganise themes, distil patterns. "
    "Maintain continuity, surface insights, track how things change. You are warned which position will be replaced: "
    "preserve what is vital in it. Before you write you may search what was said (`searches`) and look entities up "
    "(`entities`, by name); the findings come back to you. When you have written, set `done`."
)
_REFLECT_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "searches": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 5},
        "entities": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 5},
        "notes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"position": _WHOLE, "content": {"type": "string", "minLength": 1}},
                "required": ["position", "content"],
                "additionalProperties": False,
            },
        },
        "done": {"type": "boolean"},
    },
    "required": ["done"],
    "additionalProperties": False,
}


def _entry(tool_id: str, description: str, timeout_ms: int | None, **properties: Any) -> ToolEntry:
    return ToolEntry(
        tool_id=tool_id,
        description=description,
        input_schema={"type": "object", "properties": properties, "additionalProperties": False},
        effect=Effect.READ,
        effect_origin="declared",
        connector=CONNECTOR,
        timeout_ms=timeout_ms,
        definition=f"{tool_id}/1",
    )


_ENTRIES: Final = {
    entry.tool_id: entry
    for entry in (
        _entry(
            COMPRESS_TOOL,
            "Sum a part of a dialogue up.",
            None,
            sources=_LIST,
            text=_TEXT,
            level=_WHOLE,
            most_characters=_WHOLE,
        ),
        _entry(
            REFLECT_TOOL,
            "Reconsider the notes about a user in the light of what was compressed.",
            _REFLECT_MS,
            warning=_TEXT,
            replaces=_WHOLE,
            positions=_WHOLE,
            notes=_LIST,
            compressions=_LIST,
            conversation_id=_TEXT,
            user_id=_TEXT,
        ),
    )
}


class ThinkingEntries:
    """The source of the two tools; it loads nothing that runs them."""

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return _ENTRIES.get(tool_id)

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        """None: they are for processes."""
        del tenant_id
        return []


class ThinkingConnector:
    """Runs the two tools, as a connector of the call path."""

    name = CONNECTOR

    def __init__(
        self,
        knowledge: Callable[[], Knowledge],
        entities: Callable[[], Entities],
        model: Callable[[], LanguageModel],
        access: Callable[[], GroupAccess],
    ) -> None:
        self._knowledge = knowledge
        self._entities = entities
        self._access = access
        self._model = model

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> Any:
        """Compress or reflect in the caller's tenant."""
        if entry.tool_id == COMPRESS_TOOL:
            return await self._compress(call.tenant_id, params)
        if entry.tool_id == REFLECT_TOOL:
            return await self._reflect(call, params)
        raise NotFound(f"no tool {entry.tool_id!r}", field="tool_id")

    async def _compress(self, tenant_id: str, params: dict[str, Any]) -> Any:
        model = self._model()
        most = int(params["most_characters"])
        if model.name is not None:
            text = f"At most {most} characters.\n\n{params['text']}"
            # A model whose answer never fits leaves it to the rules: without a summary what is oldest would be lost.
            with suppress(InvalidOutput):
                reply = await model.ask(tenant_id, text, system=_COMPRESS_SYSTEM, schema=_COMPRESS_SCHEMA)
                return {"summary": reply.value["summary"], "by": reply.model}
        said = [SourceText(each["content"], each.get("speaker")) for each in params["sources"]]
        return {"summary": summarise(said, most_characters=most), "by": "rules"}

    async def _reflect(self, call: CallFrame, params: dict[str, Any]) -> Any:
        model = self._model()
        if model.name is None:
            return {"notes": [_note_by_rules(params)], "by": "rules"}
        notes: dict[int, str] = {}
        told = _told(params)
        for left in range(_STEPS, 0, -1):
            reply = await model.ask(
                call.tenant_id, f"{told}\n\nSteps left: {left}.", system=_REFLECT_SYSTEM, schema=_REFLECT_SCHEMA
            )
            wish = cast("dict[str, Any]", reply.value)
            for note in wish.get("notes", ()):
                if note["position"] < params["positions"]:
                    notes[note["position"]] = note["content"]
            if wish["done"]:
                break
            told += await self._look_up(call, wish, notes)
        written = [{"position": position, "content": content} for position, content in sorted(notes.items())]
        return {"notes": written or [_note_by_rules(params)], "by": model.name}

    async def _look_up(self, call: CallFrame, wish: dict[str, Any], notes: dict[int, str]) -> str:
        """Return what the agent asked for, as further lines of what it is told."""
        tenant_id, hidden = call.tenant_id, self._access().hidden_from(call.caller)
        lines: list[str] = []
        for query in wish.get("searches", ()):
            hits = await self._knowledge().search(tenant_id, query, limit=_MOST_HITS, hidden=hidden)
            lines += [f"Search {query!r}:", *map(_in_words, hits)]
        for name in wish.get("entities", ()):
            found = await self._entities().entities(tenant_id, text=name, limit=3, hidden=hidden)
            for each in found:
                around = await self._entities().neighbourhood(tenant_id, each.entity_id)
                lines.append(f"Entity {each.name} ({each.category or 'unknown'}): {each.summary} {around.in_words()}")
        if notes:
            lines.append(f"Written so far: positions {', '.join(str(place) for place in sorted(notes))}.")
        return "\n\n" + "\n".join(lines)


def _in_words(hit: Hit) -> str:
    """Return a hit as a line, with the facts of the graph that led to it."""
    facts = "; ".join(hit.why.get("graph", {}).get("facts", ()))
    return f"- {hit.speaker or hit.name}: {hit.content[:400]}{f' (known of it: {facts})' if facts else ''}"


def _told(params: dict[str, Any]) -> str:
    notes = [f"[{each['position']}] {each['content']}" for each in params["notes"]] or ["The carousel is empty."]
    summed = [f"Compression {each['number']}: {each['content']}" for each in params["compressions"]]
    head = [params["warning"], f"Positions are 0 to {params['positions'] - 1}.", "Notes:"]
    return "\n".join([*head, *notes, "Compressions since the last reflection:", *summed])


def _note_by_rules(params: dict[str, Any]) -> dict[str, Any]:
    """Return a note without a model: what the compressions and the note that it replaces say most."""
    old = [each["content"] for each in params["notes"] if each["position"] == params["replaces"]]
    texts = [SourceText(text) for text in (*old, *(each["content"] for each in params["compressions"]))]
    content = summarise(texts, most_characters=_MOST_NOTE) or "Nothing worth keeping was said."
    return {"position": params["replaces"], "content": content}
