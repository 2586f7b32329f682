"""Known values that a test holds in its hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinraven.audit import KeyRing
from twinraven.vault import Redactor, TenantKeys


class HeldValues:
    """Values by tenant, and how often they were read."""

    def __init__(self, **values: list[str]) -> None:
        self._values = values
        self._changes = dict.fromkeys(values, 1)
        self.looks = 0
        self.reads = 0

    def put(self, tenant_id: str, *values: str) -> None:
        self._values[tenant_id] = list(values)
        self._changes[tenant_id] = self._changes.get(tenant_id, 0) + 1

    def changes(self, tenant_id: str) -> int:
        self.looks += 1
        return self._changes.get(tenant_id, 0)

    def values(self, tenant_id: str) -> list[str]:
        self.reads += 1
        return self._values.get(tenant_id, [])


class Time:
    """A clock that stands still until told otherwise."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make_redactor(folder: Path, known: HeldValues, **options: Any) -> Redactor:
    return Redactor(TenantKeys(KeyRing(folder / "keys" / "tokens.json")), known, **options)
