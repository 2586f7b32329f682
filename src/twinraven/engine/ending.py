"""Ends runs: those that end together, in one transaction and a handful of statements.

What ends while a transaction is on its way shares the next one. A run that somebody else has by now is told so and
costs the others nothing; where the store refuses the group, each run ends by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, Final, NamedTuple

from twinraven.engine.dispatch import Lease
from twinraven.engine.errors import RunSuperseded
from twinraven.engine.journal import STEP_COLUMNS, Journal, JournalKit, encode_outcome
from twinraven.engine.loading import answer_place
from twinraven.engine.model import RunEnd
from twinraven.engine.runs_sql import EndedRun, RunStore
from twinraven.foundation.errors import StorageBusy, StorageError, StorageUnavailable
from twinraven.storage import Database, Transaction

_MOST: Final = 64

OnEnds = Callable[[Transaction, Sequence[RunEnd]], None]


class _Ending(NamedTuple):
    journal: Journal
    end: RunEnd
    told: asyncio.Future[None]


class RunEnds:
    """Writes the ends of the runs of a process."""

    def __init__(self, database: Database, store: RunStore, kit: JournalKit, on_ends: OnEnds) -> None:
        self._database = database
        self._store = store
        self._kit = kit
        self._on_ends = on_ends
        self._waiting: list[_Ending] = []
        self._writing: asyncio.Task[None] | None = None

    async def end(self, journal: Journal, end: RunEnd) -> None:
        """End a run together with others; raise RunSuperseded where another worker has it by now."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Ending(journal, end, told))
        if self._writing is None:
            # Runs of several requests end together, so none of their contexts is that of the task.
            self._writing = asyncio.create_task(self._write_all(), context=Context())
        await told

    async def end_alone(self, journal: Journal, end: RunEnd, conclusion: Callable[[Transaction], None]) -> None:
        """End a run together with what its governor concludes, in one transaction of their own."""

        def work(tx: Transaction) -> None:
            if self._end(tx, [(journal, end)]):
                raise _superseded(journal.lease)
            conclusion(tx)

        await self._database.write(end.tenant_id, work)

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                tenant_id = self._waiting[0].end.tenant_id
                some = [each for each in self._waiting if each.end.tenant_id == tenant_id][:_MOST]
                self._waiting = [each for each in self._waiting if each not in some]
                await self._write(tenant_id, some)
        finally:
            self._writing = None

    async def _write(self, tenant_id: str, some: list[_Ending]) -> None:
        pairs = [(each.journal, each.end) for each in some]
        try:
            lost = await self._database.write(tenant_id, lambda tx: self._end(tx, pairs))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            if len(some) > 1 and not isinstance(error, (StorageBusy, StorageUnavailable)) and not _is_unknown(error):
                for each in some:
                    await self._write(tenant_id, [each])
                return
            for each in some:
                _tell(each, error)
            return
        for each in some:
            _tell(each, _superseded(each.journal.lease) if each.journal.lease in lost else None)

    def _end(self, tx: Transaction, pairs: Sequence[tuple[Journal, RunEnd]]) -> set[Lease]:
        """Write the ends of runs of one tenant; gives the leases that stood no more, for which nothing was written."""
        leases = [journal.lease for journal, _ in pairs]
        standing = self._kit.dispatcher.let_go(tx, leases)
        told: list[RunEnd] = []
        rows: list[tuple[Any, ...]] = []
        ended: list[EndedRun] = []
        for journal, end in pairs:
            lease = journal.lease
            if lease not in standing:
                continue
            error = None if end.error is None else journal.clean(end.error)
            raw = encode_outcome(end.output, error)
            answer = self._kit.seals.seal(lease.tenant_id, answer_place(lease.run_id), raw)
            code = None if error is None else error["code"]
            rows += journal.unstored()
            ended.append(EndedRun(lease.run_id, end.state, journal.now(), answer, code, lease.epoch))
            told.append(end._replace(error=error))
        if told:
            tx.insert_missing("run_steps", STEP_COLUMNS, rows)
            self._store.end_all(tx, told[0].tenant_id, ended)
            self._on_ends(tx, told)
        return {lease for lease in leases if lease not in standing}


def _superseded(lease: Lease) -> RunSuperseded:
    return RunSuperseded(f"run {lease.run_id!r} was taken over or ended", run_id=lease.run_id)


def _is_unknown(error: Exception) -> bool:
    return isinstance(error, StorageError) and error.details.get("commit") == "unknown"


def _tell(ending: _Ending, error: Exception | None) -> None:
    if ending.told.done():  # whoever waited was cancelled
        return
    if error is None:
        ending.told.set_result(None)
    else:
        ending.told.set_exception(error)
