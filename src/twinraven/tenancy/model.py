"""Models tenants, users, API keys, and the principal that a key stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from twinraven.foundation.actors import Actor
from twinraven.foundation.clock import iso
from twinraven.storage import DEFAULT_TENANT

Role = Literal["admin", "approver", "member", "viewer"]
"""An administrator does everything; an approver decides what waits for people; a viewer reads and changes nothing."""

_ROLES: Final = ("admin", "member", "approver", "viewer")
UserKind = Literal["person", "agent"]

LOCAL_USER = "local"

DIRECTORY = "*"
"""Whom an operator's transaction acts for when it lists tenants; no tenant can have this id."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant: a customer, team or deployment, isolated from all others."""

    tenant_id: str
    name: str
    created_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {"tenant_id": self.tenant_id, "name": self.name, "created_at": iso(self.created_at)}


@dataclass(frozen=True, slots=True)
class User:
    """A person or an agent inside a tenant; one who left is inactive, since what they did still names them."""

    tenant_id: str
    user_id: str
    name: str
    role: Role
    active: bool
    created_at: datetime
    kind: UserKind = "person"
    """Fixed: what they did is recorded under it."""

    @property
    def actor(self) -> Actor:
        """The actor recorded for this user's actions."""
        return Actor(self.kind, self.user_id)

    @property
    def state_version(self) -> int:
        """The ETag version, derived from the visible state of the user.

        It is no counter: an A-B-A change is safe, because the visible state is identical.
        """
        return 1 + 2 * _ROLES.index(self.role) + (not self.active)

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "user_id": self.user_id,
            "name": self.name,
            "kind": self.kind,
            "role": self.role,
            "active": self.active,
            "state_version": self.state_version,
            "created_at": iso(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The metadata of an API key, never the key itself. `prefix` lets a person recognise it."""

    tenant_id: str
    key_id: str
    user_id: str
    prefix: str
    label: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """To the hour: enough to find unused keys, without a write on every request."""

    def as_json(self) -> dict[str, Any]:
        times = {name: getattr(self, name) for name in ("expires_at", "revoked_at", "last_used_at")}
        return {
            "tenant_id": self.tenant_id,
            "key_id": self.key_id,
            "user_id": self.user_id,
            "prefix": self.prefix,
            "label": self.label,
            "created_at": iso(self.created_at),
            **{name: None if moment is None else iso(moment) for name, moment in times.items()},
        }


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key in clear, for the one moment it can be seen."""

    clear: str = field(repr=False)
    key: ApiKey


@dataclass(frozen=True, slots=True)
class SignIn:
    """A browser that is signed in by a key: until when, and whether it was ended. Its token is not stored."""

    tenant_id: str
    sign_in_id: str
    user_id: str
    key_id: str
    label: str
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "sign_in_id": self.sign_in_id,
            "user_id": self.user_id,
            "key_id": self.key_id,
            "label": self.label,
            "created_at": iso(self.created_at),
            "expires_at": iso(self.expires_at),
            "ended_at": None if self.ended_at is None else iso(self.ended_at),
        }


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf something happens."""

    tenant_id: str
    user_id: str
    role: Role
    key_id: str | None = None
    kind: UserKind = "person"

    @property
    def actor(self) -> Actor:
        """The actor recorded for this principal's actions."""
        return Actor(self.kind, self.user_id)

    @property
    def may_change(self) -> bool:
        """Whether they may do anything but look."""
        return self.role != "viewer"

    @property
    def may_decide(self) -> bool:
        """Whether they may decide what waits for people, whoever requested it."""
        return self.role in ("admin", "approver")


LOCAL = Principal(DEFAULT_TENANT, LOCAL_USER, "admin")
"""The one user of an embedded home."""


@dataclass(frozen=True, slots=True)
class TenancyChange:
    """A change of tenants, users or keys, for the audit log."""

    tenant_id: str
    event_type: str
    subject_type: str
    subject_id: str
    by: Principal | None
    data: Mapping[str, Any]
