"""Records one request for advice, with the draft it was about.

Whoever decides on a tool must see which of its words and sources a model gave, what the model said in full, and what of
it was refused. It stands in the definition's evidence under `advice`, so it is in the version's file, in its row and in
every copy of it. `base` names the draft as the record alone made it: the next round finds it there and asks nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

from twinraven.foundation.canonical import JsonObject, content_hash
from twinraven.huginn.advice.proposals import RefusedProposal
from twinraven.huginn.crossfit import essence
from twinraven.registry import SynthesizedTool

ADVICE = "advice"
MAX_KEPT_ANSWER = 4_000


@dataclass(slots=True)
class AdviceRecord:
    """One asking and what became of it."""

    model: str
    base: str
    prompt_hash: str | None = None
    answer: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    failure: str | None = None
    accepted: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    refused: list[RefusedProposal] = field(default_factory=list[RefusedProposal])

    def accept(self, what: str, value: str) -> None:
        self.accepted.append({"what": what, "value": value})

    def as_json(self) -> JsonObject:
        return {
            "model": self.model,
            "base": self.base,
            "prompt_hash": self.prompt_hash,
            "answer": self.answer,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "failure": self.failure,
            "accepted": list(self.accepted),
            "refused": [refusal.as_json() for refusal in self.refused],
        }

    def kept_with(self, definition: SynthesizedTool) -> SynthesizedTool:
        """Return the definition with this in its evidence."""
        return replace(definition, evidence={**definition.evidence, ADVICE: self.as_json()})


def essence_hash(definition: SynthesizedTool) -> str:
    """Hash the calls and the wiring of a draft."""
    return content_hash(essence(definition))


def repeats(draft: SynthesizedTool, definition: SynthesizedTool) -> bool:
    """Return whether a synthesis would only give this draft again, with or without what a model added to it."""
    if essence(draft) == essence(definition):
        return True
    advice = draft.evidence.get(ADVICE)
    return isinstance(advice, dict) and cast("dict[str, Any]", advice).get("base") == essence_hash(definition)


def readable(text: str, most: int = MAX_KEPT_ANSWER) -> str:
    """Return the answer cut to a length and without invisible characters; lines stay lines."""
    seen = "".join(character if character.isprintable() or character == "\n" else " " for character in text[:most])
    return seen if len(text) <= most else f"{seen}… ({len(text) - most} more characters)"
