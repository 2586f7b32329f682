"""Where an argument's value can come from, and finding out from recorded values.

For one argument of one step, every sample (a recorded call in its session) is asked which sources would have produced
the value it got. A source that explains nearly all samples is the wiring; among those that do, the cheapest wins:
a constant, something the composite was already given, a path into an earlier output, one element of a list there. A
value equal by chance in one session is not equal in twenty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from twinraven.foundation.canonical import canonical_json

Path = tuple[str | int, ...]

MAX_LEAVES = 4000
MAX_DEPTH = 12
SECRET_TOKEN = "[secret:"  # noqa: S105
MISSING = "\0missing"
"""Stands for an argument a call did not have; no canonical text begins with NUL."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value in every sample; `text` is its canonical JSON, or MISSING."""

    text: str


@dataclass(frozen=True, slots=True)
class FromStep:
    """A fixed path into an earlier step's input or output, passed on as it is or through a transform."""

    step: int
    part: Literal["input", "output"]
    path: Path
    transform: Transform | None = None


@dataclass(frozen=True, slots=True)
class EachOf:
    """One element of a list in an earlier output: the step runs once for each."""

    step: int
    list_path: Path
    item_path: Path


@dataclass(frozen=True, slots=True)
class Transform:
    """A small, total change of a value: `string` casts, `affix` puts text around it, `part` cuts it at a separator."""

    kind: Literal["string", "integer", "affix", "part"]
    before: str = ""
    after: str = ""
    index: int = 0

    def around(self, reference: str) -> dict[str, Any]:
        """The input mapping that passes a reference through this."""
        if self.kind == "affix":
            return {"$affix": {"of": reference, "before": self.before, "after": self.after}}
        if self.kind == "part":
            return {"$part": {"of": reference, "separator": self.before, "index": self.index}}
        return {f"${self.kind}": reference}


Source = Constant | FromStep | EachOf


@dataclass(frozen=True, slots=True)
class Evidence:
    """How well a source explains the samples, and what else was tried."""

    source: Source
    explained: int
    samples: int
    distinct: int
    rivals: tuple[tuple[Source, int], ...] = ()

    @property
    def share(self) -> float:
        return self.explained / self.samples if self.samples else 0.0


@dataclass(frozen=True, slots=True)
class StepSample:
    """What one earlier step got and gave in one session, indexed by value."""

    input_paths: dict[str, tuple[Path, ...]]
    output_paths: dict[str, tuple[Path, ...]]


def index_values(value: Any) -> dict[str, tuple[Path, ...]]:
    """Where each value occurs in a JSON document, by the value's canonical text."""
    found: dict[str, list[Path]] = {}
    for count, (path, leaf) in enumerate(_walk(value, ())):
        if count >= MAX_LEAVES:
            break
        found.setdefault(leaf, []).append(path)
    return {text: tuple(paths) for text, paths in found.items()}


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if len(path) > MAX_DEPTH:
        return
    if isinstance(value, dict):
        if path:
            yield path, canonical_json(value).decode()
        for key, member in cast("dict[str, Any]", value).items():
            yield from _walk(member, (*path, key))
    elif isinstance(value, list):
        yield path, canonical_json(value).decode()
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _walk(item, (*path, number))
    elif value is not None:
        yield path, canonical_json(value).decode()


def explanations(text: str, steps: Sequence[StepSample], *, mapped: bool) -> Iterator[Source]:
    """Every source among earlier steps that would have given this value."""
    for path in steps[0].input_paths.get(text, ()):
        # Only the caller's own arguments: a later step's input came from somewhere, and that place explains it too.
        yield FromStep(0, "input", path)
    for number, step in enumerate(steps):
        for path in step.output_paths.get(text, ()):
            yield FromStep(number, "output", path)
            if mapped:
                for place, segment in enumerate(path):
                    if isinstance(segment, int):
                        yield EachOf(number, path[:place], path[place + 1 :])


def cost(source: Source) -> tuple[int, int, int, str]:
    """Cheaper sources first: kind, then nearness, then length, then spelling."""
    if isinstance(source, Constant):
        return (0, 0, 0, source.text)
    if isinstance(source, EachOf):
        return (5, -source.step, len(source.list_path) + len(source.item_path), repr(source))
    kind = 1 if source.part == "input" else 2 + sum(isinstance(segment, int) for segment in source.path)
    return (kind + (2 if source.transform else 0), -source.step, len(source.path), repr(source))


def best_source(
    name: str,
    values: Sequence[str],
    found: Sequence[Sequence[Source]],
    *,
    least_share: float,
    least_samples: int,
) -> Evidence | None:
    """The cheapest source that explains nearly all samples; a constant must explain every one."""
    samples = len(values)
    if samples < least_samples:
        return None
    distinct = len(set(values))
    tally: Counter[Source] = Counter()
    for sources in found:
        tally.update(set(sources))
    if distinct == 1:
        return _constant_or_namesake(name, values, tally)
    good = [(source, count) for source, count in tally.items() if count >= least_share * samples]
    if not good:
        return None
    good.sort(key=lambda pair: (cost(pair[0])[0], -pair[1], cost(pair[0])))
    (source, count), *others = good
    return Evidence(source, count, samples, distinct, tuple(others[:5]))


def _constant_or_namesake(name: str, values: Sequence[str], tally: Counter[Source]) -> Evidence | None:
    """One value in all samples: a field of the same name that always held it too is the better guess of the two."""
    samples = len(values)
    namesakes = [
        source
        for source, count in tally.items()
        if count == samples and isinstance(source, FromStep) and source.path[-1:] == (name,)
    ]
    constant = Constant(values[0])
    if not namesakes:
        # What redaction put in place of a secret is not a value that any tool would take.
        return None if SECRET_TOKEN in values[0] else Evidence(constant, samples, samples, 1)
    return Evidence(min(namesakes, key=cost), samples, samples, 1, ((constant, samples),))
