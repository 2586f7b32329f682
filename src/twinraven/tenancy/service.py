"""Implements the use cases of tenancy.

Every change is told to `note` inside its own transaction, so that an audit log can hold both or neither; tenancy stands
below the audit log and does not know it. `by` is who asks: an administrator acts inside their own tenant, a member may
manage their own keys, and nobody means the operator at the machine.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from twinraven.foundation.clock import from_micros, now_micros, to_micros
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound, PolicyViolation, StaleState
from twinraven.foundation.ids import new_id
from twinraven.storage import Database, Transaction
from twinraven.tenancy.errors import NotAuthenticated
from twinraven.tenancy.keys import hash_key, is_key, new_key, shown_prefix
from twinraven.tenancy.model import (
    DIRECTORY,
    LOCAL_USER,
    ApiKey,
    IssuedKey,
    Principal,
    Role,
    TenancyChange,
    Tenant,
    User,
    UserKind,
)
from twinraven.tenancy.sql import SqlTenancyStore
from twinraven.tenancy.store import TenancyStore, key_scope

T = TypeVar("T")
Note = Callable[[Transaction, TenancyChange], None]

USE_NOTED_EVERY = timedelta(hours=1)
_LONGEST_NAME = 200
_MOST_NAMED = 20


def _note_nothing(tx: Transaction, change: TenancyChange) -> None:
    del tx, change


class Tenancy:
    """Tenants, users and keys."""

    def __init__(
        self,
        database: Database,
        *,
        store: TenancyStore | None = None,
        note: Note = _note_nothing,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._database = database
        self._store = store or SqlTenancyStore()
        self._note = note
        self._micros = micros

    async def create_tenant(self, name: str) -> Tenant:
        """Create a new tenant, without users yet."""
        tenant = Tenant(new_id(), _checked_name(name), from_micros(self._micros()))

        if any(tenant.name in (each.name, each.tenant_id) for each in await self.tenants()):
            raise Conflict(f"there is a tenant {name!r} already; choose another name", field="name")

        def work(tx: Transaction) -> None:
            self._store.add_tenant(tx, tenant)
            self._note(
                tx, TenancyChange(tenant.tenant_id, "tenant.created", "tenant", tenant.tenant_id, None, {"name": name})
            )

        await self._database.write(tenant.tenant_id, work)
        return tenant

    async def tenants(self) -> list[Tenant]:
        """Return every tenant, for the operator."""
        return await self._database.read(DIRECTORY, self._store.tenants)

    async def named(self, name: str) -> Tenant:
        """Find a tenant by its id or its name, for the operator."""
        known = await self.tenants()
        found = [each for each in known if each.tenant_id == name] or [each for each in known if each.name == name]
        if not found:
            names = ", ".join(sorted(each.name for each in known)[:_MOST_NAMED])
            raise NotFound(f"no tenant {name!r}; there is {names}", fix=f"twinraven tenants create {name}")
        if len(found) > 1:
            ids = ", ".join(each.tenant_id for each in found)
            raise InvalidInput(f"{len(found)} tenants are called {name!r}; give the id: {ids}", field="tenant")
        return found[0]

    async def tenant(self, tenant_id: str) -> Tenant:
        found = await self._database.read(tenant_id, lambda tx: self._store.tenant(tx, tenant_id))
        return _present(found, "tenant", tenant_id)

    async def add_user(
        self,
        tenant_id: str,
        name: str,
        *,
        role: Role = "member",
        kind: UserKind = "person",
        by: Principal | None = None,
    ) -> User:
        """Create a new user; of which kind stays as it is, since everything they do is recorded under it."""
        _require_admin(by, tenant_id)
        created = from_micros(self._micros())
        user = User(
            tenant_id,
            new_id(),
            _checked_name(name),
            _checked_role(role),
            active=True,
            created_at=created,
            kind=_checked_kind(kind),
        )

        def work(tx: Transaction) -> None:
            _present(self._store.tenant(tx, tenant_id), "tenant", tenant_id)
            self._store.add_user(tx, user)
            told = {"role": user.role, "kind": user.kind}
            self._note(tx, TenancyChange(tenant_id, "user.added", "user", user.user_id, by, told))

        await self._database.write(tenant_id, work)
        return user

    async def users(self, tenant_id: str) -> list[User]:
        return await self._database.read(tenant_id, lambda tx: self._store.users(tx, tenant_id))

    async def user(self, tenant_id: str, user_id: str) -> User:
        found = await self._database.read(tenant_id, lambda tx: self._store.user(tx, tenant_id, user_id))
        return _present(found, "user", user_id)

    async def change_user(
        self,
        tenant_id: str,
        user_id: str,
        *,
        role: Role | None = None,
        active: bool | None = None,
        expected_version: int | None = None,
        by: Principal | None = None,
    ) -> User:
        """Another role, or no entry any more: the keys of an inactive user open nothing.

        A tenant keeps an active administrator, and the home's own user stays one.
        """
        _require_admin(by, tenant_id)

        def work(tx: Transaction) -> User:
            before = _present(self._store.user(tx, tenant_id, user_id), "user", user_id)
            _refuse_stale(before, expected_version)
            after = replace(
                before,
                role=before.role if role is None else _checked_role(role),
                active=before.active if active is None else active,
            )
            self._refuse_lockout(tx, before, after)
            self._store.change_user(tx, tenant_id, user_id, role=after.role, active=after.active)
            change = {"role": after.role, "active": after.active}
            self._note(tx, TenancyChange(tenant_id, "user.changed", "user", user_id, by, change))
            return after

        return await self._database.write(tenant_id, work)

    def _refuse_lockout(self, tx: Transaction, before: User, after: User) -> None:
        """Raise Conflict where a change would leave no administrator, or would only seem to take effect."""
        if not _is_in_charge(before) or _is_in_charge(after):
            return
        if before.user_id == LOCAL_USER:
            raise Conflict(
                f"user {LOCAL_USER!r} is whoever is at this machine without a key, and stays its administrator; to let "
                "nobody in without a key, start the server with --require-keys",
                user_id=LOCAL_USER,
            )
        others = (user for user in self._store.users(tx, before.tenant_id) if user.user_id != before.user_id)
        if not any(map(_is_in_charge, others)):
            raise Conflict(
                f"user {before.name!r} is the tenant's last active administrator; make somebody else one first",
                user_id=before.user_id,
            )

    async def issue_key(
        self,
        tenant_id: str,
        user_id: str,
        *,
        label: str = "",
        expires_in: timedelta | None = None,
        by: Principal | None = None,
    ) -> IssuedKey:
        """Create a new key; this answer is the only place that ever shows it.

        It ends no later than the key it was asked for with: what is lent for a time must not outlast it by copies.
        """
        _require_admin(by, tenant_id, or_user=user_id)
        if len(label) > _LONGEST_NAME:
            raise InvalidInput(f"label must have at most {_LONGEST_NAME} characters", field="label")
        if expires_in is not None and expires_in <= timedelta():
            raise InvalidInput("expires_in must lie in the future", field="expires_in")
        clear = new_key()
        now = from_micros(self._micros())
        expires_at = None if expires_in is None else _later(now, expires_in)
        prefix = shown_prefix(clear)
        wanted = ApiKey(tenant_id, new_id(), user_id, prefix, label, now, expires_at=expires_at)

        def work(tx: Transaction) -> ApiKey:
            user = _present(self._store.user(tx, tenant_id, user_id), "user", user_id)
            if not user.active:
                raise InvalidInput(f"user {user_id!r} is inactive; activate them first", field="user_id")
            key = replace(wanted, expires_at=self._end(tx, wanted, by))
            self._store.add_key(tx, key, hash_key(clear))
            self._note(tx, TenancyChange(tenant_id, "api_key.issued", "api_key", key.key_id, by, {"user_id": user_id}))
            return key

        return IssuedKey(clear, await self._database.write(tenant_id, work))

    def _end(self, tx: Transaction, wanted: ApiKey, by: Principal | None) -> datetime | None:
        """Return when a new key expires: when requested, or with the requester's own key if that is earlier."""
        if by is None or by.key_id is None:
            return wanted.expires_at
        asked_with = _present(self._store.key(tx, wanted.tenant_id, by.key_id), "API key", by.key_id)
        ends = [end for end in (wanted.expires_at, asked_with.expires_at) if end is not None]
        return min(ends, default=None)

    async def keys(self, tenant_id: str) -> list[ApiKey]:
        return await self._database.read(tenant_id, lambda tx: self._store.keys(tx, tenant_id))

    def is_in_force(self, key: ApiKey) -> bool:
        """Return whether the key opens something now, as far as it depends on the key."""
        return _in_force(key, self._micros())

    async def revoke_key(self, tenant_id: str, key_id: str, *, by: Principal | None = None) -> None:
        """From now on the key opens nothing; revoking it again changes nothing."""
        _require_tenant(by, tenant_id)

        def work(tx: Transaction) -> None:
            found = self._store.key(tx, tenant_id, key_id)
            # A colleague's key is not there for a member, as it is in no list of theirs.
            key = _present(found if found is not None and _may_manage(by, found) else None, "API key", key_id)
            if self._store.revoke_key(tx, tenant_id, key_id, at=self._micros()):
                self._note(
                    tx, TenancyChange(tenant_id, "api_key.revoked", "api_key", key_id, by, {"user_id": key.user_id})
                )

        await self._database.write(tenant_id, work)

    async def authenticate(self, clear: str) -> Principal:
        """Return the principal of a key, or raise NotAuthenticated."""
        if not is_key(clear):
            raise _refusal()
        hashed = hash_key(clear)
        found = await self._database.read(key_scope(hashed), lambda tx: self._store.find_key(tx, hashed))
        now = self._micros()
        if found is None or not hmac.compare_digest(found.key_hash, hashed) or not _in_force(found.key, now):
            raise _refusal()
        tenant_id, key = found.key.tenant_id, found.key
        user = await self._database.read(tenant_id, lambda tx: self._store.user(tx, tenant_id, key.user_id))
        principal = _principal(user, key)
        await self._note_use(key, now)
        return principal

    async def principal_of(self, tenant_id: str, key_id: str) -> Principal:
        """Return the principal of a key id that is in force, or raise NotAuthenticated."""

        def work(tx: Transaction) -> Principal:
            key = self._store.key(tx, tenant_id, key_id)
            if key is None or not _in_force(key, self._micros()):
                raise _refusal()
            return _principal(self._store.user(tx, tenant_id, key.user_id), key)

        return await self._database.read(tenant_id, work)

    async def _note_use(self, key: ApiKey, now: int) -> None:
        since = now - USE_NOTED_EVERY // timedelta(microseconds=1)
        if key.last_used_at is None or to_micros(key.last_used_at) < since:
            await self._database.write(
                key.tenant_id,
                lambda tx: self._store.note_use(tx, key.tenant_id, key.key_id, at=now, unless_since=since),
            )


def _principal(user: User | None, key: ApiKey) -> Principal:
    if user is None or not user.active:
        raise _refusal()
    return Principal(key.tenant_id, user.user_id, user.role, key.key_id, user.kind)


def _in_force(key: ApiKey, now: int) -> bool:
    return key.revoked_at is None and (key.expires_at is None or now < to_micros(key.expires_at))


def _later(now: datetime, span: timedelta) -> datetime:
    try:
        return now + span
    except OverflowError:
        raise InvalidInput("expires_in lies beyond every calendar; leave it out for ever", field="expires_in") from None


def _require_tenant(by: Principal | None, tenant_id: str) -> None:
    if by is not None and by.tenant_id != tenant_id:
        raise NotFound(f"no tenant {tenant_id!r}", tenant_id=tenant_id)


def _require_admin(by: Principal | None, tenant_id: str, *, or_user: str | None = None) -> None:
    _require_tenant(by, tenant_id)
    if by is not None and by.role != "admin" and by.user_id != or_user:
        raise PolicyViolation("only an administrator of the tenant may do this", user_id=by.user_id)


def _refuse_stale(user: User, expected: int | None) -> None:
    if expected not in (None, user.state_version):
        is_now = f"{'an active' if user.active else 'a locked out'} {user.role}"
        raise StaleState(
            f"user {user.name!r} was changed meanwhile: they are {is_now} now",
            expected=expected,
            current=user.state_version,
        )


def _is_in_charge(user: User) -> bool:
    return user.active and user.role == "admin"


def _may_manage(by: Principal | None, key: ApiKey) -> bool:
    return by is None or by.role == "admin" or by.user_id == key.user_id


def _checked_name(name: str) -> str:
    if not name.strip() or len(name) > _LONGEST_NAME:
        raise InvalidInput(f"name must have 1 to {_LONGEST_NAME} characters", field="name")
    return name


def _checked_role(role: str) -> Role:
    if role == "admin":
        return "admin"
    if role == "approver":
        return "approver"
    if role == "member":
        return "member"
    if role == "viewer":
        return "viewer"
    raise InvalidInput(f"role must be admin, approver, member or viewer, not {role!r}", field="role")


def _checked_kind(kind: str) -> UserKind:
    if kind == "person":
        return "person"
    if kind == "agent":
        return "agent"
    raise InvalidInput(f"kind must be person or agent, not {kind!r}", field="kind")


def _present(found: T | None, kind: str, id: str) -> T:
    if found is None:
        raise NotFound(f"no {kind} {id!r}", id=id)
    return found


def _refusal() -> NotAuthenticated:
    return NotAuthenticated("the API key is not valid; ask an administrator of your tenant for one")
