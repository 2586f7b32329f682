"""Sources that need a small change on the way: another type, text around a value, a part of it.

Tried only where no plain path explains the samples. Every transform is total and can be written into a definition, so
replay judges it like everything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import orjson

from twinraven.huginn.synthesis.sources import MISSING, Evidence, FromStep, StepSample, Transform, cost

_LEAST_TEXT = 3
_SEPARATORS = ("/", ":", "-", "_", "@", ".", "#", " ", ",")
_CANDIDATES = 400


def transformed(
    values: Sequence[str], earlier: Sequence[Sequence[StepSample]], *, least_share: float
) -> Evidence | None:
    """The cheapest transformed path that explains nearly all samples."""
    if MISSING in values or len(set(values)) < 2:
        return None
    tally: Counter[FromStep] = Counter()
    for text, steps in zip(values, earlier, strict=True):
        tally.update(set(_changes(text, steps)))
    enough = least_share * len(values)
    good = sorted(((source, count) for source, count in tally.items() if count >= enough), key=lambda p: cost(p[0]))
    if not good:
        return None
    (source, count), *others = good
    return Evidence(source, count, len(values), len(set(values)), tuple(others[:5]))


def _changes(text: str, steps: Sequence[StepSample]) -> Iterator[FromStep]:
    wanted = orjson.loads(text)
    for number, step in enumerate(steps):
        for seen, paths in list(step.output_paths.items())[:_CANDIDATES]:
            change = _change(seen, text, wanted)
            if change is not None:
                for path in paths:
                    yield FromStep(number, "output", path, change)


def _change(seen: str, text: str, wanted: object) -> Transform | None:
    if seen[:1] in "[{":
        return None
    if seen.startswith('"'):
        given: str = orjson.loads(seen)
        if isinstance(wanted, int) and not isinstance(wanted, bool) and given == text:
            return Transform("integer")
        return _text_change(given, wanted) if isinstance(wanted, str) else None
    return Transform("string") if isinstance(wanted, str) and wanted == seen else None


def _text_change(given: str, wanted: str) -> Transform | None:
    if len(given) >= _LEAST_TEXT and len(wanted) > len(given) and given in wanted:
        before, _, after = wanted.partition(given)
        return Transform("affix", before=before, after=after)
    if len(wanted) >= _LEAST_TEXT and len(given) > len(wanted) and wanted in given:
        for separator in _SEPARATORS:
            parts = given.split(separator)
            if wanted in parts:
                place = parts.index(wanted)
                index = place - len(parts) if place == len(parts) - 1 else place
                return Transform("part", before=separator, index=index)
    return None
