"""Finds entities that may be one, with the evidence, and says which pairs are certain enough to merge unasked.

Certain are pairs whose name tokens, digits and category agree, of which at most one is a user's own, and whose
summaries do not speak of different things. Everything else is for a person or a model to confirm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, Final

from twinraven.knowledge.entities.model import KnownEntity
from twinraven.knowledge.entities.names import block_keys, is_same_name, name_similarity, summary_similarity

DEFAULT_THRESHOLD: Final = 0.85
_LARGEST_BLOCK: Final = 400
_MOST_PAIRS: Final = 100_000
"""The most pairs that are compared in full, against input made to share blocking keys."""
_NAME_SHARE: Final = 0.8
_OTHER_CATEGORY: Final = 0.8
_LEAST_IN_COMMON: Final = 0.2


@dataclass(frozen=True, slots=True)
class PossibleDuplicate:
    """Two entities, how alike they are and why."""

    first: KnownEntity
    second: KnownEntity
    similarity: float
    evidence: dict[str, Any]
    is_certain: bool

    @property
    def ids(self) -> tuple[str, str]:
        """The ids of the two, in the order in which a proposal names them."""
        first_id, second_id = sorted((self.first.entity_id, self.second.entity_id))
        return first_id, second_id


def find_duplicates(entities: Sequence[KnownEntity], threshold: float = DEFAULT_THRESHOLD) -> list[PossibleDuplicate]:
    """Find the pairs at or above a similarity, best first."""
    pairs = (_compared(entities[one], entities[other]) for one, other in islice(_candidates(entities), _MOST_PAIRS))
    found = [pair for pair in pairs if pair.similarity >= threshold]
    return sorted(found, key=lambda pair: (-pair.similarity, pair.first.entity_id, pair.second.entity_id))


def is_certain(first: KnownEntity, second: KnownEntity) -> bool:
    """Return whether two entities, as they are now, are certainly one; an earlier merge may have changed them."""
    return _compared(first, second).is_certain


def _candidates(entities: Sequence[KnownEntity]) -> Iterator[tuple[int, int]]:
    """Pairs that share the beginning of a word or an acronym, each once."""
    blocks: dict[str, list[int]] = defaultdict(list)
    for place, entity in enumerate(entities):
        for key in {key for name in (entity.name, *entity.aliases) for key in block_keys(name)}:
            blocks[key].append(place)
    seen: set[tuple[int, int]] = set()
    for places in blocks.values():
        for pair in combinations(places[:_LARGEST_BLOCK], 2):
            if pair not in seen:
                seen.add(pair)
                yield pair


def _compared(first: KnownEntity, second: KnownEntity) -> PossibleDuplicate:
    names = [(name, other) for name in (first.name, *first.aliases) for other in (second.name, *second.aliases)]
    by_name = max(name_similarity(*pair) for pair in names)
    by_summary = summary_similarity(first.summary, second.summary)
    same_category = first.category is None or second.category is None or first.category == second.category
    similarity = by_name if by_summary is None else max(
        by_name, _NAME_SHARE * by_name + (1 - _NAME_SHARE) * min(1.0, by_summary * 2)
    )  # fmt: skip
    if not same_category:
        similarity *= _OTHER_CATEGORY
    evidence = {
        "names": [first.name, second.name],
        "name_similarity": round(by_name, 3),
        "summary_similarity": None if by_summary is None else round(by_summary, 3),
        "same_category": same_category,
        "same_tokens": is_same_name(first.name, second.name),
    }
    return PossibleDuplicate(first, second, round(similarity, 3), evidence, _is_certain(first, second, evidence))


def _is_certain(first: KnownEntity, second: KnownEntity, evidence: dict[str, Any]) -> bool:
    common = evidence["summary_similarity"]
    return (
        evidence["same_tokens"]
        and evidence["same_category"]
        and not (first.inferred_by == "user" and second.inferred_by == "user")
        and (common is None or common >= _LEAST_IN_COMMON)
    )
