"""Keeps secrets sealed; they serve their owner alone, and are redacted everywhere else.

Values are encrypted under keys that are not in the database and leave only through `Vault.reveal`, inside a connector.
The `Redactor` knows them too, in order to replace them by stable tokens in everything that is stored or logged.

Names are resolved on first use: whoever needs one part does not pay for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.vault.errors import SecretUnreadable
    from twinraven.vault.known_values import KnownValues, StoredValues
    from twinraven.vault.logs import RedactingFilter, clean_log
    from twinraven.vault.model import SECRET_TYPES, KekRotation, Secret, SecretRef, SecretType
    from twinraven.vault.redaction import Redactor
    from twinraven.vault.seals import TenantSeals
    from twinraven.vault.service import SecretListener, UsageCheck, Vault
    from twinraven.vault.spellings import SHORTEST_REDACTED
    from twinraven.vault.sql import SqlSecretStore
    from twinraven.vault.store import SecretStore
    from twinraven.vault.tokens import TenantKeys

__all__ = [
    "SECRET_TYPES",
    "SHORTEST_REDACTED",
    "KekRotation",
    "KnownValues",
    "RedactingFilter",
    "Redactor",
    "Secret",
    "SecretListener",
    "SecretRef",
    "SecretStore",
    "SecretType",
    "SecretUnreadable",
    "SqlSecretStore",
    "StoredValues",
    "TenantKeys",
    "TenantSeals",
    "UsageCheck",
    "Vault",
    "clean_log",
]


__getattr__ = lazy_names(__name__)
