"""Extracts entities and facts from a turn by rules, each with a confidence.

A name is a run of capitalised words that does not merely begin a sentence; what stands before it says what it names
("my cousin Theo", "in Lisbon"). Facts are what people say of themselves in a few plain forms ("I moved to Lisbon").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from twinraven.knowledge.entities.extractor import Extraction, FoundEntity, FoundFact, is_person
from twinraven.knowledge.entities.model import InferredBy
from twinraven.knowledge.ingestion import StoredPart
from twinraven.knowledge.reading import names_in

_DATED: Final = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
october november december christmas easter halloween thanksgiving
"""
_EXCLAIMED: Final = """
ok okay haha wow yes no thanks thank hello hi hey congrats congratulations absolutely totally exactly sure omg lol btw
sorry well oh ah aww yay yeah yep god mom dad mum ha yum guess
"""
_DATES: Final = frozenset(_DATED.split())
_NO_NAMES: Final = frozenset(_EXCLAIMED.split())
_KIN: Final = (
    "wife|husband|son|daughter|brother|sister|cousin|friend|boyfriend|girlfriend|partner|mother|father|mom|dad|mum|aunt"
    "|uncle|nephew|niece|mentor|boss|colleague|neighbor|neighbour|roommate|teacher|coach|grandmother|grandfather"
)
_PET: Final = "dog|cat|puppy|kitten|hamster|horse|parrot|rabbit|turtle|pet"
_NAME: Final = r"([A-Z][\w'’-]*(?: [A-Z][\w'’-]*){0,3})"
_PERSON_BEFORE: Final = re.compile(rf"\b(?:{_KIN}|Mr|Mrs|Ms|Dr|Prof|aunt|uncle|named|with|met)\.?,? $", re.IGNORECASE)
_PLACE_BEFORE: Final = re.compile(
    r"\b(?:in|at|to|from|near|around|visit|visited|visiting|leave|left|through) (?:the )?$", re.IGNORECASE
)
_ORGANIZATION: Final = re.compile(
    r"\b(inc|ltd|corp|corporation|company|university|college|school|bank|hospital|institute|foundation|society|club"
    r"|association|church|museum|agency|studio|studios|labs)\b",
    re.IGNORECASE,
)
_PLACE_WORD: Final = re.compile(
    r"\b(street|avenue|lane|road|lake|mount|park|beach|river|city|island|bridge|falls)\b", re.IGNORECASE
)
_LIVES: Final = r"(?:live|moved|relocated|am living|'m living|settled)"
_WORKS: Final = r"(?:work|working|started|employed)"
_CALLED: Final = r"(?:,| is| called| named|'s name is| is called| is named)?"
_SELF_FACTS: Final = (
    ("lives_in", True, re.compile(rf"\b(?:I|we)(?:'ve| have)? {_LIVES}(?: back| here)? (?:in|to) {_NAME}")),
    ("comes_from", True, re.compile(rf"\b(?:I'm|I am|I come|I moved here|I came here) from {_NAME}")),
    ("works_at", True, re.compile(rf"\b(?:I|I'm|I am|I've been)(?: now| currently)? {_WORKS} (?:at|for|with) {_NAME}")),
    (
        "works_as",
        True,
        re.compile(
            rf"\bI(?:'m| am|'ve been)? (?:now )?{_WORKS} as an? ([a-z][a-z ]{{2,30}}?)(?=[.,!?;]| at | in | for |$)"
        ),
    ),
    ("kin", False, re.compile(rf"\b[Mm]y ({_KIN}){_CALLED} {_NAME}")),
    ("pet", False, re.compile(rf"\b(?:[Mm]y|[Oo]ur) ({_PET}){_CALLED} {_NAME}")),
)


class RulesExtractor:
    """The rules as an extractor; they are quick enough for the transaction that stores a turn."""

    name: InferredBy = "rules"
    most_turns = 500

    async def extract(self, tenant_id: str, turns: Sequence[StoredPart]) -> Sequence[Extraction]:
        del tenant_id
        return [read_by_rules(turn) for turn in turns]


def read_by_rules(turn: StoredPart) -> Extraction:
    """Extract from one turn; a speaker whose entity is there already is looked up only where a fact is about them."""
    facts = tuple(find_facts(turn.text))
    speaker = None if turn.is_speaker_known and not facts else turn.speaker
    return Extraction(tuple(find_entities(turn.text, speaker)), facts)


def find_entities(text: str, speaker: str | None) -> list[FoundEntity]:
    """Find the names in a turn, each once, and its speaker."""
    found: dict[str, FoundEntity] = {}
    if is_person(speaker):
        found[speaker] = FoundEntity(speaker, "Person", 0.95)
    begin = 0
    for name in names_in(text):
        at = text.find(name, begin)
        begin = at + 1 if at >= 0 else begin
        if name not in found and _is_entity(name):
            category, confidence = _category(name, text[max(0, at - 24) : max(0, at)])
            found[name] = FoundEntity(name, category, confidence)
    return list(found.values())


def find_facts(text: str) -> Iterator[FoundFact]:
    """Find facts that are stated in the first person in one of the plain forms."""
    for relation, is_single, pattern in _SELF_FACTS:
        for match in pattern.finditer(text):
            if relation in ("kin", "pet"):
                if _is_entity(match[2]):
                    yield FoundFact(f"has_{match[1].lower()}", match[2], is_single, True, 0.8)
            else:
                yield FoundFact(relation, match[1].strip(), is_single, relation != "works_as", 0.7)


def _is_entity(name: str) -> bool:
    words = name.lower().split()
    return (
        len(name) > 1
        and not all(word in _DATES or word.removesuffix("s") in _DATES or word in _NO_NAMES for word in words)
        and words[0].split("'")[0] not in ("i", *_NO_NAMES)
    )


def _category(name: str, before: str) -> tuple[str | None, float]:
    if _ORGANIZATION.search(name):
        return "Organization", 0.7
    if _PLACE_WORD.search(name):
        return "Place", 0.7
    if _PERSON_BEFORE.search(before):
        return "Person", 0.7
    if _PLACE_BEFORE.search(before):
        return "Place", 0.5
    return None, 0.4
