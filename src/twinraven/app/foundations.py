"""Opens the foundations: the database, the keys, the audit log, redaction, and tenancy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twinraven.app.parts import Home, Part
from twinraven.storage import Database, Transaction, open_database

if TYPE_CHECKING:
    from twinraven.audit import AuditLog, KeyRing, Signer, UnlinkedEffect
    from twinraven.storage import ChangeFeed
    from twinraven.tenancy import SignIns, Tenancy, TenancyChange
    from twinraven.vault import Redactor, TenantKeys


@Part
def database(home: Home) -> Database:
    wanted = home.settings.storage
    return open_database(wanted.url, admin_url=wanted.admin_url)


@Part
def changes(home: Home) -> ChangeFeed:
    """Open the change feed of the database, one per process."""
    from twinraven.storage import ChangeFeed

    return ChangeFeed(database(home))


@Part
def signing_keys(home: Home) -> KeyRing:
    from twinraven.audit import KeyRing

    return KeyRing(home.home / "keys" / "audit.keys", variable="TWINRAVEN_AUDIT_KEY")


@Part
def signer(home: Home) -> Signer:
    from twinraven.audit import Signer

    return Signer(signing_keys(home))


@Part
def audit(home: Home) -> AuditLog:
    from twinraven.audit import AuditLog

    clean = redactor(home)
    log = AuditLog(
        database(home), signer(home), redact=clean.redact, redact_names=clean.redact_known, micros=home.micros
    )

    def unlinked(tx: Transaction, tenant_id: str) -> list[UnlinkedEffect]:
        from twinraven.effects import find_unlinked

        return find_unlinked(log, tx, tenant_id)

    log.register_links(unlinked)
    return log


@Part
def key_ring(home: Home) -> KeyRing:
    from twinraven.audit import KeyRing

    return KeyRing(home.home / "keys" / "kek.keys", variable="TWINRAVEN_KEK")


@Part
def tenant_keys(home: Home) -> TenantKeys:
    from twinraven.audit import KeyRing
    from twinraven.vault import TenantKeys

    # A ring of its own: tokens and request hashes must outlive every rotation of the key-encryption key.
    return TenantKeys(KeyRing(home.home / "keys" / "tokens.keys", variable="TWINRAVEN_TOKEN_KEY"))


@Part
def redactor(home: Home) -> Redactor:
    from twinraven.vault import Redactor, StoredValues

    detect = home.settings.muninn.redact_high_entropy
    return Redactor(tenant_keys(home), StoredValues(database(home), key_ring(home)), detect=detect)


@Part
def tenancy(home: Home) -> Tenancy:
    from twinraven.tenancy import Tenancy

    return Tenancy(database(home), note=_note_of(home))


@Part
def sign_ins(home: Home) -> SignIns:
    from twinraven.tenancy import SignIns

    return SignIns(database(home), tenancy(home), note=_note_of(home))


def _note_of(home: Home) -> Callable[[Transaction, TenancyChange], None]:
    from twinraven.audit import NewAuditEntry

    def note(tx: Transaction, change: TenancyChange) -> None:
        """Append a change of who may see what to the audit log."""
        entry = NewAuditEntry(
            tenant_id=change.tenant_id,
            event_type=change.event_type,
            subject_type=change.subject_type,
            subject_id=change.subject_id,
            actor=home.operator() if change.by is None else change.by.actor,
            data=change.data,
        )
        audit(home).append(tx, entry)

    return note


def holds_secret(home: Home, tenant_id: str, text: bytes) -> bool:
    """Tell whether a text of a tenant holds one of its secrets."""
    return redactor(home).redact_known(tenant_id, text) is not text


def hash_request(home: Home, tenant_id: str, body: bytes) -> str:
    """Hash what a key was used for, under a key of the tenant's own."""
    return tenant_keys(home).hash(tenant_id, "idempotency", body)
