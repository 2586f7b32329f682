"""What code mode costs and saves: definitions in the prompt beside those of all tools, and an inner call beside a call.

Definitions are what a client is sent for `tools/list`, in tokens of four characters, at the 125 tools of a fleet of
servers. A script of many reads is set against the same reads, one after the other, each a request of the same client:
in both, every call is checked, judged and recorded by the same path.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from mcp import Client

from bench.harness import Harness, Row
from twinraven import tool
from twinraven.app import open_home
from twinraven.gateway import Gateway

TOOLS: Final = 125
CALLS: Final = 100
CHARACTERS_PER_TOKEN: Final = 4
NOUNS: Final = ("order", "invoice", "customer", "ticket", "shipment", "refund", "contract", "product", "price", "stock")
VERBS: Final = (
    "get",
    "list",
    "find",
    "count",
    "compare",
    "export",
    "check",
    "track",
    "explain",
    "rank",
    "group",
    "audit",
)

SCRIPT: Final = f"for number in range({CALLS}): row = await get_order(record_id=str(number))\nrow"


def measure(harness: Harness) -> list[Row]:
    sizes = {mode: asyncio.run(_definition_tokens(mode)) for mode in ("tools", "search", "code")}
    print(f"bench: {sizes} tokens of definitions at {TOOLS} tools")
    rows = [
        harness.compare(
            f"tokens of the definitions at {TOOLS} tools, mode {mode}",
            lambda mode=mode: float(sizes[mode]),
            lambda: float(sizes["tools"]),
            against="mode tools",
            aim=0.1,
        )
        for mode in ("search", "code")
    ]
    what = f"a call inside a script of {CALLS}"
    rows.append(harness.compare(what, _timed(_script), _timed(_one_by_one), against="a request of its own", aim=1.5))
    return rows


async def _definition_tokens(mode: str) -> int:
    async with _open(mode) as client:
        listed = await client.list_tools()
    tools = [each.model_dump(by_alias=True, exclude_none=True, mode="json") for each in listed.tools]
    return len(json.dumps(tools, separators=(",", ":"))) // CHARACTERS_PER_TOKEN


async def _script(client: Client) -> None:
    answer = await client.call_tool("run_code", {"code": SCRIPT})
    assert answer.structured_content is not None, answer
    assert answer.structured_content["calls"] == CALLS


async def _one_by_one(client: Client) -> None:
    for number in range(CALLS):
        answer = await client.call_tool("get_order", {"record_id": str(number)})
        assert not answer.is_error, answer


def _timed(work: Callable[[Client], Coroutine[Any, Any, None]]) -> Callable[[], float]:
    """Seconds of some work of a client that is ready, and whose gateway has run a script before."""

    async def cost() -> float:
        async with _open("code") as client:
            await client.call_tool("run_code", {"code": "await get_order(record_id='first')"})
            begun = time.perf_counter()
            await work(client)
            return time.perf_counter() - begun

    return lambda: asyncio.run(cost())


@asynccontextmanager
async def _open(mode: str) -> AsyncGenerator[Client]:
    """A client in front of a gateway of 125 tools, opened from settings in this process."""
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
        home = Path(folder) / ".twinraven"
        home.mkdir()
        (home.parent / "twinraven.yaml").write_text(json.dumps({"gateway": {"mode": mode}}), encoding="utf-8")
        with open_home(home, functions=_tools()) as raven:
            async with Gateway(raven).running() as server, Client(server.mcp) as client:
                yield client


def _tools() -> list[Callable[..., Any]]:
    """Reads with definitions as long as those of public servers: a sentence or two, and a few parameters."""
    names = [f"{verb}_{noun}" for noun in NOUNS for verb in VERBS]
    names += [f"{noun}_history" for noun in NOUNS[: TOOLS - len(names)]]
    return [_tool(name) for name in names[:TOOLS]]


def _tool(name: str) -> Callable[..., Any]:
    def read(record_id: str, fields: list[str] | None = None, limit: int = 20, since: str = "") -> dict[str, Any]:
        return {"id": record_id, "fields": fields or [], "limit": limit, "since": since}

    read.__name__ = read.__qualname__ = name
    words = name.replace("_", " ")
    read.__doc__ = f"Does {words}: reads the records that the id names, with the fields asked for, the newest first."
    return tool(effect="read")(read)
