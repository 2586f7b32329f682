"""Declares the dispatcher port: which process advances which run, and when.

A run is due at a moment, or never until somebody wakes it. A worker takes due runs with a new epoch and keeps them as
long as its heartbeat is heard; whoever lost a run finds its epoch gone, in the transaction in which it would have begun
an effect. A wake-up between taking a run and letting it rest is counted, so it is never lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from twinraven.storage import Transaction


class Lease(NamedTuple):
    """The right of a worker to advance a run, or to make one of its calls, until a later epoch takes it."""

    tenant_id: str
    run_id: str
    place: str
    """Empty for the run itself, else the step that this job is."""
    queue: str
    worker: str
    epoch: int
    woken: int
    """The number of wake-ups when it was leased."""
    strikes: int
    """How many workers in a row died with it."""
    ahead: int = 0
    """By how many microseconds the dispatcher's clock was ahead of this machine's when it was taken."""

    @property
    def row(self) -> dict[str, str]:
        return {"tenant": self.tenant_id, "run": self.run_id, "place": self.place}


class Dispatcher(Protocol):
    """Decides which process advances which run. All but `take` happen in the caller's transaction."""

    def now(self, tx: Transaction) -> int:
        """Return the moment that leases are compared with, in microseconds."""
        ...

    def enqueue(
        self,
        tx: Transaction,
        tenant_id: str,
        run_id: str,
        *,
        place: str = "",
        queue: str,
        priority: int,
        epoch: int = 0,
        due: int | None = None,
    ) -> None:
        """Enqueue a run, or one of its steps, to be taken when it is due and a worker is free."""
        ...

    def wake(self, tx: Transaction, tenant_id: str, run_id: str) -> None:
        """Let a run be taken now, also if it is just about to rest."""
        ...

    def hold(self, tx: Transaction, lease: Lease) -> None:
        """Raise RunSuperseded unless the lease still stands when this transaction commits."""
        ...

    def holds(self, tx: Transaction, lease: Lease) -> bool:
        """Return whether a lease stands."""
        ...

    def rest(self, tx: Transaction, lease: Lease, until: int | None) -> None:
        """Release a run until then, or at once if it was woken meanwhile."""
        ...

    def give_back(self, tx: Transaction, lease: Lease) -> None:
        """Let go of work that its worker could not end, which counts against it."""
        ...

    def let_go(self, tx: Transaction, leases: Sequence[Lease]) -> set[Lease]:
        """Forget runs of one tenant that have ended, with all their jobs; says which of the leases stood."""
        ...

    def drop(self, tx: Transaction, tenant_id: str, run_id: str, *, place: str | None = None) -> None:
        """Delete a run with all its jobs, or one job."""
        ...

    async def take(self, worker: str, free: Mapping[str, int]) -> list[Lease]:
        """Lease due work that no living worker has, at most so much per queue."""
        ...
