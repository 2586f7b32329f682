"""Candidate chains: what mining found, immutable, with everything needed to find it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_uuid
from twinraven.huginn.instances import find_instances, find_repeats
from twinraven.huginn.mining import ChainLink, EventColumns, MiningConfig, Pattern, chain_links, mine
from twinraven.huginn.traces import SessionTrace

SAMPLES = 20


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
        }


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


def mine_chains(sessions: Sequence[SessionTrace], config: MiningConfig, *, now: datetime) -> list[CandidateChain]:
    """Every frequent chain as a candidate with a new id, most supported first."""
    if not sessions:
        return []
    columns = columns_of(sessions)
    by_id = {session.session_id: session for session in sessions}
    return [_candidate(pattern, columns, list(by_id.values()), config, now) for pattern in mine(columns, config)]


def _candidate(
    pattern: Pattern, columns: EventColumns, sessions: Sequence[SessionTrace], config: MiningConfig, now: datetime
) -> CandidateChain:
    links = tuple(chain_links(columns, pattern.tools))
    return CandidateChain(
        chain_id=new_uuid(),
        tools=pattern.tools,
        support=pattern.support,
        confidence=sum(link.transition_probability for link in links) / len(links),
        avg_latency_ms=pattern.avg_latency_ms or 0,
        failure_rate=pattern.failure_rate,
        sample_event_ids=sample_events(sessions, pattern.tools),
        discovered_at=now,
        mining_config=dict(config.as_dict()),
        sessions=pattern.sessions,
        occurrences=pattern.occurrences,
        latency_known=pattern.avg_latency_ms is not None,
        links=links,
    )


def sample_events(sessions: Sequence[SessionTrace], tools: Sequence[str]) -> tuple[UUID, ...]:
    """Events of the first instances, for provenance and replay; empty for traces that are not in the log."""
    instances = find_repeats(sessions, tools[0]) if is_batch(tools) else find_instances(sessions, tools)
    events: list[UUID] = []
    for instance in instances[:SAMPLES]:
        for step in range(len(instance.runs)):
            events.extend(call.event_id for call in instance.calls(step) if call.event_id is not None)
    return tuple(events)


def is_batch(tools: Sequence[str]) -> bool:
    """Whether a chain is one tool again and again."""
    return len(set(tools)) == 1
