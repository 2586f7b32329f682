"""The definitions of mining spelled out slowly, on plain lists: what the kernels must agree with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from hypothesis import strategies as st

from twinraven.huginn.mining import EventColumns, MiningConfig, Pattern

Counts = tuple[int, int, int, int, int, int]
Expected = dict[tuple[str, ...], Counts]


@dataclass(frozen=True)
class Call:
    """One recorded call; times in µs, latency in ms or unknown."""

    tool: str
    after_input: bool = False
    failed: bool = False
    latency: int | None = None
    start: int = 0
    timed: bool = False
    end: int = 0


Log = list[list[Call]]
Instance = tuple[int, ...]


def calls(tools: str = "abc") -> st.SearchStrategy[Call]:
    return st.builds(
        Call,
        tool=st.sampled_from(tools),
        after_input=st.sampled_from([False, False, True]),
        failed=st.booleans(),
        latency=st.none() | st.integers(0, 4),
        start=st.integers(0, 12).map(lambda millis: millis * 1_000),
        timed=st.sampled_from([True, True, True, False]),
    ).map(lambda call: replace(call, end=call.start + (call.latency or 0) * 1_000))


def logs(*, tools: str = "abc", sessions: int = 6, longest: int = 7) -> st.SearchStrategy[Log]:
    """Small logs of few tools, so that repeats, overlaps and ties happen all the time."""
    return st.lists(st.lists(calls(tools), min_size=1, max_size=longest), max_size=sessions)


def columns_of(log: Log) -> EventColumns:
    return EventColumns.build(
        (f"s{number}", call.tool, call.after_input, call.failed, call.latency, call.start, call.timed)
        for number, session in enumerate(log)
        for call in session
    )


def plain(*sessions: str) -> EventColumns:
    """Sessions written as words, one letter a tool."""
    return columns_of([[Call(letter) for letter in session] for session in sessions])


def counted(patterns: list[Pattern]) -> Expected:
    return {
        found.tools: (
            found.sessions,
            found.occurrences,
            found.failures,
            found.latency_total,
            found.latency_known,
            found.mergeable,
        )
        for found in patterns
    }


def mined_slowly(log: Log, config: MiningConfig) -> Expected:
    """Every chain that reaches the thresholds, by enumeration."""
    if config.collapse_repeats:
        log = [_collapsed(session, respect_breaks=config.respect_breaks) for session in log]
    counts: dict[tuple[str, ...], list[int]] = {}
    for session in log:
        for chain, instances in _instances(session, config).items():
            row = counts.setdefault(chain, [0] * 6)
            row[0] += 1
            for instance in instances:
                _count(row, session, instance)
    total = len(log)
    kept = {chain: row for chain, row in counts.items() if row[0] >= config.min_sessions}
    return {
        chain: (row[0], row[1], row[2], row[3], row[4], row[5])
        for chain, row in kept.items()
        if row[0] / total >= config.min_support
    }


def _count(row: list[int], session: list[Call], instance: Instance) -> None:
    steps = [session[position] for position in instance]
    row[1] += 1
    row[2] += steps[-1].failed
    latencies = [step.latency for step in steps if step.latency is not None]
    if len(latencies) == len(steps):
        row[3] += sum(latencies)
        row[4] += 1
    row[5] += not any(call.after_input for call in session[instance[0] + 1 : instance[-1] + 1])


def _instances(session: list[Call], config: MiningConfig) -> dict[tuple[str, ...], list[Instance]]:
    found: dict[tuple[str, ...], list[Instance]] = {}
    choose = {"contiguous": _contiguous, "prefixspan": _leftmost, "gsp": _near}[config.algorithm]
    for stretch in _stretches(session, respect_breaks=config.respect_breaks):
        for chain, instances in choose(session, stretch, config).items():
            found.setdefault(chain, []).extend(instances)
    return found


def _stretches(session: list[Call], *, respect_breaks: bool) -> Iterator[list[int]]:
    stretch: list[int] = []
    for position, call in enumerate(session):
        if stretch and respect_breaks and call.after_input:
            yield stretch
            stretch = []
        stretch.append(position)
    if stretch:
        yield stretch


def _contiguous(session: list[Call], stretch: list[int], config: MiningConfig) -> dict[tuple[str, ...], list[Instance]]:
    found: dict[tuple[str, ...], list[Instance]] = {}
    for length in range(config.min_length, config.max_length + 1):
        for begin in range(len(stretch) - length + 1):
            instance = tuple(stretch[begin : begin + length])
            taken = found.setdefault(tuple(session[position].tool for position in instance), [])
            if not taken or taken[-1][-1] < instance[0]:
                taken.append(instance)
    return found


def _leftmost(session: list[Call], stretch: list[int], config: MiningConfig) -> dict[tuple[str, ...], list[Instance]]:
    """`combinations` comes in order, so the first of a chain is the leftmost."""
    first: dict[tuple[str, ...], list[Instance]] = {}
    for length in range(config.min_length, config.max_length + 1):
        for instance in combinations(stretch, length):
            first.setdefault(tuple(session[position].tool for position in instance), [instance])
    return first


def _near(session: list[Call], stretch: list[int], config: MiningConfig) -> dict[tuple[str, ...], list[Instance]]:
    """The instance that ends first; going back, each step's predecessor is the one that ended last."""
    assert config.max_gap_ms is not None
    limit = config.max_gap_ms * 1_000
    timed = [position for position in stretch if session[position].timed]

    def fits(instance: Instance) -> bool:
        return all(session[later].start - session[earlier].end <= limit for earlier, later in pairwise(instance))

    def backwards(instance: Instance) -> tuple[object, ...]:
        earlier = [(-session[position].end, -position) for position in reversed(instance[:-1])]
        return (instance[-1], *earlier)

    best: dict[tuple[str, ...], Instance] = {}
    for length in range(config.min_length, config.max_length + 1):
        for instance in filter(fits, combinations(timed, length)):
            chain = tuple(session[position].tool for position in instance)
            if chain not in best or backwards(instance) < backwards(best[chain]):
                best[chain] = instance
    return {chain: [instance] for chain, instance in best.items()}


def _collapsed(session: list[Call], *, respect_breaks: bool) -> list[Call]:
    folded: list[Call] = []
    for call in session:
        last = folded[-1] if folded else None
        if last is None or last.tool != call.tool or (respect_breaks and call.after_input):
            folded.append(call)
            continue
        known = last.latency is not None and call.latency is not None
        folded[-1] = replace(
            last,
            failed=call.failed,
            latency=(last.latency or 0) + (call.latency or 0) if known else None,
            end=max(last.end, call.end),
            timed=last.timed and call.timed,
        )
    return folded
