"""Enriches an entity when enough episodes mention it: reads them, explores its neighbourhood, infers facets.

With a configured model it writes the summary and the facets; without one rules do. Enrichment adds and never removes:
a summary that a person or an earlier reading wrote stays, a facet gains values, and what was found is kept with its
provenance and a confidence.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinraven.foundation.errors import InvalidOutput
from twinraven.knowledge.entities.model import CATEGORIES, KnownEntity
from twinraven.knowledge.entities.neighbourhood import EntityNeighbourhood, explore
from twinraven.knowledge.entities.sql import save_enrichment, surviving, turns_naming
from twinraven.knowledge.thinking import LanguageModel
from twinraven.knowledge.words import terms
from twinraven.storage import Database, Transaction

ENRICH_WORK: Final = "house:enrichment"
DEFAULT_EDGES: Final = 5
_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?]*")
_MOST_TURNS: Final = 200
_TOLD_TURNS: Final = 40
_MOST_BESIDE: Final = 5
_LONGEST_SUMMARY: Final = 300
_RULES_CONFIDENCE: Final = 0.6
_DOMAINS: Final = {
    "technical": "code software server database api deploy bug computer engineer data model script cloud program",
    "professional": "work job project meeting client team boss office deadline company contract budget manager",
    "personal": "family friend home birthday weekend holiday love mom dad kid dinner party vacation dog cat",
}
_SENTIMENTS: Final = {
    "positive": "love great good happy wonderful amazing excited enjoy fun proud glad best beautiful thank",
    "negative": "hate bad sad angry terrible awful worried broke hurt problem lost sick fail annoyed worst",
}
_STATUSES: Final = {
    "planned": "plan planning will upcoming next hope soon going tomorrow",
    "archived": "former used ended finished closed sold quit past ex",
}
_SYSTEM: Final = (
    "You describe one person, place or thing from what was said about it. Use only what is said. Give a summary of at "
    "most three sentences, the category, and facets such as domain, status, sentiment and what fits the category, each "
    "with short values and your confidence from 0 to 1."
)
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "minLength": 1},
        "category": {"enum": list(CATEGORIES)},
        "facets": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string", "minLength": 1}},
        },
        "confidence": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}},
    },
    "required": ["summary", "facets"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class EntityMaterial:
    """The material about an entity that enrichment reads."""

    entity: KnownEntity
    turns: tuple[tuple[str | None, str], ...]
    """Who said it, and what."""
    around: EntityNeighbourhood


@dataclass(frozen=True, slots=True)
class EnrichmentFinding:
    """The facets that enrichment infers, with their confidence."""

    summary: str
    category: str | None
    facets: Mapping[str, list[str]]
    confidence: Mapping[str, float]
    by: str


class Enrichment:
    """Enriches the entities of all tenants."""

    def __init__(self, database: Database, model: Callable[[], LanguageModel], *, micros: Callable[[], int]) -> None:
        self._database = database
        self._model = model
        self._micros = micros

    async def enrich(self, tenant_id: str, entity_id: str) -> bool:
        """Read, explore, infer and add; False where there is no such entity any more."""
        reading = await self._database.read(tenant_id, lambda tx: read_about(tx, tenant_id, entity_id))
        if reading is None:
            return False
        finding = await self._finding(tenant_id, reading)
        at = self._micros()
        await self._database.write(tenant_id, lambda tx: _add(tx, tenant_id, reading, finding, at=at))
        return True

    async def _finding(self, tenant_id: str, reading: EntityMaterial) -> EnrichmentFinding:
        """Infer with the model; by rules where there is none, or where its answer never fits."""
        model = self._model()
        if model.name is None:
            return by_rules(reading)
        try:
            return await _by_model(model, tenant_id, reading)
        except InvalidOutput:
            return by_rules(reading)


def read_about(tx: Transaction, tenant_id: str, entity_id: str) -> EntityMaterial | None:
    """Read every turn that mentions an entity or has its name, the newest first, and what stands around it."""
    entity = surviving(tx, tenant_id, entity_id)
    if entity is None:
        return None
    turns = turns_naming(tx, tenant_id, entity, limit=_MOST_TURNS)
    return EntityMaterial(entity, tuple(turns), explore(tx, tenant_id, entity))


def by_rules(reading: EntityMaterial) -> EnrichmentFinding:
    """Facets from the words beside a name, and the sentence that says most of it."""
    naming = _naming_sentences(reading)
    words = Counter(term for each in naming for term in terms(each))
    facets: dict[str, list[str]] = {
        "related": [each.name for each in reading.around.neighbours[:_MOST_BESIDE]],
        "mentioned_by": list(dict.fromkeys(speaker for speaker, _ in reading.turns if speaker)),
    }
    confidence = dict.fromkeys(facets, _RULES_CONFIDENCE)
    for facet, choices in (("domain", _DOMAINS), ("sentiment", _SENTIMENTS), ("status", _STATUSES)):
        counts = {value: sum(words[term] for term in terms(text)) for value, text in choices.items()}
        total = sum(counts.values())
        best = max(counts, key=lambda value: counts[value])
        if total:
            facets[facet], confidence[facet] = [best], round(min(0.9, counts[best] / (total + 1)), 2)
    summary = best_sentence(naming)
    return EnrichmentFinding(
        summary, None, {name: values for name, values in facets.items() if values}, confidence, "rules"
    )


async def _by_model(model: LanguageModel, tenant_id: str, reading: EntityMaterial) -> EnrichmentFinding:
    said = "\n".join(f"- {speaker or 'somebody'}: {text[:500]}" for speaker, text in reading.turns[:_TOLD_TURNS])
    text = (
        f"Name: {reading.entity.name}\nKnown so far: {reading.entity.summary or 'nothing'}\n"
        f"{reading.around.in_words()}\nSaid:\n{said}"
    )
    reply = await model.ask(tenant_id, text, system=_SYSTEM, schema=_SCHEMA)
    found: dict[str, Any] = reply.value
    stated: dict[str, float] = found.get("confidence", {})
    confidence = {name: stated.get(name, 0.5) for name in found["facets"]}
    by = f"model:{reply.model}"
    return EnrichmentFinding(found["summary"][:10_000], found.get("category"), found["facets"], confidence, by)


def _add(tx: Transaction, tenant_id: str, reading: EntityMaterial, finding: EnrichmentFinding, *, at: int) -> None:
    entity = surviving(tx, tenant_id, reading.entity.entity_id) or reading.entity
    facets = {name: list(values) for name, values in entity.facets.items()}
    for name, values in finding.facets.items():
        facets[name] = list(dict.fromkeys([*facets.get(name, []), *values]))
    known: dict[str, float] = dict(entity.confidence.get("facets") or {})
    for name, share in finding.confidence.items():
        known[name] = max(share, known.get(name, 0.0))
    confidence = {**entity.confidence, "facets": known}
    enrichment = {
        "summary": finding.summary,
        "by": finding.by,
        "turns_read": len(reading.turns),
        "centrality": reading.around.centrality,
        "degree": reading.around.degree,
        "neighbours": [each.as_json() for each in reading.around.neighbours],
        "confidence": dict(finding.confidence),
    }
    save_enrichment(
        tx,
        tenant_id,
        entity.entity_id,
        {
            "summary": entity.summary or finding.summary,
            "category": entity.category or finding.category,
            "facets": json.dumps(facets),
            "confidence": json.dumps(confidence),
            "enrichment": json.dumps(enrichment),
            "enriched_by": finding.by,
        },
        at=at,
    )


def _naming_sentences(reading: EntityMaterial) -> list[str]:
    names = [name.lower() for name in (reading.entity.name, *reading.entity.aliases)]
    sentences = (match[0].strip() for _, text in reading.turns for match in _SENTENCE.finditer(text))
    return [each for each in sentences if any(name in each.lower() for name in names)]


def best_sentence(naming: Sequence[str]) -> str:
    """Return the sentence whose words the others use most."""
    weights = Counter(term for each in naming for term in set(terms(each)))

    def central(sentence: str) -> float:
        words = set(terms(sentence))
        return sum(weights[word] for word in words) / (len(words) + 3)

    return max(naming, key=central, default="")[:_LONGEST_SUMMARY]
