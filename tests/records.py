"""Rows for tests of the stores: an event of the log and a blob, with nothing in them but what the schema demands."""

from __future__ import annotations

from twinraven.storage import Row, Transaction, Work

EVENT_COLUMNS = (
    "tenant_id",
    "event_id",
    "session_id",
    "tool_id",
    "input_hash",
    "input_params",
    "timestamp",
    "latency_ms",
    "outcome",
    "tags",
    "raised",
    "source_key",
    "time_known",
)
BLOB_COLUMNS = ("tenant_id", "hash", "body")


def event_row(
    tenant_id: str, event_id: str, *, timestamp: int = 0, source_key: str | None = None
) -> tuple[object, ...]:
    return (tenant_id, event_id, "s", "tool", "0" * 16, "{}", timestamp, 1, "success", "[]", 0, source_key, 1)


def add_events(tenant_id: str, *event_ids: str) -> Work[None]:
    rows = [event_row(tenant_id, event_id, timestamp=number) for number, event_id in enumerate(event_ids)]
    return lambda tx: tx.insert_rows("muninn_event_log", EVENT_COLUMNS, rows)


def add_blob(tenant_id: str, key: str, body: bytes = b"body") -> Work[int]:
    return lambda tx: tx.execute(
        "INSERT INTO blobs (tenant_id, hash, body) VALUES (:tenant, :key, :body)", tenant=tenant_id, key=key, body=body
    )


def blob_keys(tenant_id: str) -> Work[list[str]]:
    def work(tx: Transaction) -> list[str]:
        rows = tx.fetch_all("SELECT hash FROM blobs WHERE tenant_id = :tenant ORDER BY hash", tenant=tenant_id)
        return [row["hash"] for row in rows]

    return work


def all_rows(table: str) -> Work[list[Row]]:
    """Everything the store shows, deliberately without the application's filter."""
    return lambda tx: tx.fetch_all(f"SELECT * FROM {table}")
