"""The ASGI application: find the route, let the caller in, check, handle, answer.

Nothing stands between the server and a handler but what every request needs, because a call through here should cost
little more than the call. Whatever goes wrong becomes a problem with a stable code; what should not have gone wrong is
logged with the request's correlation id and told as no more than that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Final

from twinraven.api.contract import Answer, Request, Route
from twinraven.api.encoding import encode_json
from twinraven.api.forms import holds_secret
from twinraven.api.metrics import Metrics
from twinraven.api.once import once
from twinraven.api.pages import encode_cursor
from twinraven.api.problems import MEDIA, MethodRefused, encode, problem
from twinraven.api.reading import (
    BoundRoute,
    correlation_of,
    entity_tag,
    key_of,
    match_of,
    parse_body,
    read_body,
    refuse_repeated,
    tags_of,
)
from twinraven.api.routing import Router
from twinraven.app import TwinRaven
from twinraven.foundation.correlation import current_correlation
from twinraven.foundation.errors import NotFound, PolicyViolation, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.serving import Doorkeeper, Message, Receive, Scope, Send
from twinraven.tenancy import LOCAL, NotAuthenticated, Principal

_logger = logging.getLogger("twinraven.api")
_UNCHANGED: Final = 304
_BODILESS: Final = frozenset({204, _UNCHANGED})
_SAFE: Final = frozenset({"GET", "HEAD"})
_UNKEPT: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_NO_MATCH: Final = "unmatched"


class ApiApp:
    """A home's REST door."""

    def __init__(
        self,
        raven: TwinRaven,
        routes: Iterable[Route],
        doorkeeper: Doorkeeper,
        *,
        metrics: Metrics,
    ) -> None:
        self._raven = raven
        self._router = Router(routes)
        self._doorkeeper = doorkeeper
        self._metrics = metrics
        self._met: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await _live(receive, send)
            return
        began = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        exchange = _Exchange(send, scope["method"])
        outer = current_correlation.get()
        try:
            await self._answer(scope, headers, receive, exchange)
        except TwinRavenError as error:
            await exchange.refuse(error, await self._clean(exchange, error))
        except Exception:
            _logger.exception("a request failed for a reason that is nobody's but ours")
            internal = TwinRavenError("something went wrong inside; the correlation id finds it in the log")
            await exchange.refuse(internal, encode(problem(internal)))
        finally:
            current_correlation.set(outer)
            self._metrics.answered(exchange.method, exchange.path, exchange.status, time.perf_counter() - began)

    async def _answer(
        self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, exchange: _Exchange
    ) -> None:
        exchange.correlation_id = correlation_of(headers)
        current_correlation.set(exchange.correlation_id)
        if len(headers) < len(scope["headers"]):
            refuse_repeated(scope["headers"])
        bound, values = self._find(scope, exchange)
        route = bound.route
        if route.is_open:
            who = LOCAL
        else:
            who = exchange.who = await self._doorkeeper.admit(headers, client=scope.get("client"))
            if who.tenant_id not in self._met or b"x-correlation-id" in headers:
                await self._welcome(who, headers, exchange)
        text = await read_body(receive, headers)
        if route.admin and who.role != "admin":
            raise PolicyViolation("only an administrator of the tenant may do this", user_id=who.user_id)
        request = Request(
            self._raven,
            who,
            bound.path_of(values),
            bound.query_of(scope["query_string"]),
            parse_body(bound, text, headers),
            exchange.correlation_id,
            key_of(route, headers),
            match_of(route, headers),
            headers.get(b"last-event-id") or None,
        )
        is_once = request.idempotency_key is not None and not route.keeps_key
        answer = await (once(route, request) if is_once else route.handler(request))
        if answer.stream is not None:
            await self._stream(answer, receive, exchange, self._doorkeeper.over(scope, headers))
        else:
            await exchange.give(answer, _body_of(route, request, answer), seen=tags_of(headers))

    def _find(self, scope: Scope, exchange: _Exchange) -> tuple[BoundRoute, Sequence[str]]:
        found = self._router.find(scope.get("raw_path") or scope["path"].encode())
        if found is None:
            # Nobody is known yet whose secrets the path could hold, so it is not repeated.
            raise NotFound("there is nothing at this path; /openapi.json lists what there is")
        routes, values = found
        bound = routes.get("GET" if exchange.method == "HEAD" else exchange.method)
        exchange.path = (bound or next(iter(routes.values()))).route.path
        if bound is None:
            allowed = sorted([*routes, "HEAD"] if "GET" in routes else routes)
            exchange.allowed = ", ".join(allowed).encode()
            raise MethodRefused(f"{exchange.path} takes {', '.join(allowed)}", allowed=allowed)
        return bound, values

    async def _welcome(self, who: Principal, headers: Mapping[bytes, bytes], exchange: _Exchange) -> None:
        """What must be known of a caller's tenant before its request is looked at."""
        if who.tenant_id not in self._met:
            # Looking for a tenant's tools when the first is asked for would hold up everybody on this loop.
            await asyncio.to_thread(self._raven.catalog.entries, who.tenant_id)
            self._met.add(who.tenant_id)
        # The id stands in the answer and in every line of the log, so it must not be a secret. Refusing it would say
        # in as many words that a guess was right.
        if b"x-correlation-id" in headers and await holds_secret(self._raven, who.tenant_id, exchange.correlation_id):
            exchange.correlation_id = new_id()
            current_correlation.set(exchange.correlation_id)

    async def _stream(self, answer: Answer, receive: Receive, exchange: _Exchange, over: Awaitable[None]) -> None:
        """Send until the stream ends, the client leaves or the stream is over for a reason of ours."""
        self._metrics.streams += 1
        tasks = [asyncio.ensure_future(waiting) for waiting in (exchange.stream(answer), _left(receive), over)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            is_over = tasks[-1].done()
        finally:
            self._metrics.streams -= 1
            for task in tasks:
                task.cancel()
            ended, *_ = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(ended, Exception):
            # The client sees the connection break and comes back with the last id it has.
            _logger.error("a stream broke off", exc_info=ended)
        elif is_over:
            await exchange.end()

    async def _clean(self, exchange: _Exchange, error: TwinRavenError) -> bytes:
        """The error as a problem; what it repeats of the request is told without secrets."""
        body = encode(problem(error))
        if exchange.who is None:
            return body
        try:
            return await asyncio.to_thread(self._raven.redactor.redact_known, exchange.who.tenant_id, body)
        except TwinRavenError:
            # Without the store nobody can say what is secret; the code alone tells nothing.
            return encode({**problem(error), "detail": "the store cannot be asked right now", "details": {}})


class _Exchange:
    """The way back of one request."""

    correlation_id = ""
    allowed = b""
    path = _NO_MATCH
    status = 500
    who: Principal | None = None
    _is_begun = False

    def __init__(self, send: Send, method: str) -> None:
        self._send = send
        self.method = method

    async def give(self, answer: Answer, body: bytes, *, seen: list[str] | None) -> None:
        headers: list[tuple[bytes, bytes]] = []
        if answer.headers:
            headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
        if answer.tag is not None:
            tag = entity_tag(answer.tag, body)
            headers.append((b"etag", f'"{tag}"'.encode()))
            if self.method in _SAFE and seen is not None and (tag in seen or "*" in seen):
                await self._write(_UNCHANGED, headers, b"")
                return
        if answer.body is not None or answer.page is not None:
            headers.append((b"content-type", answer.media.encode()))
        await self._write(answer.status, headers, body)

    async def refuse(self, error: TwinRavenError, body: bytes) -> None:
        if self._is_begun:
            return
        headers = [(b"content-type", MEDIA.encode())]
        if self.allowed:
            headers.append((b"allow", self.allowed))
        if isinstance(error, NotAuthenticated):
            headers.append((b"www-authenticate", b"Bearer"))
        if error.retryable:
            headers.append((b"retry-after", b"1"))
        await self._write(problem(error)["status"], headers, body)

    async def stream(self, answer: Answer) -> None:
        assert answer.stream is not None
        await self._send(self._head(answer.status, [(b"content-type", answer.media.encode())]))
        if self.method == "HEAD":
            await self.end()
            return
        async for part in answer.stream:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self.end()

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def _write(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        if status not in _BODILESS:
            headers.append((b"content-length", b"%d" % len(body)))
        await self._send(self._head(status, headers))
        await self._send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

    def _head(self, status: int, headers: list[tuple[bytes, bytes]]) -> Message:
        self._is_begun = True
        self.status = status
        headers.append((b"x-correlation-id", (self.correlation_id or new_id()).encode()))
        if self.method in _SAFE:
            # Answers to everything else are kept by nobody.
            headers += _UNKEPT
        return {"type": "http.response.start", "status": status, "headers": headers}


async def _live(receive: Receive, send: Send) -> None:
    """Nothing is started or ended with the server: whoever runs it has opened the home and closes it."""
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _body_of(route: Route, request: Request, answer: Answer) -> bytes:
    if answer.page is not None:
        place = answer.page.next_place
        cursor = None if place is None else encode_cursor(route.name, request.query, place)
        return encode_json({"items": answer.page.items, "next_cursor": cursor})
    if isinstance(answer.body, bytes):
        return answer.body
    return b"" if answer.body is None else encode_json(answer.body)
