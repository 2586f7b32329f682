"""Infers the source of an argument's value from recorded values.

For one argument of one step, every sample (a recorded call in its session) is asked which sources would have produced
the value it got. A source that explains nearly all votes is the wiring; among those that explain about as many, the
cheapest wins: something the composite was already given, a path into an earlier output, one element of a list there. A
value equal by chance in one session is not equal in twenty.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, cast

from twinraven.foundation.canonical import canonical_json
from twinraven.huginn.traces import SessionTrace
from twinraven.huginn.voting import MOST_UNHEARD, Backing, Votes, set_aside


@dataclass(frozen=True, slots=True)
class Read:
    """A step of a path that reads a text: what follows is a path into what the reader of this kind gives."""

    kind: str


Path = tuple[str | int | Read, ...]

MAX_LEAVES = 4000
MAX_DEPTH = 12
NEARLY_BEST = 0.03
"""Sources whose share is this close to the best one's are told apart by their cost."""
ROUNDING = 1e-9
"""Share of the votes by which sums of the same votes in another order may differ."""
SECRET_TOKEN = "[secret:"  # noqa: S105
MISSING = "\0missing"
"""Stands for an argument a call did not have; no canonical text begins with NUL."""


_LOOSENESS = {
    "json": 0,
    "repr": 0,
    "yaml": 0,
    "fields": 1,
    "records": 1,
    "table": 1,
    "tagged": 2,
    "links": 1,
    "bullets": 2,
    "list": 2,
    "lines": 3,
}


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value in every sample; `text` is its canonical JSON, or MISSING."""

    text: str


@dataclass(frozen=True, slots=True)
class Default:
    """A value that nearly every sample has; the caller may give another."""

    text: str


@dataclass(frozen=True, slots=True)
class FromStep:
    """A fixed path into an earlier step's input or output, passed on as it is or through a transform."""

    step: int
    part: Literal["input", "output"]
    path: Path
    transform: Transform | None = None


@dataclass(frozen=True, slots=True)
class ElementFilter:
    """Keeps those elements of a list that have this value at this path."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class EachOf:
    """One element of a list in an earlier output: the step runs once for each."""

    step: int
    list_path: Path
    item_path: Path
    where: ElementFilter | None = None
    transform: Transform | None = None


@dataclass(frozen=True, slots=True)
class FirstWhere:
    """The first element of a list in an earlier output that fulfils a condition, or a place in it."""

    step: int
    list_path: Path
    item_path: Path
    where: ElementFilter


@dataclass(frozen=True, slots=True)
class AllOf:
    """A list made of every element of a list in an earlier output, each with the same text around it."""

    step: int
    list_path: Path
    item_path: Path
    before: tuple[str | FromStep, ...] = ()
    where: ElementFilter | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """Text put together from fixed text and other sources."""

    parts: tuple[str | FromStep | EachOf, ...]


@dataclass(frozen=True, slots=True)
class LookUp:
    """A look-up in an earlier output by a name that the caller gives: a member of an object, an element of a list."""

    step: int
    path: Path
    by: Path = ()
    """Where an element has its name; empty for the members of an object."""
    item_path: Path = ()


@dataclass(frozen=True, slots=True)
class Assembled:
    """A list or an object whose members have sources of their own."""

    members: tuple[tuple[str | int, Source], ...]
    is_list: bool


@dataclass(frozen=True, slots=True)
class Transform:
    """A small, total change of a value: `string` casts, `affix` puts text around it, `part` cuts it at a separator.

    A part is one piece or, with `count`, so many pieces in a row: the hours and minutes of a time.
    """

    kind: Literal["string", "integer", "affix", "part"]
    before: str = ""
    after: str = ""
    index: int = 0
    count: int = 1

    def around(self, mapping: Any) -> dict[str, Any]:
        """Return the input mapping that passes a value through this."""
        if self.kind == "affix":
            return {"$affix": {"of": mapping, "before": self.before, "after": self.after}}
        if self.kind == "part":
            several = {"count": self.count} if self.count > 1 else {}
            return {"$part": {"of": mapping, "separator": self.before, "index": self.index, **several}}
        return {f"${self.kind}": mapping}


Source = Constant | Default | FromStep | EachOf | FirstWhere | AllOf | Joined | LookUp | Assembled


@dataclass(frozen=True, slots=True)
class SourceEvidence:
    """The evidence for a source: how many samples it explains, from whose sessions, and its rivals."""

    source: Source
    explained: int
    samples: int
    distinct: int
    backing: Backing
    rivals: tuple[tuple[Source, int], ...] = ()
    examples: tuple[str, ...] = ()
    """Some of the values it gave, for reviewers."""


@dataclass(frozen=True, slots=True)
class StepSample:
    """The input and output of one earlier step in one session, indexed by value."""

    input_paths: dict[str, tuple[Path, ...]]
    output_paths: dict[str, tuple[Path, ...]]


@dataclass(frozen=True, slots=True)
class Samples:
    """The recorded values of one argument, each with the session it comes from and its share of that session's vote."""

    name: str
    values: Sequence[str]
    owners: Sequence[SessionTrace]
    weights: Sequence[float]
    votes: Votes
    least_share: float
    declared: frozenset[str] = frozenset()
    """Values that the tool's own schema names, as its default or a choice; these are trusted."""
    spared: int = 0
    """Votes that may be missing from the least share: where a fold is left out, its mistakes weigh more."""
    is_unheard_of: Callable[[int], bool] | None = None
    """Whether nothing in its session names the value of the sample at this place."""

    @property
    def total(self) -> float:
        return sum(self.weights)

    def enough(self, aside: float = 0.0) -> float:
        """Return the votes that a source must explain, where so many are set aside."""
        # A vote is never missed by a part of it.
        return math.floor(self.least_share * (self.total - aside)) - self.spared

    def best(self, found: Iterable[Iterable[Source]]) -> SourceEvidence | None:
        """Return the cheapest source among those that explain most votes, if it explains nearly all.

        Samples are asked one after another, and no more of them once no source can explain enough any longer: most
        arguments have no source, and a few samples of a large log show it.
        """
        weight: dict[Source, float] = {}
        asked: list[AbstractSet[Source]] = []
        total = left = self.total
        least, most = self.enough(0.0 if self.is_unheard_of is None else MOST_UNHEARD * total + self.spared), 0.0
        for sources, own in zip(found, self.weights, strict=True):
            asked.append(frozenset(sources))
            left -= own
            for source in asked[-1]:
                share = weight[source] = weight.get(source, 0.0) + own
                most = max(most, share)
            if most + left < least - ROUNDING * total:
                return None
        enough = self.enough()
        if most < enough:
            enough = self.enough(set_aside(self._unheard(asked), total, spared=self.spared))
        good = [source for source, share in weight.items() if share >= enough]
        if not good:
            return None
        bar = max(weight[source] for source in good) - NEARLY_BEST * total
        good = [source for source in good if weight[source] >= bar]
        good.sort(key=lambda source: (cost(source)[0], -weight[source], cost(source)))
        for place, source in enumerate(good):
            owners = [owner for owner, sources in zip(self.owners, asked, strict=True) if source in sources]
            if not self.votes.carries(owners) or (sends_text(source) and not self.votes.carries_unusual(owners)):
                continue
            rivals = good[place + 1 :][:5]
            counted = tuple((rival, sum(rival in sources for sources in asked)) for rival in rivals)
            return self._evidence(source, len(owners), owners, counted)
        return None

    def _unheard(self, asked: Sequence[AbstractSet[Source]]) -> float:
        """Return the votes for values that no source explains and nothing names."""
        is_unheard_of = self.is_unheard_of
        if is_unheard_of is None:
            return 0.0
        return sum(
            own
            for place, (sources, own) in enumerate(zip(asked, self.weights, strict=True))
            if not sources and is_unheard_of(place)
        )

    def constant(self, found: Iterable[Iterable[Source]]) -> SourceEvidence | None:
        """Return the value of all samples, or of nearly all, unless a field of the same name always held it too."""
        shares: Counter[str] = Counter()
        for value, own in zip(self.values, self.weights, strict=True):
            shares[value] += own  # pyright: ignore[reportArgumentType]
        value, share = shares.most_common(1)[0]
        if share < self.enough() or SECRET_TOKEN in value:
            # What redaction put in place of a secret is not a value that any tool would take.
            return None
        owners = [owner for owner, other in zip(self.owners, self.values, strict=True) if other == value]
        explained = len(owners)
        if value == MISSING:
            return self._evidence(Constant(MISSING), explained, owners) if explained == len(self.values) else None
        if explained == len(self.values):
            namesake = self._namesake(found)
            if namesake is not None:
                return self._evidence(namesake, explained, owners, ((Constant(value), explained),))
        is_text = value.startswith(('"', "[", "{")) and value not in self.declared
        if is_text and not self.votes.carries_unusual(owners):
            return None
        return self._evidence(Default(value), explained, owners) if self.votes.carries(owners) else None

    def _namesake(self, found: Iterable[Iterable[Source]]) -> Source | None:
        namesakes: set[Source] | None = None
        for sources in found:
            here: set[Source] = {
                source for source in sources if isinstance(source, FromStep) and source.path[-1:] == (self.name,)
            }
            namesakes = here if namesakes is None else namesakes & here
            if not namesakes:
                return None
        return min(namesakes, key=cost) if namesakes else None

    def _evidence(
        self,
        source: Source,
        explained: int,
        owners: Sequence[SessionTrace],
        rivals: tuple[tuple[Source, int], ...] = (),
    ) -> SourceEvidence:
        examples = tuple(dict.fromkeys(value for value in self.values if value != MISSING))[:3]
        return SourceEvidence(
            source, explained, len(self.values), len(set(self.values)), self.votes.backing(owners), rivals, examples
        )


def index_values(value: Any, *, path: Path = ()) -> dict[str, tuple[Path, ...]]:
    """Index the paths of each value in a JSON document, by the value's canonical text."""
    found: dict[str, list[Path]] = {}
    for count, (place, leaf) in enumerate(_walk(value, path)):
        if count >= MAX_LEAVES:
            break
        found.setdefault(leaf, []).append(place)
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
    """Yield every source among earlier steps that would have given this value."""
    for path in steps[0].input_paths.get(text, ()):
        # Only the caller's own arguments: a later step's input came from somewhere, and that place explains it too.
        yield FromStep(0, "input", path)
    for number, step in enumerate(steps):
        for path in step.output_paths.get(text, ()):
            yield FromStep(number, "output", path)
            if mapped:
                yield from elements(number, path)


def elements(step: int, path: Path) -> Iterator[EachOf]:
    """Yield the lists that a place in an output is an element of."""
    for place, segment in enumerate(path):
        if isinstance(segment, int):
            yield EachOf(step, path[:place], path[place + 1 :])


def sends_text(source: Source) -> bool:
    """Return whether a source puts text of its own into what is sent."""
    if isinstance(source, (Constant, Default)):
        return source.text.startswith('"')
    if isinstance(source, Joined):
        return any(isinstance(part, str) and len(part) > 1 for part in source.parts)
    if isinstance(source, AllOf):
        return any(isinstance(part, str) and len(part) > 1 for part in source.before)
    if isinstance(source, Assembled):
        return any(sends_text(member) for _, member in source.members)
    transform = source.transform if isinstance(source, FromStep) else None
    return transform is not None and transform.kind == "affix" and len(transform.before + transform.after) > 1


def cost(source: Source) -> tuple[int, int, int, str]:
    """Cheaper sources first: kind, then nearness, then length, then spelling."""
    if isinstance(source, (Constant, Default)):
        return (0, 0, 0, source.text)
    if isinstance(source, (EachOf, AllOf, FirstWhere)):
        length = len(source.list_path) + len(source.item_path)
        return (5 + _reading(source.list_path) + _reading(source.item_path), -source.step, length, repr(source))
    if isinstance(source, LookUp):
        return (
            12 + _reading(source.path),
            -source.step,
            len(source.path) + len(source.by) + len(source.item_path),
            repr(source),
        )
    if isinstance(source, Joined):
        inner = [cost(part)[0] for part in source.parts if not isinstance(part, str)]
        literal = sum(len(part) for part in source.parts if isinstance(part, str))
        return (2 + sum(inner), 0, literal, repr(source))
    if isinstance(source, Assembled):
        return (1 + sum(cost(member)[0] for _, member in source.members), 0, len(source.members), repr(source))
    kind = 1 if source.part == "input" else 2 + sum(isinstance(segment, int) for segment in source.path)
    changed = 2 if source.transform else 0
    return (kind + changed + _reading(source.path), -source.step, len(source.path), repr(source))


def _reading(path: Path) -> int:
    """Reading costs, and the looser the form that is read, the more."""
    return sum(4 + _LOOSENESS.get(segment.kind, 4) for segment in path if isinstance(segment, Read))
