"""Stores the waits of a run: for a person, an event, a timer, an approval, an unknown effect, or another worker.

A wait is a row and nothing else: no task, no slot, no connection. A step asks by naming what it waits for in place of a
tool: `person:NAME` puts a question, `event:NAME` waits until somebody signals it, `moment:` until a time has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

from twinraven.calls import Approval
from twinraven.engine.dispatch import Dispatcher
from twinraven.engine.journal import Seals
from twinraven.engine.model import Wait, WaitKind
from twinraven.engine.runs_sql import marked
from twinraven.foundation.canonical import JsonObject, canonical_json, parse_json
from twinraven.foundation.clock import from_micros, parse_iso, to_micros
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.json_schema import compile_schema
from twinraven.storage import Row, Transaction

_KINDS: Final[dict[str, WaitKind]] = {"person": "person", "event": "event", "moment": "moment"}
_SHOWN: Final = "run_id, place, kind, subject, question, asked_at, until, answered_at, answered_by"
_SECOND: Final = 1_000_000
_LONGEST_S: Final = 10 * 366 * 86_400


class RequestedWait(NamedTuple):
    """A wait as a step asks for it."""

    kind: WaitKind
    subject: str | None
    question: JsonObject
    until: int | None = None


def wait_kind(tool_id: str) -> WaitKind | None:
    """Return the kind of wait of a step that names no tool; None for a tool."""
    head, separator, _ = tool_id.partition(":")
    return _KINDS.get(head) if separator else None


def asked_wait(tool_id: str, params: JsonObject, now: int) -> RequestedWait:
    """Return the wait that a step asks for; `expires_s` ends any of them."""
    kind, name = _KINDS[tool_id.partition(":")[0]], tool_id.partition(":")[2]
    if kind == "moment":
        return RequestedWait(kind, None, params, _moment(params, now))
    if not name:
        raise InvalidInput(f"{tool_id!r} must name whom or what it waits for, such as {kind}:NAME", field="tool_id")
    if params.get("answer_schema") is not None:
        compile_schema(params["answer_schema"])  # one that is none would refuse every answer
    until = None
    if params.get("expires_s") is not None:
        until = now + _seconds(params["expires_s"], "expires_s")
    return RequestedWait(kind, name, params, until)


def _moment(params: JsonObject, now: int) -> int:
    if isinstance(params.get("until"), str):
        return to_micros(parse_iso(params["until"], field="until"), field="until")
    if "seconds" in params:
        return now + _seconds(params["seconds"], "seconds")
    raise InvalidInput('a step that waits for a moment takes "until" (a time) or "seconds"', field="until")


def _seconds(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LONGEST_S:
        raise InvalidInput(f"{field} must be a number of seconds from 0 to {_LONGEST_S}", field=field)
    return round(value * _SECOND)


def _question_place(run_id: str, place: str) -> str:
    return f"run:{run_id}:wait:{place}"


class WaitStore:
    """The table of waits."""

    def __init__(self, seals: Seals) -> None:
        self._seals = seals

    def ask(self, tx: Transaction, tenant_id: str, run_id: str, place: str, asked: RequestedWait, *, now: int) -> None:
        """Wait at a place, once: what waits there already goes on waiting, what was answered waits anew."""
        tx.execute(
            "INSERT INTO run_waits (tenant_id, run_id, place, kind, subject, question, asked_at, until) "
            "VALUES (:tenant, :run, :place, :kind, :subject, :question, :now, :until) "
            "ON CONFLICT (tenant_id, run_id, place) DO UPDATE SET kind = excluded.kind, subject = excluded.subject, "
            "question = excluded.question, asked_at = excluded.asked_at, until = excluded.until, "
            "answered_at = NULL, answered_by = NULL "
            "WHERE run_waits.answered_at IS NOT NULL OR run_waits.kind <> excluded.kind "
            "OR run_waits.subject <> excluded.subject",
            tenant=tenant_id,
            run=run_id,
            place=place,
            kind=asked.kind,
            subject=asked.subject,
            question=self._seals.seal(tenant_id, _question_place(run_id, place), canonical_json(asked.question)),
            now=now,
            until=asked.until,
        )

    def end(self, tx: Transaction, tenant_id: str, run_id: str, place: str, *, by: str | None, now: int) -> bool:
        """Mark a wait as answered; False where it was answered before, or there is none."""
        closed = tx.execute(
            "UPDATE run_waits SET answered_at = :now, answered_by = :by "
            "WHERE tenant_id = :tenant AND run_id = :run AND place = :place AND answered_at IS NULL",
            now=now,
            by=by,
            tenant=tenant_id,
            run=run_id,
            place=place,
        )
        return closed == 1

    def forget(self, tx: Transaction, tenant_id: str, run_id: str, place: str) -> None:
        """Remove what was asked at a place, so that it is asked anew."""
        tx.execute(
            "DELETE FROM run_waits WHERE tenant_id = :tenant AND run_id = :run AND place = :place",
            tenant=tenant_id,
            run=run_id,
            place=place,
        )

    def of_run(self, tx: Transaction, tenant_id: str, run_id: str) -> dict[str, Wait]:
        """Return all waits of a run, by place."""
        return self.read(tenant_id, run_id, self.rows_of(tx, tenant_id, [run_id]))

    def rows_of(self, tx: Transaction, tenant_id: str, run_ids: Sequence[str]) -> list[Row]:
        """Return the rows of all waits of these runs, for `read`."""
        marks, named = marked(run_ids)
        return tx.fetch_all(
            f"SELECT {_SHOWN} FROM run_waits "  # noqa: S608 - names and marks of our own
            f"WHERE tenant_id = :tenant AND run_id IN ({marks}) ORDER BY asked_at, place",
            tenant=tenant_id,
            **named,
        )

    def read(self, tenant_id: str, run_id: str, rows: Iterable[Row]) -> dict[str, Wait]:
        """Read the waits of a run from their rows, by place."""
        return {row["place"]: self._read(tenant_id, run_id, row) for row in rows}

    def open_for(self, tx: Transaction, tenant_id: str, kind: WaitKind, subject: str) -> list[tuple[str, str]]:
        """Return the runs and places that wait for something."""
        rows = tx.fetch_all(
            "SELECT run_id, place FROM run_waits "
            "WHERE tenant_id = :tenant AND kind = :kind AND subject = :subject AND answered_at IS NULL",
            tenant=tenant_id,
            kind=kind,
            subject=subject,
        )
        return [(row["run_id"], row["place"]) for row in rows]

    def open_for_people(self, tx: Transaction, tenant_id: str, *, now: int, limit: int) -> list[tuple[str, Wait]]:
        """Return open waits for people: questions and unknown effects, by run, the oldest first."""
        rows = tx.fetch_all(
            f"SELECT {_SHOWN} FROM run_waits w "  # noqa: S608 - names of our own
            "WHERE tenant_id = :tenant AND kind IN ('person', 'effect') AND answered_at IS NULL "
            "AND (until IS NULL OR until > :now) AND EXISTS (SELECT 1 FROM runs r "
            "WHERE r.tenant_id = w.tenant_id AND r.run_id = w.run_id AND r.finished_at IS NULL) "
            "ORDER BY asked_at, run_id, place LIMIT :limit",
            tenant=tenant_id,
            now=now,
            limit=limit,
        )
        return [(row["run_id"], self._read(tenant_id, row["run_id"], row)) for row in rows]

    def _read(self, tenant_id: str, run_id: str, row: Row) -> Wait:
        raw = self._seals.open(tenant_id, _question_place(run_id, row["place"]), row["question"])
        moments = {
            name: None if row[name] is None else from_micros(row[name]) for name in ("asked_at", "until", "answered_at")
        }
        return Wait(
            place=row["place"],
            kind=row["kind"],
            subject=row["subject"],
            question=cast("dict[str, Any]", parse_json(raw, field="question")),
            answered_by=row["answered_by"],
            asked_at=from_micros(row["asked_at"]),
            until=moments["until"],
            answered_at=moments["answered_at"],
        )


def wake_approved(dispatcher: Dispatcher, waits: WaitStore, tx: Transaction, approval: Approval, *, now: int) -> None:
    """Wake the runs that waited for a decision, in the transaction that stores it."""
    for run_id, place in waits.open_for(tx, approval.tenant_id, "approval", approval.approval_id):
        waits.end(tx, approval.tenant_id, run_id, place, by=approval.decided_by, now=now)
        dispatcher.wake(tx, approval.tenant_id, run_id)
