"""Carries the bytes of HTTP connections over asyncio's own transports.

httpcore's network backend for asyncio goes through anyio, whose scopes and checks cost more than the protocol itself
does for a small request. What httpcore needs of a connection is little: read, write, begin TLS, close, and whether the
other side has said anything while nobody asked.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from ipaddress import ip_address
from typing import Any, Final, NoReturn, cast

from httpcore2 import (
    SOCKET_OPTION,
    AsyncNetworkBackend,
    AsyncNetworkStream,
    ConnectError,
    ConnectTimeout,
    ReadError,
    ReadTimeout,
    WriteError,
    WriteTimeout,
)

_MOST_BUFFERED: Final = 256 * 1024
"""The size of the read buffer in bytes."""
_MOST_TOGETHER: Final = 64 * 1024
"""From this size on bytes are sent at once."""
_HEAD_START_S: Final = 0.25
"""How long an address of a host is tried alone, as RFC 8305 recommends: one of IPv6 may lead nowhere."""


class _Wire(asyncio.Protocol):
    """Holds what has arrived until it is read, and wakes whoever waits for more or for room to write."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.error: Exception | None = None
        self.is_over = False
        """Whether nothing more will arrive."""
        self._arrived = bytearray()
        self._unsent: list[bytes] = []
        """What is sent together in the loop's next turn: a request's head and body are written one after the other."""
        self._is_reading = True
        self._is_full = False
        self._waiters: list[asyncio.Future[None]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asked with isinstance: the transports of uvloop, on which servers run, are of no class of asyncio's.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        if len(self._arrived) > _MOST_BUFFERED and self._is_reading and self.transport is not None:
            self.transport.pause_reading()
            self._is_reading = False
        self._wake()

    def eof_received(self) -> bool:
        self.is_over = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over, self._is_full = True, False
        self.error = exc or self.error
        self._wake()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    @property
    def has_arrived(self) -> bool:
        """Whether there is something to read, or the end."""
        return bool(self._arrived) or self.is_over

    async def take(self, most: int) -> bytes:
        """Return received bytes, at least one; none at the end."""
        while not self.has_arrived:
            await self._wait()
        if self.error is not None and not self._arrived:
            raise self.error
        taken = bytes(self._arrived[:most])
        del self._arrived[:most]
        if not self._is_reading and len(self._arrived) < _MOST_BUFFERED // 2 and self.transport is not None:
            self._is_reading = True
            self.transport.resume_reading()
        return taken

    async def give(self, data: bytes) -> None:
        """Send bytes with those that follow at once, and wait while too many are on their way."""
        if self.transport is None or self.transport.is_closing():
            raise self.error or ConnectionResetError("the connection is closed")
        self._unsent.append(data)
        if len(data) > _MOST_TOGETHER:
            self._send()
        elif len(self._unsent) == 1:
            asyncio.get_running_loop().call_soon(self._send)
        while self._is_full:
            await self._wait()
        if self.error is not None:
            raise self.error

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self.transport is not None and not self.transport.is_closing():
            self.transport.write(b"".join(unsent))

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


_Connected = tuple[asyncio.Transport, _Wire]


class AsyncioStream(AsyncNetworkStream):
    """One connection."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the library's
        try:
            async with _limit(timeout):
                return await self._wire.take(max_bytes)
        except TimeoutError as error:
            raise ReadTimeout(error) from error
        except OSError as error:
            raise ReadError(error) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the library's
        if not buffer:
            return
        try:
            async with _limit(timeout):
                await self._wire.give(buffer)
        except TimeoutError as error:
            raise WriteTimeout(error) from error
        except OSError as error:
            raise WriteError(error) from error

    async def aclose(self) -> None:
        if self._wire.transport is not None:
            self._wire.transport.abort()
            await asyncio.sleep(0)  # the transport lets go of its socket in the loop's next turn

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's
    ) -> AsyncNetworkStream:
        wire, loop = self._wire, asyncio.get_running_loop()
        assert wire.transport is not None
        try:
            async with _limit(timeout):
                wire.transport = await loop.start_tls(
                    wire.transport, wire, ssl_context, server_hostname=server_hostname
                )
        except (OSError, TimeoutError) as error:  # errors of TLS are of the first kind
            await self.aclose()
            _raise_unconnected(error)
        except BaseException:
            await self.aclose()
            raise
        if wire.transport is None:
            raise ConnectError("the connection was closed while TLS began")
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._wire.has_arrived
        names = {"client_addr": "sockname", "server_addr": "peername"}
        transport = self._wire.transport
        return None if transport is None else transport.get_extra_info(names.get(info, info))


class AsyncioNetwork(AsyncNetworkBackend):
    """Opens connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        local = None if local_address is None else (local_address, 0)
        try:
            async with _limit(timeout):
                transport, wire = await _connect(host, port, local)
        except (OSError, TimeoutError) as error:
            _raise_unconnected(error)
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return AsyncioStream(wire)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _connect(host: str, port: int, local: tuple[str, int] | None) -> _Connected:
    """Connect to the first address of a host that answers; each is tried a moment after the one before."""
    loop = asyncio.get_running_loop()
    untried = await _addresses(host, port)
    trying: set[asyncio.Task[_Connected]] = set()
    failure: BaseException = OSError(f"{host!r} has no address")
    try:
        while untried or trying:
            if untried:
                trying.add(asyncio.ensure_future(loop.create_connection(_Wire, untried.pop(0), port, local_addr=local)))
            patience = _HEAD_START_S if untried else None
            done, trying = await asyncio.wait(trying, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    trying |= done - {task}
                    return task.result()
                failure = error
    finally:
        await _give_up(trying)
    raise failure


async def _addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host; one that is an address, or has only one, is left as it is."""
    try:
        ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        return addresses if len(addresses) > 1 else [host]
    return [host]


async def _give_up(trying: set[asyncio.Task[_Connected]]) -> None:
    """End the attempts that came second, also those that just succeeded."""
    for task in trying:
        task.cancel()
    for late in await asyncio.gather(*trying, return_exceptions=True):
        if not isinstance(late, BaseException):
            late[0].abort()


def _limit(seconds: float | None) -> AbstractAsyncContextManager[object]:
    return nullcontext() if seconds is None else asyncio.timeout(seconds)


def _raise_unconnected(error: Exception) -> NoReturn:
    raise (ConnectTimeout if isinstance(error, TimeoutError) else ConnectError)(error) from error
