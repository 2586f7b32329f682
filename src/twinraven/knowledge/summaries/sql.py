"""Stores summaries, their sources and contents, and compressions in SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from twinraven.foundation.clock import from_micros
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.knowledge.sql import listed_values, moment, whole_contents
from twinraven.knowledge.summaries.model import (
    SUMMARY_SOURCE,
    Compression,
    CompressionRequest,
    CompressionState,
    ContentBinding,
    Summary,
)
from twinraven.storage import Row, Transaction, chunks

_SUMMARY: Final = (
    "tenant_id", "summary_id", "group_id", "level", "covers", "covers_up_to_turn", "covers_up_to_alternative",
    "process_id", "process_version", "run_id", "token_count", "created_by", "created_at",
)  # fmt: skip
_SHOWN: Final = f"{', '.join(_SUMMARY[1:])}, deleted_at"
_IN_ONE: Final = 400


class SourceEpisode:
    """An episode that a summary is made of, with its level and what it stands for."""

    __slots__ = ("content", "covers", "episode_id", "group_id", "level", "name", "speaker", "valid_at")

    def __init__(self, row: Row, content: str, level: int, covers: Sequence[str]) -> None:
        self.episode_id: str = row["episode_id"]
        self.group_id: str = row["group_id"]
        self.name: str = row["name"]
        self.speaker: str | None = row["speaker"]
        self.valid_at: int | None = row["valid_at"]
        self.content = content
        self.level = level
        self.covers = tuple(covers)

    def as_json(self) -> dict[str, Any]:
        said = None if self.valid_at is None else from_micros(self.valid_at).isoformat()
        return {"name": self.name, "speaker": self.speaker, "said_at": said, "content": self.content}


def source_episodes(tx: Transaction, tenant_id: str, episode_ids: Sequence[str]) -> dict[str, SourceEpisode]:
    """Return each of these episodes that is there, whole; a summary's content brings its level and what it covers."""
    found: dict[str, SourceEpisode] = {}
    for some in chunks(episode_ids, _IN_ONE):
        names, values = listed_values(some)
        rows = tx.fetch_all(
            "SELECT episode_id, group_id, name, speaker, valid_at, source FROM episodes WHERE tenant_id = :tenant "
            f"AND part = 0 AND episode_id IN ({names})",
            tenant=tenant_id,
            **values,
        )
        contents = whole_contents(tx, tenant_id, [row["episode_id"] for row in rows])
        for row in rows:
            made = _summary_of(tx, tenant_id, row["episode_id"]) if row["source"] == SUMMARY_SOURCE else None
            level, covers = (0, [row["name"]]) if made is None else (made["level"], json.loads(made["covers"]))
            found[row["episode_id"]] = SourceEpisode(row, contents[row["episode_id"]], level, covers)
    return found


def _summary_of(tx: Transaction, tenant_id: str, episode_id: str) -> Row | None:
    return tx.fetch_one(
        "SELECT s.level, s.covers FROM summary_contents c JOIN summaries s ON s.tenant_id = c.tenant_id "
        "AND s.summary_id = c.summary_id WHERE c.tenant_id = :tenant AND c.episode_id = :id",
        tenant=tenant_id,
        id=episode_id,
    )


def insert_summary(tx: Transaction, tenant_id: str, values: Row, sources: Sequence[str]) -> None:
    row = {**values, "tenant_id": tenant_id, "covers": json.dumps(values["covers"])}
    tx.insert_rows("summaries", _SUMMARY, [[row[name] for name in _SUMMARY]])
    columns = ("tenant_id", "summary_id", "place", "episode_id")
    listed = [(tenant_id, values["summary_id"], place, each) for place, each in enumerate(sources)]
    tx.insert_rows("summary_sources", columns, listed)


def bind_content(
    tx: Transaction, tenant_id: str, summary_id: str, episode_id: str, *, by: str | None, at: int, tokens: int
) -> None:
    """Bind a further episode as a summary's content; those before stay."""
    columns = ("tenant_id", "summary_id", "number", "episode_id", "bound_at", "bound_by")
    row = tx.fetch_one(
        "SELECT COUNT(*) AS bound FROM summary_contents WHERE tenant_id = :tenant AND summary_id = :id",
        tenant=tenant_id,
        id=summary_id,
    )
    assert row is not None
    tx.insert_rows("summary_contents", columns, [(tenant_id, summary_id, row["bound"], episode_id, at, by)])
    tx.execute(
        "UPDATE summaries SET token_count = :tokens WHERE tenant_id = :tenant AND summary_id = :id",
        tenant=tenant_id,
        id=summary_id,
        tokens=tokens,
    )


def delete_summary(tx: Transaction, tenant_id: str, summary_id: str, *, by: str, at: int) -> int:
    """Take a summary out of its dialogue; it stays to be read."""
    return tx.execute(
        "UPDATE summaries SET deleted_at = :at, deleted_by = :by WHERE tenant_id = :tenant AND summary_id = :id "
        "AND deleted_at IS NULL",
        tenant=tenant_id,
        id=summary_id,
        at=at,
        by=by,
    )


def set_coverage(tx: Transaction, tenant_id: str, summary_id: str, turn: str, alternative: str | None) -> int:
    """State how far a summary covers, where nothing was stated."""
    return tx.execute(
        "UPDATE summaries SET covers_up_to_turn = :turn, covers_up_to_alternative = :alternative "
        "WHERE tenant_id = :tenant AND summary_id = :id AND covers_up_to_turn IS NULL",
        tenant=tenant_id,
        id=summary_id,
        turn=turn,
        alternative=alternative,
    )


def find_summary(tx: Transaction, tenant_id: str, summary_id: str) -> Summary | None:
    row = tx.fetch_one(
        f"SELECT {_SHOWN} FROM summaries WHERE tenant_id = :tenant AND summary_id = :id",
        tenant=tenant_id,
        id=summary_id,
    )
    return None if row is None else _to_summary(tx, tenant_id, row)


def list_summaries(
    tx: Transaction,
    tenant_id: str,
    *,
    group_id: str | None,
    with_deleted: bool,
    limit: int,
    after: str | None,
    hidden: HiddenGroups | None = None,
) -> list[Summary]:
    """Summaries in the order in which they were made."""
    tests: dict[str, tuple[str, Any]] = {"group": ("group_id = :group", group_id)}
    if after is not None:
        later = "(created_at, summary_id) > (SELECT created_at, summary_id FROM summaries"
        tests["after"] = (f"{later} WHERE tenant_id = :tenant AND summary_id = :after)", after)
    chosen = {name: test for name, test in tests.items() if test[1] is not None}
    where = "".join(f" AND {test}" for test, _ in chosen.values())
    if not with_deleted:
        where += " AND deleted_at IS NULL"
    where += "" if hidden is None else hidden.condition("group_id")
    rows = tx.fetch_all(
        f"SELECT {_SHOWN} FROM summaries WHERE tenant_id = :tenant{where} ORDER BY created_at, summary_id LIMIT :limit",
        tenant=tenant_id,
        limit=limit,
        **({} if hidden is None else hidden.values),
        **{name: value for name, (_, value) in chosen.items()},
    )
    return [_to_summary(tx, tenant_id, row) for row in rows]


def _to_summary(tx: Transaction, tenant_id: str, row: Row) -> Summary:
    bound = tx.fetch_all(
        "SELECT episode_id, bound_at, bound_by FROM summary_contents WHERE tenant_id = :tenant AND summary_id = :id "
        "ORDER BY number",
        tenant=tenant_id,
        id=row["summary_id"],
    )
    sources = tx.fetch_all(
        "SELECT episode_id FROM summary_sources WHERE tenant_id = :tenant AND summary_id = :id ORDER BY place",
        tenant=tenant_id,
        id=row["summary_id"],
    )
    latest = bound[-1]["episode_id"]
    return Summary(
        summary_id=row["summary_id"],
        group_id=row["group_id"],
        level=row["level"],
        content=whole_contents(tx, tenant_id, [latest])[latest],
        token_count=row["token_count"],
        sources=tuple(each["episode_id"] for each in sources),
        covers=tuple(json.loads(row["covers"])),
        covers_up_to_turn=row["covers_up_to_turn"],
        covers_up_to_alternative=row["covers_up_to_alternative"],
        process_id=row["process_id"],
        process_version=row["process_version"],
        run_id=row["run_id"],
        created_by=row["created_by"],
        created_at=from_micros(row["created_at"]),
        deleted_at=moment(row["deleted_at"]),
        contents=tuple(
            ContentBinding(each["episode_id"], from_micros(each["bound_at"]), each["bound_by"]) for each in bound
        ),
    )


def insert_compression(
    tx: Transaction,
    tenant_id: str,
    compression_id: str,
    wish: CompressionRequest,
    material: Row,
    *,
    user_id: str,
    at: int,
) -> Compression:
    """Number a compression within its group; the caller holds the group's lock."""
    row = tx.fetch_one(
        "SELECT COALESCE(MAX(number), 0) + 1 AS next FROM compressions WHERE tenant_id = :tenant AND group_id = :group",
        tenant=tenant_id,
        group=wish.group_id,
    )
    assert row is not None
    columns = ("tenant_id", "compression_id", "group_id", "number", "user_id", "wish", "state", "created_at")
    stored = json.dumps({**wish.as_json(), **material})
    values = (tenant_id, compression_id, wish.group_id, row["next"], user_id, stored, "running", at)
    tx.insert_rows("compressions", columns, [values])
    return Compression(compression_id, wish.group_id, row["next"], "running", None, None, from_micros(at), None)


def compression_row(tx: Transaction, tenant_id: str, compression_id: str) -> Row | None:
    return tx.fetch_one(
        "SELECT compression_id, group_id, number, user_id, wish, state, summary_id, error, created_at, ended_at "
        "FROM compressions WHERE tenant_id = :tenant AND compression_id = :id",
        tenant=tenant_id,
        id=compression_id,
    )


def to_compression(row: Row) -> Compression:
    return Compression(
        row["compression_id"],
        row["group_id"],
        row["number"],
        row["state"],
        row["summary_id"],
        row["error"],
        from_micros(row["created_at"]),
        moment(row["ended_at"]),
    )


def end_compression(
    tx: Transaction,
    tenant_id: str,
    compression_id: str,
    state: CompressionState,
    *,
    summary_id: str | None,
    error: str | None,
    at: int,
) -> None:
    tx.execute(
        "UPDATE compressions SET state = :state, summary_id = :summary, error = :error, ended_at = :at "
        "WHERE tenant_id = :tenant AND compression_id = :id",
        tenant=tenant_id,
        id=compression_id,
        state=state,
        summary=summary_id,
        error=error,
        at=at,
    )


def done_since(tx: Transaction, tenant_id: str, group_id: str, number: int, limit: int) -> list[Row]:
    """Compressions of a group after one that were done, the newest first, with their summaries."""
    return tx.fetch_all(
        "SELECT number, summary_id FROM compressions WHERE tenant_id = :tenant AND group_id = :group "
        "AND number > :number AND state = 'done' ORDER BY number DESC LIMIT :limit",
        tenant=tenant_id,
        group=group_id,
        number=number,
        limit=limit,
    )
