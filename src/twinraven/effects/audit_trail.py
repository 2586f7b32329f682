"""Writes audit entries about effects, each naming where the effect comes from and what allows it."""

from __future__ import annotations

from typing import Any

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.effects.model import StoredEffect
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.governance import PlanStore
from twinraven.storage import Transaction


class EffectAuditTrail:
    """Appends audit entries about effects, in the transaction that changes them."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._plans = PlanStore()

    def note(
        self,
        tx: Transaction,
        effect: StoredEffect,
        *,
        actor: Actor = SYSTEM,
        error: dict[str, Any] | None = None,
        body: Any = None,
        **data: Any,
    ) -> None:
        """Say that an effect stands as it does now."""
        self._audit.append(
            tx,
            NewAuditEntry(
                tenant_id=effect.tenant_id,
                event_type=f"{effect.kind}.{effect.status}",
                subject_type=effect.subject,
                subject_id=effect.effect_id,
                actor=actor,
                data={**effect.facts(), **data},
                body=body,
                code=None if error is None else str(error["code"]),
                message=None if error is None else str(error["message"])[:500],
                correlation_id=effect.correlation_id,
            ),
        )

    async def refused(self, entry: NewAuditEntry, task_id: str) -> None:
        """Say, in a transaction of its own, that an effect for a task was refused; no effect is there to be named."""
        await self._audit.write(entry, known=lambda tx: self._plans.lineage(tx, entry.tenant_id, task_id))
