"""Runs catalogue changes in transactions, each with its actor, audit entry, version bump and notification.

Every change of a tenant's catalogue takes its turn and is told to the witness last in its transaction. What a user
changes also raises the catalogue's version and is announced when it is done. An act can be tried: then it does
everything and takes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NoReturn, Protocol, TypeVar

from twinraven.catalog.clear_secrets import HoldsSecret, refuse_clear_secrets
from twinraven.catalog.ports import Announce, AuditCatalogChange, CatalogChange, ConnectionCheck
from twinraven.catalog.sql import SqlCatalogStore
from twinraven.catalog.store import CatalogStore
from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.correlation import correlation_or_new
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation, StaleState
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal, SqlTenancyStore

T = TypeVar("T")


class OwnedItem(Protocol):
    """An item with an owner, a name and a version: a service, tool or template."""

    @property
    def owner_id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def state_version(self) -> int: ...

    def is_visible_to(self, user_id: str) -> bool: ...


O = TypeVar("O", bound=OwnedItem)  # noqa: E741


@dataclass(slots=True)
class CatalogTransaction:
    """One transaction on the catalogue and its changes; `by` is None where the system acts."""

    tx: Transaction
    tenant_id: str
    by: Principal | None
    now: datetime
    correlation_id: str
    changes: list[CatalogChange] = field(default_factory=list[CatalogChange])
    holds_secret: HoldsSecret | None = None
    check_connection: ConnectionCheck | None = None

    @property
    def user_id(self) -> str:
        assert self.by is not None, "the system owns nothing"
        return self.by.user_id

    def tell(self, event_type: str, subject_type: str, subject_id: str, **data: Any) -> None:
        change = CatalogChange(self.tenant_id, event_type, subject_type, subject_id, self.by, self.correlation_id, data)
        self.changes.append(change)

    def refuse_secrets(self, fields: Mapping[str, Any]) -> None:
        """Raise if what is about to be stored holds a secret in clear."""
        if self.holds_secret is not None:
            refuse_clear_secrets(self.holds_secret, self.tenant_id, fields)


class _TakenBack(Exception):
    """Ends the transaction of an act that was only tried."""


class CatalogTransactions:
    """Runs transactions on the catalogue, one at a time per tenant."""

    def __init__(
        self,
        database: Database,
        *,
        witness: AuditCatalogChange,
        announce: Announce | None = None,
        store: CatalogStore | None = None,
        holds_secret: HoldsSecret | None = None,
        check_connection: ConnectionCheck | None = None,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._database = database
        self._witness = witness
        self._announce = announce
        self.store: CatalogStore = store or SqlCatalogStore()
        self._users = SqlTenancyStore()
        self._holds_secret = holds_secret
        self._check_connection = check_connection
        self._micros = micros

    async def perform(
        self,
        who: Principal,
        work: Callable[[CatalogTransaction], T],
        *,
        correlation_id: str | None = None,
        is_trial: bool = False,
    ) -> T:
        """Do something for a user; a trial answers the same and changes nothing."""
        return await self._perform(who.tenant_id, who, work, correlation_id=correlation_id, is_trial=is_trial)

    async def perform_unasked(self, tenant_id: str, work: Callable[[CatalogTransaction], T]) -> T:
        """Run a change of the system itself, such as a service's health; the offered tools stay the same."""
        return await self._perform(tenant_id, None, work)

    async def look(self, tenant_id: str, work: Callable[[Transaction], T]) -> T:
        return await self._database.read(tenant_id, work)

    async def announce(self, tenant_id: str) -> None:
        """Notify caches of the catalogue that it changed."""
        if self._announce is not None:
            await self._announce(tenant_id)

    def now(self) -> datetime:
        return from_micros(self._micros())

    async def _perform(
        self,
        tenant_id: str,
        by: Principal | None,
        work: Callable[[CatalogTransaction], T],
        *,
        correlation_id: str | None = None,
        is_trial: bool = False,
    ) -> T:
        answers: list[T] = []

        def run(tx: Transaction) -> int:
            act = CatalogTransaction(
                tx,
                tenant_id,
                by,
                self.now(),
                correlation_id or correlation_or_new(),
                holds_secret=self._holds_secret,
                check_connection=self._check_connection,
            )
            self.store.lock(tx, tenant_id)
            if by is not None and self._users.user(tx, tenant_id, by.user_id) is None:
                raise_not_found("user", by.user_id)
            answers[:] = [work(act)]
            if is_trial:
                raise _TakenBack
            if act.changes and by is not None:
                self.store.raise_version(tx, tenant_id)
            for change in act.changes:
                self._witness(tx, change)
            return len(act.changes)

        try:
            changed = await self._database.write(tenant_id, run)
        except _TakenBack:
            changed = 0
        if changed and by is not None:
            await self.announce(tenant_id)
        return answers[0]


def visible(found: O | None, user_id: str, kind: str, ref: str) -> O:
    """Return an item that the user may see; NotFound is the same for absent and for hidden ones."""
    if found is None or not found.is_visible_to(user_id):
        raise_not_found(kind, ref)
    return found


def owned(found: O | None, user_id: str, kind: str, ref: str) -> O:
    """Return an item that the user may change: one of their own."""
    seen = visible(found, user_id, kind, ref)
    if seen.owner_id != user_id:
        raise PolicyViolation(f"{kind} {seen.name!r} belongs to somebody else; only its owner may change it", id=ref)
    return seen


def raise_not_found(kind: str, ref: str) -> NoReturn:
    raise NotFound(f"no {kind} {ref!r}", id=ref)


def check_version(item: OwnedItem, expected: int | None, kind: str) -> None:
    """Raise StaleState if the item changed since the caller read it."""
    if expected is not None and expected != item.state_version:
        raise StaleState(
            f"{kind} {item.name!r} was changed meanwhile: it is at version {item.state_version}, not {expected}",
            expected=expected,
            current=item.state_version,
        )


def require_stored(is_stored: bool, kind: str, name: str) -> None:
    """Raise StaleState if the database holds another version than the one that was changed."""
    if not is_stored:
        raise StaleState(f"{kind} {name!r} was changed meanwhile; look at it again")


def refuse_taken(is_taken: bool, kind: str, name: str) -> None:
    if is_taken:
        raise Conflict(f"you have a {kind} named {name!r} already", name=name)
