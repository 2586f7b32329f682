"""Keeps the audit log: evidence of who did what and why, in a tamper-evident hash chain.

One hash chain per tenant holds effects, lifecycle changes, human actions and policy decisions, each appended in the
transaction that makes it true. The head is signed with a key outside the database and can be anchored outside the
machine. Personal details can be erased without breaking the chain.

Names are resolved on first use: whoever needs one part does not pay for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.audit.key_files import KeyGeneration, KeyRing
    from twinraven.audit.key_merge import merge_key_files
    from twinraven.audit.model import (
        ActorType,
        Anchor,
        AuditFilter,
        AuditRecord,
        Fault,
        Head,
        NewAuditEntry,
        UnlinkedEffect,
        VerifyReport,
    )
    from twinraven.audit.service import AuditLog
    from twinraven.audit.signing import Signer
    from twinraven.audit.sql import SqlAuditStore
    from twinraven.audit.store import AuditStore

__all__ = [
    "ActorType",
    "Anchor",
    "AuditFilter",
    "AuditLog",
    "AuditRecord",
    "AuditStore",
    "Fault",
    "Head",
    "KeyGeneration",
    "KeyRing",
    "NewAuditEntry",
    "Signer",
    "SqlAuditStore",
    "UnlinkedEffect",
    "VerifyReport",
    "merge_key_files",
]


__getattr__ = lazy_names(__name__)
