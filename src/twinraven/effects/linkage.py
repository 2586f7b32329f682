"""Proves that no effect exists without an audit entry that links it to its origin, and names those that do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from twinraven.audit import AuditLog, UnlinkedEffect
from twinraven.effects.model import EFFECT_KINDS, TABLES, StoredEffect
from twinraven.effects.sql import EffectStore
from twinraven.storage import Transaction

_PAGE: Final = 500


def find_unlinked(audit: AuditLog, tx: Transaction, tenant_id: str) -> list[UnlinkedEffect]:
    """Find every effect that no audit entry links to its decision and its task."""
    return [
        UnlinkedEffect(TABLES[effect.kind].subject, effect.effect_id, effect.status)
        for page in _pages(tx, tenant_id)
        for effect in _unlinked(audit, tx, tenant_id, page)
    ]


def _pages(tx: Transaction, tenant_id: str) -> Iterator[list[StoredEffect]]:
    store = EffectStore()
    for kind in EFFECT_KINDS:
        after: str | None = None
        while page := store.listing(tx, kind, tenant_id, limit=_PAGE, after=after):
            yield page
            after = page[-1].effect_id


def _unlinked(audit: AuditLog, tx: Transaction, tenant_id: str, page: list[StoredEffect]) -> Iterator[StoredEffect]:
    told = audit.about(tx, tenant_id, page[0].subject, [effect.effect_id for effect in page])
    for effect in page:
        wanted = (effect.decision_id, effect.task_id)
        entries = told.get(effect.effect_id, [])
        if not any((entry.get("decision_id"), entry.get("task_id")) == wanted for entry in entries):
            yield effect
