"""Waits for the end of a run on behalf of a call, and lends a worker where none is heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

from twinraven.engine.errors import RunUnfinished
from twinraven.engine.service import Runs
from twinraven.engine.views import RunDetail

_FIRST_LOOK_S: Final = 0.01
_LONGEST_LOOK_S: Final = 0.25
_HEARD_AGAIN_S: Final = 0.5
_FOR_PEOPLE: Final = ("person", "approval", "effect")

Lend = Callable[[], AbstractAsyncContextManager[Any]]
"""Works on runs in this process while a block lasts."""


@asynccontextmanager
async def somebody_working(runs: Runs, lend: Lend) -> AsyncGenerator[None]:
    """Work here while the block lasts, once no worker is heard: one that was killed is heard until its lease ends."""
    if not await _is_heard(runs):
        async with lend():
            yield
        return
    standing_in = asyncio.create_task(_stand_in(runs, lend))
    try:
        yield
    finally:
        standing_in.cancel()
        with suppress(asyncio.CancelledError):
            await standing_in


async def _stand_in(runs: Runs, lend: Lend) -> None:
    """Wait until no worker is heard, and work from then on until cancelled."""
    is_heard = True
    while is_heard:
        await asyncio.sleep(_HEARD_AGAIN_S)
        is_heard = await _is_heard(runs)
    async with lend():
        await asyncio.get_running_loop().create_future()


async def _is_heard(runs: Runs) -> bool:
    return any(worker.status != "offline" for worker in await runs.workers())


async def ended_run(runs: Runs, tenant_id: str, run_id: str) -> RunDetail:
    """Return the run when it has ended; RunUnfinished when it waits for a person."""
    pause_s = _FIRST_LOOK_S
    while True:
        while (await runs.look_at(tenant_id, run_id)).state in ("queued", "running"):
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_LOOK_S)
        found = await runs.get(tenant_id, run_id, exact=True)
        if found.run.finished_at is not None:
            return found
        asked = [wait.place for wait in found.waits if wait.answered_at is None and wait.kind in _FOR_PEOPLE]
        if found.run.state == "waiting" and asked:
            raise RunUnfinished(
                f"run {run_id} waits for a person at {', '.join(asked)}; it goes on when somebody has answered",
                run_id=run_id,
                places=asked,
            )
        if found.run.state == "set_aside":
            raise RunUnfinished(f"run {run_id} was set aside; a person must resume it", run_id=run_id)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_LOOK_S)
