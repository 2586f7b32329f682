"""Declares the ports of the catalogue: secret look-up, connection check, audit and change notification."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from twinraven.catalog.model import ToolEntry
from twinraven.catalog.service_model import ServiceStructure
from twinraven.foundation.actors import SYSTEM
from twinraven.storage import Transaction
from twinraven.tenancy import Principal

if TYPE_CHECKING:
    from twinraven.audit import AuditLog
    from twinraven.vault import Secret


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """A change of the catalogue, for the audit log; `by` is None where the system acts."""

    tenant_id: str
    event_type: str
    subject_type: str
    subject_id: str
    by: Principal | None
    correlation_id: str
    data: Mapping[str, Any]


AuditCatalogChange = Callable[[Transaction, CatalogChange], None]
"""Told of every change inside its own transaction, so that an audit log holds both or neither."""

Announce = Callable[[str], Awaitable[None]]
"""Told, after a change, whose catalogue is another one now."""

FindTool = Callable[[str, str], ToolEntry | None]
"""A tool of a tenant that is not data-defined, by tenant and id: its name is taken."""

Redact = Callable[[str, bytes], bytes]
"""Replaces what must not be stored in a JSON text, for a tenant."""

StepUsage = Callable[[Transaction, str, str], list[str]]
"""Says, for a tenant and a tool's key, which steps call the tool, each in a few words."""


class ConnectionCheck(Protocol):
    """Says what no call could use of connection parameters; connectors provide it."""

    def __call__(
        self, structure: ServiceStructure, params: Mapping[str, Any], /, *, has_secret: bool, is_whole: bool = True
    ) -> None:
        """Raise InvalidDefinition, naming the field; where they are not whole, what is missing may be."""
        ...


class SecretLookup(Protocol):
    """Looks up secrets without their values; the vault's store is one."""

    def secret(self, tx: Transaction, tenant_id: str, owner_id: str, secret_id: str) -> Secret | None: ...

    def named(self, tx: Transaction, tenant_id: str, owner_id: str, name: str) -> Secret | None: ...


def audited(log: AuditLog) -> AuditCatalogChange:
    """Return a witness that appends each change to the audit log."""
    from twinraven.audit import NewAuditEntry

    def tell(tx: Transaction, change: CatalogChange) -> None:
        entry = NewAuditEntry(
            change.tenant_id,
            change.event_type,
            change.subject_type,
            change.subject_id,
            SYSTEM if change.by is None else change.by.actor,
            data=change.data,
            correlation_id=change.correlation_id,
        )
        log.append(tx, entry)

    return tell
