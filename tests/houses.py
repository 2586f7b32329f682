"""A vault with everything it is wired to, for tests that open one or several on one database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from twinraven.audit import AuditLog, KeyRing, Signer
from twinraven.foundation.clock import now_micros
from twinraven.storage import Database
from twinraven.tenancy import LOCAL_USER, Tenancy, User
from twinraven.vault import Redactor, Secret, StoredValues, TenantKeys, Vault

VALUE = "correct-horse-battery-staple"
OpenHouse = Callable[..., "House"]


class House:
    """A vault with everything it is wired to."""

    def __init__(self, database: Database, folder: Path, **ring: Any) -> None:
        self.database = database
        self.now = now_micros()
        self.ring = KeyRing(folder / "kek.json", micros=lambda: self.now, **ring)
        self.values = StoredValues(database, self.ring)
        self.redactor = Redactor(TenantKeys(KeyRing(folder / "tokens.json")), self.values)
        self.audit = AuditLog(database, Signer(KeyRing(folder / "audit.json")), redact=self.redactor.redact)
        self.vault = Vault(database, self.ring, audit=self.audit, watch=self.redactor, micros=lambda: self.now)
        self.tenancy = Tenancy(database)

    async def keep(self, name: str = "bank", value: str = VALUE, *, tenant: str = "default", **more: Any) -> Secret:
        more.setdefault("type", "api_key")
        owner = more.pop("owner", LOCAL_USER)
        return await self.vault.create(tenant, owner, name=name, value=value, **more)

    async def neighbour(self) -> User:
        """Another user of the same tenant."""
        return await self.tenancy.add_user("default", "neighbour")

    async def other_tenant(self) -> User:
        tenant = await self.tenancy.create_tenant("other")
        return await self.tenancy.add_user(tenant.tenant_id, "stranger")


def house_opener(database: Database) -> OpenHouse:
    """As many processes would: several vaults on one database."""
    return partial(House, database)
