"""Which session a call belongs to, by the first thing that names it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from twinraven.gateway.callers import Caller
from twinraven.gateway.sessions import GUESSED, CallSession, Sessions
from twinraven.tenancy import LOCAL

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def place(
    sessions: Sessions,
    meta: dict[str, Any] | None = None,
    *,
    tenant: str = "acme",
    key: str | None = None,
    **known: Any,
) -> CallSession:
    caller = Caller(replace(LOCAL, tenant_id=tenant, key_id=key), **known)
    with sessions.staying(caller, meta or {}, {}) as stay:
        return stay.place


def test_the_first_thing_known_decides() -> None:
    """A session of ours goes first, then a conversation, the protocol session or process, a trace, and last a guess."""
    sessions = Sessions(idle_gap_s=900)
    trace = {"traceparent": TRACE}
    named = trace | {"conversation_id": "c7", "run_id": "r1"}
    assert place(sessions, {"twinraven/session_id": "ticket-17", **named}).session_id == "ticket-17"
    assert place(sessions, named, process="stdio-1").session_id == "conversation-c7"
    assert place(sessions, trace, conversation="h1", protocol="s1").session_id == "conversation-h1"
    assert place(sessions, trace, process="stdio-1").session_id == "stdio-1"
    assert place(sessions, trace, protocol="s1").session_id == "mcp-s1"
    assert place(sessions, trace).session_id == "trace-4bf92f3577b34da6a3ce929d0e0e4736"
    guessed = place(sessions)
    assert guessed.session_id.startswith("guessed-")
    assert guessed.tags == (GUESSED,)


@pytest.mark.parametrize(
    "name",
    [
        *("gen_ai.conversation.id", "conversation_id", "conversationId", "session_id", "sessionId", "thread_id"),
        *("threadId", "vscode.conversationId", "openai/session", "agent-session-id", "run_id", "runId"),
    ],
)
def test_clients_name_conversations_in_their_own_way(name: str) -> None:
    """Each common spelling of a conversation's id names the session, and no such session is marked as guessed."""
    assert place(Sessions(idle_gap_s=900), {name: "c7"}) == CallSession("conversation-c7")


def test_baggage_names_a_conversation() -> None:
    """A conversation in W3C baggage counts, in its percent-encoded form, before the trace beside it."""
    meta = {"traceparent": TRACE, "baggage": "tenant=a, session.id=c%207;ttl=1"}
    assert place(Sessions(idle_gap_s=900), meta).session_id == "conversation-c 7"
    assert place(Sessions(idle_gap_s=900), {"baggage": 7}).session_id.startswith("guessed-")


def test_equal_names_under_different_keys_are_different_sessions() -> None:
    """Two programs that both call their first conversation 1 do not share a session."""
    sessions = Sessions(idle_gap_s=900)
    ids = {place(sessions, {"conversation_id": "1"}, key=key).session_id for key in (None, "k1", "k2")}
    assert len(ids) == 3
    assert place(sessions, {"conversation_id": "1"}, key="k1").session_id in ids


def test_a_long_pause_inside_a_session_is_input_from_outside() -> None:
    """A session that goes on after a long pause goes on because somebody said something."""
    clock = Clock()
    sessions = Sessions(idle_gap_s=900, clock=clock)
    place(sessions, process="stdio-1")
    clock.now = 899
    assert place(sessions, process="stdio-1").outside_input is None
    clock.now = 3000
    assert place(sessions, process="stdio-1") == CallSession("stdio-1", "a pause of 2101 s")


def test_tenants_and_keys_do_not_share_sessions() -> None:
    """The same key of another tenant, or another key, is another session."""
    sessions = Sessions(idle_gap_s=900)
    ids = {place(sessions, tenant=tenant, key=key).session_id for tenant in ("a", "b") for key in ("k", "l")}
    assert len(ids) == 4


@pytest.mark.parametrize("value", ["", "x" * 500, "line\nbreak", 7, None, {"a": 1}])
def test_what_cannot_be_a_name_is_passed_over(value: Any) -> None:
    """A conversation id that no session could have is as good as none."""
    sessions = Sessions(idle_gap_s=900)
    assert place(sessions, {"conversation_id": value}).session_id.startswith("guessed-")
    assert place(sessions, {"conversation_id": value, "threadId": "t"}).session_id == "conversation-t"


def test_words_that_are_repeated_count_once() -> None:
    """A client that sends the prompt with every call says it once; the same prompt elsewhere is said there."""
    sessions = Sessions(idle_gap_s=900)
    said = {"conversation_id": "c7", "user_input": "cancel it"}
    assert [place(sessions, said).outside_input for _ in range(3)] == ["cancel it", None, None]
    assert place(sessions, {**said, "conversation_id": "c8"}).outside_input == "cancel it"
    assert place(sessions, {**said, "user_input": "no, wait"}).outside_input == "no, wait"


def test_headers_stand_for_meta() -> None:
    """What an adapter states in headers counts as if it stood in `_meta`, which goes before it."""
    sessions = Sessions(idle_gap_s=900)
    stated = {"twinraven/session_id": "ticket-1", "twinraven/user_input": "hi", "twinraven/turn": 2}
    assert place(sessions, stated=stated) == CallSession("ticket-1", "hi", turn=2)
    assert place(sessions, {"twinraven/session_id": "ticket-2"}, stated=stated).session_id == "ticket-2"


@pytest.mark.parametrize("turn", [0, -1, True, "3", 10**9, None])
def test_what_is_no_turn_is_none(turn: Any) -> None:
    """A turn that cannot be one is passed over."""
    assert place(Sessions(idle_gap_s=900), {"conversation_id": "c", "twinraven/turn": turn}).turn is None
