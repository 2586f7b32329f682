"""Computes the similarity of two outputs: exact, or by shared words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput

Similarity = Callable[[Sequence[tuple[Any, Any]]], list[float]]

_TOKEN = re.compile(r"\w+")


def similarity(method: str) -> Similarity:
    """Return the method of this name."""
    if method not in _METHODS:
        raise InvalidInput(
            f"validation.similarity must be one of {', '.join(_METHODS)}, not {method!r}", field="validation.similarity"
        )
    return _METHODS[method]


def exact_match(pairs: Sequence[tuple[Any, Any]]) -> list[float]:
    """1 where both are the same JSON value, else 0."""
    return [1.0 if canonical_json(left) == canonical_json(right) else 0.0 for left, right in pairs]


def cosine_tfidf(pairs: Sequence[tuple[Any, Any]]) -> list[float]:
    """Return the cosine of the two word vectors, rare words weighing more; the pairs themselves are the corpus."""
    documents = [(_words(left), _words(right)) for left, right in pairs]
    spread = Counter(word for pair in documents for side in pair for word in side)
    total = 2 * len(documents)
    weight = {word: math.log((1 + total) / (1 + count)) + 1 for word, count in spread.items()}
    return [_cosine(left, right, weight) for left, right in documents]


def _words(value: Any) -> Counter[str]:
    return Counter(_TOKEN.findall(canonical_json(value).decode().lower()))


def _cosine(left: Counter[str], right: Counter[str], weight: dict[str, float]) -> float:
    if left == right:
        return 1.0
    dot = sum(count * right[word] * weight[word] ** 2 for word, count in left.items())
    norms = [math.sqrt(sum((n * weight[word]) ** 2 for word, n in side.items())) for side in (left, right)]
    return min(1.0, dot / (norms[0] * norms[1])) if all(norms) else 0.0


_METHODS: dict[str, Similarity] = {"exact_match": exact_match, "cosine_tfidf": cosine_tfidf}
