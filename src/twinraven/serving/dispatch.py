"""Dispatches HTTP requests as an ASGI application: find the route, authenticate, check, handle, answer.

Nothing stands between the server and a handler but what every request needs, because a call through here should cost
little more than the call. Whatever goes wrong becomes a problem with a stable code; what should not have gone wrong is
logged with the request's correlation id and told as no more than that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from twinraven.app import TwinRaven
from twinraven.audit import NewAuditEntry
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.correlation import current_correlation
from twinraven.foundation.errors import NotFound, PolicyViolation, StaleState, StorageError, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.serving.authenticator import VOUCHED, Authenticator
from twinraven.serving.conditional import condition_of, entity_tag, wanted_versions
from twinraven.serving.contract import Request, Response, Route
from twinraven.serving.cors import is_foreign_page
from twinraven.serving.encoding import encode_json
from twinraven.serving.http_exchange import HttpExchange
from twinraven.serving.idempotent_routes import run_once
from twinraven.serving.listening import Receive, Scope, Send
from twinraven.serving.metrics import HttpMetrics
from twinraven.serving.paging import encode_cursor
from twinraven.serving.problems import MethodRefused, encode, problem
from twinraven.serving.request_parsing import correlation_of, key_of, parse_body, read_body, refuse_repeated, token_of
from twinraven.serving.routing import Router, Routes
from twinraven.serving.secret_screening import holds_secret, refuse_secrets
from twinraven.serving.spelling import CamelCase, Components, take_case
from twinraven.serving.stream_tokens import StreamTokens
from twinraven.tenancy import LOCAL, NotAuthenticated, Principal

_logger = logging.getLogger("twinraven.serving")
_CREATED: Final = 201
_LINEAGE: Final = ("campaign_id", "goal_id", "task_id")


class HttpApp:
    """Serves a table of routes over HTTP for one home."""

    def __init__(
        self,
        raven: TwinRaven,
        routes: Iterable[Route],
        authenticator: Authenticator,
        *,
        metrics: HttpMetrics,
        components: Components = dict,
    ) -> None:
        self._raven = raven
        self._router = Router(routes)
        self._authenticator = authenticator
        self._metrics = metrics
        self._camel_case = CamelCase(components)
        self._met: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await _live(receive, send)
            return
        began = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        exchange = HttpExchange(send, scope["method"], headers)
        outer = current_correlation.get()
        try:
            await self._answer(scope, headers, receive, exchange)
        except TwinRavenError as error:
            body = await self._clean(exchange, error)
            if isinstance(error, PolicyViolation) and exchange.who is not None:
                await self._note_violation(exchange, exchange.who, body)
            await exchange.refuse(error, body)
        except Exception:
            _logger.exception("unhandled error while serving %s %s", exchange.method, exchange.path)
            internal = TwinRavenError("something went wrong inside; the correlation id finds it in the log")
            await exchange.refuse(internal, encode(problem(internal)))
        finally:
            current_correlation.set(outer)
            self._metrics.answered(exchange.method, exchange.path, exchange.status, time.perf_counter() - began)

    async def _answer(
        self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, exchange: HttpExchange
    ) -> None:
        exchange.correlation_id = correlation_of(headers)
        current_correlation.set(exchange.correlation_id)
        if len(headers) < len(scope["headers"]):
            refuse_repeated(scope["headers"])
        routes, values = self._find(scope, exchange)
        if exchange.method == "OPTIONS":
            await exchange.give(Response(status=204, headers={"Allow": _allowed(routes)}), b"")
            return
        bound = routes["GET" if exchange.method == "HEAD" else exchange.method]
        route = bound.route
        again = None
        if route.is_open:
            who = LOCAL
        else:
            who, again = await self._admit(route, scope, headers)
            exchange.who = who
            if who.tenant_id not in self._met or b"x-correlation-id" in headers:
                await self._welcome(who, headers, exchange)
        exchange.named = bound.names_of(values)
        text = await read_body(receive, headers)
        if not (who.may_change or route.is_looking):
            raise PolicyViolation("a viewer reads, and changes and calls nothing", user_id=who.user_id)
        if route.admin and who.role != "admin":
            raise PolicyViolation("only an administrator of the tenant may do this", user_id=who.user_id)
        if route.decides and not who.may_decide:
            raise PolicyViolation("only an approver or an administrator of the tenant may do this", user_id=who.user_id)
        query, is_camel = take_case(route, scope["query_string"])
        request = Request(
            self._raven,
            who,
            bound.path_of(values),
            bound.query_of(query),
            parse_body(bound, text, headers),
            exchange.correlation_id,
            key_of(route, headers),
            last_event_id=headers.get(b"last-event-id") or None,
        )
        if b"if-match" in headers or b"if-none-match" in headers or route.matching == "must":
            exchange.only_if = condition_of(headers, "If-Match")
            exchange.unless = condition_of(headers, "If-None-Match")
            await _refuse_known(routes, request, exchange)
        if route.screened:
            await refuse_secrets(request, **_kept_texts(route, request.body))
        with self._authenticator.streams.place(who) if route.is_stream else nullcontext():
            answer = await _run(route, request, wanted_versions(route, exchange.only_if))
            if answer.stream is not None:
                over = self._authenticator.over(scope, headers, admit=again)
                await self._stream(answer, receive, exchange, over)
                return
        await exchange.give(answer, _body_of(route, request, answer, self._camel_case if is_camel else None))

    async def _admit(
        self, route: Route, scope: Scope, headers: Mapping[bytes, bytes]
    ) -> tuple[Principal, Callable[[], Awaitable[object]] | None]:
        """Return who asks, and how to look again whether they may, where it is not by the headers."""
        vouched: Callable[[], Awaitable[Principal]] | None = scope.get(VOUCHED)
        if vouched is not None:
            return await vouched(), vouched
        token = token_of(scope["query_string"], headers) if route.takes_token else None
        tenant_id, key_id = (None, None) if token is None else StreamTokens(self._raven.tenant_keys.hash).read(token)
        if tenant_id is None or key_id is None:
            is_keyless = b"authorization" not in headers and b"x-api-key" not in headers
            # Browsers ask beforehand whether a page may send JSON or a key; what has neither they just send.
            if is_keyless and route.method != "GET" and is_foreign_page(scope, headers):
                raise NotAuthenticated("a page of another site changes nothing without an API key")
            return await self._authenticator.admit(headers, client=scope.get("client")), None
        again = partial(self._authenticator.admit_key, tenant_id, key_id)
        return await again(), again

    def _find(self, scope: Scope, exchange: HttpExchange) -> tuple[Routes, Sequence[str]]:
        path = scope.get("raw_path") or scope["path"].encode()
        found = self._router.find(path)
        if found is None and path == b"*" and exchange.method == "OPTIONS":
            return {}, ()
        if found is None:
            # Nobody is known yet whose secrets the path could hold, so it is not repeated.
            raise NotFound("there is nothing at this path; /openapi.json lists what there is")
        routes, values = found
        bound = routes.get("GET" if exchange.method == "HEAD" else exchange.method)
        exchange.path = (bound or next(iter(routes.values()))).route.path
        if bound is None and exchange.method != "OPTIONS":
            exchange.allowed = _allowed(routes).encode()
            allowed = _allowed(routes).split(", ")
            raise MethodRefused(f"{exchange.path} takes {', '.join(allowed)}", allowed=allowed)
        return routes, values

    async def _welcome(self, who: Principal, headers: Mapping[bytes, bytes], exchange: HttpExchange) -> None:
        """Prepare a caller's tenant before its request is handled."""
        if who.tenant_id not in self._met:
            # Looking for a tenant's tools when the first is asked for would hold up everybody on this loop.
            await asyncio.to_thread(self._raven.catalog.entries, who.tenant_id)
            self._met.add(who.tenant_id)
        # The id stands in the answer and in every line of the log, so it must not be a secret. Refusing it would say
        # in as many words that a guess was right.
        if b"x-correlation-id" in headers and await holds_secret(self._raven, who.tenant_id, exchange.correlation_id):
            exchange.correlation_id = new_id()
            current_correlation.set(exchange.correlation_id)

    async def _stream(self, answer: Response, receive: Receive, exchange: HttpExchange, over: Awaitable[None]) -> None:
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

    async def _note_violation(self, exchange: HttpExchange, who: Principal, body: bytes) -> None:
        """Append a violation that was refused at this door to the audit log, in the words the caller is told."""
        told = parse_json(body)
        lineage = {name: told["details"][name] for name in _LINEAGE if told["details"].get(name) is not None}
        with suppress(StorageError):
            await self._raven.audit.write(
                NewAuditEntry(
                    tenant_id=who.tenant_id,
                    event_type="policy.refused",
                    subject_type="request",
                    subject_id=f"{exchange.method} {exchange.path}",
                    actor=who.actor,
                    data={**exchange.named, **lineage},
                    code=told["code"],
                    message=told["detail"],
                )
            )

    async def _clean(self, exchange: HttpExchange, error: TwinRavenError) -> bytes:
        """Return the error as a problem; what it repeats of the request is told without secrets."""
        body = encode(problem(error))
        if exchange.who is None:
            return body
        try:
            return await asyncio.to_thread(self._raven.redactor.redact_known, exchange.who.tenant_id, body)
        except TwinRavenError:
            # Without the store nobody can say what is secret; the code alone tells nothing.
            return encode({**problem(error), "detail": "the store cannot be asked right now", "details": {}})


async def _live(receive: Receive, send: Send) -> None:
    """Nothing is started or ended with the server: whoever runs it has opened the home and closes it."""
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _kept_texts(route: Route, body: Mapping[str, Any]) -> dict[str, str]:
    """Return what of a body is kept and shown as it is, by field."""
    kept = {name: value for name, value in body.items() if name not in route.unscreened}
    return {name: value if isinstance(value, str) else canonical_json(value).decode() for name, value in kept.items()}


def _body_of(route: Route, request: Request, answer: Response, spelling: CamelCase | None = None) -> bytes:
    body = answer.body
    if answer.page is not None:
        place = answer.page.next_place
        cursor = None if place is None else encode_cursor(route.name, request.query, place)
        counted = {} if answer.page.count is None else {"count": answer.page.count}
        body = {"items": answer.page.items, "next_cursor": cursor, **counted}
    if isinstance(body, bytes):
        return body
    if spelling is not None and body is not None:
        # As it is written, so that what writes itself as JSON has its fields.
        body = spelling.spell(parse_json(encode_json(body)), route.answer or {})
    return b"" if body is None else encode_json(body)


def _allowed(routes: Routes) -> str:
    """Return the methods that a path takes, as Allow names them."""
    return ", ".join(sorted({*routes, "OPTIONS", *(["HEAD"] if "GET" in routes or not routes else [])}))


async def _run(route: Route, request: Request, wanted: Sequence[str | None]) -> Response:
    """Handle a request for the first of the wanted versions that is the current one; a stale one changes nothing."""
    *others, last = wanted
    for version in others:
        request.if_match = version
        with suppress(StaleState):
            return await _handle(route, request)
    request.if_match = last
    return await _handle(route, request)


async def _handle(route: Route, request: Request) -> Response:
    handler = partial(_located, route) if route.location else route.handler
    if request.idempotency_key is not None and not route.keeps_key:
        return await run_once(route, request, handler)
    return await handler(request)


async def _located(route: Route, request: Request) -> Response:
    """Return the answer with the Location of what was made."""
    answer = await route.handler(request)
    if answer.status == _CREATED:
        fields = {name: quote(str(value), safe="") for name, value in answer.body.items()}
        answer.headers = {**(answer.headers or {}), "Location": route.location.format_map(fields)}
    return answer


async def _refuse_known(routes: Routes, request: Request, exchange: HttpExchange) -> None:
    """Refuse a change under If-None-Match to what is there as it says."""
    shown = routes.get("GET")
    if exchange.unless is None or exchange.is_safe or shown is None:
        return
    # What has no tag is known by being there; a collection is always there, and is not what a POST makes.
    if not shown.route.is_tagged and (not exchange.unless.is_any or exchange.method == "POST"):
        return
    asked = replace(request, query=shown.query_of(b""), body=None)
    current = await shown.route.handler(asked)
    tag = entity_tag(current.tag or "", _body_of(shown.route, asked, current))
    if exchange.unless.holds(tag, strongly=False):
        raise StaleState("If-None-Match names what is there", field="If-None-Match", current=tag)
