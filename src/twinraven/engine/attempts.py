"""Declares what the engine tells whoever governs a run: when it begins, what it came to, and that it was cancelled.

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
    """Whoever governs runs with a lineage."""

    async def begin(self, tenant_id: str, run_id: str) -> None:
        """A worker takes the run up, for the first time or again; an error raised here is what the run comes to."""
        ...

    async def conclude(self, tenant_id: str, run_id: str, end: RunEnd) -> Callable[[Transaction], None]:
        """Give what is to be written in the transaction that ends the run; asked again where that raises StaleState."""
        ...

    def cancelled(self, tx: Transaction, tenant_id: str, run_id: str) -> None:
        """Somebody cancelled the run, in this transaction."""
        ...
