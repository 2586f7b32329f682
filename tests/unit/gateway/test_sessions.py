"""Which session a call belongs to, by the first thing that is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from twinraven.gateway.sessions import Place, Sessions

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def place(sessions: Sessions, *, tenant: str = "acme", key: str = "k1", **known: Any) -> Place:
    stated: dict[str, Any] = {"process": None, "protocol": None, "meta": None, **known}
    return sessions.place(tenant, key=key, **stated)


def test_the_first_thing_known_decides() -> None:
    """A process goes before a protocol session, then come a conversation, a trace, and last the key."""
    sessions = Sessions(idle_gap_s=900)
    meta = {"conversation_id": "c7", "traceparent": TRACE}
    assert place(sessions, process="stdio-1", protocol="s1", meta=meta).session_id == "stdio-1"
    assert place(sessions, protocol="s1", meta=meta).session_id == "mcp-s1"
    assert place(sessions, meta=meta).session_id == "conversation-c7"
    assert place(sessions, meta={"traceparent": TRACE}).session_id == "trace-4bf92f3577b34da6a3ce929d0e0e4736"
    assert place(sessions).session_id.startswith("key-k1-")


def test_calls_under_one_key_are_one_session_until_a_long_pause() -> None:
    """Without anything better, a key's calls belong together as long as they follow each other."""
    clock = Clock()
    sessions = Sessions(idle_gap_s=900, clock=clock)
    first = place(sessions)
    clock.now = 800
    assert place(sessions) == first
    clock.now = 1600
    assert place(sessions) == first
    clock.now = 2600
    after = place(sessions)
    assert after.session_id != first.session_id
    assert after.outside_input is None


def test_a_long_pause_inside_a_session_is_input_from_outside() -> None:
    """A session that goes on after a long pause goes on because somebody said something."""
    clock = Clock()
    sessions = Sessions(idle_gap_s=900, clock=clock)
    place(sessions, process="stdio-1")
    clock.now = 899
    assert place(sessions, process="stdio-1").outside_input is None
    clock.now = 3000
    assert place(sessions, process="stdio-1") == Place("stdio-1", "a pause of 2101 s")


def test_tenants_and_keys_do_not_share_sessions() -> None:
    """The same key of another tenant, or another key, is another session."""
    sessions = Sessions(idle_gap_s=900)
    ids = {place(sessions, tenant=tenant, key=key).session_id for tenant in ("a", "b") for key in ("k", "l")}
    assert len(ids) == 4


@pytest.mark.parametrize("value", ["", "x" * 500, "line\nbreak", 7, None, {"a": 1}])
def test_what_cannot_be_a_name_is_passed_over(value: Any) -> None:
    """A conversation id that no session could have is as good as none."""
    sessions = Sessions(idle_gap_s=900)
    assert place(sessions, meta={"conversation_id": value}).session_id.startswith("key-")
    assert place(sessions, meta={"conversation_id": value, "threadId": "t"}).session_id == "conversation-t"
