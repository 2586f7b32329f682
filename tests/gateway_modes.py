"""A house with a small shop, whose gateway is opened from settings in this process, and a client in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types

from tests.gateways import Watched, open_client
from tests.homes import opened_home
from twinraven import tool
from twinraven.app import TwinRaven
from twinraven.gateway import Gateway
from twinraven.muninn import EventFilter, MuninnEvent


@dataclass
class Shop:
    """Tools over orders, what was paid through them, and what was read."""

    paid: list[str] = field(default_factory=list[str])
    read: list[str] = field(default_factory=list[str])

    def tools(self) -> list[Callable[..., Any]]:
        @tool(effect="read")
        def list_orders(customer: str) -> dict[str, Any]:
            """Lists the orders of a customer."""
            return {"orders": [{"id": f"{customer}-{number}"} for number in range(3)]}

        @tool(effect="read")
        def get_order(order_id: str) -> dict[str, Any]:
            """Reads one order: its total and its state."""
            self.read.append(order_id)
            if order_id == "gone":
                raise ValueError("there is no such order")
            return {"id": order_id, "total": len(order_id)}

        @tool(effect="write")
        def pay(to: str) -> dict[str, str]:
            """Sends money to somebody."""
            self.paid.append(to)
            return {"paid": to}

        @tool(effect="write")
        def send_mail(to: str) -> dict[str, str]:
            """Sends a mail to somebody."""
            self.paid.append(f"mail {to}")
            return {"sent": to}

        return [list_orders, get_order, pay, send_mail]


@dataclass
class House:
    """A gateway at work: its home, its shop and its client."""

    raven: TwinRaven
    shop: Shop
    seen: Watched

    async def run(self, code: str, **arguments: Any) -> types.CallToolResult:
        return await self.seen.call("run_code", code=code, **arguments)

    async def result(self, code: str) -> Any:
        """What a script that must succeed answers."""
        answer = await self.run(code)
        assert not answer.is_error, answer.content
        return value_of(answer)["result"]

    async def events(self) -> list[MuninnEvent]:
        await asyncio.to_thread(self.raven.collector.flush)
        return await self.raven.events.events("default", EventFilter(limit=1_000))


@asynccontextmanager
async def open_house(
    folder: Path, mode: str, *, client: str = "auto", batch: bool = False, repeat_reads_s: float = 0.0, **sections: Any
) -> AsyncGenerator[House]:
    """A house whose settings say this mode, and a client of either era."""
    shop = Shop()
    settings = {"mode": mode, "batch": batch, "repeat_reads_s": repeat_reads_s}
    with opened_home(folder, shop.tools(), gateway=settings, **sections) as raven:
        async with Gateway(raven).running() as server, open_client(server.mcp, mode=client) as seen:
            yield House(raven, shop, seen)


def code_of(answer: types.CallToolResult) -> str | None:
    """The stable code of an answer that is an error."""
    return error_of(answer).get("code") if answer.is_error else None


def error_of(answer: types.CallToolResult) -> dict[str, Any]:
    """What an answer says of its error, for programs."""
    meta: dict[str, Any] = answer.meta or {}
    return meta.get("twinraven/error") or {}


def value_of(answer: types.CallToolResult) -> dict[str, Any]:
    """The structured content of an answer."""
    assert answer.structured_content is not None
    return answer.structured_content


def text_of(answer: types.CallToolResult) -> str:
    return "\n".join(block.text for block in answer.content if isinstance(block, types.TextContent))
