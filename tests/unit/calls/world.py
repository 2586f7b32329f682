"""A small world for tests of the call path: tools that read, write, fail, hang and lie, and what they did."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal

from twinraven.calls import (
    CallContext,
    Calls,
    Claims,
    PolicyDecision,
    SkillInvocationRequest,
    SkillInvocationResponse,
)
from twinraven.catalog import Catalog, FunctionTools, ToolAnswer, ToolEntry, tool
from twinraven.connectors import PythonConnector
from twinraven.foundation.errors import ToolUnavailable
from twinraven.muninn import Collector, MuninnEvent, SqlEventStore
from twinraven.storage import Database

TENANT = "default"
SESSION = "session"
HERE = CallContext(SESSION)


class Gate:
    """Policy that says what the test tells it to, and remembers what it was asked."""

    judges_reads = False

    def __init__(self) -> None:
        self.verdict: Literal["allow", "deny", "ask"] = "allow"
        self.asked: list[SkillInvocationRequest] = []

    async def decide(self, entry: ToolEntry, request: SkillInvocationRequest, context: CallContext) -> PolicyDecision:
        del entry, context
        self.asked.append(request)
        return PolicyDecision(self.verdict, "the rule says so", rule="rule-1")


class Tools:
    """The tools, with what they did."""

    def __init__(self) -> None:
        self.effects: list[Any] = []
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.four = threading.Barrier(4)
        self.is_down = False
        self.is_off = False
        self.calls: Calls | None = None

    @tool(effect="read")
    async def get_order(self, order_id: int, language: str = "en") -> dict[str, Any]:
        """One order."""
        return {"order_id": order_id, "language": language}

    @tool(effect="read")
    def read_slowly(self, seconds: float) -> float:
        """Answer after a while, on a thread."""
        time.sleep(seconds)
        return seconds

    @tool(effect="read", timeout_ms=60_000)
    def read_together(self) -> int:
        """Answer when four threads are here."""
        return self.four.wait(30)

    @tool(effect="write", sensitivity="high")
    async def refund(self, order_id: int, amount: str = "1.00") -> dict[str, Any]:
        """Give money back."""
        if self.is_down:
            raise ToolUnavailable("the bank is away")
        if self.is_off:
            off = ToolUnavailable("somebody turned it off")
            off.retryable = False
            raise off
        self.effects.append(order_id)
        return {"refunded": order_id, "amount": amount, "number": len(self.effects)}

    @tool(effect="write")
    async def pay_and_refund(self, order_id: int) -> Any:
        """Pay, and then give money back by way of the other tool."""
        self.effects.append("paid")
        assert self.calls is not None
        return await self.calls.call("refund", {"order_id": order_id}, HERE)

    @tool(effect="write")
    async def refund_patiently(self, order_id: int) -> dict[str, Any]:
        """Give money back when the test says so."""
        self.started.set()
        await self.go_on.wait()
        self.effects.append(order_id)
        return {"refunded": order_id}

    @tool(effect="read")
    async def read_patiently(self) -> int:
        """Answer when the test says so."""
        self.started.set()
        await self.go_on.wait()
        return 1

    @tool(effect="read", timeout_ms=20)
    async def read_too_long(self) -> int:
        """Never answer."""
        await asyncio.Event().wait()
        return 1

    @tool(effect="write", timeout_ms=50)
    def refund_late(self, order_id: int) -> int:
        """Give money back, but too late for whoever asked."""
        time.sleep(0.15)
        self.effects.append(order_id)
        return order_id

    @tool(effect="read")
    async def misbehave(self, how: str) -> Any:
        """Fail in a way of the caller's choice."""
        errors: dict[str, BaseException] = {
            "error": ValueError("no such order"),
            "exit": SystemExit(3),
            "stop": StopAsyncIteration(),
            "timeout": TimeoutError("upstream"),
            "cancel": asyncio.CancelledError(),
        }
        if how in errors:
            raise errors[how]
        deep: Any = 1
        for _ in range(300):
            deep = [deep]
        return {"deep": deep, "huge": 2**9000, "nan": float("nan"), "set": {2, 1}}[how]

    @tool(effect="write", name="pay_badly")
    def stop_iteration(self) -> int:
        """Raise what a future cannot carry."""
        raise StopIteration

    @tool(effect="read")
    async def lie(self) -> int:
        """Answer what the schema forbids."""
        return "not a number"  # type: ignore[return-value] # pyright: ignore[reportReturnType]

    @tool(effect="read")
    async def think(self) -> Any:
        """Answer with what it cost."""
        return ToolAnswer("an idea", tokens=120, currency="EUR", amount="0.0042", confidence_score=0.7)

    @tool()
    async def frobnicate(self) -> int:
        """Do something that nobody declared."""
        self.effects.append("frobnicated")
        return 1

    @tool(effect="read")
    def recurse(self, depth: int) -> int:
        """Run out of stack."""
        return self.recurse(depth + 1) if depth < sys.maxsize else depth


class World:
    """The call path over one database, and a way to look at what it recorded."""

    def __init__(self, database: Database) -> None:
        self.tools = Tools()
        self.gate = Gate()
        self.functions = FunctionTools(
            value for name in dir(self.tools) if hasattr(value := getattr(self.tools, name), "__twinraven_tool__")
        )
        self.collector = Collector(database)
        self.store = SqlEventStore(database)
        self.connector = PythonConnector(self.functions, threads=4)
        self.catalog = Catalog(self.functions)
        self.calls = Calls(
            self.catalog, self.collector, Claims(database), [self.connector], gate=self.gate, default_timeout_ms=5_000
        )
        self.tools.calls = self.calls

    async def invoke(
        self, tool_name: str, payload: dict[str, Any] | None = None, *, context: CallContext = HERE, **fields: Any
    ) -> SkillInvocationResponse:
        request = SkillInvocationRequest(tool_name=tool_name, payload={} if payload is None else payload, **fields)
        return await self.calls.invoke(request, context)

    async def events(self) -> tuple[MuninnEvent, ...]:
        self.collector.flush()
        return (await self.store.session(TENANT, SESSION)).events

    def close(self) -> None:
        self.connector.close()
        self.collector.close()


@contextmanager
def open_world(database: Database) -> Generator[World]:
    world = World(database)
    yield world
    world.close()


def code(response: SkillInvocationResponse) -> str | None:
    """The error's code, where there is one."""
    return None if response.error is None else response.error["code"]
