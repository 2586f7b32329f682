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
