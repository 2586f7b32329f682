"""Appends governed work to the audit log, always with tenant, campaign, goal and task."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.foundation.actors import Actor
from twinraven.foundation.errors import PolicyViolation, StaleState
from twinraven.governance.model import Lineage
from twinraven.governance.work.plan_sql import PlanStore
from twinraven.storage import Transaction
from twinraven.tenancy import Principal


class WorkAuditTrail:
    """Writes audit entries about governed work."""

    def __init__(self, audit: AuditLog, plans: PlanStore) -> None:
        self._audit = audit
        self._plans = plans

    def note(
        self,
        tx: Transaction,
        event: str,
        subject: tuple[str, str],
        lineage: Lineage,
        actor: Actor,
        *,
        body: Any = None,
        code: str | None = None,
        message: str | None = None,
        **data: Any,
    ) -> None:
        """Append an entry in the transaction that makes it true; free text of people goes into `body`."""
        self._audit.append(
            tx,
            NewAuditEntry(
                tenant_id=lineage.tenant_id,
                event_type=event,
                subject_type=subject[0],
                subject_id=subject[1],
                actor=actor,
                data={**lineage.as_json(), **data},
                body=body,
                code=code,
                message=message,
            ),
        )

    @asynccontextmanager
    async def refusals(self, what: str, subject: tuple[str, str], by: Principal) -> AsyncGenerator[dict[str, Any]]:
        """Audit a violation of policy, or a decision on old state, that ends the block.

        The block fills what it yields with the lineage as soon as that is known; that of a task is looked up.
        """
        known: dict[str, Any] = {"tenant_id": by.tenant_id}
        task_id = subject[1] if subject[0] == "task" else ""
        try:
            yield known
        except (PolicyViolation, StaleState) as error:
            entry = NewAuditEntry(
                tenant_id=by.tenant_id,
                event_type=f"{what}.refused",
                subject_type=subject[0],
                subject_id=subject[1],
                actor=by.actor,
                data=known,
                code=error.code,
                message=error.message,
            )
            await self._audit.write(entry, known=lambda tx: self._plans.lineage(tx, by.tenant_id, task_id))
            raise
