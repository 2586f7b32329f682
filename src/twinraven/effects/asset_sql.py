"""Stores media assets."""

from __future__ import annotations

from typing import Any

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import NotFound
from twinraven.governance import MediaAsset
from twinraven.storage import Row, Transaction


class AssetStore:
    """The table of media assets; every statement names its tenant."""

    def add(self, tx: Transaction, row: dict[str, Any]) -> None:
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        tx.execute(f"INSERT INTO media_assets ({columns}) VALUES ({marks})", **row)

    def find(self, tx: Transaction, tenant_id: str, asset_id: str) -> MediaAsset:
        row = tx.fetch_one(
            "SELECT * FROM media_assets WHERE tenant_id = :tenant AND asset_id = :id", tenant=tenant_id, id=asset_id
        )
        if row is None:
            raise NotFound(f"there is no asset {asset_id!r}", subject="media_asset", subject_id=asset_id)
        return _to_asset(row)

    def listing(
        self, tx: Transaction, tenant_id: str, *, limit: int, after: str | None, task_id: str | None
    ) -> list[MediaAsset]:
        of_task = "" if task_id is None else " AND task_id = :task"
        rows = tx.fetch_all(
            f"SELECT * FROM media_assets WHERE tenant_id = :tenant AND asset_id > :after{of_task} "
            "ORDER BY asset_id LIMIT :limit",
            tenant=tenant_id,
            after=after or "",
            limit=limit,
            **({} if task_id is None else {"task": task_id}),
        )
        return [_to_asset(row) for row in rows]


def _to_asset(row: Row) -> MediaAsset:
    given = {name: value for name, value in row.items() if name not in ("metadata_json", "created_at")}
    return MediaAsset(
        **given, metadata=parse_json(row["metadata_json"], field="metadata"), created_at=from_micros(row["created_at"])
    )
