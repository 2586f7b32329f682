"""Models secrets without their values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from twinraven.foundation.clock import iso

SecretType = Literal["api_key", "oauth_token", "password", "certificate"]
SECRET_TYPES: tuple[SecretType, ...] = ("api_key", "oauth_token", "password", "certificate")


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Names a secret without holding it; only a connector turns it into the value, at the moment of the call."""

    tenant_id: str
    secret_id: str


@dataclass(frozen=True, slots=True)
class Secret:
    """The metadata of a secret. `shared` is stored as stated and grants no access: a secret serves its owner."""

    tenant_id: str
    secret_id: str
    owner_id: str
    name: str
    type: SecretType
    shared: bool
    version: int
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None = None
    """When a connector was last given its value, to the minute; None where none ever was."""

    @property
    def ref(self) -> SecretRef:
        return SecretRef(self.tenant_id, self.secret_id)

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.secret_id,
            "name": self.name,
            "type": self.type,
            "owner": self.owner_id,
            "shared": self.shared,
            "version": self.version,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "last_used_at": None if self.last_used_at is None else iso(self.last_used_at),
        }


@dataclass(frozen=True, slots=True)
class KekRotation:
    """The report of a rotation of the key-encryption key."""

    kek_id: str
    tenants: int
    rewrapped: int
    unreadable: int
    """Values that no key opens; they are left as they are."""
    dropped: tuple[str, ...]
    """Generations that nothing uses any more and that were retired long enough ago."""
