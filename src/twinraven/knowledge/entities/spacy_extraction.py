"""Extracts entities and facts with spaCy, by whatever pipeline is installed (extra `spacy`).

A pipeline names entities and their kinds; it does not say how sure it is, so every find has the confidence that small
English pipelines deserve by what their makers measured. Facts are plain forms between two names that it found ("Theo
moved to Lisbon"): they need no parser, and hold for pipelines that only name.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, Final

from twinraven.foundation.errors import InvalidSetting
from twinraven.knowledge.entities.extractor import Extraction, FoundEntity, FoundFact
from twinraven.knowledge.entities.model import InferredBy
from twinraven.knowledge.ingestion import StoredPart

_CATEGORIES: Final = {
    "PERSON": "Person", "PER": "Person", "ORG": "Organization", "GPE": "Place", "LOC": "Place", "FAC": "Place",
    "EVENT": "Event", "PRODUCT": "Object", "WORK_OF_ART": "Object", "LAW": "Concept", "LANGUAGE": "Concept",
    "NORP": "Concept", "MISC": None,
}  # fmt: skip
"""The categories of OntoNotes and WikiNER labels; dates, amounts and ordinals are no entities."""
_CONFIDENCE: Final = 0.8
_FACT_CONFIDENCE: Final = 0.65
_UNUSED: Final = ("tagger", "morphologizer", "parser", "senter", "attribute_ruler", "lemmatizer")
_LONGEST_NAME: Final = 300
_TENSE: Final = r"(?:'s| is| has| had|'d)?(?: now| just| recently| already)?"
_FORMS: Final = (
    (
        "lives_in",
        "Person",
        "Place",
        rf"{_TENSE} (?:lives?|living|moved|relocated|settled)(?: back)? (?:in|to)(?: the)?",
    ),
    ("comes_from", "Person", "Place", rf"{_TENSE}(?: comes?| came)? from(?: the)?"),
    ("works_at", "Person", "Organization", rf"{_TENSE} (?:works?|working|employed) (?:at|for|with|by)(?: the)?"),
    ("works_at", "Person", "Organization", rf"{_TENSE} (?:joined|hired by)(?: the)?"),
    ("married_to", "Person", "Person", rf"{_TENSE} married(?: to)?"),
    ("located_in", "Organization", "Place", rf"{_TENSE} (?:based|located|headquartered) in(?: the)?"),
)
_PATTERNS: Final = tuple((name, who, what, re.compile(form)) for name, who, what, form in _FORMS)


class SpacyExtractor:
    """Reads turns with a pipeline of spaCy; it is loaded on first use."""

    name: InferredBy = "spacy"
    most_turns = 100

    def __init__(self, pipeline: str) -> None:
        """`pipeline` is the name of an installed one, or the folder of one."""
        self._pipeline = pipeline
        self._loaded: Any = None
        self._using = Lock()

    async def extract(self, tenant_id: str, turns: Sequence[StoredPart]) -> Sequence[Extraction]:
        del tenant_id
        return await asyncio.to_thread(self._read, turns)

    def _read(self, turns: Sequence[StoredPart]) -> list[Extraction]:
        with self._using:
            if self._loaded is None:
                self._loaded = _load(self._pipeline)
            return [_found(doc) for doc in self._loaded.pipe([turn.text for turn in turns])]


def has_pipeline(pipeline: str) -> bool:
    """Return whether spaCy and this pipeline are installed; nothing is loaded to say so."""
    return find_spec("spacy") is not None and (_is_folder(pipeline) or _is_package(pipeline))


def _is_folder(pipeline: str) -> bool:
    return (Path(pipeline) / "meta.json").is_file()


def _is_package(pipeline: str) -> bool:
    return pipeline.isidentifier() and find_spec(pipeline) is not None


def _load(pipeline: str) -> Any:
    loaded: Any = import_module("spacy").load(pipeline)
    if not any("doc.ents" in loaded.get_pipe_meta(name).assigns for name in loaded.pipe_names):
        raise InvalidSetting(
            f"the spaCy pipeline {pipeline!r} names no entities (it has {', '.join(loaded.pipe_names) or 'no parts'})",
            field="knowledge.spacy_pipeline",
            fix="name one with an entity recognizer, such as en_core_web_sm",
        )
    loaded.select_pipes(disable=[name for name in loaded.pipe_names if name in _UNUSED])
    return loaded


def _found(doc: Any) -> Extraction:
    named = [(_plain(span.text), _CATEGORIES[span.label_], span) for span in doc.ents if span.label_ in _CATEGORIES]
    named = [each for each in named if 1 < len(each[0]) <= _LONGEST_NAME]
    entities = {name: FoundEntity(name, category, _CONFIDENCE) for name, category, _ in named}
    return Extraction(tuple(entities.values()), tuple(_facts(doc.text, named)))


def _plain(name: str) -> str:
    """Return a name on one line, without the article and the possessive that a pipeline takes with it."""
    flat = " ".join(name.split())
    return re.sub(r"\A[Tt]he |['’]s\Z", "", flat)


def _facts(text: str, named: Sequence[tuple[str, str | None, Any]]) -> Iterator[FoundFact]:
    for (subject, who, first), (value, what, second) in pairwise(named):
        between = text[first.end_char : second.start_char].rstrip()
        for relation, subject_is, value_is, pattern in _PATTERNS:
            if (who, what) == (subject_is, value_is) and pattern.fullmatch(between):
                yield FoundFact(relation, value, True, True, _FACT_CONFIDENCE, subject)
                break
