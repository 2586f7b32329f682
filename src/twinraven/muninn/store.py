"""Declares the port to read the event log.

Writing goes through the collector; the only thing written here is a verdict, because it is stated about a session and
not about a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from twinraven.muninn.model import MuninnEvent, Outcome, Session, Verdict

T = TypeVar("T")

MINING_COLUMNS = (
    "session_id",
    "tool_id",
    "outside_input IS NOT NULL",
    "outcome",
    "latency_ms",
    "timestamp",
    "time_known",
    "arrival",
    "turn",
)
TRACE_COLUMNS = (
    "session_id",
    "tool_id",
    "input_params",
    "output_hash",
    "body",
    "turn",
    "task_id",
    "outside_input",
    "raised",
    "event_id",
    "timestamp",
    "latency_ms",
    "time_known",
    "outcome",
    "parent_event_id",
    "actor_type",
    "actor_id",
)
"""What learning reads of a call; `body` is the stored output as JSON text, None where there is none."""
ReadColumns = Callable[[Iterator[list[tuple[Any, ...]]]], T]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Filters events; an unset field does not restrict."""

    starts_with: str | None = None
    """Only events whose id begins so."""
    session_id: str | None = None
    tool_id: str | None = None
    tag: str | None = None
    raised: bool | None = None
    error_code: str | None = None
    correlation_id: str | None = None
    parent_event_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after_arrival: int | None = None
    through_arrival: int | None = None
    """Only what was stored up to this arrival number."""
    beyond: tuple[int, int] | None = None
    """Only what comes behind this timestamp in microseconds and arrival number, in the order asked for."""
    is_uncorrected: bool = False
    """Only what no later event corrects; with `through_arrival`, none that was stored up to there."""
    limit: int = 100
    newest_first: bool = False


@dataclass(frozen=True, slots=True)
class ToolTransition:
    """Counts how often one tool directly followed another."""

    from_tool: str
    to_tool: str
    count: int


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """The usage of one tool: calls, failures and latency."""

    tool_id: str
    calls: int
    raised: int
    mean_latency_ms: float | None
    max_latency_ms: int | None


@dataclass(frozen=True, slots=True)
class ToolHour:
    """The calls of one tool that began in one hour and arrived in a stretch of the log, added up."""

    tool_id: str
    hour: int
    """Hours since the epoch."""
    calls: int
    raised: int
    latency_ms: int
    """How long those took whose times are known."""
    answered: int
    """Calls that no other call made, and that raised nothing."""


class EventStore(Protocol):
    """Reading the log of one tenant."""

    async def event(self, tenant_id: str, event_id: UUID) -> MuninnEvent:
        """Return one event, or NotFound."""
        ...

    async def session(self, tenant_id: str, session_id: str, *, most: int | None = None) -> Session:
        """Return a session with its events in order, or the first so many of them; or NotFound."""
        ...

    async def sessions(
        self, tenant_id: str, *, limit: int = 50, after: str | None = None, outcome: Outcome | None = None
    ) -> list[Session]:
        """Summaries ordered by session id; `after` continues behind that id."""
        ...

    async def events(self, tenant_id: str, where: EventFilter) -> list[MuninnEvent]: ...

    async def settled(self, tenant_id: str) -> int:
        """Return the highest arrival number below which nothing can appear any more."""
        ...

    async def arrived(
        self,
        tenant_id: str,
        *,
        after: int,
        through: int,
        limit: int,
        tool_id: str | None = None,
        starts_with: str | None = None,
    ) -> list[MuninnEvent]:
        """Events by arrival, behind `after` and up to `through`; of one tool, or of sessions whose id begins so."""
        ...

    async def tool_hours(self, tenant_id: str, *, after: int, through: int, limit: int) -> tuple[list[ToolHour], int]:
        """Add up the first `limit` calls behind `after` and up to `through`; says up to which arrival they reach."""
        ...

    async def successor(self, tenant_id: str, event_id: UUID) -> MuninnEvent | None:
        """Return the event whose predecessor this one is."""
        ...

    async def predecessor(self, tenant_id: str, event_id: UUID) -> MuninnEvent | None:
        """Return the event whose successor this one is."""
        ...

    async def outputs(self, tenant_id: str, hashes: Sequence[str]) -> dict[str, Any]:
        """Stored outputs by content hash; one that was pruned or never kept is absent."""
        ...

    async def transitions(self, tenant_id: str, *, limit: int = 100) -> list[ToolTransition]: ...

    async def tool_uses(self, tenant_id: str) -> list[ToolUsage]: ...

    async def counts(self, tenant_id: str) -> tuple[int, int]:
        """Count the events and their sessions."""
        ...

    async def state_verdict(self, tenant_id: str, session_id: str, outcome: Outcome, *, stated_by: str) -> None:
        """Say afterwards how a session's task went; a later verdict wins over an earlier one."""
        ...

    async def verdicts(self, tenant_id: str, *, sessions: Sequence[str] | None = None) -> dict[str, Outcome]:
        """Return the verdict in force for each session that has one, or for each of some."""
        ...

    async def verdict(self, tenant_id: str, session_id: str) -> Verdict | None:
        """Return the verdict in force for one session, with who stated it and when."""
        ...

    async def read_columns(self, tenant_id: str, read: ReadColumns[T], *, where: EventFilter | None = None) -> T:
        """Let `read` consume the agents' own calls as plain tuples (`MINING_COLUMNS`), session by session in order."""
        ...

    async def read_calls(
        self,
        tenant_id: str,
        read: ReadColumns[T],
        *,
        sessions: Sequence[str] | None = None,
        where: EventFilter | None = None,
        through: str | None = None,
        with_values: bool = True,
    ) -> T:
        """Let `read` consume the agents' own calls with their outputs (`TRACE_COLUMNS`), session by session in order.

        With `sessions`, only those; each of them comes in one piece. With `through`, the calls made inside that tool
        count as the agents' own, too. Without values no output is read, and `input_params` holds only the arguments'
        hash.
        """
        ...

    async def event_ids(self, tenant_id: str, arrivals: Sequence[int]) -> dict[int, UUID]:
        """Return the ids of events by their arrival numbers."""
        ...

    async def scan(self, tenant_id: str, visit: Callable[[list[MuninnEvent]], None], *, batch: int = 2000) -> None:
        """Stream every event, session by session in order, a batch at a time and in constant memory."""
        ...
