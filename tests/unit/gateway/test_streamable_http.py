"""MCP over HTTP: what each request is answered with, when a response becomes a stream, and how sessions end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import NoBackChannelError

from twinraven.gateway import http_session
from twinraven.gateway.callers import PRINCIPAL
from twinraven.gateway.channels import outbound_of
from twinraven.gateway.session_limit import IDLE_S, SessionLimit
from twinraven.gateway.streamable_http import MAX_BODY, StreamableHttp
from twinraven.tenancy import Principal

ACCEPT = "application/json, text/event-stream"
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "test", "version": "1"},
}


class Reply:
    """The response to one request, as far as it was sent."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self.has_news = asyncio.Event()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.parts.append(message["body"])
        self.has_news.set()

    @property
    def messages(self) -> list[Any]:
        lines = b"".join(self.parts).decode().split("\r\n")
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]

    async def until(self, count: int) -> list[Any]:
        """Return the messages once there are so many."""
        while len(self.messages) < count:
            self.has_news.clear()
            await self.has_news.wait()
        return self.messages


class Scene:
    """A server with one tool behind the door, which does what its argument says."""

    def __init__(self, limit: SessionLimit | None = None) -> None:
        self.now = 0.0
        self.go_on = asyncio.Event()
        self.is_called = asyncio.Event()
        self.done: list[str] = []
        server: Server[Any] = Server("desk")
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call)
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self.door = StreamableHttp(server, security, limit=limit, clock=lambda: self.now)

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> dict[str, Any]:
        what = params.name
        self.is_called.set()
        if what == "progress":
            await context.session.report_progress(0.5, 1.0, "half")
        if what == "ask":
            question: dict[str, Any] = {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}
            asked = await outbound_of(context).send_raw_request("elicitation/create", question)
            what = asked["action"]
        if what == "ask nobody":
            with pytest.raises(NoBackChannelError):
                await context.session.send_ping()
        if what == "wait":
            await self.go_on.wait()
        self.done.append(what)
        return {"content": [{"type": "text", "text": what}]}

    async def ask(
        self,
        body: Any = None,
        *,
        method: str = "POST",
        user: str = "ada",
        session: str | None = None,
        reply: Reply | None = None,
        leaves: asyncio.Event | None = None,
        **headers: str,
    ) -> Reply:
        reply = reply or Reply()
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        stated = {"accept": ACCEPT, "content-type": "application/json", **headers}
        stated |= {} if session is None else {"mcp-session-id": session}
        scope = {
            "type": "http",
            "method": method,
            "path": "/mcp",
            "query_string": b"",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in stated.items()],
            PRINCIPAL: Principal("default", user, "member"),
        }
        parts = [{"type": "http.request", "body": raw, "more_body": False}]

        async def receive() -> Any:
            if parts:
                return parts.pop()
            await (leaves or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        await self.door(scope, receive, reply.send)
        return reply

    async def opened(self, user: str = "ada") -> str:
        reply = await self.ask(request("initialize", HELLO), user=user)
        assert reply.status == 200, reply.parts
        session = reply.headers["mcp-session-id"]
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.ask(told, session=session, user=user)).status == 202
        return session


def request(method: str, params: Any = None, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


def call(tool: str, number: int = 2, **more: Any) -> dict[str, Any]:
    return request("tools/call", {"name": tool, "arguments": {}, **more}, number)


@asynccontextmanager
async def scene(limit: SessionLimit | None = None) -> AsyncGenerator[Scene]:
    made = Scene(limit)
    async with asyncio.timeout(60), made.door.running():
        yield made


def text_of(message: Any) -> str:
    return message["result"]["content"][0]["text"]


async def test_an_answer_that_comes_soon_is_one_piece() -> None:
    """Its length is known, so it is sent whole; the session is named, and the same connection goes on."""
    async with scene() as desk:
        session = await desk.opened()
        reply = await desk.ask(call("now"), session=session)
        assert (reply.status, reply.headers["content-type"]) == (200, "text/event-stream")
        assert reply.headers["mcp-session-id"] == session
        assert len(reply.parts) == 1
        assert int(reply.headers["content-length"]) == len(reply.parts[0])
        assert text_of(reply.messages[0]) == "now"


async def test_a_response_that_waits_becomes_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The head and a sign of life go out before the answer, so that nobody in between gives the connection up."""
    monkeypatch.setattr(http_session, "_HELD_BACK_S", 0.01)
    monkeypatch.setattr(http_session, "_PING_S", 0.01)
    async with scene() as desk:
        session = await desk.opened()
        reply = Reply()
        asking = asyncio.create_task(desk.ask(call("wait"), session=session, reply=reply))
        while len(reply.parts) < 3:
            await reply.has_news.wait()
            reply.has_news.clear()
        assert set(reply.parts) == {b": ping\r\n\r\n"}
        desk.go_on.set()
        await asking
        assert text_of(reply.messages[0]) == "wait"
        assert "content-length" not in reply.headers


async def test_what_belongs_to_a_call_comes_with_its_response() -> None:
    """Progress is told before the answer, and a question is answered by a request of its own."""
    async with scene() as desk:
        session = await desk.opened()
        told, answer = (await desk.ask(call("progress", _meta={"progressToken": 7}), session=session)).messages
        assert told["params"] == {"progressToken": 7, "progress": 0.5, "total": 1.0, "message": "half"}
        assert text_of(answer) == "progress"
        reply = Reply()
        asking = asyncio.create_task(desk.ask(call("ask", 3), session=session, reply=reply))
        (question,) = await reply.until(1)
        assert question["method"] == "elicitation/create"
        said = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
        assert (await desk.ask(said, session=session)).status == 202
        await asking
        assert text_of(reply.messages[1]) == "decline"


async def test_a_question_that_can_reach_nobody_fails_at_once() -> None:
    """A question that belongs to no call needs the stream for such; without it nobody is waited for."""
    async with scene() as desk:
        reply = await desk.ask(call("ask nobody"), session=await desk.opened())
        assert text_of(reply.messages[0]) == "ask nobody"


async def test_a_cancelled_call_ends_its_response() -> None:
    """The client that cancels is not left with an open response, and the tool is stopped."""
    async with scene() as desk:
        session = await desk.opened()
        reply = Reply()
        asking = asyncio.create_task(desk.ask(call("wait"), session=session, reply=reply))
        await desk.is_called.wait()
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
        await desk.ask(cancelled, session=session)
        await asking
        assert reply.messages[0]["error"]["code"] == -32800
        assert desk.done == []


async def test_a_client_that_leaves_does_not_stop_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks is no cancellation: the call goes on, and only its answer is dropped."""
    monkeypatch.setattr(http_session, "_HELD_BACK_S", 0.01)
    async with scene() as desk:
        session = await desk.opened()
        leaves = asyncio.Event()
        asking = asyncio.create_task(desk.ask(call("wait"), session=session, leaves=leaves))
        await desk.is_called.wait()
        leaves.set()
        await asking
        desk.go_on.set()
        assert text_of((await desk.ask(call("now", 3), session=session)).messages[0]) == "now"
        assert desk.done == ["wait", "now"]


async def test_one_stream_takes_what_belongs_to_no_call() -> None:
    """It is opened once, ends with its session, and a second is refused; without it such messages are dropped."""
    async with scene() as desk:
        session = await desk.opened()
        reply = Reply()
        listening = asyncio.create_task(desk.ask(method="GET", session=session, reply=reply))
        await reply.has_news.wait()
        assert (await desk.ask(method="GET", session=session)).status == 409
        assert (await desk.ask(method="GET", session=session, accept="application/json")).status == 406
        assert (await desk.ask(method="DELETE", session=session)).status == 200
        await listening
        assert (await desk.ask(call("now"), session=session)).status == 404


REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "another method": (405, {"method": "PUT"}),
    "an answer that the client does not take": (406, {"body": call("now"), "accept": "application/json"}),
    "no JSON": (400, {"body": b"{"}),
    "a list of messages": (400, {"body": [call("now")]}),
    "another version": (400, {"body": {**call("now"), "jsonrpc": "1.0"}}),
    "an id that is none": (400, {"body": {**call("now"), "id": [1]}}),
    "parameters that are none": (400, {"body": {**call("now"), "params": []}}),
    "neither question nor answer": (400, {"body": {"jsonrpc": "2.0", "id": 1}}),
    "a body that is too large": (413, {"body": b" " * (MAX_BODY + 1)}),
    "a length that is too large": (413, {"body": b"{}", "content_length": str(MAX_BODY + 1)}),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_requests_that_are_refused(what: str) -> None:
    """Each says so with a status of HTTP and an error of JSON-RPC, and the session goes on."""
    status, asked = REFUSED[what]
    async with scene() as desk:
        session = await desk.opened()
        more: dict[str, Any] = {"session": session, **asked}
        reply = await desk.ask(**more)
        assert reply.status == status
        assert json.loads(b"".join(reply.parts))["error"]["message"]
        assert text_of((await desk.ask(call("now"), session=session)).messages[0]) == "now"


async def test_a_session_is_its_openers_alone() -> None:
    """Nobody else can use or end it, one that is not there is answered alike, and one has to be opened first."""
    async with scene() as desk:
        session = await desk.opened()
        theirs = await desk.ask(call("now"), session=session, user="bob")
        absent = await desk.ask(call("now"), session="nowhere", user="bob")
        assert (theirs.status, theirs.parts) == (absent.status, absent.parts) == (404, absent.parts)
        assert (await desk.ask(method="DELETE", session=session, user="bob")).status == 404
        assert (await desk.ask(call("now"))).status == 400
        assert text_of((await desk.ask(call("now"), session=session)).messages[0]) == "now"


async def test_a_client_that_opens_sessions_without_end_shuts_nobody_out() -> None:
    """One more is refused with 429 and opens nothing; open ones go on, a colleague gets in, and an end makes room."""
    async with scene(SessionLimit(8)) as desk:
        mine = [await desk.opened() for _ in range(4)]
        assert (await desk.ask(request("initialize", HELLO))).status == 429
        assert text_of((await desk.ask(call("now"), session=mine[0])).messages[0]) == "now"
        await desk.opened("bob")
        await desk.opened("bob")
        for session in mine[:2]:
            assert (await desk.ask(method="DELETE", session=session)).status == 200
        await desk.opened()


async def test_a_session_that_nobody_uses_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends after a while without a request, and not while one is under way."""
    monkeypatch.setattr("twinraven.gateway.streamable_http._LOOK_S", 0.01)
    async with scene() as desk:
        unused, used = await desk.opened(), await desk.opened()
        reply = Reply()
        asking = asyncio.create_task(desk.ask(call("wait"), session=used, reply=reply))
        await desk.is_called.wait()
        desk.now = IDLE_S + 1
        while (await desk.ask(call("now"), session=unused)).status != 404:
            desk.now += IDLE_S + 1
            await asyncio.sleep(0.02)
        desk.go_on.set()
        await asking
        assert text_of(reply.messages[0]) == "wait"


async def test_the_end_of_the_door_ends_its_calls() -> None:
    """A call under way is told that the connection is closed, rather than left without an end."""
    reply = Reply()
    async with scene() as desk:
        session = await desk.opened()
        asking = asyncio.create_task(desk.ask(call("wait"), session=session, reply=reply))
        await desk.is_called.wait()
    await asking
    assert reply.messages[0]["error"]["message"] == "Connection closed"


async def test_the_end_of_a_session_ends_calls_that_share_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that uses an id twice gets an end for both responses, though only one can be cancelled by it."""
    monkeypatch.setattr(http_session, "_PING_S", 0.01)
    async with scene() as desk:
        session = await desk.opened()
        replies = [Reply(), Reply()]
        asking = [asyncio.create_task(desk.ask(call("wait"), session=session, reply=reply)) for reply in replies]
        await desk.is_called.wait()
        await asyncio.sleep(0)
        assert (await desk.ask(method="DELETE", session=session)).status == 200
        async with asyncio.timeout(5):
            await asyncio.gather(*asking)
        assert [reply.messages[0]["error"]["message"] for reply in replies] == ["Connection closed"] * 2
