"""Registers media assets: pictures, films, sounds and text bodies that were made, by where they are kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.effects.asset_sql import AssetStore
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.foundation.ids import new_id
from twinraven.governance import AssetKind, MediaAsset, PlanStore
from twinraven.muninn import check_name
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

MOST_METADATA: Final = 65_536
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*:[^\s\x00-\x1f]{1,2000}")


@dataclass(frozen=True, slots=True)
class AssetRequest:
    """A medium that exists somewhere; the bytes themselves stay there."""

    campaign_id: str
    kind: AssetKind
    storage_uri: str
    task_id: str | None = None
    content_hash: str | None = None
    duration_seconds: float | None = None
    width: int | None = None
    height: int | None = None
    format: str | None = None
    character_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


class MediaAssets:
    """Media assets of all tenants; they never change."""

    def __init__(self, database: Database, *, audit: AuditLog, micros: Callable[[], int]) -> None:
        self._database = database
        self._audit = audit
        self._micros = micros
        self._store = AssetStore()

    async def add(self, wish: AssetRequest, *, by: Principal) -> MediaAsset:
        """Register an asset of a campaign, and of a task where one made it."""
        metadata = _checked(wish)
        asset_id = new_id()
        row = {
            "tenant_id": by.tenant_id,
            "asset_id": asset_id,
            **{name: getattr(wish, name) for name in _COLUMNS},
            "metadata_json": metadata,
            "created_by": by.user_id,
            "created_at": self._micros(),
        }

        def work(tx: Transaction) -> MediaAsset:
            _require_places(tx, by.tenant_id, wish)
            self._store.add(tx, row)
            told = {name: getattr(wish, name) for name in ("campaign_id", "task_id", "kind", "content_hash")}
            self._audit.append(
                tx, NewAuditEntry(by.tenant_id, "asset.added", "media_asset", asset_id, by.actor, data=told)
            )
            return self._store.find(tx, by.tenant_id, asset_id)

        return await self._database.write(by.tenant_id, work)

    async def get(self, tenant_id: str, asset_id: str) -> MediaAsset:
        return await self._database.read(tenant_id, lambda tx: self._store.find(tx, tenant_id, asset_id))

    async def list(
        self, tenant_id: str, *, limit: int = 100, after: str | None = None, task_id: str | None = None
    ) -> list[MediaAsset]:
        """Assets by id."""
        return await self._database.read(
            tenant_id, lambda tx: self._store.listing(tx, tenant_id, limit=limit, after=after, task_id=task_id)
        )


_COLUMNS: Final = (
    "campaign_id", "task_id", "kind", "storage_uri", "content_hash", "duration_seconds", "width", "height", "format",
    "character_id",
)  # fmt: skip


def _require_places(tx: Transaction, tenant_id: str, wish: AssetRequest) -> None:
    """Refuse a campaign that is not there, or a task that is not one of its."""
    plans = PlanStore()
    plans.campaign(tx, tenant_id, wish.campaign_id)
    if wish.task_id is not None and plans.task(tx, tenant_id, wish.task_id).campaign_id != wish.campaign_id:
        raise NotFound(f"the campaign has no task {wish.task_id!r}", field="task_id", task_id=wish.task_id)


def _checked(wish: AssetRequest) -> str:
    """Return the metadata as text, after everything was found fit to be stored."""
    if wish.kind not in get_args(AssetKind):
        raise InvalidInput(f"kind must be one of {', '.join(get_args(AssetKind))}", field="kind")
    if not _URI.fullmatch(wish.storage_uri):
        raise InvalidInput(
            "storage_uri must be a URI such as s3://bucket/picture.png; the medium itself is not stored here",
            field="storage_uri",
        )
    if wish.content_hash is not None and not _HASH.fullmatch(wish.content_hash):
        raise InvalidInput("content_hash must be a SHA-256 in lower-case hex", field="content_hash")
    for name in ("width", "height", "duration_seconds"):
        value = getattr(wish, name)
        if value is not None and not 0 <= value <= 10**9:
            raise InvalidInput(f"{name} must lie between 0 and 1000000000", field=name)
    for name in ("format", "character_id"):
        if getattr(wish, name) is not None:
            check_name(getattr(wish, name), field=name, limit=200)
    text = canonical_json(wish.metadata)
    if len(text) > MOST_METADATA:
        raise InvalidInput(f"metadata has {len(text)} bytes and may have {MOST_METADATA}", field="metadata")
    return text.decode()
