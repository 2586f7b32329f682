"""Dispatches runs by Temporal: it decides which process advances a run, and when; the journal stays the truth.

There is one workflow for each run or job, and it knows ids alone: advance, and if the run rests, wait for a timer or a
signal, then advance again. Every worker relays what became due in the house's tables as a signal that starts the
workflow where there is none, so starting, answering and waking a run stay single transactions of ours. The epoch still
fences whoever Temporal wrongly thought dead, and our own heartbeat decides who is.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker import Worker as ActivityWorker

from twinraven.engine.dispatch import Lease
from twinraven.engine.worker import EngineWorker, WorkerParts
from twinraven.foundation.errors import StorageError, StorageUnavailable

ADVANCE: Final = "twinraven_advance"
_TELL_AGAIN_S: Final = 5.0
_BUSY_S: Final = 0.5


@workflow.defn(name="twinraven_run")
class RunWorkflow:
    """Advances one run, or one job of it, until there is nothing more to do."""

    def __init__(self) -> None:
        self._is_woken = False

    @workflow.signal
    def wake(self) -> None:
        self._is_woken = True

    @workflow.run
    async def run(self, tenant_id: str, run_id: str, place: str, beat_s: float) -> None:
        while True:
            self._is_woken = False
            rest: dict[str, Any] = await workflow.execute_activity(
                ADVANCE,
                args=[tenant_id, run_id, place, beat_s],
                start_to_close_timeout=timedelta(days=7),
                heartbeat_timeout=timedelta(seconds=beat_s * 6),
                retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=200)),
            )
            if rest["is_over"]:
                return
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(args=[tenant_id, run_id, place, beat_s])
            try:
                seconds = None if rest["seconds"] is None else timedelta(seconds=rest["seconds"])
                await workflow.wait_condition(lambda: self._is_woken, timeout=seconds)
            except TimeoutError:
                continue


class TemporalWorker(EngineWorker):
    """A worker process that Temporal gives runs to."""

    def __init__(self, parts: WorkerParts, *, address: str, namespace: str, lease_s: float, poll_s: float) -> None:
        super().__init__(parts, lease_s=lease_s, poll_s=poll_s)
        self._address = address
        self._namespace = namespace
        self._beat_s = lease_s / 6
        self._client: Client | None = None
        self._told: dict[tuple[str, str, str], float] = {}
        self._is_ending = False

    async def work(self, stop: asyncio.Event, *, drain_s: float = 30.0) -> None:
        """Work until told to stop; then calls under way end, and what is left goes on elsewhere."""
        try:
            self._client = await Client.connect(self._address, namespace=self._namespace)
        except (RuntimeError, RPCError) as error:
            raise StorageUnavailable(
                f"Temporal at {self._address} does not answer: {error}",
                fix="start it, set engine.temporal_address, or set engine.dispatcher to embedded",
            ) from error
        stopping = asyncio.create_task(self._note_end(stop))
        async with AsyncExitStack() as stack:
            for queue, pool in self._parts.pools.items():
                served = ActivityWorker(
                    self._client,
                    task_queue=_task_queue(queue),
                    workflows=[RunWorkflow],
                    activities=[self.advance_run],
                    workflow_runner=UnsandboxedWorkflowRunner(),
                    max_concurrent_activities=pool.slots,
                    max_activities_per_second=pool.per_second,
                )
                await stack.enter_async_context(served)
            await super().work(stop, drain_s=drain_s)
        stopping.cancel()

    @activity.defn(name=ADVANCE)
    async def advance_run(self, tenant_id: str, run_id: str, place: str, beat_s: float) -> dict[str, Any]:
        """Advance a run as far as it goes, and say when to look again."""
        lease = (
            None if self._is_ending else await self._parts.dispatcher.take_one(self.worker_id, tenant_id, run_id, place)
        )
        if lease is not None:
            # Temporal cancels an activity whose heartbeat was late, as on a loop that a tool blocked. Our own heart
            # beats on a thread and says whether this worker has the run, so the run goes on in a task of its own.
            advancing = asyncio.create_task(self._advance(lease))
            self._busy[advancing] = lease
            advancing.add_done_callback(lambda task: self._busy.pop(task, None))
            beating = asyncio.create_task(_beat(beat_s))
            try:
                await asyncio.shield(advancing)
            finally:
                beating.cancel()
        return await self._rest(tenant_id, run_id, place)

    async def _look(self) -> bool:
        """Tell Temporal what became due; it says who advances it."""
        try:
            await self._give_back()
            await self._parts.schedules.start_due()
            due = await self._parts.dispatcher.due(list(self._parts.pools))
        except StorageError as error:
            self._warn(error)
            return False
        now = time.monotonic()
        self._told = {each: moment for each, moment in self._told.items() if now - moment < _TELL_AGAIN_S}
        for lease in due:
            await self._tell(lease, now)
        return False

    async def _tell(self, lease: Lease, now: float) -> None:
        key = (lease.tenant_id, lease.run_id, lease.place)
        if key in self._told or self._client is None:
            return
        try:
            await self._client.start_workflow(
                "twinraven_run",
                args=[*key, self._beat_s],
                id=":".join(("twinraven", *key)),
                task_queue=_task_queue(lease.queue),
                start_signal="wake",
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )
        except (RPCError, TemporalError) as error:
            self._warn(error)
            return
        self._told[key] = now

    async def _rest(self, tenant_id: str, run_id: str, place: str) -> dict[str, Any]:
        seconds, is_over = await self._parts.dispatcher.next_look(tenant_id, run_id, place)
        if seconds == 0:
            self._told.pop((tenant_id, run_id, place), None)
        return {"is_over": is_over, "seconds": None if seconds is None else max(seconds, _BUSY_S)}

    async def _note_end(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._is_ending = True


def _task_queue(queue: str) -> str:
    return f"twinraven-{queue}"


async def _beat(every_s: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(every_s)
