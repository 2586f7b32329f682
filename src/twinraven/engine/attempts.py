"""Declares the callbacks of the engine to the governor of a run: when it begins, ends or is cancelled.

A run that is an attempt at a task carries the lineage of the task: its calls name the campaign, the goal and the task,
and its end and the result of the attempt are one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from twinraven.engine.model import RunEnd
from twinraven.storage import Transaction

CORRELATION: Final = "correlation_id"
"""Under which a run keeps, beside its lineage, the id of the request that it comes from."""

RunLineage = Mapping[str, str]
"""`campaign_id`, `goal_id` and `task_id`."""


class RunGovernor(Protocol):
    """Governs runs with a lineage: called back when they begin, end or are cancelled."""

    async def begin(self, tenant_id: str, run_id: str) -> None:
        """Handle that a worker takes the run up, first or again; an error raised here ends the run."""
        ...

    async def conclude(self, tenant_id: str, run_id: str, end: RunEnd) -> Callable[[Transaction], None]:
        """Give what is to be written in the transaction that ends the run; asked again where that raises StaleState."""
        ...

    def cancelled(self, tx: Transaction, tenant_id: str, run_id: str) -> None:
        """Handle the cancellation of the run, in this transaction."""
        ...
