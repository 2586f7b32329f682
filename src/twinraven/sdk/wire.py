"""Transports requests over blocking or asyncio HTTP. Everything else in this package is written once.

Both wires have the same async shape. The blocking one never waits on a loop, so its coroutines run to their end in one
step (`finish`), and the client for programs without asyncio is the same code as the other one. httpcore does the
protocol: an API that never redirects, sets no cookie and speaks JSON needs nothing that stands above it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from twinraven.foundation.errors import InvalidInput, InvalidSetting
from twinraven.sdk.errors import ServerUnreachable

if TYPE_CHECKING:
    import httpcore2

T = TypeVar("T")

_CONNECT_S: Final = 10.0
_IDLE_S: Final = 30.0
_MOST_CONNECTIONS: Final = 32
STREAM_SILENCE_S: Final = 45.0
"""A live stream says every 15 seconds that it is still there."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request as it leaves."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer as it came; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on; what refuses the request is already read."""

    reply: Reply
    parts: AsyncIterator[bytes]


class Wire(Protocol):
    """Carries requests; raises ServerUnreachable where no answer comes."""

    async def exchange(self, request: WireRequest) -> Reply: ...

    def stream(self, request: WireRequest) -> AbstractAsyncContextManager[Stream]: ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class BlockingWire:
    """For programs without an event loop; several threads may use it at once."""

    def __init__(self, timeout: float) -> None:
        core = load_httpcore()
        self._timeout = timeout
        self._pool = core.ConnectionPool(max_connections=_MOST_CONNECTIONS, keepalive_expiry=_IDLE_S)

    async def exchange(self, request: WireRequest) -> Reply:
        with _translated(request.url):
            found = self._pool.request(
                request.method,
                request.url,
                headers=list(request.headers.items()),
                content=request.content,
                extensions=_limits(self._timeout),
            )
        return _reply(found, found.content)

    @asynccontextmanager
    async def stream(self, request: WireRequest) -> AsyncGenerator[Stream]:
        with (
            _translated(request.url),
            self._pool.stream(
                request.method, request.url, headers=list(request.headers.items()), extensions=_limits(STREAM_SILENCE_S)
            ) as found,
        ):
            body = found.read() if found.status >= 300 else b""
            yield Stream(_reply(found, body), _as_async(found.iter_stream()))

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - this wire belongs to no loop

    async def close(self) -> None:
        self._pool.close()


class LoopWire:
    """Sends requests on an event loop.

    Connections belong to the loop they were opened on, so they are pooled on one loop; a request from another loop, as
    libraries with threads of their own make them, gets a connection for itself alone.
    """

    def __init__(self, timeout: float) -> None:
        self._core = load_httpcore()
        self._timeout = timeout
        self._kept: httpcore2.AsyncConnectionPool = self._pool()
        self._loop = _running_loop()

    async def exchange(self, request: WireRequest) -> Reply:
        with _translated(request.url):
            async with self._connections() as pool:
                found = await pool.request(
                    request.method,
                    request.url,
                    headers=list(request.headers.items()),
                    content=request.content,
                    extensions=_limits(self._timeout),
                )
        return _reply(found, found.content)

    @asynccontextmanager
    async def stream(self, request: WireRequest) -> AsyncGenerator[Stream]:
        with _translated(request.url):
            async with (
                self._connections() as pool,
                pool.stream(
                    request.method,
                    request.url,
                    headers=list(request.headers.items()),
                    extensions=_limits(STREAM_SILENCE_S),
                ) as found,
            ):
                body = await found.aread() if found.status >= 300 else b""
                yield Stream(_reply(found, body), found.aiter_stream())

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._kept.aclose()

    @asynccontextmanager
    async def _connections(self) -> AsyncGenerator[httpcore2.AsyncConnectionPool]:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is loop:
            yield self._kept
            return
        async with self._pool() as pool:
            yield pool

    def _pool(self) -> httpcore2.AsyncConnectionPool:
        return self._core.AsyncConnectionPool(max_connections=_MOST_CONNECTIONS, keepalive_expiry=_IDLE_S)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run work over a blocking wire to its end."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    finally:
        work.close()
    raise RuntimeError("work over a blocking wire waited for an event loop")


def each(things: AsyncGenerator[T]) -> Iterator[T]:
    """Iterate over an async generator on a blocking wire."""
    try:
        while True:
            try:
                thing = finish(things.__anext__())
            except StopAsyncIteration:
                return
            yield thing
    finally:
        finish(things.aclose())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def check_url(url: str) -> str:
    """Return the address of a server, without the slash at its end."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(f"{url!r} is no address of a server; say http://host:port", field="url")
    return url.rstrip("/")


def load_httpcore() -> Any:
    """Load the HTTP library, which an extra brings along."""
    try:
        import httpcore2
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            f"the client needs {error.name}, which is not installed", fix="pip install 'twinraven[sdk]'"
        ) from error
    return httpcore2


def _limits(seconds: float) -> dict[str, Any]:
    return {
        "timeout": {"connect": min(_CONNECT_S, seconds), "read": seconds, "write": seconds, "pool": seconds},
    }


def _reply(found: httpcore2.Response, body: bytes) -> Reply:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in found.headers}
    return Reply(found.status, headers, body)


async def _as_async(parts: Iterator[bytes]) -> AsyncGenerator[bytes]:
    for part in parts:
        yield part


@contextmanager
def _translated(url: str) -> Generator[None]:
    """What the library raises, as what a caller can act on."""
    import httpcore2

    try:
        yield
    except (httpcore2.LocalProtocolError, httpcore2.UnsupportedProtocol) as error:
        raise InvalidInput(f"this makes no HTTP request: {error}", field="url") from error
    except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        place = urlsplit(url).netloc
        raise ServerUnreachable(f"{place} gave no answer ({reason[:200]})", server=place) from error
