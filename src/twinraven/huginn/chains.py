"""Models candidate chains, the results of mining: immutable, with everything needed to find them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from twinraven.foundation.clock import iso, parse_iso
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_uuid
from twinraven.huginn.mining import (
    ChainLink,
    EventColumns,
    InstanceFinder,
    MiningConfig,
    TransitionCounts,
    mine_within_budget,
    prepare,
    transition_counts,
)
from twinraven.huginn.ranking import RankedChain, rank_chains
from twinraven.huginn.selection import Prices
from twinraven.huginn.traces import SessionTrace

SAMPLES = 20
MOST_CHAINS = 5_000
"""Chains that a run gives at most, those set aside for a reason included."""


@dataclass(frozen=True, slots=True)
class CandidateChain:
    """A sequence of tools that agents repeat."""

    chain_id: UUID
    tools: tuple[str, ...]
    support: float
    confidence: float
    avg_latency_ms: int
    failure_rate: float
    sample_event_ids: tuple[UUID, ...]
    discovered_at: datetime
    mining_config: dict[str, Any]
    sessions: int = 0
    occurrences: int = 0
    latency_known: bool = True
    links: tuple[ChainLink, ...] = ()
    value: float = 0.0
    """What merging it would be worth over the mined sessions, in dollars."""
    why: str = ""

    def __post_init__(self) -> None:
        if len(self.tools) < 2:
            raise InvalidInput("a chain has at least two tools", field="tools")
        for name in ("support", "confidence", "failure_rate"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInput(f"{name} must lie between 0 and 1, it is {getattr(self, name)}", field=name)

    def as_json(self) -> dict[str, Any]:
        return {
            "chain_id": str(self.chain_id),
            "tools": list(self.tools),
            "support": self.support,
            "confidence": self.confidence,
            "avg_latency_ms": self.avg_latency_ms,
            "failure_rate": self.failure_rate,
            "sample_event_ids": [str(event_id) for event_id in self.sample_event_ids],
            "discovered_at": iso(self.discovered_at),
            "mining_config": self.mining_config,
            "sessions": self.sessions,
            "occurrences": self.occurrences,
            "latency_known": self.latency_known,
            "links": [
                {
                    "from_tool": link.from_tool,
                    "to_tool": link.to_tool,
                    "transition_probability": link.transition_probability,
                    "avg_gap_ms": link.avg_gap_ms,
                }
                for link in self.links
            ],
            "value": self.value,
            "why": self.why,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> CandidateChain:
        """Return the inverse of `as_json`."""
        return cls(
            chain_id=UUID(body["chain_id"]),
            tools=tuple(body["tools"]),
            support=body["support"],
            confidence=body["confidence"],
            avg_latency_ms=body["avg_latency_ms"],
            failure_rate=body["failure_rate"],
            sample_event_ids=tuple(UUID(text) for text in body["sample_event_ids"]),
            discovered_at=parse_iso(body["discovered_at"]),
            mining_config=body["mining_config"],
            sessions=body["sessions"],
            occurrences=body["occurrences"],
            latency_known=body["latency_known"],
            links=tuple(ChainLink(**link) for link in body["links"]),
            value=body["value"],
            why=body["why"],
        )


class MinedChain(NamedTuple):
    """A candidate, and the places of its sample calls in what was mined."""

    chain: CandidateChain
    rows: tuple[int, ...]


def columns_of(sessions: Sequence[SessionTrace]) -> EventColumns:
    """Sessions as the kernels read them."""
    return EventColumns.build(
        (
            session.session_id,
            call.tool_id,
            call.outside_input is not None,
            session.failed,
            call.latency_ms,
            call.start_us or 0,
            call.start_us is not None,
        )
        for session in sessions
        for call in session.calls
    )


def mine_chains(
    columns: EventColumns,
    config: MiningConfig,
    *,
    now: datetime,
    most: int | None = None,
    prices: Prices | None = None,
    snapshot: Mapping[str, Any] | None = None,
    note: Callable[[str], None] | None = None,
) -> list[MinedChain]:
    """Frequent chains as candidates with new ids, the most valuable first; at most so many.

    `snapshot` is what else decided the run (filters, window, prices) and is stored in each chain's `mining_config`.
    `note` is told where the budget cut the run.
    """
    if not len(columns):
        return []
    prepared = prepare(columns, config)
    mined = mine_within_budget(columns, config)
    if mined.cut is not None and note is not None:
        note(mined.cut)
    counts = transition_counts(prepared)
    finder = InstanceFinder(prepared, config)
    stored = {**config.as_dict(), **(snapshot or {})}
    kept = MOST_CHAINS if most is None else min(most, MOST_CHAINS)
    detail = _Detail(prepared, finder, counts, stored, now)
    sure = [found for found in mined.patterns if counts.confidence(found.tools) >= config.min_confidence]
    ranked = rank_chains(prepared, sure, prices or Prices(), finder)
    if len(ranked) > kept == MOST_CHAINS and note is not None:
        note(f"cut to the {MOST_CHAINS:,} most valuable of {len(ranked):,} chains")
    return [detail.candidate(chain) for chain in ranked[:kept]]


class _Detail(NamedTuple):
    """Where the figures of a candidate come from."""

    prepared: EventColumns
    finder: InstanceFinder
    counts: TransitionCounts
    stored: dict[str, Any]
    now: datetime

    def candidate(self, ranked: RankedChain) -> MinedChain:
        instances = self.finder.first(ranked.pattern.tools, SAMPLES)
        chain = candidate_of(ranked, self.counts, self.stored, self.now)
        return MinedChain(chain, tuple(self.prepared.rows[instances].ravel().tolist()))


def candidate_of(
    ranked: RankedChain, counts: TransitionCounts, stored: Mapping[str, Any], now: datetime
) -> CandidateChain:
    """Return a ranked chain as a candidate with a new id, without samples."""
    pattern = ranked.pattern
    return CandidateChain(
        chain_id=new_uuid(),
        tools=pattern.tools,
        support=pattern.support,
        confidence=counts.confidence(pattern.tools),
        avg_latency_ms=pattern.avg_latency_ms or 0,
        failure_rate=pattern.failure_rate,
        sample_event_ids=(),
        discovered_at=now,
        mining_config=dict(stored),
        sessions=pattern.sessions,
        occurrences=pattern.occurrences,
        latency_known=pattern.avg_latency_ms is not None,
        links=tuple(counts.links(pattern.tools)),
        value=round(ranked.value, 6),
        why=ranked.why,
    )


def is_batch(tools: Sequence[str]) -> bool:
    """Return whether a chain is one tool again and again."""
    return len(set(tools)) == 1
