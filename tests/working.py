"""Homes in which runs are worked on, and tools whose effects can be counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.homes import make_home
from tests.postgres import PostgresLogin
from twinraven.app import TwinRaven, open_home
from twinraven.catalog import tool
from twinraven.engine import Run, RunDetail, RunRequest
from twinraven.flow import FlowDefinition
from twinraven.foundation.errors import ToolError, ToolUnavailable
from twinraven.tenancy import LOCAL, Principal

FAST = {"poll_s": 0.02, "lease_s": 30.0, "drain_s": 5.0}
"""Workers that look often and keep their runs on a busy machine; tests of takeovers state a short lease."""
AGENT = Principal("default", "planner", "member", kind="agent")


@dataclass
class Shop:
    """A shop with a stock, a bank and a bell."""

    calls: list[str] = field(default_factory=list[str])
    failures: int = 0
    gate: asyncio.Event | None = None

    @tool(effect="read")
    async def look(self, item: str) -> dict[str, Any]:
        """The price of an item."""
        self.calls.append(f"look {item}")
        return {"item": item, "price": 5}

    @tool(effect="write")
    async def reserve(self, item: str) -> dict[str, Any]:
        """Put an item aside."""
        self.calls.append(f"reserve {item}")
        if self.gate is not None:
            await self.gate.wait()
        return {"reserved": item}

    @tool(effect="write", timeout_ms=300)
    async def slow(self, item: str) -> dict[str, Any]:
        """Put an item aside, and answer late."""
        self.calls.append(f"slow {item}")
        if self.gate is not None:
            await self.gate.wait()
        return {"reserved": item}

    @tool(effect="write", takes_key=True)
    async def charge(self, item: str, amount: int, idempotency_key: str = "") -> dict[str, Any]:
        """Take money."""
        self.calls.append(f"charge {item} {amount} {idempotency_key}")
        return {"charged": amount}

    @tool(effect="write")
    async def flaky(self, item: str) -> str:
        """Fail a few times, then work."""
        self.calls.append(f"flaky {item}")
        if self.failures > 0:
            self.failures -= 1
            raise ToolUnavailable("not now")
        return item

    @tool(effect="write")
    async def broken(self, item: str) -> str:
        """Fail for good, until it is mended."""
        self.calls.append(f"broken {item}")
        if self.failures > 0:
            self.failures -= 1
            raise ToolError("out of order")
        return item

    @property
    def tools(self) -> list[Any]:
        return [self.look, self.reserve, self.slow, self.charge, self.flaky, self.broken]


@contextmanager
def shop_home(
    folder: Path,
    shop: Shop,
    *,
    postgres: PostgresLogin | None = None,
    engine: dict[str, Any] | None = None,
    **more: Any,
) -> Generator[TwinRaven]:
    """An opened home with the shop's tools and quick workers."""
    home = make_home(folder, postgres=postgres, engine={**FAST, **(engine or {})}, **more)
    with open_home(home, functions=shop.tools) as raven:
        yield raven


@asynccontextmanager
async def working(raven: TwinRaven, types: Iterable[str] | None = None) -> AsyncGenerator[str]:
    """Work on runs while the block lasts; gives the worker's id."""
    async with raven.working(types) as worker:
        yield worker.worker_id


async def reach(raven: TwinRaven, run_id: str, *states: str, patience_s: float = 120.0) -> RunDetail:
    """The run, once it has come to one of these states."""
    async with asyncio.timeout(patience_s):
        while True:
            found = await raven.runs.get("default", run_id)
            if found.run.state in states:
                return found
            await asyncio.sleep(0.02)


async def until(holds: Callable[[], bool], *, patience_s: float = 120.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(patience_s):
        while not holds():  # noqa: ASYNC110 - what it asks sets no event
            await asyncio.sleep(0.01)


async def until_listed(raven: TwinRaven, target: str) -> None:
    """Wait until there is a run of this."""
    async with asyncio.timeout(20):
        while target not in {run.target for run in await raven.runs.list("default")}:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)


async def until_waits(raven: TwinRaven, run_id: str, count: int) -> RunDetail:
    """The run, once it has asked so often."""
    async with asyncio.timeout(20):
        while len((found := await raven.runs.get("default", run_id)).waits) < count:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
    return found


async def start(raven: TwinRaven, steps: list[dict[str, Any]], *, by: Principal = LOCAL, **more: Any) -> Run:
    """Start a run of a flow that is given as data."""
    return await raven.runs.start(RunRequest({}, definition=flow_of(steps), **more), by=by)


def flow_of(steps: list[dict[str, Any]], **more: Any) -> FlowDefinition:
    """A flow of these steps, numbered."""
    body: dict[str, Any] = {
        "tool_id": "order",
        "description": "An order",
        "parameters": {"type": "object"},
        "steps": [{"step_index": number, **step} for number, step in enumerate(steps)],
        **more,
    }
    return FlowDefinition.from_json(body)


def step(tool_id: str, **inputs: Any) -> dict[str, Any]:
    return {"tool_id": tool_id, "input_mapping": inputs}
