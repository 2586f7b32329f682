"""One user cannot take the protocol sessions of another: the places of the HTTP door are shared."""

from __future__ import annotations

from typing import Any, cast

import pytest

from twinraven.gateway.http import KeyCheck
from twinraven.gateway.session_limit import SessionLimit, TooManySessions
from twinraven.serving import Authenticator
from twinraven.tenancy import Principal

ADA, BOB, EVE = (Principal("default", name, "member") for name in ("ada", "bob", "eve"))


def take_all(places: SessionLimit, who: Principal) -> int:
    """Open sessions until one is refused; says how many were opened."""
    for number in range(1_000):
        try:
            places.refuse_greedy(who)
        except TooManySessions:
            return number
        places.opened(who, f"{who.tenant_id}/{who.user_id}/{number}")
    raise AssertionError("nobody was refused")


def test_whoever_takes_all_they_can_leaves_places_to_others() -> None:
    """Each user gets half of what is left, so that the next one always finds room; another tenant's is another user."""
    places = SessionLimit(80)
    assert [take_all(places, who) for who in (ADA, BOB, EVE)] == [40, 20, 10]
    assert take_all(places, Principal("other", "ada", "member")) == 5
    with pytest.raises(TooManySessions, match="you have 40 MCP sessions open"):
        places.refuse_greedy(ADA)


def test_places_of_ended_and_unused_sessions_are_free() -> None:
    """What a client ended, and what nobody used for half an hour, counts no more; what is used goes on counting."""
    now = [0.0]
    places = SessionLimit(4, idle_s=1_800, clock=lambda: now[0])
    assert take_all(places, ADA) == 2
    places.ended("default/ada/0")
    places.refuse_greedy(ADA)
    places.opened(ADA, "again")
    now[0] = 1_000
    places.used("again")
    now[0] = 1_801
    assert take_all(places, ADA) == 1
    places.ended("never opened")


class OneDoor:
    """An application that opens a session for whoever names none, behind the check of keys."""

    def __init__(self, places: SessionLimit) -> None:
        self.opened = 0
        self.check = KeyCheck(self, cast("Authenticator", self), cast("Any", None), places)

    async def admit(self, headers: dict[bytes, bytes], *, client: object) -> Principal:
        del client
        return Principal("default", headers[b"x-user"].decode(), "member")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del receive
        headers: list[tuple[bytes, bytes]] = []
        if b"mcp-session-id" not in dict(scope["headers"]) and b"mcp-protocol-version" not in dict(scope["headers"]):
            self.opened += 1
            headers = [(b"mcp-session-id", b"s%d" % self.opened)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def ask(self, user: str, *, method: str = "POST", **more: str) -> int:
        headers = [(b"x-user", user.encode()), *((k.replace("_", "-").encode(), v.encode()) for k, v in more.items())]
        statuses: list[int] = []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope = {"type": "http", "method": method, "path": "/mcp", "headers": headers}
        await self.check(scope, cast("Any", None), send)
        return statuses[0]


async def test_a_client_that_opens_sessions_without_end_shuts_nobody_out() -> None:
    """One more is refused with 429 and opens nothing; open ones go on, a colleague gets in, and an end makes room."""
    door = OneDoor(SessionLimit(8))
    assert [await door.ask("ada") for _ in range(6)] == [200] * 4 + [429] * 2
    assert door.opened == 4
    assert await door.ask("ada", mcp_session_id="s1") == 200
    assert await door.ask("ada", mcp_protocol_version="2026-07-28") == 200
    assert [await door.ask("bob") for _ in range(2)] == [200] * 2
    assert await door.ask("ada", method="DELETE", mcp_session_id="s1") == 200
    assert await door.ask("ada", method="DELETE", mcp_session_id="s2") == 200
    assert await door.ask("ada") == 200
