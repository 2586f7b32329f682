"""A small Internet for tests: names with public addresses, behind which stand servers on loopback.

What decides where a connection may go sees public addresses, as in earnest; only the last step, which opens a socket,
leads to this machine. Every address that somebody connected to is kept.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from httpcore2 import SOCKET_OPTION, AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError

from twinraven.connectors.addresses import Address


class Internet(AsyncNetworkBackend):
    """Names, their addresses, and the local port behind each address."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}
        self.ports: dict[str, int] = {}
        self.asked: list[str] = []
        self.connected: list[str] = []
        self._inner = AnyIOBackend()

    def host(self, name: str, address: str, port: int) -> None:
        self.names[name] = [address]
        self.ports[address] = port

    async def resolve(self, host: str, port: int) -> list[Address]:
        del port
        self.asked.append(host)
        if host not in self.names:
            raise OSError(-2, "Name or service not known")
        return [ipaddress.ip_address(address) for address in self.names[host]]

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the port is the library's
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        del port
        self.connected.append(host)
        if host not in self.ports:
            raise ConnectError(f"nobody at {host}")
        return await self._inner.connect_tcp("127.0.0.1", self.ports[host], timeout, local_address, socket_options)
