"""The application around its routes: what goes wrong inside, how streams end, and which route a path leads to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.api_client import Door
from tests.homes import opened_home
from twinraven.app import TwinRaven
from twinraven.foundation.errors import InvalidInput, NotFound, StorageBusy, StorageUnavailable
from twinraven.foundation.json_schema import Schema
from twinraven.serving import Authenticator, Mounted, Receive, Scope, Send, alive
from twinraven.serving.contract import Handler, Request, Response, Route
from twinraven.serving.dispatch import HttpApp
from twinraven.serving.metrics import HttpMetrics
from twinraven.serving.request_parsing import BoundRoute, parse_body
from twinraven.serving.routing import Router
from twinraven.tenancy import LOCAL


@pytest.fixture
def raven(tmp_path: Path) -> Generator[TwinRaven]:
    with opened_home(tmp_path) as opened:
        yield opened


def door_to(raven: TwinRaven, handler: Handler, *, metrics: HttpMetrics | None = None, **fields: Any) -> Door:
    route = Route("GET", "/v1/things/{thing}", "showThing", "One", None, handler, **fields)
    app = HttpApp(raven, [route], Authenticator(raven.tenancy, without_key=LOCAL), metrics=metrics or HttpMetrics())
    return Door(app)


async def test_a_fault_inside_tells_its_id_and_nothing_else(raven: TwinRaven, caplog: pytest.LogCaptureFixture) -> None:
    """A surprise is 500 without a word of what it was; the log has all of it."""

    async def fail(request: Request) -> Response:
        raise RuntimeError("the password is swordfish")

    with caplog.at_level(logging.ERROR, "twinraven.serving"):
        reply = await door_to(raven, fail).get("/v1/things/1", X_Correlation_Id="id-1")
    assert (reply.status, reply.json()["code"], reply.json()["details"]) == (500, "INTERNAL", {})
    assert b"swordfish" not in reply.body
    assert reply.headers["x-correlation-id"] == "id-1"
    assert "swordfish" in caplog.text


async def test_what_passes_by_itself_says_when_to_come_back(raven: TwinRaven) -> None:
    """A store that is busy or away is 503, retryable, with Retry-After."""
    for error in (StorageBusy("locked"), StorageUnavailable("away")):

        async def fail(request: Request, error: Exception = error) -> Response:
            raise error

        reply = await door_to(raven, fail).get("/v1/things/1")
        assert (reply.status, reply.json()["retryable"], reply.headers["retry-after"]) == (503, True, "1")


async def test_an_error_is_told_without_details_where_nobody_can_say_what_is_secret(raven: TwinRaven) -> None:
    """Where the vault cannot be read the code is told, and nothing that repeats the request."""

    async def miss(request: Request) -> Response:
        raw = raven.redactor

        def away(tenant_id: str, text: bytes) -> bytes:
            raise StorageUnavailable("the store is away")

        raw.redact_known = away
        raise NotFound(f"no thing {request.path['thing']!r}", id=request.path["thing"])

    reply = await door_to(raven, miss).get("/v1/things/named-thing")
    assert (reply.status, reply.json()["code"]) == (404, "NOT_FOUND")
    assert b"named-thing" not in reply.body


async def test_a_stream_that_breaks_is_logged_and_freed(raven: TwinRaven, caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong after the first byte cannot be told to the client any more, so the log must tell it."""
    metrics = HttpMetrics()

    async def parts() -> AsyncGenerator[bytes]:
        yield b": begun\n\n"
        raise StorageUnavailable("the store went away")

    async def stream(request: Request) -> Response:
        return Response(stream=parts(), media="text/event-stream")

    door = door_to(raven, stream, metrics=metrics)
    with caplog.at_level(logging.ERROR, "twinraven.serving"):
        async with door.listen("/v1/things/1") as listening:
            await asyncio.sleep(0.05)
            assert (listening.status, metrics.streams) == (200, 0)
    assert "a stream broke off" in caplog.text
    assert "went away" in caplog.text


async def test_numbers_count_routes_and_not_what_anybody_writes(raven: TwinRaven) -> None:
    """A path counts under its route, an unknown one under one name, and so does a method that somebody made up."""
    metrics = HttpMetrics()

    async def show(request: Request) -> Response:
        return Response({"thing": request.path["thing"]})

    door = door_to(raven, show, metrics=metrics)
    for target in ("/v1/things/1", "/v1/things/2", "/secret-path", "/other"):
        await door.get(target)
    for method in ('X"}', "BREW"):
        await door.ask(method, "/v1/things/1")
    text = metrics.text(waiting_events=3)
    assert 'twinraven_http_requests_total{method="GET",route="/v1/things/{thing}",status="200"} 2' in text
    assert 'twinraven_http_requests_total{method="GET",route="unmatched",status="404"} 2' in text
    assert 'twinraven_http_requests_total{method="other",route="/v1/things/{thing}",status="405"} 2' in text
    assert 'twinraven_http_request_seconds_count{method="GET",route="unmatched"} 2' in text
    assert "twinraven_events_waiting 3" in text
    assert "secret-path" not in text


def test_a_written_segment_wins_over_a_parameter() -> None:
    """`/events/live` is not the event that is called live; an empty segment is no parameter."""

    async def nothing(request: Request) -> Response:
        return Response()

    routes = [
        Route("GET", path, path, "", None, nothing) for path in ("/v1/events/live", "/v1/events/{id}", "/v1/{a}/x/{b}")
    ]
    router = Router(routes)

    def found(path: str) -> tuple[str, list[str]] | None:
        place = router.find(path.encode())
        return None if place is None else (place[0]["GET"].route.path, list(place[1]))

    assert found("/v1/events/live") == ("/v1/events/live", [])
    assert found("/v1/events/7") == ("/v1/events/{id}", ["7"])
    assert found("/v1/other/x/y") == ("/v1/{a}/x/{b}", ["other", "y"])
    for path in ("/v1/events/", "/v1/events", "/v1", "/", "/v1/events/7/8"):
        assert found(path) is None


async def test_a_path_without_a_first_segment_goes_to_the_main_door() -> None:
    """Every request reaches some application, also `OPTIONS *`."""
    asked: list[str] = []

    def named(name: str) -> Any:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            asked.append(name)

        return app

    mounted = Mounted(named("main"), {"mcp": named("gateway")})
    for path in ("/mcp", "/mcp/x", "/v1/mcp", "*", "", "/", "/mcpx"):
        scope: dict[str, Any] = {"type": "http", "path": path}
        await mounted(scope, _nothing, _nothing)
    assert asked == ["gateway", "gateway", "main", "main", "main", "main", "main"]


async def test_the_application_starts_and_ends_with_its_server(raven: TwinRaven) -> None:
    """It answers a server's start and end as ASGI asks for."""

    async def nothing(request: Request) -> Response:
        return Response(status=204)

    door = door_to(raven, nothing)
    async with alive(door.app):
        assert (await door.get("/v1/things/1")).status == 204


async def _nothing(*_: Any) -> Any:
    return {"type": "http.disconnect"}


def test_a_list_that_is_too_long_is_refused_before_its_items_are_looked_at() -> None:
    """It says which and how many there may be, and the schema, which would look at every item, is not asked."""

    async def nothing(request: Request) -> Response:
        return Response()

    class Unasked:
        def check(self, *_: Any, **__: Any) -> None:
            raise AssertionError("the schema was asked")

    body = {"type": "object", "properties": {"events": {"type": "array", "maxItems": 3}}}
    bound = BoundRoute(Route("POST", "/v1/events", "record", "", None, nothing, body=body))
    headers = {b"content-type": b"application/json"}
    assert parse_body(bound, b'{"events": [1, 2, 3]}', headers) == {"events": [1, 2, 3]}
    bound.body = cast("Schema", Unasked())
    with pytest.raises(InvalidInput, match="more than 3 items") as refusal:
        parse_body(bound, b'{"events": [1, 2, 3, 4]}', headers)
    assert refusal.value.details["field"] == "body.events"
