"""Stores introspection notes, their contents and reflections in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from twinraven.foundation.clock import from_micros
from twinraven.knowledge.introspection.model import ArchiveReason, Introspection, Reflection, ReflectionState
from twinraven.knowledge.sql import moment, whole_contents
from twinraven.knowledge.summaries import ContentBinding
from twinraven.storage import Row, Transaction

_NOTE: Final = (
    "tenant_id", "introspection_id", "user_id", "position", "number", "conversation_context", "made_by", "created_at",
)  # fmt: skip
_SHOWN: Final = f"{', '.join(_NOTE[1:])}, archived_at, archived_because"
_REFLECTION: Final = (
    "tenant_id", "reflection_id", "user_id", "group_id", "first_compression", "last_compression", "replaces", "state",
    "created_at",
)  # fmt: skip


def list_notes(
    tx: Transaction, tenant_id: str, user_id: str, *, with_archived: bool = False, limit: int = 1_000, after: int = -1
) -> list[Introspection]:
    """List a user's notes: current ones by their place, with archived ones in the order in which they were made.

    `after` is a place or a number, as the list goes by.
    """
    where, order = ("", "number") if with_archived else (" AND archived_at IS NULL", "position")
    rows = tx.fetch_all(
        f"SELECT {_SHOWN} FROM introspections WHERE tenant_id = :tenant AND user_id = :user "
        f"AND {order} > :after{where} ORDER BY {order} LIMIT :limit",
        tenant=tenant_id,
        user=user_id,
        after=after,
        limit=limit,
    )
    return [_to_note(tx, tenant_id, row) for row in rows]


def find_note(tx: Transaction, tenant_id: str, introspection_id: str) -> Introspection | None:
    row = tx.fetch_one(
        f"SELECT {_SHOWN} FROM introspections WHERE tenant_id = :tenant AND introspection_id = :id",
        tenant=tenant_id,
        id=introspection_id,
    )
    return None if row is None else _to_note(tx, tenant_id, row)


def insert_note(tx: Transaction, tenant_id: str, values: Row) -> None:
    row = {**values, "tenant_id": tenant_id}
    tx.insert_rows("introspections", _NOTE, [[row[name] for name in _NOTE]])


def next_number(tx: Transaction, tenant_id: str, user_id: str) -> int:
    row = tx.fetch_one(
        "SELECT COUNT(*) AS made FROM introspections WHERE tenant_id = :tenant AND user_id = :user",
        tenant=tenant_id,
        user=user_id,
    )
    assert row is not None
    return row["made"]


def archive_note(tx: Transaction, tenant_id: str, introspection_id: str, because: ArchiveReason, *, at: int) -> int:
    return tx.execute(
        "UPDATE introspections SET archived_at = :at, archived_because = :because WHERE tenant_id = :tenant "
        "AND introspection_id = :id AND archived_at IS NULL",
        tenant=tenant_id,
        id=introspection_id,
        at=at,
        because=because,
    )


def bind_note(
    tx: Transaction, tenant_id: str, introspection_id: str, episode_id: str, *, by: str | None, at: int
) -> None:
    """Bind a further episode as a note's content; those before stay."""
    row = tx.fetch_one(
        "SELECT COUNT(*) AS bound FROM introspection_contents WHERE tenant_id = :tenant AND introspection_id = :id",
        tenant=tenant_id,
        id=introspection_id,
    )
    assert row is not None
    columns = ("tenant_id", "introspection_id", "number", "episode_id", "bound_at", "bound_by")
    tx.insert_rows("introspection_contents", columns, [(tenant_id, introspection_id, row["bound"], episode_id, at, by)])


def _to_note(tx: Transaction, tenant_id: str, row: Row) -> Introspection:
    bound = tx.fetch_all(
        "SELECT episode_id, bound_at, bound_by FROM introspection_contents WHERE tenant_id = :tenant "
        "AND introspection_id = :id ORDER BY number",
        tenant=tenant_id,
        id=row["introspection_id"],
    )
    latest = bound[-1]["episode_id"]
    return Introspection(
        introspection_id=row["introspection_id"],
        user_id=row["user_id"],
        position=row["position"],
        number=row["number"],
        content=whole_contents(tx, tenant_id, [latest])[latest],
        conversation_context=row["conversation_context"],
        made_by=row["made_by"],
        created_at=from_micros(row["created_at"]),
        archived_at=moment(row["archived_at"]),
        archived_because=row["archived_because"],
        contents=tuple(
            ContentBinding(each["episode_id"], from_micros(each["bound_at"]), each["bound_by"]) for each in bound
        ),
    )


def last_reflected(tx: Transaction, tenant_id: str, group_id: str) -> int:
    """Up to which compression of a group was or is being reflected on; a reflection that failed counts for nothing."""
    row = tx.fetch_one(
        "SELECT COALESCE(MAX(last_compression), 0) AS last FROM reflections WHERE tenant_id = :tenant "
        "AND group_id = :group AND state <> 'failed'",
        tenant=tenant_id,
        group=group_id,
    )
    assert row is not None
    return row["last"]


def insert_reflection(tx: Transaction, tenant_id: str, values: dict[str, Any]) -> None:
    row = {**values, "tenant_id": tenant_id, "state": "running"}
    tx.insert_rows("reflections", _REFLECTION, [[row[name] for name in _REFLECTION]])


def find_reflection(tx: Transaction, tenant_id: str, reflection_id: str) -> Reflection | None:
    rows = tx.fetch_all(
        f"SELECT {', '.join(_REFLECTION[1:])}, error, ended_at FROM reflections WHERE tenant_id = :tenant "
        "AND reflection_id = :id",
        tenant=tenant_id,
        id=reflection_id,
    )
    return _to_reflection(rows[0]) if rows else None


def list_reflections(tx: Transaction, tenant_id: str, user_id: str, *, limit: int) -> Sequence[Reflection]:
    """List a user's reflections, the newest first."""
    rows = tx.fetch_all(
        f"SELECT {', '.join(_REFLECTION[1:])}, error, ended_at FROM reflections WHERE tenant_id = :tenant "
        "AND user_id = :user ORDER BY created_at DESC, reflection_id LIMIT :limit",
        tenant=tenant_id,
        user=user_id,
        limit=limit,
    )
    return [_to_reflection(row) for row in rows]


def _to_reflection(row: Row) -> Reflection:
    return Reflection(
        reflection_id=row["reflection_id"],
        user_id=row["user_id"],
        group_id=row["group_id"],
        first_compression=row["first_compression"],
        last_compression=row["last_compression"],
        replaces=row["replaces"],
        state=row["state"],
        error=row["error"],
        created_at=from_micros(row["created_at"]),
        ended_at=moment(row["ended_at"]),
    )


def end_reflection(
    tx: Transaction, tenant_id: str, reflection_id: str, state: ReflectionState, *, error: str | None, at: int
) -> None:
    tx.execute(
        "UPDATE reflections SET state = :state, error = :error, ended_at = :at WHERE tenant_id = :tenant "
        "AND reflection_id = :id",
        tenant=tenant_id,
        id=reflection_id,
        state=state,
        error=error,
        at=at,
    )
