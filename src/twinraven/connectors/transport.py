"""Makes one HTTP exchange: to a checked address, through redirects, within limits.

httpcore does the protocol. What stands above it elsewhere (proxies from the environment, cookies, transparent
decompression, automatic redirects) is left out on purpose: each of them widens what a foreign server can make us do.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from twinraven.connectors.addresses import AddressGuard
from twinraven.connectors.bodies import ACCEPTED, BodyReader
from twinraven.connectors.extras import require
from twinraven.connectors.http_model import (
    OF_THE_CONNECTION,
    BodyListener,
    HttpLimits,
    HttpRequest,
    HttpResponse,
    NoAnswer,
    NotFollowed,
    NotSent,
)
from twinraven.connectors.redirects import comes_after_effect, next_request
from twinraven.foundation.errors import InvalidInput, ToolError, ToolUnavailable, TwinRavenError
from twinraven.storage import forget_after_fork

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkBackend, Response

    from twinraven.connectors.network import ConnectionPools

# Some servers answer 411 to one of these that does not say how long its body is, though it has none.
_MEAN_A_BODY = frozenset({"POST", "PUT", "PATCH"})
_SENDING = "http11.send_request_headers.started"


class _Progress:
    """Notes the moment at which a request begins to leave, and that at which its own server has answered."""

    def __init__(self) -> None:
        self.is_sent = False
        self.is_answered = False

    async def __call__(self, event: str, info: dict[str, Any]) -> None:
        del info
        self.is_sent = self.is_sent or event == _SENDING


class HttpTransport:
    """Sends requests; raises NotSent, NoAnswer or NotFollowed where no answer comes."""

    def __init__(
        self, guard: AddressGuard, *, limits: HttpLimits | None = None, network: AsyncNetworkBackend | None = None
    ) -> None:
        self.limits = limits or HttpLimits()
        self._guard = guard
        self._network = network
        forget_after_fork(self)

    async def exchange(self, request: HttpRequest, *, seconds: float) -> HttpResponse:
        """Return the answer to a request, redirects followed, all of it within the given time."""
        require("httpcore2", "http")
        progress = _Progress()
        try:
            return await self._exchange(request, progress, seconds)
        except TwinRavenError as error:
            if not progress.is_answered:
                raise
            raise NotFollowed(error) from error

    async def _exchange(self, request: HttpRequest, progress: _Progress, seconds: float) -> HttpResponse:
        import httpcore2

        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._follow(request, progress, seconds)
        except httpcore2.LocalProtocolError as error:
            raise InvalidInput(f"this makes no HTTP request: {error}", field="params") from None
        except ToolUnavailable as error:
            raise (NoAnswer if progress.is_sent else NotSent)(error.message) from error
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise _lost(progress, f"did not answer within {round(seconds * 1000)} ms", timed_out=True) from error
        except httpcore2.TimeoutException as error:
            raise _lost(progress, "did not answer in time", timed_out=True) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            if any(isinstance(reason, ssl.SSLCertVerificationError) for reason in error.args):
                raise ToolError(f"the service's certificate is not trusted: {error}"[:300]) from error
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise _lost(progress, f"broke the connection ({reason[:200]})") from error

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        if "_pools" in self.__dict__:
            await self._pools.aclose()

    def after_fork(self) -> None:
        """A child must not speak on its parent's connections."""
        self.__dict__.pop("_pools", None)

    @cached_property
    def _pools(self) -> ConnectionPools:
        from twinraven.connectors.network import ConnectionPools

        return ConnectionPools(self._guard, self.limits, inner=self._network)

    async def _follow(self, request: HttpRequest, progress: _Progress, seconds: float) -> HttpResponse:
        is_sequel = False
        for _ in range(self.limits.max_redirects + 1):
            response = await self._send(request, progress, seconds)
            progress.is_answered = True
            following = next_request(request, response)
            if following is None:
                return replace(response, is_sequel=is_sequel)
            is_sequel = is_sequel or comes_after_effect(response)
            request = following
        raise ToolError(f"the service redirects more than {self.limits.max_redirects} times")

    async def _send(self, request: HttpRequest, progress: _Progress, seconds: float) -> HttpResponse:
        from httpcore2 import URL

        if request.body is not None and len(request.body) > self.limits.max_request_bytes:
            raise InvalidInput(f"the request is larger than {self.limits.max_request_bytes} bytes", field="params")
        url = request.url if request.credential is None else request.url.asking(request.credential.query)
        origin = url.origin
        pool = await self._pools.pool(request)
        connect = min(seconds, self.limits.connect_timeout_ms / 1000)
        async with pool.stream(
            request.method,
            URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=url.target),
            headers=_headers(request),
            content=b"" if request.body is None and request.method in _MEAN_A_BODY else request.body,
            # Reading, writing and waiting for a connection have the whole exchange's time, which is kept around them.
            extensions={"timeout": {"connect": connect}, "trace": progress},
        ) as response:
            return await self._read(response, request.listener)

    async def _read(self, response: Response, listener: BodyListener | None) -> HttpResponse:
        headers: dict[str, str] = {}
        for raw_name, raw_value in response.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        failed = response.status >= 400
        limit = self.limits.max_error_bytes if failed else self.limits.max_response_bytes
        hear = None if listener is None or response.status >= 300 else listener.hear
        reader = BodyReader(headers.get("content-encoding", ""), limit=limit, cut=failed, hear=hear)
        async for piece in response.aiter_stream():
            reader.feed(piece)
            if reader.is_full:
                break
        return HttpResponse(response.status, headers, reader.body())


def _headers(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    given = [*request.headers, *(request.credential.headers if request.credential else ())]
    named = {name.lower() for name, _ in given}
    if not OF_THE_CONNECTION.isdisjoint(named):
        raise InvalidInput(f"the header {min(OF_THE_CONNECTION & named)} belongs to the connection", field="headers")
    ours = [
        ("Host", request.url.origin.authority),
        ("User-Agent", "twinraven"),
        ("Accept", "*/*"),
        ("Accept-Encoding", ACCEPTED),
    ]
    shown = [pair for pair in ours if pair[0].lower() not in named] + given
    try:
        return [(name.encode("ascii"), value.encode("latin-1")) for name, value in shown]
    except UnicodeEncodeError as error:
        raise InvalidInput(f"no header can carry {error.object[error.start : error.end]!r}", field="params") from None


def _lost(progress: _Progress, what: str, *, timed_out: bool = False) -> NotSent | NoAnswer:
    if not progress.is_sent:
        return NotSent(f"the service could not be reached: it {what}")
    return NoAnswer(f"the service {what}", timed_out=timed_out)
