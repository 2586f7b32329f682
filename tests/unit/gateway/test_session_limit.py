"""One user cannot take the protocol sessions of another: the places of the HTTP door are shared."""

from __future__ import annotations

import pytest

from twinraven.gateway.session_limit import SessionLimit, TooManySessions
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
