"""Parses a model's answer into proposals: a name, descriptions, argument sources, or nothing.

Whatever comes, the result is bounded and clean: each member is taken by itself if it has the right kind, and what was
not taken is named with the reason. Reading decides nothing; sources are judged by the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from twinraven.huginn.synthesis.compose import bounded_slug

MAX_DESCRIPTION = 400
MAX_PARAMETER_DESCRIPTION = 160
MAX_ENTRIES = 32
MAX_SOURCE = 1_000
MAX_NAME = 200
MAX_REFUSALS = 40

_LETTER = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class RefusedProposal:
    """A model's proposal that was refused, and why."""

    what: str
    value: str
    why: str

    def as_json(self) -> dict[str, str]:
        return {"what": self.what, "value": self.value, "why": self.why}


@dataclass(frozen=True, slots=True)
class ProposedSource:
    """The source that a model proposes for an open argument."""

    step: int
    argument: str
    source: str


@dataclass(slots=True)
class Proposals:
    """The proposals that were parsed from an answer."""

    slug: str | None = None
    description: str | None = None
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    sources: list[ProposedSource] = field(default_factory=list[ProposedSource])
    refused: list[RefusedProposal] = field(default_factory=list[RefusedProposal])

    def refuse(self, what: str, value: Any, why: str) -> None:
        if len(self.refused) < MAX_REFUSALS:
            self.refused.append(RefusedProposal(what, tidy(str(value), MAX_NAME), why))


def read_proposals(answer: Any) -> Proposals:
    """Read the proposals in a JSON value, whatever value that is."""
    found = Proposals()
    if not isinstance(answer, dict):
        found.refuse("answer", type(answer).__name__, "is not an object")
        return found
    members = cast("dict[str, Any]", answer)
    found.slug = _slug(found, members.get("slug"))
    found.description = _sentence(found, "description", members.get("description"), MAX_DESCRIPTION)
    for entry in _entries(found, "parameters", members.get("parameters")):
        name = entry.get("name")
        if not isinstance(name, str):
            found.refuse("parameters", name, "names no parameter")
            continue
        words = _sentence(found, "parameters", entry.get("description"), MAX_PARAMETER_DESCRIPTION)
        if words is not None:
            found.parameters.setdefault(name[:MAX_NAME], words)
    for entry in _entries(found, "sources", members.get("sources")):
        source = _source(found, entry)
        if source is not None:
            found.sources.append(source)
    return found


def tidy(text: str, most: int) -> str:
    """Text on one line, of characters that can be seen, cut to a length."""
    # Cut first: a rambling answer is not worth looking at to its end.
    seen = "".join(character if character.isprintable() else " " for character in text[: most * 4])
    line = " ".join(seen.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _slug(found: Proposals, stated: Any) -> str | None:
    if stated is None:
        return None
    if not isinstance(stated, str) or not _LETTER.search(stated[:MAX_NAME]):
        found.refuse("slug", stated, "has no letters to make a name of")
        return None
    return bounded_slug(stated[:MAX_NAME])


def _sentence(found: Proposals, what: str, stated: Any, most: int) -> str | None:
    if stated is None:
        return None
    words = tidy(stated, most) if isinstance(stated, str) else ""
    if not words:
        found.refuse(what, stated, "is not a sentence")
        return None
    return words


def _entries(found: Proposals, what: str, stated: Any) -> Iterator[dict[str, Any]]:
    if stated is None:
        return
    if not isinstance(stated, list):
        found.refuse(what, type(stated).__name__, "is not a list")
        return
    entries = cast("list[Any]", stated)
    if len(entries) > MAX_ENTRIES:
        found.refuse(what, len(entries), f"only the first {MAX_ENTRIES} are looked at")
    for entry in entries[:MAX_ENTRIES]:
        if isinstance(entry, dict):
            yield cast("dict[str, Any]", entry)
        else:
            found.refuse(what, type(cast("object", entry)).__name__, "is not an object")


def _source(found: Proposals, entry: dict[str, Any]) -> ProposedSource | None:
    step, argument, source = entry.get("step"), entry.get("argument"), entry.get("source")
    if not isinstance(step, int) or isinstance(step, bool) or not isinstance(argument, str):
        found.refuse("source", source, "does not say which argument of which step it is for")
        return None
    if not isinstance(source, str) or not source.strip():
        found.refuse("source", source, "is not text")
        return None
    if len(source) > MAX_SOURCE:
        found.refuse("source", source, f"is longer than {MAX_SOURCE} characters")
        return None
    return ProposedSource(step, argument[:MAX_NAME], source.strip())
