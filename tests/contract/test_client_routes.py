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
OPERATION = {"type": "rest_call", "method": "GET", "path": "/orders"}
SCHEMA = {"type": "object"}
UUID_TEXT = "00000000-0000-4000-8000-000000000001"
ROUTES = sorted(all_routes(Metrics()), key=lambda route: len(route.names))
"""The plainest first: where a word and a name fit, the word is meant."""

ASKED: dict[str, Callable[[Operations], Any]] = {
    "me": lambda o: o.me(),
    "call": lambda o: o.call("t", {"a": 1}, session_id="s", turn=1, outside_input="x", tags=["a"], task_id="k"),
    "invoke": lambda o: o.invoke("t", session_id="s", idempotency_key="k"),
    "tools": lambda o: o.tools(),
    "tool": lambda o: o.tool("t"),
    "tool_definition": lambda o: o.tool_definition("t"),
    "add_tool": lambda o: o.add_tool(
        "k",
        "s",
        OPERATION,
        SCHEMA,
        name="n",
        description="d",
        connection_params={"endpoint": "https://h"},
        output_schema=SCHEMA,
        effect="write",
        sensitivity="high",
        timeout_ms=5,
        secret="x",
        shared=True,
    ),
    "change_tool": lambda o: o.change_tool(
        "t", operation=OPERATION, output_schema=None, effect=None, timeout_ms=None, secret=None, sensitivity="low"
    ),
    "delete_tool": lambda o: o.delete_tool("t", version=3),
    "services": lambda o: o.services(),
    "service": lambda o: o.service("s"),
    "add_service": lambda o: o.add_service("n", "rest_api", "https", SCHEMA, requires_secret=True, shared=True),
    "change_service": lambda o: o.change_service("s", name="n", connection_schema=SCHEMA, enabled=False, version=3),
    "delete_service": lambda o: o.delete_service("s"),
    "check_service": lambda o: o.check_service("s"),
    "service_templates": lambda o: o.service_templates(archived=True),
    "service_template": lambda o: o.service_template("s"),
    "add_service_template": lambda o: o.add_service_template("n", "rest_api", "https", SCHEMA, description="d"),
    "change_service_template": lambda o: o.change_service_template("s", description=None, archived=False),
    "archive_service_template": lambda o: o.archive_service_template("s", version=3),
    "make_service": lambda o: o.make_service("s", "n", shared=True),
    "tool_templates": lambda o: o.tool_templates(),
    "tool_template": lambda o: o.tool_template("t"),
    "add_tool_template": lambda o: o.add_tool_template(
        "n", OPERATION, SCHEMA, output_schema=SCHEMA, effect="read", sensitivity="low", timeout_ms=5, shared=True
    ),
    "change_tool_template": lambda o: o.change_tool_template("t", name="n", description="d", shared=True, version=3),
    "archive_tool_template": lambda o: o.archive_tool_template("t"),
    "make_tool": lambda o: o.make_tool("t", "k", "s", connection_params={"endpoint": "https://h"}, secret="x"),
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
    "start_learning": lambda o: o.start_learning(with_model=False),
    "learning_round": lambda o: o.learning_round(UUID_TEXT),
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
    "delete_secret": lambda o: o.delete_secret("s", version=1),
    "audit": lambda o: o.audit(
        subject_type="a", subject_id="b", event_type="c", actor_id="d", correlation_id="e", newest=True
    ),
    "audit_entry": lambda o: o.audit_entry("e"),
    "verify_audit": lambda o: o.verify_audit(),
    "users": lambda o: o.users(),
    "user": lambda o: o.user("u"),
    "add_user": lambda o: o.add_user("ada", role="admin"),
    "change_user": lambda o: o.change_user("u", role="member", active=False, version=3),
    "keys": lambda o: o.keys(),
    "issue_key": lambda o: o.issue_key(user_id="u", label="l", expires_in_days=3),
    "revoke_key": lambda o: o.revoke_key("k"),
}

NOT_ASKED = {
    "receiveSpans": "for exporters of OpenTelemetry",
    "alive": "for the orchestrator's probes, which speak HTTP themselves",
    "ready": "the same",
    "measure": "Prometheus text, for whatever scrapes it",
    "describe": "the contract itself, for generators of clients",
}
"""Operations of the API that the client leaves out, and why."""


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


def test_the_client_can_ask_for_all_that_the_api_gives() -> None:
    """Each operation of the API has a method, or a reason why it has none; no reason outlives its operation."""
    covered = {route_of(asked(name))[0].name for name in ASKED}
    assert covered.isdisjoint(NOT_ASKED)
    assert covered | NOT_ASKED.keys() == {route.name for route in ROUTES}
