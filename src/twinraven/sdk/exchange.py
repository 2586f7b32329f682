"""Sends one request and reads its response, with retries where a repeat is safe.

A read may always be repeated, a write only under an idempotency key: then the server does it once however often it is
asked. So a lost connection, a server that is busy for a moment (503) or a proxy that cannot reach it is waited out, a
few times; whatever else goes wrong is the caller's to know at once.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

import orjson

from twinraven.foundation.canonical import canonical_json, to_json_value
from twinraven.foundation.errors import CallInProgress, TwinRavenError
from twinraven.sdk.errors import RemoteError, ServerUnreachable, error_of
from twinraven.sdk.wire import Reply, Stream, Wire, WireRequest

PAUSES_S: Final = (0.1, 0.4, 1.2, 3.0)
"""How long to wait before each further try."""

_LONGEST_WISH_S: Final = 5.0
_BUSY: Final = 503
_OF_PROXIES: Final = frozenset({502, 503, 504})
"""Without a problem in the body these come from something that stands before the server."""


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """A request to the server."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: Any = None
    key: str | None = None
    """The idempotency key, which makes a write repeatable."""
    if_match: str | None = None
    is_safe: bool = False
    """Whether repeating it does no harm even without a key, although it is no GET."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_repeatable(self) -> bool:
        return self.method == "GET" or self.key is not None or self.is_safe


def path_of(*parts: str) -> str:
    """Return a path of the API; what names something may hold any character."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


class Exchange:
    """Sends requests with the client's API key, and reads the responses."""

    def __init__(self, wire: Wire, url: str, key: str | None) -> None:
        self._wire = wire
        self._url = url
        self._always = {"Accept": "application/json", "User-Agent": "twinraven-client"}
        if key is not None:
            self._always["Authorization"] = f"Bearer {key}"

    async def send(self, ask: RequestSpec) -> Reply:
        """Return the answer, or the error it is."""
        request = self._letter(ask)
        was_lost = False
        for pause in PAUSES_S if ask.is_repeatable else ():
            try:
                reply = await self._wire.exchange(request)
            except ServerUnreachable:
                was_lost = True
                wished = 0.0
            else:
                error = _error_in(reply)
                if error is None:
                    return reply
                if not _passes(reply, error, was_lost=was_lost):
                    raise error
                was_lost = was_lost or isinstance(error, RemoteError)
                wished = _wished(reply)
            await self.pause(max(pause, wished))
        reply = await self._wire.exchange(request)
        error = _error_in(reply)
        if error is not None:
            raise error
        return reply

    async def json(self, ask: RequestSpec) -> Any:
        """Return the answer's body."""
        return _parse(await self.send(ask))

    @asynccontextmanager
    async def stream(self, ask: RequestSpec) -> AsyncGenerator[Stream]:
        """Provide an answer that goes on, or the error it is."""
        async with self._wire.stream(self._letter(ask)) as stream:
            error = _error_in(stream.reply)
            if error is not None:
                raise error
            yield stream

    async def pause(self, seconds: float) -> None:
        """Wait about so long, so that many clients do not come back at once."""
        await self._wire.pause(seconds * random.uniform(0.8, 1.2))

    async def close(self) -> None:
        await self._wire.close()

    def _letter(self, ask: RequestSpec) -> WireRequest:
        headers = {**self._always, **ask.headers}
        content = None if ask.body is None else encode(ask.body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        if ask.key is not None:
            headers["Idempotency-Key"] = ask.key
        if ask.if_match is not None:
            headers["If-Match"] = ask.if_match
        stated = {name: _word(value) for name, value in ask.query.items() if value is not None}
        query = f"?{urlencode(stated, quote_via=quote)}" if stated else ""
        return WireRequest(ask.method, f"{self._url}{ask.path}{query}", headers, content)


def encode(body: Any) -> bytes:
    """Return a body as JSON; what JSON does not know is written as the recorder writes it."""
    try:
        return orjson.dumps(body)
    except (TypeError, RecursionError):
        return canonical_json(to_json_value(body))


def _passes(reply: Reply, error: TwinRavenError, *, was_lost: bool) -> bool:
    """Return whether the trouble is of the kind that waiting ends.

    After a lost answer the call in progress is our own.
    """
    if isinstance(error, CallInProgress):
        return was_lost
    return reply.status == _BUSY or (isinstance(error, RemoteError) and error.retryable)


def _error_in(reply: Reply) -> TwinRavenError | None:
    if 200 <= reply.status < 300:
        return None
    try:
        body: object = orjson.loads(reply.body)
    except ValueError:
        body = None
    if isinstance(body, dict) and "code" in body:
        return error_of(cast("dict[str, Any]", body))
    words = reply.body[:200].decode("utf-8", "replace")
    error = RemoteError(f"the server answered {reply.status} and no problem: {words!r}", status=reply.status)
    error.retryable = reply.status in _OF_PROXIES
    return error


def _parse(reply: Reply) -> Any:
    try:
        return orjson.loads(reply.body)
    except ValueError:
        raise RemoteError(f"the server answered {reply.status} and no JSON", status=reply.status) from None


def _wished(reply: Reply) -> float:
    stated = reply.headers.get("retry-after", "")
    return min(float(stated), _LONGEST_WISH_S) if stated.isascii() and stated.isdigit() else 0.0


def _word(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
