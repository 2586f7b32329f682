"""Reads the address and credentials of a graph database from a tool's connection parameters.

It stands apart from the driver so that a definition can be checked where no driver is installed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from twinraven.connectors.addresses import check_host
from twinraven.connectors.binding import Binding
from twinraven.connectors.endpoints import certificate_of

DEFAULT_PORT = 7687
DEFAULT_POOL = 50
DEFAULT_USER = "neo4j"


@dataclass(frozen=True, slots=True)
class GraphTarget:
    """The address and credentials of a graph database; equal targets share a driver."""

    host: str
    port: int
    is_encrypted: bool
    user: str
    secret: str | None
    is_token: bool
    ca_certificate: str | None
    pool_size: int

    @classmethod
    def of(cls, binding: Binding[Any], secret: str | None) -> GraphTarget:
        host, port = _endpoint(binding)
        auth: Any = binding.param("auth")
        kind = cast("dict[str, Any]", auth).get("type") if isinstance(auth, dict) else auth
        if kind not in (None, "basic", "bearer"):
            raise binding.invalid("auth", f"has type {kind!r}; there are basic and bearer")
        pool_size = binding.param("max_connection_pool_size")
        if pool_size is None:
            pool_size = DEFAULT_POOL
        if isinstance(pool_size, bool) or not isinstance(pool_size, int) or pool_size < 1:
            raise binding.invalid("max_connection_pool_size", "must be a whole number from 1")
        return cls(
            host=host,
            port=port,
            is_encrypted=binding.protocol == "bolt+s",
            user=_text(binding, "username") or DEFAULT_USER,
            secret=secret,
            is_token=kind == "bearer",
            ca_certificate=certificate_of(binding),
            pool_size=pool_size,
        )

    @staticmethod
    def database_of(binding: Binding[Any]) -> str | None:
        """Return the database to use; None for the server's own choice."""
        return _text(binding, "database")

    @property
    def name(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"bolt://{host}:{self.port}"

    @property
    def key(self) -> str:
        """Stands for the target without holding the secret."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


def _text(binding: Binding[Any], name: str) -> str | None:
    found = binding.param(name)
    if found is not None and not isinstance(found, str):
        raise binding.invalid(name, "must be a text")
    return found


def _endpoint(binding: Binding[Any]) -> tuple[str, int]:
    try:
        parts = urlsplit(binding.endpoint)
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise binding.invalid("endpoint", f"is not an address: {error}") from None
    if parts.scheme != binding.protocol:
        raise binding.invalid("endpoint", f"must begin with {binding.protocol}://; routing (neo4j://) is not offered")
    if "@" in parts.netloc:
        raise binding.invalid("endpoint", "has credentials in it; put them into a secret")
    if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment or port == 0:
        raise binding.invalid("endpoint", "is a host and a port, and nothing else")
    return check_host(parts.hostname), port
