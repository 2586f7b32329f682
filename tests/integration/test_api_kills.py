"""kill -9 around a request that makes something: its key makes it once, or says that nobody knows."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.api_client import Door, Reply
from tests.homes import make_home
from twinraven.api import api_app
from twinraven.app import TwinRaven, open_home
from twinraven.foundation.clock import now_micros
from twinraven.serving import Authenticator
from twinraven.tenancy import LOCAL

_SERVICE = {"name": "shop", "type": "rest_api", "protocol": "https", "connection_schema": {"type": "object"}}
_KEY = {"idempotency-key": "one"}
_LATER_US = 10 * 60 * 1_000_000


@pytest.mark.parametrize(("moment", "made"), [("before", 0), ("after", 1)])
def test_a_server_that_dies_while_it_makes_something(tmp_path: Path, moment: str, made: int) -> None:
    """The same request again is refused while it may be running and afterwards; nothing is made twice."""
    home = make_home(tmp_path)
    child = os.fork()
    if child == 0:
        _die(home, moment)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    for micros, code in ((now_micros, "CALL_IN_PROGRESS"), (lambda: now_micros() + _LATER_US, "EFFECT_UNKNOWN")):
        with open_home(home, micros=micros) as raven:
            again, there = asyncio.run(_ask_again(_door(raven)))
        assert (again.status, again.json()["code"]) == (409, code)
        assert len(there.json()["items"]) == made


def test_spans_that_were_acknowledged_outlive_the_server(tmp_path: Path) -> None:
    """A call whose trace was not whole when the server died is in the log once the trace goes on, inside its caller."""
    home = make_home(tmp_path)
    child = os.fork()
    if child == 0:
        _die_after(home, _spans(_tool_span(3, parent=2)))
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL

    async def go_on(raven: TwinRaven) -> list[dict[str, Any]]:
        door = _door(raven)
        rest = _spans(_tool_span(2, parent=1), {**_tool_span(1, parent=None), "attributes": []})
        assert (await door.ask("POST", "/v1/traces", rest)).status == 200
        return (await door.ask("GET", "/v1/events")).json()["items"]

    with open_home(home) as raven:
        outer, inner = asyncio.run(go_on(raven))
    assert (outer["tool_id"], inner["tool_id"], inner["parent_event_id"]) == ("tool_2", "tool_3", outer["event_id"])


def _spans(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def _tool_span(number: int, *, parent: int | None) -> dict[str, Any]:
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool_{number}"}
    return {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "startTimeUnixNano": str(1_760_000_000_000_000_000 + number),
        "attributes": [{"key": name, "value": {"stringValue": value}} for name, value in told.items()],
    }


def _die_after(home: Path, body: dict[str, Any]) -> NoReturn:
    """Take one request with spans, and be gone once it was answered."""

    async def serve() -> None:
        with open_home(home) as raven:
            if (await _door(raven).ask("POST", "/v1/traces", body)).status == 200:
                os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(serve())
    os._exit(1)


async def _ask_again(door: Door) -> tuple[Reply, Reply]:
    return await door.ask("POST", "/v1/services", _SERVICE, headers=_KEY), await door.ask("GET", "/v1/services")


def _die(home: Path, moment: str) -> NoReturn:
    """Serve one request in this process, and be gone before or after what it asks for was done."""

    async def end(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def serve() -> None:
        with open_home(home) as raven:
            place: Any = raven.defined.services if moment == "before" else raven.claims
            setattr(place, "create" if moment == "before" else "settle", end)
            await _door(raven).ask("POST", "/v1/services", _SERVICE, headers=_KEY)

    asyncio.run(serve())
    os._exit(1)


def _door(raven: TwinRaven) -> Door:
    return Door(api_app(raven, Authenticator(raven.tenancy, without_key=LOCAL)))
