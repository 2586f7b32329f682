"""REST tools against servers on loopback, which behave, misbehave and mean harm."""

from __future__ import annotations

import asyncio
import base64
import gzip
import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.servers.bindings import bound, entry, frame
from tests.servers.http_server import Handler, HttpServer, Received, Reply, serving
from tests.servers.rest_desk import GET, LIMITS, POST, Desk, always, drip, flood, hang, hang_up, in_turn
from twinraven.foundation.errors import (
    EffectUnknown,
    InvalidDefinition,
    InvalidInput,
    InvalidOutput,
    PolicyViolation,
    ToolError,
    ToolTimeout,
    ToolUnavailable,
)


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    made = Desk()
    yield made
    await made.connector.aclose()


@pytest.mark.req("AD-02")
async def test_a_request_carries_the_arguments_where_they_belong(desk: Desk) -> None:
    """Path, query, headers and body are filled, encoded and typed; the answer's body comes back."""
    operation = {
        "type": "rest_call",
        "method": "PUT",
        "path": "/orders/{{id}}/notes",
        "query": {"tag": "{{tags}}", "notify": "{{notify}}", "page": 2},
        "headers": {"X-Desk": "desk {{desk}}"},
        "body": {"text": "{{text}}", "count": "{{count}}", "left out": "{{missing}}"},
    }
    params = {"id": "a/b c?", "tags": ["x&y", "z"], "notify": True, "desk": 7, "text": "Grüße", "count": 3}
    async with serving(always(Reply(201, {"ok": [1, None]}))) as server:
        answer = await desk.call(operation, f"{server.url}/v1", params, effect="write")
    request = server.received[0]
    assert answer == {"ok": [1, None]}
    assert request.method == "PUT"
    assert request.target == "/v1/orders/a%2Fb%20c%3F/notes?tag=x%26y&tag=z&notify=true&page=2"
    assert request.headers["x-desk"] == "desk 7"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.headers["content-type"] == "application/json"
    assert request.json == {"text": "Grüße", "count": 3}


async def test_forms_and_texts_are_sent_as_such(desk: Desk) -> None:
    """The operation's Content-Type decides how a body is written."""
    form = {**POST, "headers": {"Content-Type": "application/x-www-form-urlencoded"}, "body": "{{body}}"}
    text = {**POST, "headers": {"Content-Type": "text/plain; charset=utf-8"}, "body": "{{body}}"}
    async with serving(always(Reply(200, b"done", {"Content-Type": "text/plain"}))) as server:
        assert await desk.call(form, server.url, {"body": {"a": [1, 2], "b": "x y"}}) == "done"
        assert await desk.call(text, server.url, {"body": "plain ✓"}) == "done"
        with pytest.raises(InvalidInput, match="form must be an object"):
            await desk.call(form, server.url, {"body": "a=1"})
    assert [request.body for request in server.received] == [b"a=1&a=2&b=x+y", "plain ✓".encode()]


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        (None, "authorization", "Bearer s3cret"),
        ({"type": "bearer"}, "authorization", "Bearer s3cret"),
        ({"type": "basic", "username": "ada"}, "authorization", f"Basic {base64.b64encode(b'ada:s3cret').decode()}"),
        ({"type": "header", "name": "X-Api-Key"}, "x-api-key", "s3cret"),
        ({"type": "query", "name": "key"}, None, "/thing?key=s3cret"),
    ],
)
async def test_the_secret_is_shown_as_the_service_wants(desk: Desk, auth: Any, header: str | None, value: str) -> None:
    """Bearer, basic, a header or the query: each puts the value where it belongs and nowhere else."""
    async with serving(always(Reply())) as server:
        await desk.call(GET, server.url, secret="s3cret", auth=auth)
    request = server.received[0]
    assert (request.target if header is None else request.headers[header]) == value
    assert str(request).count("s3cret") + str(request).count(base64.b64encode(b"ada:s3cret").decode()) == 1


async def test_no_error_repeats_the_secret(desk: Desk) -> None:
    """A service that echoes the credentials it refuses does not put them into our log."""
    echo: Handler = lambda request: Reply(401, {"error": f"bad key {request.headers['authorization']}"})  # noqa: E731
    async with serving(echo) as server:
        with pytest.raises(ToolError, match="refuses the credentials") as refusal:
            await desk.call(GET, server.url, secret="s3cret")
    assert "s3cret" not in repr(refusal.value.as_json())
    assert "***" in refusal.value.message


@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [
        (400, ToolError, False),
        (403, ToolError, False),
        (404, ToolError, False),
        (409, ToolError, False),
        (422, ToolError, False),
        (429, ToolUnavailable, True),
        (500, ToolError, False),
        (502, ToolUnavailable, True),
        (503, ToolUnavailable, True),
        (504, ToolUnavailable, True),
    ],
)
async def test_statuses_become_errors(desk: Desk, status: int, error: type[ToolError], retryable: bool) -> None:
    """Each status says whether to try again, and what the service said is passed on."""
    async with serving(always(Reply(status, {"detail": "no such order"}))) as server:
        with pytest.raises(error, match="no such order") as refusal:
            await desk.call(GET, server.url)
    assert type(refusal.value) is error
    assert refusal.value.retryable is retryable
    assert refusal.value.details["status"] == status


async def test_reads_are_tried_again(desk: Desk) -> None:
    """A read that met an overloaded service, then a closed door, succeeds at the third attempt."""
    async with serving(in_turn(Reply(503, None, {"Retry-After": "2"}), hang_up, Reply(200, "there"))) as server:
        assert await desk.call(GET, server.url) == "there"
    assert len(server.received) == 3
    assert desk.pauses[0] == 2.0
    assert 0.1 <= desk.pauses[1] <= 0.4


async def test_a_wait_that_is_too_long_is_the_callers(desk: Desk) -> None:
    """A service that asks for more time than the call has is not waited for; the error says how long."""
    async with serving(always(Reply(429, None, {"Retry-After": "3600"}))) as server:
        with pytest.raises(ToolUnavailable) as refusal:
            await desk.call(GET, server.url)
    assert refusal.value.details["retry_after_s"] == 3600
    assert len(server.received) == 1


@pytest.mark.parametrize("answer", [Reply(503), Reply(429), Reply(502), Reply(500), hang_up])
async def test_a_write_without_a_key_is_sent_once(desk: Desk, answer: Any) -> None:
    """What may have taken effect is not sent again, whatever the service answers."""
    async with serving(in_turn(answer, Reply(200, "second effect"))) as server:
        with pytest.raises(ToolError):
            await desk.call(POST, server.url, {"text": "x"}, effect="write", key="k1")
    assert len(server.received) == 1
    assert "idempotency-key" not in server.received[0].headers


@pytest.mark.parametrize("answer", [hang_up, Reply(502), Reply(504)])
async def test_a_write_that_was_not_answered_is_unknown(desk: Desk, answer: Any) -> None:
    """Where nobody can tell whether it happened, the error says exactly that."""
    async with serving(in_turn(answer)) as server:
        with pytest.raises(EffectUnknown):
            await desk.call(POST, server.url, {"text": "x"}, effect="unknown")


async def test_a_write_that_timed_out_is_unknown(desk: Desk) -> None:
    """A service that takes a write and says nothing leaves it open."""
    async with serving(lambda _: hang) as server:
        with pytest.raises(EffectUnknown, match="did not answer"):
            await desk.call(POST, server.url, {"text": "x"}, effect="write", timeout_ms=200)
    assert len(server.received) == 1


async def test_a_write_with_a_key_is_sent_again_under_the_same_key(desk: Desk) -> None:
    """A service that recognises repetitions is asked until it answers, always with the call's own key."""
    async with serving(in_turn(hang_up, Reply(503), Reply(201, "done"))) as server:
        answer = await desk.call(
            POST, server.url, {"text": "x"}, effect="write", key="order-7", idempotency_header="Idempotency-Key"
        )
    assert answer == "done"
    assert [request.headers["idempotency-key"] for request in server.received] == ["order-7"] * 3


async def test_a_key_that_no_header_carries_is_sent_as_its_hash(desk: Desk) -> None:
    """Equal keys stay equal, whatever characters they have."""
    async with serving(always(Reply())) as server:
        for _ in range(2):
            await desk.call(POST, server.url, {"text": "x"}, effect="write", key="ключ\n", idempotencyHeader="Key")
    first, second = (request.headers["key"] for request in server.received)
    assert first == second
    assert len(first) == 64


async def test_a_write_that_never_left_may_be_sent_again(desk: Desk) -> None:
    """Nobody listens: nothing happened, so the failure is retryable and no person has to look."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ToolUnavailable, match="could not be reached"):
            await desk.call(POST, f"http://127.0.0.1:{unused.getsockname()[1]}", {"text": "x"}, effect="write")
    assert len(desk.pauses) == 2


@pytest.mark.parametrize("behaviour", [hang, drip])
async def test_time_is_bounded(desk: Desk, behaviour: Any) -> None:
    """Neither silence nor an answer that never ends takes longer than the tool's time."""
    async with serving(lambda _: behaviour) as server, asyncio.timeout(60):
        with pytest.raises(ToolTimeout):
            await desk.call(GET, server.url, timeout_ms=300)


async def test_size_is_bounded(desk: Desk) -> None:
    """An endless body is cut off at the limit."""
    async with serving(lambda _: flood) as server:
        with pytest.raises(InvalidOutput, match="larger than 100000 bytes"):
            await desk.call(GET, server.url)


async def test_a_bomb_is_refused(desk: Desk) -> None:
    """A small answer that unfolds into a large one is refused, and a small one is read."""
    headers = {"Content-Encoding": "gzip"}
    bomb = Reply(200, gzip.compress(bytes(50_000_000)), headers)
    async with serving(in_turn(bomb, Reply(200, gzip.compress(b'{"a": 1}'), headers))) as server:
        with pytest.raises(InvalidOutput, match="larger than"):
            await desk.call(GET, server.url)
        assert await desk.call(GET, server.url) == {"a": 1}
    assert server.received[0].headers["accept-encoding"] == "gzip"


async def test_a_large_request_is_refused(desk: Desk) -> None:
    """What is too large is not begun to be sent."""
    async with serving(always(Reply())) as server:
        with pytest.raises(InvalidInput, match="request is larger"):
            await desk.call(POST, server.url, {"text": "x" * LIMITS.max_request_bytes})
    assert server.received == []


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200_000,
    ],
)
async def test_a_broken_answer_is_a_clear_error(desk: Desk, broken: bytes) -> None:
    """Whatever a server writes, the caller gets one of our errors, and the next call works."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(broken)
        await writer.drain()

    async with serving(in_turn(write, write, write, Reply(200, "fine"))) as server:
        with pytest.raises(ToolUnavailable, match="broke the connection"):
            await desk.call(GET, server.url)
        assert await desk.call(GET, server.url) == "fine"


async def test_json_that_is_none_is_invalid_output(desk: Desk) -> None:
    """A service that says JSON and sends something else is at fault."""
    async with serving(always(Reply(200, b"<html>"))) as server:
        with pytest.raises(InvalidOutput, match="not JSON"):
            await desk.call(GET, server.url)


async def test_an_endpoint_that_keeps_failing_is_left_alone(desk: Desk) -> None:
    """After enough failures in a row callers hear so at once and the service hears nothing."""
    async with serving(always(Reply(503))) as server:
        for _ in range(2):
            with pytest.raises(ToolUnavailable):
                await desk.call(GET, server.url)
        with pytest.raises(ToolUnavailable, match="left alone"):
            await desk.call(GET, server.url)
    assert len(server.received) == 4


async def test_one_owners_impatience_stops_no_one_else(desk: Desk) -> None:
    """Tools that time out by their own short limits open the breaker for their owner, and for nobody besides."""
    answers: Handler = lambda request: hang if request.target == "/thing" else Reply(200, "x")  # noqa: E731
    other = {**GET, "path": "/other"}
    async with serving(answers) as server:
        # What the first request loads, and opens, is none of the time that is measured here.
        assert await desk.call(other, server.url, owner_id="ada") == "x"
        for _ in range(4):
            with pytest.raises(ToolTimeout):
                await desk.call(GET, server.url, timeout_ms=300, owner_id="bob")
        with pytest.raises(ToolUnavailable, match="left alone"):
            await desk.call(other, server.url, owner_id="bob")
        assert await desk.call(other, server.url, owner_id="ada") == "x"


@pytest.mark.parametrize("status", [300, 302, 304, 399])
async def test_a_redirect_to_nowhere_is_no_success(desk: Desk, status: int) -> None:
    """A read has failed; of a write nobody knows; neither is sent again, and one with a key fails as a read does."""
    async with serving(always(Reply(status, b""))) as server:
        with pytest.raises(ToolError, match=f"answered {status}") as failed:
            await desk.call(GET, server.url)
        assert failed.value.code == "TOOL_FAILED"
        with pytest.raises(EffectUnknown, match=f"answered {status}"):
            await desk.call(POST, server.url, {"text": "x"}, effect="write")
        with pytest.raises(ToolError) as known:
            await desk.call(POST, server.url, {"text": "x"}, effect="write", key="k", idempotency_header="Key")
        assert known.value.code == "TOOL_FAILED"
    assert len(server.received) == 3


@pytest.mark.parametrize(
    ("method", "length"), [("POST", "0"), ("PUT", "0"), ("PATCH", "0"), ("DELETE", None), ("GET", None)]
)
async def test_a_request_without_a_body_says_so(desk: Desk, method: str, length: str | None) -> None:
    """Where a body is expected its length is stated, so that no server waits for one or refuses."""
    async with serving(always(Reply(200, "x"))) as server:
        assert await desk.call({"type": "rest_call", "method": method, "path": "/thing"}, server.url) == "x"
    assert server.received[0].headers.get("content-length") == length


async def test_connections_are_used_again(desk: Desk) -> None:
    """Calls one after another share a connection; calls at once do not wait for each other."""
    async with serving(always(Reply(200, "x"))) as server:
        for _ in range(5):
            await desk.call(GET, server.url)
        assert server.connections == 1
        await asyncio.gather(*(desk.call(GET, server.url) for _ in range(8)))
        assert server.connections <= 8


async def test_one_that_hangs_does_not_hold_up_the_others(desk: Desk) -> None:
    """Each endpoint has connections of its own."""
    async with serving(lambda _: hang) as stuck, serving(always(Reply(200, "x"))) as lively:
        slow = [asyncio.ensure_future(desk.call(GET, stuck.url, timeout_ms=60_000)) for _ in range(40)]
        await asyncio.sleep(0.05)
        assert await desk.call(GET, lively.url) == "x"
        assert not any(call.done() for call in slow)
        for call in slow:
            call.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def test_a_caller_who_goes_away_leaves_nothing_behind(desk: Desk) -> None:
    """A cancelled call frees its connection, and the endpoint can be called again."""
    async with serving(in_turn(hang, Reply(200, "x"))) as server:
        call = asyncio.ensure_future(desk.call(GET, server.url))
        await asyncio.sleep(0.1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await desk.call(GET, server.url) == "x"


async def test_nothing_blocks_the_loop(loop_guard: object, desk: Desk) -> None:
    """A call over TLS and by name does its waiting elsewhere."""
    async with serving(always(Reply(200, "x"))) as server:
        assert await desk.call(GET, server.url.replace("127.0.0.1", "localhost")) == "x"


class TestDefinitions:
    """Bindings that cannot be used."""

    @pytest.mark.parametrize(
        ("endpoint", "stated", "named"),
        [
            ("http://127.0.0.1:1", {"protocol": "https"}, "endpoint"),
            ("http://127.0.0.1:1", {"auth": {"type": "magic"}}, "auth"),
            ("http://127.0.0.1:1", {"auth": {"type": "header"}}, "auth"),
            ("http://127.0.0.1:1", {"ca_certificate": 7}, "ca_certificate"),
            ("http://user:pw@127.0.0.1:1", {}, "endpoint"),
        ],
    )
    async def test_what_is_wrong_is_named(self, desk: Desk, endpoint: str, stated: dict[str, Any], named: str) -> None:
        """The error names the connection parameter."""
        protocol = stated.pop("protocol", None)
        binding = bound(GET, endpoint, secret="s3cret", **stated)
        if protocol is not None:
            object.__setattr__(binding, "protocol", protocol)
        desk.bindings.hold(binding)
        with pytest.raises(InvalidDefinition) as refusal:
            await desk.connector.invoke(entry(), {}, call=frame())
        assert refusal.value.details["field"] == f"connection_params.{named}"

    @pytest.mark.parametrize("value", ["漢字", "a\nb"])
    async def test_a_header_takes_what_a_header_can(self, desk: Desk, value: str) -> None:
        """A value that would begin another header, or that no header carries, is refused."""
        async with serving(always(Reply())) as server:
            with pytest.raises(InvalidInput):
                await desk.call({**GET, "headers": {"X-A": "{{a}}"}}, server.url, {"a": value})
        assert server.received == []

    @pytest.mark.parametrize("value", ["..", "../admin", "%2e%2e", "a/../b"])
    async def test_a_path_parameter_does_not_climb(self, desk: Desk, value: str) -> None:
        """An argument stays below the resource it belongs to."""
        operation = {**GET, "path": "/orders/{{id}}"}
        async with serving(always(Reply(200, "x"))) as server:
            try:
                await desk.call(operation, server.url, {"id": value})
            except InvalidInput:
                assert server.received == []
            else:
                assert server.received[0].target == "/orders/%252e%252e"

    async def test_a_secret_that_may_not_serve_stops_the_call(self, desk: Desk) -> None:
        """A secret is opened before anything is sent; if it is refused, nothing is."""

        async def refuse(user: str | None) -> str:
            raise PolicyViolation(f"this secret does not serve {user}")

        async with serving(always(Reply())) as server:
            with pytest.raises(PolicyViolation, match="serve ada"):
                await desk.call(GET, server.url, secret=refuse)
        assert server.received == []


class TestHealth:
    """Whether a service is there."""

    @pytest.mark.parametrize(
        ("reply", "path", "status"),
        [
            (Reply(200), None, "healthy"),
            (Reply(404), None, "healthy"),
            (Reply(404), "/health", "degraded"),
            (Reply(503), None, "degraded"),
            (Reply(401), None, "down"),
            (Reply(304), "/health", "degraded"),
        ],
    )
    async def test_a_probe_says_how_it_went(self, desk: Desk, reply: Reply, path: str | None, status: str) -> None:
        """Any answer will do for an endpoint; a path that was named for it must answer well."""
        async with serving(always(reply)) as server:
            binding = bound(GET, server.url, secret="s3cret", health_path=path)
            health = await desk.connector.probe(binding, user="ada")
        assert health.status == status
        assert (health.message is None) == (status == "healthy")
        assert server.received[0].target == (path or "/")

    @pytest.mark.parametrize("path", [5, ["a"], "../x"])
    async def test_a_path_that_is_none_keeps_no_call_away(self, desk: Desk, path: object) -> None:
        """Calls do not use it, so the service is degraded at most, and the parameter is named."""
        health = await desk.connector.probe(bound(GET, "http://127.0.0.1:1", health_path=path))
        assert (health.status, "connection_params.health_path" in str(health.message)) == ("degraded", True)

    async def test_silence_and_refusals_are_down(self, desk: Desk) -> None:
        """A probe never raises: what is wrong is what it says."""
        health = await desk.connector.probe(bound(GET, "http://127.0.0.1:1"))
        assert (health.status, "could not be reached" in str(health.message)) == ("down", True)
        health = await desk.connector.probe(bound(GET, "http://10.0.0.1"))
        assert (health.status, "not public" in str(health.message)) == ("down", True)


async def _two_calls(server: HttpServer, desk: Desk) -> list[Received]:
    await desk.call(GET, server.url)
    await desk.connector.aclose()
    return server.received


def test_each_loop_has_connections_of_its_own() -> None:
    """A connector that lives longer than an event loop works on the next one."""
    desk = Desk()

    async def once() -> int:
        async with serving(always(Reply())) as server:
            return len(await _two_calls(server, desk))

    assert [asyncio.run(once()), asyncio.run(once())] == [1, 1]
