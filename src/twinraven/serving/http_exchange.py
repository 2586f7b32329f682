"""Writes the response of one request: status, headers, entity tag, compression, problem details, stream."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Final

from twinraven.foundation.errors import TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.serving.compression import accepts_gzip, compress, is_worthwhile
from twinraven.serving.conditional import PACKED, Condition, entity_tag, refuse_unmatched
from twinraven.serving.contract import Response
from twinraven.serving.listening import Message, Send
from twinraven.serving.problems import MEDIA, EncodingRefused, problem
from twinraven.tenancy import NotAuthenticated, Principal

_UNCHANGED: Final = 304
_BODILESS: Final = frozenset({204, _UNCHANGED})
_SAFE: Final = frozenset({"GET", "HEAD"})
_UNKEPT: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_NO_MATCH: Final = "unmatched"
_Headers = list[tuple[bytes, bytes]]


class HttpExchange:
    """The way back of one request."""

    correlation_id = ""
    allowed = b""
    path = _NO_MATCH
    status = 500
    who: Principal | None = None
    named: Mapping[str, str] = MappingProxyType({})
    """What the path names, by the names of its template."""
    only_if: Condition | None = None
    """What If-Match states."""
    unless: Condition | None = None
    """What If-None-Match states."""
    _is_begun = False

    def __init__(self, send: Send, method: str, headers: Mapping[bytes, bytes]) -> None:
        self._send = send
        self._accepted = headers.get(b"accept-encoding")
        self.method = method

    @property
    def is_safe(self) -> bool:
        return self.method in _SAFE

    async def give(self, answer: Response, body: bytes) -> None:
        """Send an answer, or 304 where the client has it."""
        headers: _Headers = []
        if answer.headers:
            headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
        is_packed = is_worthwhile(body, answer.media) and self._packs(headers)
        if answer.tag is not None:
            tag = entity_tag(answer.tag, body)
            if self.is_safe:
                refuse_unmatched(tag, self.only_if)
            headers.append((b"etag", f'"{tag}{PACKED if is_packed else ""}"'.encode()))
            if self.is_safe and self.unless is not None and self.unless.holds(tag, strongly=False):
                await self._write(_UNCHANGED, headers, b"")
                return
        if answer.body is not None or answer.page is not None:
            headers.append((b"content-type", answer.media.encode()))
        if is_packed:
            headers.append((b"content-encoding", b"gzip"))
            body = await compress(body)
        await self._write(answer.status, headers, body)

    async def refuse(self, error: TwinRavenError, body: bytes) -> None:
        """Send an error as a problem, unless the answer has begun."""
        if self._is_begun:
            return
        headers = [(b"content-type", MEDIA.encode())]
        if self.allowed:
            headers.append((b"allow", self.allowed))
        if isinstance(error, NotAuthenticated):
            headers.append((b"www-authenticate", b"Bearer"))
        if isinstance(error, EncodingRefused):
            headers.append((b"accept-encoding", ", ".join(error.details["accepted"]).encode()))
        if error.retryable:
            headers.append((b"retry-after", b"1"))
        await self._write(problem(error)["status"], headers, body)

    async def stream(self, answer: Response) -> None:
        """Send what a stream gives, as long as it does."""
        assert answer.stream is not None
        async with aclosing(answer.stream) as stream:
            await self._send(self._head(answer.status, [(b"content-type", answer.media.encode())]))
            if self.method != "HEAD":
                async for part in stream:
                    await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self.end()

    async def end(self) -> None:
        """End an answer that was sent in parts."""
        await self._send({"type": "http.response.body", "body": b""})

    def _packs(self, headers: _Headers) -> bool:
        """Return whether a body that is worth it is compressed; caches must know that it depends on the client."""
        headers.append((b"vary", b"Accept-Encoding"))
        return accepts_gzip(self._accepted)

    async def _write(self, status: int, headers: _Headers, body: bytes) -> None:
        if status not in _BODILESS:
            headers.append((b"content-length", b"%d" % len(body)))
        await self._send(self._head(status, headers))
        await self._send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

    def _head(self, status: int, headers: _Headers) -> Message:
        self._is_begun = True
        self.status = status
        headers.append((b"x-correlation-id", (self.correlation_id or new_id()).encode()))
        if self.is_safe:
            # Answers to everything else are kept by nobody.
            headers += _UNKEPT
        return {"type": "http.response.start", "status": status, "headers": headers}
