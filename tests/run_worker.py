"""A worker process whose tools leave countable effects, to be killed.

    python -m tests.run_worker HOME FOLDER
    python -m tests.run_worker chain FOLDER TOOL STEPS    runs one chain of calls in a new home, and ends
    python -m tests.run_worker whole HOME FOLDER RUN      starts a run, works on it, answers it, and ends when it has
    python -m tests.run_worker wholes HOME FOLDER         the same for runs that stdin names, in forks (tests/dying.py)

Each effect is one line, the tool, the item and nothing else. `pay` has an effect whenever it is called, a line in
FOLDER/effects; `book` recognises a repetition by its key, as a provider does, a file of one line for each key.
`RUN_WORKER_PAUSE` is how long a call takes, `RUN_WORKER_KEYLESS` makes every attempt a new call, as a control, and
`RUN_WORKER_STRICT` lets reads cost money, so that each answer is stored at once.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.dying import serve
from tests.homes import make_home
from tests.working import reach, start, step, working
from twinraven.app import open_home
from twinraven.catalog import tool
from twinraven.engine import invoker
from twinraven.flow import StepRun
from twinraven.foundation.errors import IllegalTransition, NotFound
from twinraven.foundation.ids import new_id
from twinraven.tenancy import LOCAL

_folder = Path()


def effect(line: str) -> None:
    """Leave an effect that survives this process."""
    out = os.open(_folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(out, f"{line}\n".encode())
    os.close(out)


def effects_in(folder: Path) -> Counter[str]:
    """What has happened, and how often."""
    files = [each for each in (folder / "effects", *folder.glob("key-*")) if each.exists()]
    return Counter(line for each in files for line in each.read_text().splitlines())


async def _take_time() -> None:
    await asyncio.sleep(random.uniform(0, float(os.environ.get("RUN_WORKER_PAUSE", "0.02"))))


@tool(effect="read")
async def look(item: str) -> dict[str, str]:
    """The item, as it is."""
    await _take_time()
    return {"item": item}


@tool(effect="write")
async def pay(item: str) -> dict[str, str]:
    """Pay, each time anew."""
    await _take_time()
    effect(f"pay {item}")
    await _take_time()
    return {"paid": item}


@tool(effect="write", takes_key=True)
async def book(item: str, idempotency_key: str = "") -> dict[str, str]:
    """Book, once for each key."""
    await _take_time()
    name = idempotency_key.replace("/", "_") or os.urandom(8).hex()
    # The key and the effect come into being in one step, as in a provider's transaction.
    draft = _folder / f"draft-{new_id()}"
    draft.write_text(f"book {item}\n")
    with suppress(FileExistsError):
        os.link(draft, _folder / f"key-{name}")
        await _take_time()
    return {"booked": item}


@tool(effect="write")
async def block(item: str) -> dict[str, str]:
    """Pay, and block the event loop for longer than a lease."""
    import time

    effect(f"block {item}")
    time.sleep(float(os.environ.get("RUN_WORKER_BLOCK", "3")))
    return {"blocked": item}


@tool(effect="read")
async def poison(item: str) -> dict[str, str]:
    """Kill whoever calls it."""
    effect(f"poison {item}")
    os.kill(os.getpid(), 9)
    return {"item": item}


TOOLS: list[Any] = [look, pay, book, block, poison]


def into(folder: Path) -> None:
    """Say where effects of this process go."""
    global _folder  # noqa: PLW0603 - a tool is a plain function and has nowhere else to know its folder from
    _folder = folder


def _fresh_key(_run_id: str, _step: StepRun) -> str:
    return new_id()


async def _main(home: Path) -> None:
    with open_home(home, functions=TOOLS) as raven:
        worker = raven.worker()
        sys.stdout.write(f"{worker.worker_id}\n")
        sys.stdout.flush()
        await worker.work(asyncio.Event())


async def _run_chain(folder: Path, tool_id: str, steps: int) -> None:
    home = make_home(folder, engine={"lease_s": 600, "poll_s": 0.2})
    with open_home(home, functions=TOOLS) as raven:
        run = await start(raven, [step(tool_id, item=str(number)) for number in range(steps)])
        async with working(raven):
            await reach(raven, run.run_id, "succeeded", patience_s=120)


async def _run_whole(home: Path, run_id: str) -> None:
    first, last = f"{run_id}.a", f"{run_id}.b"
    steps = [step("look", item=first), step("book", item=first), step("person:boss"), step("book", item=last)]
    with open_home(home, functions=TOOLS) as raven:
        run = await start(raven, steps, run_id=run_id)
        async with working(raven):
            while (await reach(raven, run.run_id, "waiting", "succeeded", patience_s=120)).run.state == "waiting":
                with suppress(IllegalTransition, NotFound):
                    await raven.runs.answer(run.run_id, "2", True, by=LOCAL)


if __name__ == "__main__":
    if sys.argv[1] in ("whole", "wholes"):
        into(Path(sys.argv[3]))
        place = Path(sys.argv[2])
        if sys.argv[1] == "wholes":
            serve(lambda run_id: asyncio.run(_run_whole(place, run_id)))
        else:
            asyncio.run(_run_whole(place, sys.argv[4]))
        sys.exit()
    if sys.argv[1] == "chain":
        into(Path(sys.argv[2]).parent)
        if os.environ.get("RUN_WORKER_STRICT"):
            invoker.COSTLY = frozenset({"python"})
        asyncio.run(_run_chain(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
        sys.exit()
    into(Path(sys.argv[2]))
    if os.environ.get("RUN_WORKER_KEYLESS"):
        invoker.step_key = _fresh_key
    asyncio.run(_main(Path(sys.argv[1])))
