"""The client and the API's own table of routes agree, so that neither can change without the other."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson
import pytest

from twinraven.api import all_routes
from twinraven.api.contract import Route
from twinraven.api.metrics import Metrics
from twinraven.foundation.json_schema import compile_schema
from twinraven.sdk import ObservedCall
from twinraven.sdk.exchange import Exchange
from twinraven.sdk.operations import Operations
from twinraven.sdk.wire import Letter, Reply, Stream, each, finish

NOW = datetime(2026, 1, 15, tzinfo=UTC)
UUID_TEXT = "00000000-0000-4000-8000-000000000001"
ROUTES = sorted(all_routes(Metrics()), key=lambda route: len(route.names))
"""The plainest first: where a word and a name fit, the word is meant."""

ASKED: dict[str, Callable[[Operations], Any]] = {
    "me": lambda o: o.me(),
    "call": lambda o: o.call("t", {"a": 1}, session_id="s", turn=1, outside_input="x", tags=["a"], task_id="k"),
    "invoke": lambda o: o.invoke("t", session_id="s", idempotency_key="k"),
    "tools": lambda o: o.tools(),
    "tool": lambda o: o.tool("t"),
    "record": lambda o: o.record(
        [
            ObservedCall("s", "t", {}, output=1, turn=1, timestamp=NOW, outcome="success", tags=("a",)),
            ObservedCall("s", "t", {}, error="no", error_code="X", task_id="k", outside_input="x"),
        ]
    ),
    "events": lambda o: o.events(session_id="s", tool_id="t", tag="a", since=NOW, until=NOW, newest=True),
    "event": lambda o: o.event(UUID_TEXT),
    "follow": lambda o: o.follow(session_id="s", tool_id="t", after=3),
    "sessions": lambda o: o.sessions(outcome="success"),
    "session": lambda o: o.session("s"),
    "state_verdict": lambda o: o.state_verdict("s", "failure"),
    "chains": lambda o: o.chains(),
    "chain": lambda o: o.chain(UUID_TEXT),
    "learned_tools": lambda o: o.learned_tools(),
    "learned_tool": lambda o: o.learned_tool("t"),
    "definition": lambda o: o.definition("t", 1),
    "review": lambda o: o.review("t", 1),
    "promote": lambda o: o.promote("t", version=1, rename_to="u", revision=3),
    "reject": lambda o: o.reject("t", "no", version=1, revision=3),
    "roll_back": lambda o: o.roll_back("t", 1, revision=3),
    "retire": lambda o: o.retire("t", note="n", revision=3),
    "quarantine": lambda o: o.quarantine("t", "odd"),
    "release": lambda o: o.release("t", revision=3),
    "approvals": lambda o: o.approvals(state="pending"),
    "approval": lambda o: o.approval("a"),
    "grant": lambda o: o.grant("a", note="n"),
    "deny": lambda o: o.deny("a"),
    "secrets": lambda o: o.secrets(),
    "secret": lambda o: o.secret("s"),
    "add_secret": lambda o: o.add_secret("n", "api_key", "v", shared=True),
    "rotate_secret": lambda o: o.rotate_secret("s", "v", version=1),
    "change_secret": lambda o: o.change_secret("s", name="n", shared=False),
    "delete_secret": lambda o: o.delete_secret("s"),
    "audit": lambda o: o.audit(
        subject_type="a", subject_id="b", event_type="c", actor_id="d", correlation_id="e", newest=True
    ),
    "verify_audit": lambda o: o.verify_audit(),
    "users": lambda o: o.users(),
    "add_user": lambda o: o.add_user("ada", role="admin"),
    "keys": lambda o: o.keys(),
    "issue_key": lambda o: o.issue_key(user_id="u", label="l", expires_in_days=3),
    "revoke_key": lambda o: o.revoke_key("k"),
}


class Heard(Exception):
    """The letter that was to be seen has been."""

    def __init__(self, letter: Letter) -> None:
        self.letter = letter


class ListeningWire:
    """Answers what a tool is, and ends with the first other letter."""

    async def exchange(self, letter: Letter) -> Reply:
        if letter.method == "GET" and letter.url.endswith("/v1/tools/t") and not self.wants_tool:
            body: dict[str, Any] = {"tool_id": "t", "description": "d", "input_schema": {}, "effect": "write"}
            return Reply(200, {}, orjson.dumps(body))
        raise Heard(letter)

    def __init__(self, *, wants_tool: bool) -> None:
        self.wants_tool = wants_tool

    def stream(self, letter: Letter) -> AbstractAsyncContextManager[Stream]:
        return self._stream(letter)

    @asynccontextmanager
    async def _stream(self, letter: Letter) -> AsyncGenerator[Stream]:
        yield Stream(await self.exchange(letter), _nothing())

    async def pause(self, seconds: float) -> None:
        raise AssertionError(f"nothing to wait {seconds} s for")

    async def close(self) -> None:
        return


async def _nothing() -> AsyncGenerator[bytes]:
    return
    yield


def asked(name: str) -> Letter:
    wire = ListeningWire(wants_tool=name == "tool")
    work = ASKED[name](Operations(Exchange(wire, "http://h", "key")))
    try:
        list(each(work)) if hasattr(work, "__anext__") else finish(work)
    except Heard as heard:
        return heard.letter
    raise AssertionError(f"{name} asked nothing")


def route_of(letter: Letter) -> tuple[Route, dict[str, str]]:
    parts = [unquote(part) for part in urlsplit(letter.url).path.split("/")]
    for route in ROUTES:
        pairs = list(zip_longest(route.path.split("/"), parts, fillvalue=""))
        if route.method == letter.method and all(one == other or (one[:1] == "{" and other) for one, other in pairs):
            return route, {one.strip("{}"): other for one, other in pairs if one.startswith("{")}
    raise AssertionError(f"there is no route for {letter.method} {letter.url}")


@pytest.mark.parametrize("name", list(ASKED))
def test_what_the_client_asks_is_what_the_api_takes(name: str) -> None:
    """Path, query, body and headers of each operation fit the route they are meant for."""
    letter = asked(name)
    route, values = route_of(letter)
    for parameter, value in values.items():
        compile_schema(route.parameters.get(parameter, {"type": "string"})).check(value)
    known = {parameter.name for parameter in route.all_query}
    assert {parameter for parameter, _ in parse_qsl(urlsplit(letter.url).query)} <= known
    if route.body is None:
        assert letter.content is None
    else:
        compile_schema(route.body).check(orjson.loads(letter.content or b""))
    if "Idempotency-Key" in letter.headers:
        assert route.takes_key
    if route.matching == "must":
        assert "If-Match" in letter.headers
    if "If-Match" in letter.headers:
        assert route.matching != "no"


def test_every_operation_is_here() -> None:
    """An operation that nobody lists above would be checked by nobody."""
    members = dict(inspect.getmembers(Operations, callable))
    assert {name for name in members if not name.startswith("_")} == set(ASKED)
