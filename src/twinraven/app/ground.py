"""The ground floor: the database, the keys, the evidence, the secrets, and who there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.clock import now_micros
from twinraven.foundation.settings import Settings
from twinraven.storage import Database, Transaction, open_database

if TYPE_CHECKING:
    from twinraven.audit import AuditLog, KeyRing, Signer
    from twinraven.tenancy import Tenancy, TenancyChange
    from twinraven.vault import Redactor, TenantKeys, Vault


class Ground:
    """What everything stands on."""

    def __init__(
        self,
        settings: Settings,
        *,
        functions: Iterable[Callable[..., Any]] = (),
        micros: Callable[[], int] = now_micros,
        operator: Callable[[], Actor] = lambda: SYSTEM,
    ) -> None:
        """`operator` says who is recorded for what is done to tenants, users and keys without a principal."""
        self.settings = settings
        self._given = tuple(functions)
        self._micros = micros
        self._operator = operator

    @property
    def home(self) -> Path:
        return self.settings.home

    @cached_property
    def database(self) -> Database:
        return open_database(self.settings.storage.url, admin_url=self.settings.storage.admin_url)

    @cached_property
    def signing_keys(self) -> KeyRing:
        from twinraven.audit import KeyRing

        return KeyRing(self.home / "keys" / "audit.keys", variable="TWINRAVEN_AUDIT_KEY")

    @cached_property
    def signer(self) -> Signer:
        from twinraven.audit import Signer

        return Signer(self.signing_keys)

    @cached_property
    def audit(self) -> AuditLog:
        from twinraven.audit import AuditLog

        clean = self.redactor
        return AuditLog(self.database, self.signer, redact=clean.redact, redact_names=clean.redact_known)

    @cached_property
    def key_ring(self) -> KeyRing:
        from twinraven.audit import KeyRing

        return KeyRing(self.home / "keys" / "kek.keys", variable="TWINRAVEN_KEK")

    @cached_property
    def tenant_keys(self) -> TenantKeys:
        from twinraven.audit import KeyRing
        from twinraven.vault import TenantKeys

        # A ring of its own: tokens and request hashes must outlive every rotation of the key-encryption key.
        return TenantKeys(KeyRing(self.home / "keys" / "tokens.keys", variable="TWINRAVEN_TOKEN_KEY"))

    @cached_property
    def redactor(self) -> Redactor:
        from twinraven.vault import Redactor, StoredValues

        detect = self.settings.muninn.redact_high_entropy
        return Redactor(self.tenant_keys, StoredValues(self.database, self.key_ring), detect=detect)

    @cached_property
    def vault(self) -> Vault:
        from twinraven.vault import Vault

        return Vault(self.database, self.key_ring, audit=self.audit, watch=self.redactor)

    @cached_property
    def tenancy(self) -> Tenancy:
        from twinraven.tenancy import Tenancy

        return Tenancy(self.database, note=self._note_tenancy)

    def _holds_secret(self, tenant_id: str, text: bytes) -> bool:
        return self.redactor.redact_known(tenant_id, text) is not text

    def _hash_request(self, tenant_id: str, body: bytes) -> str:
        return self.tenant_keys.hash(tenant_id, "idempotency", body)

    def _note_tenancy(self, tx: Transaction, change: TenancyChange) -> None:
        """So is every change of who may see what."""
        from twinraven.audit import AuditEntry

        self.audit.append(
            tx,
            AuditEntry(
                tenant_id=change.tenant_id,
                event_type=change.event_type,
                subject_type=change.subject_type,
                subject_id=change.subject_id,
                actor=self._operator() if change.by is None else change.by.actor,
                data=change.data,
            ),
        )
