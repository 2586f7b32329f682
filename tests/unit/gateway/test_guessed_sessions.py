"""Guessed sessions: by connection, greeting, overlap and values, and split where nothing decides."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from twinraven.gateway.guessed_sessions import GuessedSession, GuessedSessions, SenderHints

KEY = ("default", "local", "mcp 0.1.0", "127.0.0.1")
CALL, LIST, GREET, LISTEN = "tools/call", "tools/list", "server/discover", "subscriptions/listen"


@dataclass
class World:
    """A gateway's view of clients: a clock, connections, and the lanes they are put into."""

    now: float = 100.0
    closed: dict[str, float] = field(default_factory=dict[str, float])
    opened: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        self.lanes = GuessedSessions(gap_s=60, clock=lambda: self.now)

    def opened_at(self, name: str, /) -> float | None:
        return self.opened.get(name)

    def trail(self, connection: str | None) -> SenderHints:
        if connection is not None:
            self.opened.setdefault(connection, self.now)
        return SenderHints("mcp 0.1.0", "127.0.0.1", connection, self)

    def close(self, connection: str) -> None:
        self.closed[connection] = self.now
        self.opened.pop(connection, None)

    def hear(self, connection: str, method: str) -> None:
        with self.lanes.hearing(KEY, self.trail(connection), method):
            pass

    def begin(self, stack: ExitStack, connection: str | None, **arguments: Any) -> GuessedSession:
        """A call that runs until the stack is closed."""
        trail = self.trail(connection)
        stack.enter_context(self.lanes.hearing(KEY, trail, CALL))
        lane = self.lanes.enter(KEY, trail, arguments)
        stack.callback(self.lanes.leave, lane, None)
        return lane

    def call(self, connection: str | None, answer: Any = None, **arguments: Any) -> str:
        """A call from its beginning to its end; gives its session."""
        trail = self.trail(connection)
        with self.lanes.hearing(KEY, trail, CALL):
            lane = self.lanes.enter(KEY, trail, arguments)
            self.now += 0.01
            self.lanes.leave(lane, answer)
        return lane.session_id


def test_clients_that_greet_on_their_own_connections_are_told_apart() -> None:
    """Interleaved calls of three clients are three sessions, one for each connection."""
    world = World()
    for client in "abc":
        world.hear(client, GREET)
    seen = {client: {world.call(client) for _ in range(3)} for client in "abc"}
    assert [len(sessions) for sessions in seen.values()] == [1, 1, 1]
    assert len({session for sessions in seen.values() for session in sessions}) == 3


def test_parallel_calls_on_one_connection_are_one_session() -> None:
    """An agent that calls several tools at once on its connection stays in its session."""
    world = World()
    world.hear("a", GREET)
    with ExitStack() as stack:
        assert len({world.begin(stack, "a").session_id for _ in range(3)}) == 1


def test_a_greeting_begins_a_session() -> None:
    """A second client over the same connection, as with a shared HTTP pool, is another conversation."""
    world = World()
    world.hear("a", GREET)
    first = world.call("a")
    world.hear("a", GREET)
    assert world.call("a") != first


def test_a_pause_ends_a_guessed_session() -> None:
    """Calls with a pause of up to the gap belong together; after a longer one a new session begins."""
    world = World()
    world.hear("a", GREET)
    first = world.call("a")
    world.now += 59
    assert world.call("a") == first
    world.now += 61
    assert world.call("a") != first


def test_a_new_connection_takes_the_place_of_the_one_that_was_just_closed() -> None:
    """Clients that reopen idle connections keep their sessions, though others work at the same time."""
    world = World()
    for client in "ab":
        world.hear(client, GREET)
    before = {client: world.call(client) for client in "ab"}
    for client, again in (("a", "a2"), ("b", "b2")):
        world.now += 6
        world.close(client)
        assert world.call(again) == before[client]


def test_connections_closed_at_once_are_not_mixed_up() -> None:
    """Where two clients reopen at the same moment nobody knows whose is whose, so both begin anew."""
    world = World()
    for client in "ab":
        world.hear(client, GREET)
    before = {world.call(client) for client in "ab"}
    world.now += 6
    world.close("a")
    world.close("b")
    after = {world.call("x"), world.call("y")}
    assert len(before | after) == 4


def test_a_pool_of_connections_says_nothing() -> None:
    """Calls of a client that spreads requests over connections are never put together by connection."""
    world = World()
    world.hear("a", GREET)
    with ExitStack() as stack:
        sessions = [world.begin(stack, "a").session_id, world.begin(stack, "b").session_id]
    sessions += [world.call(connection) for connection in "abab"]
    assert len(set(sessions)) == len(sessions)


def test_values_lead_back_to_their_conversation() -> None:
    """In a pool, a call whose arguments one conversation alone was told belongs to that one."""
    world = World()
    world.hear("a", GREET)
    with ExitStack() as stack:
        one, two = world.begin(stack, "a", q="ducks"), world.begin(stack, "b", q="geese")
        one.learn({"text": "found:\nid-1001\nid-1002"})
        two.learn({"ids": [20071]})
    assert world.call("a", id=20071) == two.session_id
    assert world.call("a", ids=["id-1002"]) == one.session_id
    assert world.call("b", id="id-100") not in {one.session_id, two.session_id}


def test_values_outweigh_a_connection_that_has_none() -> None:
    """A call on one client's connection with values of another's conversation belongs to the latter."""
    world = World()
    for client in "ab":
        world.hear(client, GREET)
    one, two = world.call("a", answer="order-77"), world.call("b", answer="order-88")
    assert world.call("a", order="order-88") == two
    assert world.call("b", order="order-77") == one


def test_a_connection_held_by_a_subscription_is_continued_on_another() -> None:
    """A client that listens on the connection it greeted on calls on a second one, in one session."""
    world = World()
    first = world.call("z")
    world.hear("a", GREET)
    with world.lanes.hearing(KEY, world.trail("a"), LISTEN):
        world.hear("b", LIST)
        session = world.call("b")
        assert session != first
        assert world.call("b") == session


def test_without_connections_overlapping_calls_are_split() -> None:
    """Behind a proxy calls that follow each other are one session, and calls at the same time are not."""
    world = World()
    first = world.call(None)
    assert world.call(None) == first
    with ExitStack() as stack:
        assert world.begin(stack, None).session_id == first
        assert world.begin(stack, None).session_id != first


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=40))
def test_two_greeted_clients_never_share_a_session(steps: list[tuple[int, bool, bool]]) -> None:
    """Whatever the order, overlap and pauses, clients with connections of their own share no session."""
    world = World()
    for client in range(4):
        world.hear(f"c{client}", GREET)
    seen: dict[str, int] = {}
    with ExitStack() as stack:
        for client, overlaps, pauses in steps:
            world.now += 7.0 if pauses else 0.1
            session = world.begin(stack, f"c{client}").session_id if overlaps else world.call(f"c{client}")
            assert seen.setdefault(session, client) == client


def test_memory_is_bounded() -> None:
    """However many callers and calls there are, only so much is remembered of their answers."""
    world = World()
    for number in range(3000):
        key = (*KEY[:2], str(number), "h")
        lane = world.lanes.enter(key, SenderHints(), {})
        world.lanes.leave(lane, "x" * 100_000)
        assert len(lane.told) <= 16_384
    assert len(world.lanes._callers) == 2_000  # pyright: ignore[reportPrivateUsage]
