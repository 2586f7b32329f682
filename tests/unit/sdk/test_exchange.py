"""What is sent again, and what is not."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from twinraven.foundation.errors import CallInProgress, Conflict, StorageBusy, TwinRavenError
from twinraven.sdk import RemoteError, ServerUnreachable, ToolInfo
from twinraven.sdk.exchange import PAUSES_S, Exchange, RequestSpec, path_of
from twinraven.sdk.keys import BELIEVED_S, Keys
from twinraven.sdk.operations import Operations
from twinraven.sdk.wire import Reply, Stream, WireRequest, finish

OK = Reply(200, {}, b"{}")


def problem(status: int, code: str, **headers: str) -> Reply:
    return Reply(status, headers, orjson.dumps({"code": code, "detail": code}))


class ScriptedWire:
    """Answers from a script; a lost answer is None."""

    def __init__(self, *answers: Reply | None) -> None:
        self._answers = list(answers)
        self.letters: list[WireRequest] = []
        self.pauses: list[float] = []

    async def exchange(self, request: WireRequest) -> Reply:
        self.letters.append(request)
        answer = self._answers.pop(0)
        if answer is None:
            raise ServerUnreachable("lost")
        return answer

    @asynccontextmanager
    async def stream(self, request: WireRequest) -> AsyncGenerator[Stream]:
        yield Stream(await self.exchange(request), _silence())

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def close(self) -> None:
        self.letters.clear()


async def _silence() -> AsyncGenerator[bytes]:
    return
    yield


def send(ask: RequestSpec, *answers: Reply | None) -> tuple[ScriptedWire, Any]:
    wire = ScriptedWire(*answers)
    return wire, finish(Exchange(wire, "http://h", None).send(ask))


def test_a_read_and_a_keyed_write_are_sent_again() -> None:
    """Losses and a busy server are waited out, longer each time, under the same key; a server's wish is respected."""
    for ask in (RequestSpec("GET", "/v1/me"), RequestSpec("POST", "/v1/users", body={}, key="k")):
        wire, _ = send(ask, None, problem(503, "STORAGE_BUSY", **{"retry-after": "2"}), None, OK)
        assert len(wire.letters) == 4
        assert len(set(map(repr, wire.letters))) == 1
        first, wished, third = wire.pauses
        assert first < 0.2
        assert 1.5 < wished < 2.5
        assert third > 0.9


def test_trying_ends() -> None:
    """After so many tries the last trouble is the caller's."""
    with pytest.raises(ServerUnreachable):
        send(RequestSpec("GET", "/v1/me"), *[None] * (len(PAUSES_S) + 1))
    with pytest.raises(StorageBusy):
        send(RequestSpec("GET", "/v1/me"), *[problem(503, "STORAGE_BUSY")] * (len(PAUSES_S) + 1))


@pytest.mark.parametrize("answer", [None, problem(503, "STORAGE_BUSY")])
def test_what_has_no_key_is_sent_once(answer: Reply | None) -> None:
    """A write that nothing makes harmless to repeat is never repeated."""
    with pytest.raises((ServerUnreachable, StorageBusy)):
        send(RequestSpec("DELETE", "/v1/keys/k"), answer)


def test_other_trouble_is_told_at_once() -> None:
    """A conflict, or a call in progress that is not our own, does not pass by waiting."""
    with pytest.raises(Conflict):
        send(RequestSpec("POST", "/v1/calls", body={}, key="k"), problem(409, "CONFLICT"))
    with pytest.raises(CallInProgress):
        send(RequestSpec("POST", "/v1/calls", body={}, key="k"), problem(409, "CALL_IN_PROGRESS"))
    with pytest.raises(RemoteError, match="no JSON"):
        finish(Exchange(ScriptedWire(Reply(200, {}, b"<html>")), "http://h", None).json(RequestSpec("GET", "/")))


def test_ones_own_call_is_waited_for() -> None:
    """After a lost answer the call in progress under this key is the one that was lost."""
    wire, reply = send(RequestSpec("POST", "/v1/calls", body={}, key="k"), None, problem(409, "CALL_IN_PROGRESS"), OK)
    assert (reply, len(wire.letters)) == (OK, 3)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_that_reaches_no_server_is_waited_out(status: int) -> None:
    """An answer without a problem comes from before the server; what it hid may be one's own call in progress."""
    bare = Reply(status, {}, b"<html>Bad Gateway</html>")
    wire, reply = send(RequestSpec("POST", "/v1/calls", body={}, key="k"), bare, problem(409, "CALL_IN_PROGRESS"), OK)
    assert (reply, len(wire.letters)) == (OK, 3)
    with pytest.raises(RemoteError) as raised:
        send(RequestSpec("DELETE", "/v1/keys/k"), bare)
    assert raised.value.retryable


def test_what_a_server_says_with_such_a_status_is_told_at_once() -> None:
    """A tool that failed (502) or took too long (504) is no proxy; a page that is not found is no absence."""
    for answer in (problem(502, "TOOL_FAILED"), problem(504, "TOOL_TIMEOUT"), Reply(404, {}, b"hello")):
        with pytest.raises(TwinRavenError) as raised:
            send(RequestSpec("GET", "/v1/me"), answer)
        assert not raised.value.retryable


def test_the_key_stands_in_its_header_and_names_in_the_path_are_quoted() -> None:
    """Whatever a thing is called, it stays one segment; nothing unsaid is in the query."""
    wire = ScriptedWire(OK)
    ask = RequestSpec("GET", path_of("tools", "a/b c?d"), {"newest": True, "tag": None, "since": "x y"})
    finish(Exchange(wire, "http://h/base", "twr_key").send(ask))
    assert wire.letters[0].url == "http://h/base/v1/tools/a%2Fb%20c%3Fd?newest=true&since=x%20y"
    assert wire.letters[0].headers["Authorization"] == "Bearer twr_key"


def test_a_tool_is_asked_about_once_in_a_while() -> None:
    """What a tool declares is believed for a while, and asked again afterwards."""
    now = [0.0]
    keys = Keys(clock=lambda: now[0])
    keys.learn(ToolInfo("t", "d", {}, effect="write"))
    assert keys.known("t") is not None
    now[0] = BELIEVED_S
    assert keys.known("t") is None


def test_a_read_goes_out_without_a_key() -> None:
    """The tool is looked up once; its calls carry no key, and are sent again all the same."""
    tool = Reply(200, {}, orjson.dumps({"tool_id": "t", "description": "d", "input_schema": {}, "effect": "read"}))
    answer = Reply(200, {}, orjson.dumps({"id": "1", "request_id": "2", "status": "success", "output": 7}))
    wire = ScriptedWire(tool, None, answer, answer)
    operations = Operations(Exchange(wire, "http://h", None))
    assert [finish(operations.call("t", session_id="s")) for _ in range(2)] == [7, 7]
    assert [request.method for request in wire.letters] == ["GET", "POST", "POST", "POST"]
    assert not any("Idempotency-Key" in request.headers for request in wire.letters)
