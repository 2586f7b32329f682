"""Implements the vault: secrets are written, and decrypted only for their owner, inside a connector.

Values never leave through anything but `reveal`. What belongs to somebody else is not found, whatever `shared` says.
Each change is audited in the transaction that makes it, and told to `watch`, so that redaction knows the new value
before anybody can use it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from twinraven.audit import AuditLog, KeyRing, NewAuditEntry
from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.correlation import correlation_or_new
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound, StaleState, StorageError
from twinraven.foundation.ids import new_id
from twinraven.storage import Database, Transaction
from twinraven.tenancy import actor_of
from twinraven.vault.cipher import Cipher, SealBinding
from twinraven.vault.errors import SecretUnreadable
from twinraven.vault.model import SECRET_TYPES, KekRotation, Secret, SecretRef, SecretType
from twinraven.vault.rotation import rotate_kek
from twinraven.vault.spellings import SHORTEST_REDACTED
from twinraven.vault.sql import SqlSecretStore
from twinraven.vault.store import SecretStore, StoredVersion

T = TypeVar("T")
UsageCheck = Callable[[Transaction, str, str], list[str]]
"""Says, for a tenant and a secret id, what uses the secret, each in a few words."""

NameCheck = Callable[[str, str, str], Awaitable[str | None]]
"""Says, for a tenant, a user and a text, what that user knows by a name that holds the text: "a tool"."""

LONGEST_VALUE = 65_536
USE_NOTED_EVERY = timedelta(minutes=1)
_LONGEST_NAME = 200


class SecretListener(Protocol):
    """Is called back when secret values change or are revealed, in order to redact them."""

    def changed(self, tenant_id: str) -> None: ...

    def revealed(self, tenant_id: str, value: str) -> None: ...


class _Nobody:
    def changed(self, tenant_id: str) -> None:
        del tenant_id

    def revealed(self, tenant_id: str, value: str) -> None:
        del tenant_id, value


class Vault:
    """The use cases of secrets."""

    def __init__(
        self,
        database: Database,
        ring: KeyRing,
        *,
        audit: AuditLog,
        watch: SecretListener | None = None,
        store: SecretStore | None = None,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._database = database
        self._ring = ring
        self._cipher = Cipher(ring)
        self._audit = audit
        self._watch = watch or _Nobody()
        self._store = store or SqlSecretStore()
        self._micros = micros
        self._usages: list[UsageCheck] = []
        self._names: list[NameCheck] = []

    def register_usage(self, check: UsageCheck) -> None:
        """Ask `check` before a secret is deleted; it runs inside the deleting transaction."""
        self._usages.append(check)

    def register_names(self, check: NameCheck) -> None:
        """Ask `check` before a value is kept."""
        self._names.append(check)

    async def create(
        self,
        tenant_id: str,
        owner_id: str,
        *,
        name: str,
        type: SecretType,
        value: str,
        shared: bool = False,
        correlation_id: str | None = None,
    ) -> Secret:
        """Keep a new secret; its name is unique among its owner's."""
        now = self._micros()
        made = from_micros(now)
        secret = Secret(tenant_id, new_id(), owner_id, _checked_name(name), _checked_type(type), shared, 1, made, made)
        clear = _checked_value(value)
        await self._refuse_names(tenant_id, owner_id, value)

        def work(tx: Transaction) -> Secret:
            kek_id = self._claim_kek(tx, tenant_id)
            self._refuse_taken(tx, secret)
            self._store.add(tx, secret)
            self._add_version(tx, secret, clear, kek_id)
            self._record(tx, secret, "secret.created", correlation_id, {"name": name, "type": type})
            return secret

        try:
            return await self._changing(tenant_id, work)
        except Conflict as error:
            if "constraint" not in error.details:
                raise
            # The name is free, so what the database refused is an owner it does not know.
            raise NotFound(f"no user {owner_id!r}", owner_id=owner_id) from None

    async def rotate(
        self,
        tenant_id: str,
        owner_id: str,
        secret_id: str,
        value: str,
        *,
        expected_version: int | None = None,
        correlation_id: str | None = None,
    ) -> Secret:
        """Return a new value under the same id; earlier ones are kept sealed, only so that they stay redacted."""
        clear = _checked_value(value)
        await self._refuse_names(tenant_id, owner_id, value)

        def work(tx: Transaction) -> Secret:
            kek_id = self._claim_kek(tx, tenant_id)
            before = _present(self._store.secret(tx, tenant_id, owner_id, secret_id), secret_id)
            _refuse_stale(before, expected_version)
            after = replace(before, version=before.version + 1, updated_at=from_micros(self._micros()))
            self._add_version(tx, after, clear, kek_id)
            self._store.change(tx, after)
            self._record(tx, after, "secret.rotated", correlation_id, {"version": after.version})
            return after

        return await self._changing(tenant_id, work)

    async def update(
        self,
        tenant_id: str,
        owner_id: str,
        secret_id: str,
        *,
        name: str | None = None,
        shared: bool | None = None,
        expected_version: int | None = None,
        correlation_id: str | None = None,
    ) -> Secret:
        """Another name, or another `shared`; owner and type never change."""

        def work(tx: Transaction) -> Secret:
            before = _present(self._store.secret(tx, tenant_id, owner_id, secret_id), secret_id)
            _refuse_stale(before, expected_version)
            after = replace(
                before,
                name=before.name if name is None else _checked_name(name),
                shared=before.shared if shared is None else shared,
                updated_at=from_micros(self._micros()),
            )
            if after.name != before.name:
                self._refuse_taken(tx, after)
            self._store.change(tx, after)
            self._record(tx, after, "secret.updated", correlation_id, {"name": after.name, "shared": after.shared})
            return after

        return await self._database.write(tenant_id, work)

    async def get(self, tenant_id: str, owner_id: str, secret_id: str) -> Secret:
        found = await self._database.read(tenant_id, lambda tx: self._store.secret(tx, tenant_id, owner_id, secret_id))
        return _present(found, secret_id)

    async def find(self, tenant_id: str, owner_id: str, name: str) -> Secret:
        """By name."""
        found = await self._database.read(tenant_id, lambda tx: self._store.named(tx, tenant_id, owner_id, name))
        return _present(found, name)

    async def secrets(self, tenant_id: str, owner_id: str) -> list[Secret]:
        """Return everything the owner keeps, by name."""
        return await self._database.read(tenant_id, lambda tx: self._store.secrets(tx, tenant_id, owner_id))

    async def delete(
        self,
        tenant_id: str,
        owner_id: str,
        secret_id: str,
        *,
        expected_version: int | None = None,
        correlation_id: str | None = None,
    ) -> None:
        """Remove a secret and all its values, unless something uses it."""

        def work(tx: Transaction) -> None:
            secret = _present(self._store.secret(tx, tenant_id, owner_id, secret_id), secret_id)
            _refuse_stale(secret, expected_version)
            users = self._users(tx, tenant_id, secret_id)
            if users:
                raise Conflict(f"secret {secret.name!r} is used by {', '.join(users)}", used_by=users)
            self._store.remove(tx, tenant_id, owner_id, secret_id)
            self._record(tx, secret, "secret.deleted", correlation_id, {"name": secret.name})

        await self._changing(tenant_id, work)

    async def used_by(self, tenant_id: str, secret_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return what uses each of some secrets, in the words in which a deletion would be refused."""
        return await self._database.read(
            tenant_id, lambda tx: {each: self._users(tx, tenant_id, each) for each in secret_ids}
        )

    def _users(self, tx: Transaction, tenant_id: str, secret_id: str) -> list[str]:
        return [user for check in self._usages for user in check(tx, tenant_id, secret_id)]

    async def reveal(self, ref: SecretRef, *, for_user: str, tool_owner: str | None = None) -> str:
        """Return the value to a connector that is about to use it: for the owner's calls of the owner's tools alone."""

        def work(tx: Transaction) -> tuple[str, int | None]:
            mine = tool_owner in (None, for_user)
            stored = self._store.current(tx, ref.tenant_id, for_user, ref.secret_id) if mine else None
            place, sealed = _present(stored, ref.secret_id)
            value = self._cipher.open(sealed, place).decode()
            self._watch.revealed(ref.tenant_id, value)
            return value, self._store.last_use(tx, ref.tenant_id, ref.secret_id)

        value, used = await self._database.read(ref.tenant_id, work)
        await self._note_use(ref, used)
        return value

    async def _note_use(self, ref: SecretRef, used: int | None) -> None:
        """Store that a secret was used, once a minute at most; a store that refuses holds up no call."""
        now = self._micros()
        since = now - USE_NOTED_EVERY // timedelta(microseconds=1)
        if used is not None and used >= since:
            return
        with suppress(StorageError):
            await self._database.write(
                ref.tenant_id,
                lambda tx: self._store.note_use(tx, ref.tenant_id, ref.secret_id, at=now, unless_since=since),
            )

    async def rotate_kek(self) -> KekRotation:
        """Wrap everything anew; may be stopped at any point and run again."""
        return await rotate_kek(self._database, self._ring, self._cipher, self._store, self._audit, micros=self._micros)

    async def _changing(self, tenant_id: str, work: Callable[[Transaction], T]) -> T:
        """Run work that changes which values are known."""

        def counted(tx: Transaction) -> T:
            answer = work(tx)
            self._store.count_change(tx, tenant_id)
            return answer

        try:
            return await self._database.write(tenant_id, counted)
        finally:
            self._watch.changed(tenant_id)

    async def _refuse_names(self, tenant_id: str, owner_id: str, value: str) -> None:
        """Refuse a value that redaction could not keep out of public texts, because something is called so.

        Were it kept, that name would be taken for the secret wherever it stands, for all users of the tenant.
        """
        text = value.strip()
        for check in self._names if len(text) >= SHORTEST_REDACTED else ():
            what = await check(tenant_id, owner_id, text)
            if what is not None:
                raise InvalidInput(f"value is the name of {what}, or part of it, and so no secret", field="value")

    def _claim_kek(self, tx: Transaction, tenant_id: str) -> str:
        """Return the generation to wrap with, which no rotation takes away before this transaction ends."""
        self._ring.reload()
        kek_id = self._store.lock_state(tx, tenant_id, self._ring.active().id)
        if self._ring.find(kek_id) is None:
            raise SecretUnreadable(
                f"the secrets of this tenant are under key-encryption key {kek_id!r}, which is not in "
                f"{self._ring.path}; restore that file",
                kek_id=kek_id,
            )
        return kek_id

    def _refuse_taken(self, tx: Transaction, secret: Secret) -> None:
        if self._store.named(tx, secret.tenant_id, secret.owner_id, secret.name) is not None:
            raise Conflict(f"there is a secret named {secret.name!r} already; rotate it instead", name=secret.name)

    def _add_version(self, tx: Transaction, secret: Secret, clear: bytes, kek_id: str) -> None:
        place = SealBinding(secret.tenant_id, secret.secret_id, secret.version, secret.owner_id)
        sealed = self._cipher.seal(clear, place, kek_id=kek_id)
        self._store.add_version(tx, StoredVersion(place, sealed), created_at=self._micros())

    def _record(
        self, tx: Transaction, secret: Secret, event_type: str, correlation_id: str | None, data: dict[str, Any]
    ) -> None:
        entry = NewAuditEntry(
            secret.tenant_id,
            event_type,
            "secret",
            secret.secret_id,
            actor_of(tx, secret.tenant_id, secret.owner_id),
            data=data,
            correlation_id=correlation_id or correlation_or_new(),
        )
        self._audit.append(tx, entry)


def _present(found: T | None, asked_for: str) -> T:
    if found is None:
        fix = f"twinraven secrets set {asked_for}"
        raise NotFound(f"no secret {asked_for!r}", secret=asked_for, fix=fix)
    return found


def _refuse_stale(secret: Secret, expected_version: int | None) -> None:
    """Refuse a change that is based on an older value."""
    if expected_version not in (None, secret.version):
        raise StaleState(
            f"secret {secret.name!r} was rotated meanwhile: it is at version {secret.version}, not {expected_version}",
            expected=expected_version,
            current=secret.version,
        )


def _checked_name(name: str) -> str:
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidInput(f"name must have 1 to {_LONGEST_NAME} printable characters", field="name")
    return name


def _checked_type(type: str) -> SecretType:
    for known in SECRET_TYPES:
        if known == type:
            return known
    raise InvalidInput(f"type must be one of {', '.join(SECRET_TYPES)}, not {type!r}", field="type")


def _checked_value(value: str) -> bytes:
    try:
        clear = value.encode()
    except UnicodeEncodeError:
        raise InvalidInput("value must be text that UTF-8 can hold", field="value") from None
    if not clear or len(clear) > LONGEST_VALUE:
        raise InvalidInput(f"value must have 1 to {LONGEST_VALUE} bytes", field="value")
    return clear
