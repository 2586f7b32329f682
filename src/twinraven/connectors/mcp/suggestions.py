"""Suggests the effect of an upstream tool from its annotations (`readOnlyHint`, `destructiveHint`) and its name.

A hint is the server's word and a name is a habit; where the two contradict each other, neither is believed: such a tool
counts as a write and is taken over only when somebody names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from twinraven.catalog import Effect, infer_effect
from twinraven.connectors.mcp.model import PinnedTool

ACCEPT_SUGGESTIONS: Final = "twinraven tools classify --accept-suggestions"
"""The command that shows all suggestions and, with --yes, takes them over."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggested effect of a tool, and its reason."""

    tool_id: str
    effect: Effect
    because: str
    is_contradiction: bool = False
    """Whether what the tool says of itself and what its name says differ."""

    @property
    def is_acceptable(self) -> bool:
        """Whether it can be taken over together with others."""
        return self.effect is not Effect.UNKNOWN and not self.is_contradiction

    def as_json(self) -> dict[str, Any]:
        return {
            "tool_id": self.tool_id,
            "effect": self.effect.value,
            "because": self.because,
            "contradiction": self.is_contradiction,
        }


def suggest(tool: PinnedTool) -> Suggestion:
    """Suggest the effect of a tool, by its annotations and its name."""
    annotations = tool.definition.get("annotations")
    hints = cast("dict[str, Any]", annotations) if isinstance(annotations, dict) else {}
    reads, destroys = hints.get("readOnlyHint"), hints.get("destructiveHint")
    guess = infer_effect(tool.name)
    if reads is True and destroys is True:
        return _contradiction(tool, "it says that it only reads, and that it destroys")
    if reads is True:
        if guess is Effect.WRITE:
            return _contradiction(tool, "it says that it only reads, but its name sounds like a write")
        return Suggestion(tool.tool_id, Effect.READ, "it says that it only reads")
    if reads is False or destroys is True:
        if guess is Effect.READ:
            return _contradiction(tool, "it says that it changes things, but its name sounds like a read")
        return Suggestion(tool.tool_id, Effect.WRITE, "it says that it changes things")
    because = "nothing tells" if guess is Effect.UNKNOWN else f"its name sounds like a {guess.value}"
    return Suggestion(tool.tool_id, guess, because)


def _contradiction(tool: PinnedTool, because: str) -> Suggestion:
    return Suggestion(tool.tool_id, Effect.WRITE, because, is_contradiction=True)
