"""Remembers values by key, for the steps of plans: of one run, of one user, or shared by a tenant.

A key that is not there is an answer and no error. Values are kept without the tenant's secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, get_args

from twinraven.foundation.canonical import JsonObject, canonical_json, parse_json, to_json_value
from twinraven.foundation.clock import from_micros, iso
from twinraven.foundation.errors import InvalidInput
from twinraven.plans.sql import MemoryStore
from twinraven.storage import Database, Row

MemoryScope = Literal["run", "user", "shared"]

MEMORY_SCOPES: Final[tuple[MemoryScope, ...]] = get_args(MemoryScope)
MAX_KEY: Final = 500
MAX_VALUE_BYTES: Final = 1_000_000
MOST_FOUND: Final = 1_000

Redact = Callable[[str, bytes], bytes]


class MemoryPlace(NamedTuple):
    """The owner of a memory: a tenant, a scope, and the run or user in it."""

    tenant_id: str
    scope: MemoryScope = "shared"
    owner: str = ""
    """The run or the user; empty for what is shared."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One remembered value."""

    key: str
    value: Any
    metadata: JsonObject
    scope: MemoryScope
    version: int
    created_at: datetime
    updated_at: datetime

    def as_json(self) -> JsonObject:
        return {
            "key": self.key,
            "value": self.value,
            "metadata": self.metadata,
            "scope": self.scope,
            "version": self.version,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


class Memory:
    """The memory of all tenants."""

    def __init__(self, database: Database, *, redact: Redact, micros: Callable[[], int]) -> None:
        self._database = database
        self._redact = redact
        self._micros = micros
        self._store = MemoryStore()

    async def write(
        self, place: MemoryPlace, key: str, value: Any, *, metadata: JsonObject | None = None
    ) -> MemoryEntry:
        """Remember a value under a key; what the key had before is replaced."""
        check_place(place)
        check_key(key)
        texts = [canonical_json(to_json_value(value)), canonical_json(to_json_value(metadata or {}))]
        if len(texts[0]) > MAX_VALUE_BYTES:
            raise InvalidInput(
                f"the value has {len(texts[0])} bytes, at most {MAX_VALUE_BYTES} are kept", field="value"
            )
        clean = [await asyncio.to_thread(self._redact, place.tenant_id, text) for text in texts]
        row = await self._database.write(
            place.tenant_id,
            lambda tx: self._store.write(
                tx, place, key, value=clean[0].decode(), metadata=clean[1].decode(), now=self._micros()
            ),
        )
        return _entry(row)

    async def read(self, place: MemoryPlace, key: str) -> MemoryEntry | None:
        """Return the value of a key; None without one."""
        check_place(place)
        check_key(key)
        row = await self._database.read(place.tenant_id, lambda tx: self._store.read(tx, place, key))
        return None if row is None else _entry(row)

    async def search(self, place: MemoryPlace, prefix: str = "", *, limit: int = 100) -> list[MemoryEntry]:
        """Return the entries whose keys begin with a prefix, by key."""
        check_place(place)
        if len(prefix) > MAX_KEY:
            raise InvalidInput(f"a prefix has at most {MAX_KEY} characters", field="prefix")
        if not 1 <= limit <= MOST_FOUND:
            raise InvalidInput(f"limit must lie between 1 and {MOST_FOUND}", field="limit")
        rows = await self._database.read(place.tenant_id, lambda tx: self._store.search(tx, place, prefix, limit=limit))
        return [_entry(row) for row in rows]


def check_place(place: MemoryPlace) -> None:
    """Refuse a scope that there is none of."""
    if place.scope not in MEMORY_SCOPES:
        raise InvalidInput(f"scope must be one of {', '.join(MEMORY_SCOPES)}, not {place.scope!r}", field="scope")


def check_key(key: Any) -> None:
    """Refuse a key that is empty, too long, or holds what no store keeps."""
    if not isinstance(key, str) or not key.strip():
        raise InvalidInput("a key must be a text that is not empty", field="key")
    if len(key) > MAX_KEY or not key.isprintable():
        raise InvalidInput(f"a key has at most {MAX_KEY} printable characters", field="key")


def _entry(row: Row) -> MemoryEntry:
    return MemoryEntry(
        key=row["entry_key"],
        value=parse_json(row["value"], field="value"),
        metadata=parse_json(row["metadata"], field="metadata"),
        scope=row["scope"],
        version=row["version"],
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
    )
