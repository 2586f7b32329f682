"""The vault: secrets are kept sealed, serve their owner alone, and appear nowhere else.

Values are encrypted under keys that are not in the database and leave only through `Vault.reveal`, inside a connector.
The `Redactor` knows them too, in order to replace them by stable tokens in everything that is stored or logged.

Names are resolved on first use: whoever needs one part does not pay for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.vault.errors import SecretUnreadable
    from twinraven.vault.known_values import KnownValues, StoredValues
    from twinraven.vault.logs import RedactingFilter, clean_log
    from twinraven.vault.model import SECRET_TYPES, KekRotation, Secret, SecretRef, SecretType
    from twinraven.vault.redaction import Redactor
    from twinraven.vault.seals import TenantSeals
    from twinraven.vault.service import SecretWatch, UsageCheck, Vault
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
    "SecretRef",
    "SecretStore",
    "SecretType",
    "SecretUnreadable",
    "SecretWatch",
    "SqlSecretStore",
    "StoredValues",
    "TenantKeys",
    "TenantSeals",
    "UsageCheck",
    "Vault",
    "clean_log",
]

_HOMES = {
    "errors": ("SecretUnreadable",),
    "known_values": (
        "KnownValues",
        "StoredValues",
    ),
    "logs": ("RedactingFilter", "clean_log"),
    "model": (
        "KekRotation",
        "SECRET_TYPES",
        "Secret",
        "SecretRef",
        "SecretType",
    ),
    "redaction": ("Redactor",),
    "seals": ("TenantSeals",),
    "service": (
        "SecretWatch",
        "UsageCheck",
        "Vault",
    ),
    "spellings": ("SHORTEST_REDACTED",),
    "sql": ("SqlSecretStore",),
    "store": ("SecretStore",),
    "tokens": ("TenantKeys",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'twinraven.vault' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"twinraven.vault.{_HOME_OF[name]}"), name)
    return value
