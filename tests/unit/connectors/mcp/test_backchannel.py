"""Whose client a server's question is for, on a connection that several share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from twinraven.connectors.mcp.backchannel import Backchannel, CallSide, ClientSide
from twinraven.foundation.errors import ToolError


class Client:
    """A client that answers with its own name."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.capabilities: Mapping[str, Any] = {}
        self.log_level = None
        self.inputs: Mapping[str, Any] = {}
        self.takes_questions = False
        self.logged: list[Any] = []

    async def report(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, message: dict[str, Any]) -> None:
        self.logged.append(message)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        del method, params
        return {"from": self.client}


async def asked(back: Backchannel) -> str:
    return (await back.asked("elicitation/create", {}))["from"]


async def test_the_only_client_with_calls_is_asked() -> None:
    """Several calls of one client are no doubt."""
    back, ada = Backchannel(ClientSide()), Client("ada")
    with back.during(CallSide(ada)), back.during(CallSide(ada)):
        assert await asked(back) == "ada"
        await back.said({"level": "info"})
    assert ada.logged == [{"level": "info"}]


async def test_the_call_that_is_left_is_the_one_that_asks() -> None:
    """A question waits for the calls that were under way when it came, and calls that came later do not matter."""
    back, ada, bob, eve = Backchannel(ClientSide()), Client("ada"), Client("bob"), Client("eve")
    with back.during(CallSide(bob)):
        with back.during(CallSide(ada)):
            asking = asyncio.ensure_future(asked(back))
            await asyncio.sleep(0)
            await back.said({"level": "info"})
            with back.during(CallSide(eve)):
                await asyncio.sleep(0.01)
                assert not asking.done()
        assert await asking == "bob"
    assert not ada.logged
    assert not bob.logged


async def test_a_question_that_may_be_anybodys_is_refused() -> None:
    """Nobody guesses."""
    back = Backchannel(ClientSide())
    back.patience_s = 0.01
    both = back.during(CallSide(Client("ada"))), back.during(CallSide(Client("bob")))
    with both[0], both[1], pytest.raises(ToolError, match="several clients"):
        await asked(back)


async def test_a_question_outside_of_calls() -> None:
    """It is for the one client that there is, if there is one."""
    side, ada = ClientSide(), Client("ada")
    back = Backchannel(side)
    with pytest.raises(ToolError, match="no client"):
        await asked(back)
    side.standing = lambda: ada
    assert await asked(back) == "ada"


async def test_a_call_lives_while_its_client_is_asked() -> None:
    """Progress and questions begin a call's time anew."""
    extended: list[None] = []
    call = CallSide(Client("ada"), lambda: extended.append(None))
    await call.progress(1, None, None)
    await call.ask("roots/list", {})
    assert len(extended) >= 2
