"""Stores the learning rounds of a server: who started each, its progress and its outcome.

One round runs at a time for each tenant, across all processes of a deployment. A running round is seen every few
seconds; one that was not seen for longer than `LOST_AFTER_S` is interrupted, because its process ended, and the next
one may start. An interrupted round has kept whatever it had registered; starting another finds that again as known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson

from twinraven.foundation.clock import from_micros, iso, now_micros
from twinraven.foundation.errors import Conflict, NotFound
from twinraven.foundation.ids import new_uuid
from twinraven.huginn.service import Round
from twinraven.storage import Database, Row, Transaction

RoundState = Literal["running", "done", "failed", "interrupted"]

SEEN_EVERY_S = 5.0
LOST_AFTER_S = 60.0
MOST_REFUSED = 50
"""Chains that came to nothing and are told with their reasons, the most valuable first."""


@dataclass(frozen=True, slots=True)
class LearningRound:
    """One round; `outcome` is what `twinraven learn --output json` prints, `error` why it failed."""

    round_id: UUID
    state: RoundState
    started_at: datetime
    started_by: str
    finished_at: datetime | None
    progress: str
    outcome: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "round_id": str(self.round_id),
            "state": self.state,
            "started_at": iso(self.started_at),
            "started_by": self.started_by,
            "finished_at": None if self.finished_at is None else iso(self.finished_at),
            "progress": self.progress,
            "outcome": self.outcome,
            "error": self.error,
        }


class RoundStore:
    """Rounds in SQL."""

    def __init__(self, database: Database, *, micros: Callable[[], int] = now_micros) -> None:
        self._database = database
        self._micros = micros

    async def start(self, tenant_id: str, *, by: str) -> LearningRound:
        """Create a new running round, or Conflict where one runs."""
        round_id, now = str(new_uuid()), self._micros()

        def work(tx: Transaction) -> None:
            tx.execute(
                "UPDATE learning_rounds SET state = 'interrupted', finished_at = seen_at "
                "WHERE tenant_id = :tenant AND state = 'running' AND seen_at < :lost",
                tenant=tenant_id,
                lost=now - round(LOST_AFTER_S * 1_000_000),
            )
            running = tx.fetch_one(
                "SELECT round_id FROM learning_rounds WHERE tenant_id = :tenant AND state = 'running'", tenant=tenant_id
            )
            if running is not None:
                raise Conflict(
                    f"round {running['round_id']} is still learning; wait for it", round_id=running["round_id"]
                )
            tx.execute(
                "INSERT INTO learning_rounds (tenant_id, round_id, state, started_at, started_by, seen_at, progress) "
                "VALUES (:tenant, :round, 'running', :now, :by, :now, 'starting')",
                tenant=tenant_id,
                round=round_id,
                now=now,
                by=by,
            )

        await self._database.write(tenant_id, work)
        return LearningRound(UUID(round_id), "running", from_micros(now), by, None, "starting")

    async def seen(self, tenant_id: str, round_id: UUID, progress: str) -> None:
        """Say that a round still runs, and how far it is."""
        await self._database.write(
            tenant_id,
            lambda tx: tx.execute(
                "UPDATE learning_rounds SET seen_at = :now, progress = :progress "
                "WHERE tenant_id = :tenant AND round_id = :round AND state = 'running'",
                tenant=tenant_id,
                round=str(round_id),
                now=self._micros(),
                progress=progress,
            ),
        )

    async def finish(
        self,
        tenant_id: str,
        round_id: UUID,
        state: RoundState,
        *,
        outcome: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
    ) -> None:
        """State how a round ended; one that ended already stays as it is."""
        await self._database.write(
            tenant_id,
            lambda tx: tx.execute(
                "UPDATE learning_rounds SET state = :state, finished_at = :now, outcome = :outcome, error = :error "
                "WHERE tenant_id = :tenant AND round_id = :round AND state = 'running'",
                tenant=tenant_id,
                round=str(round_id),
                state=state,
                now=self._micros(),
                outcome=None if outcome is None else orjson.dumps(outcome).decode(),
                error=None if error is None else orjson.dumps(error).decode(),
            ),
        )

    async def round(self, tenant_id: str, round_id: str) -> LearningRound:
        """Return one round as it is now, or NotFound."""
        row = await self._database.read(
            tenant_id,
            lambda tx: tx.fetch_one(
                "SELECT * FROM learning_rounds WHERE tenant_id = :tenant AND round_id = :round",
                tenant=tenant_id,
                round=round_id,
            ),
        )
        if row is None:
            raise NotFound(f"no round {round_id!r}", round_id=round_id)
        return self._with_end(row)

    async def rounds(self, tenant_id: str, *, limit: int) -> list[LearningRound]:
        """Return the newest rounds."""
        rows = await self._database.read(
            tenant_id,
            lambda tx: tx.fetch_all(
                "SELECT * FROM learning_rounds WHERE tenant_id = :tenant "
                "ORDER BY started_at DESC, round_id LIMIT :limit",
                tenant=tenant_id,
                limit=limit,
            ),
        )
        return [self._with_end(row) for row in rows]

    def _with_end(self, row: Row) -> LearningRound:
        """Return a round; one of which nothing was heard for long was interrupted."""
        found = _of_row(row)
        lost = found.state == "running" and self._micros() - row["seen_at"] > LOST_AFTER_S * 1_000_000
        return replace(found, state="interrupted", finished_at=from_micros(row["seen_at"])) if lost else found


def _of_row(row: Row) -> LearningRound:
    finished, outcome, error = row["finished_at"], row["outcome"], row["error"]
    return LearningRound(
        round_id=UUID(row["round_id"]),
        state=row["state"],
        started_at=from_micros(row["started_at"]),
        started_by=row["started_by"],
        finished_at=None if finished is None else from_micros(finished),
        progress=row["progress"],
        outcome=None if outcome is None else orjson.loads(outcome),
        error=None if error is None else orjson.loads(error),
    )


def round_outcome(outcome: Round) -> dict[str, Any]:
    """Return the outcome of a round as plain JSON."""
    report = outcome.report
    return {
        "sessions": report.sessions,
        "chains": len(report.chains),
        "drafts": len(report.drafts),
        "proven": sum(draft.verdict.passed for draft in report.drafts),
        "proposals": proposal_rows(outcome),
        "refused": [left.as_json() for left in report.left(MOST_REFUSED)],
        "because": None if outcome.proposals else report.because,
        "advice": report.advice,
        "model": model_summary(outcome),
    }


def proposal_rows(outcome: Round) -> list[dict[str, Any]]:
    """Return the outcome of each tool that the round selected."""
    return [
        {
            "tool_id": proposal.tool_id,
            "version": proposal.version,
            "novelty": proposal.novelty,
            "note": proposal.note,
            **proposal.chosen.alone.as_json(),
        }
        for proposal in outcome.proposals
    ]


def model_summary(outcome: Round) -> dict[str, Any] | None:
    """Return the use of the model in the round; None without a model."""
    if outcome.model is None:
        return None
    advice = outcome.advice
    return {
        "name": outcome.model,
        "asked": sum(record.prompt_hash is not None for record in advice),
        "tokens": sum(record.input_tokens + record.output_tokens for record in advice),
        "accepted": sum(len(record.accepted) for record in advice),
        "refused": sum(len(record.refused) for record in advice),
        "failures": [record.failure for record in advice if record.failure is not None],
    }
