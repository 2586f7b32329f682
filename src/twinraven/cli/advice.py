"""Prints a model's advice about a draft, for reviewers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from twinraven.cli.output import clean

if TYPE_CHECKING:
    from twinraven.registry import SynthesizedTool

_SAID_CHARS = 240


def advice_field(definition: SynthesizedTool) -> dict[str, str]:
    """Return one line about the advice: the model asked and the outcome; no line without advice."""
    advice = _advice(definition)
    if advice is None:
        return {}
    tokens = _number(advice.get("input_tokens")) + _number(advice.get("output_tokens"))
    taken, refused = len(_listed(advice, "accepted")), len(_listed(advice, "refused"))
    became = advice.get("failure") or f"{taken} proposals accepted, {refused} refused"
    return {"a model was asked": f"{advice.get('model')} ({tokens} tokens): {became}"}


def advice_lines(definition: SynthesizedTool) -> list[str]:
    """Return the accepted and refused proposals with their reasons, and the beginning of the answer."""
    advice = _advice(definition)
    return [] if advice is None else [clean(line) for line in _lines(advice)]


def _lines(advice: dict[str, Any]) -> Iterator[str]:
    for entry in _listed(advice, "accepted"):
        yield f"  + {entry.get('what')}: {entry.get('value')}"
    for entry in _listed(advice, "refused"):
        yield f"  - {entry.get('what')}: {entry.get('value')} ({entry.get('why')})"
    said = advice.get("answer")
    if isinstance(said, str) and said:
        line = " ".join(said.split())
        yield f"  it said: {line[:_SAID_CHARS]}{'…' if len(line) > _SAID_CHARS else ''}"


def _advice(definition: SynthesizedTool) -> dict[str, Any] | None:
    # Definitions come from files, too, and evidence may hold anything.
    found = definition.evidence.get("advice")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _listed(advice: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = advice.get(name)
    entries = cast("list[Any]", found) if isinstance(found, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
