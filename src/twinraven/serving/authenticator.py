"""Authenticates HTTP requests: an API key becomes a principal, and a key is believed for a second.

Only where nobody but this machine can connect may the key be left out, and then the caller is the home's own user. A
web page open in a browser on this machine can connect, too: such a request must be addressed to this machine by name
and must not come from another site. A reverse proxy on this host also connects from loopback, so requests with
`Forwarded`, `Via` or `X-Forwarded-*` need a key.
The key is read here and goes no further: not into a log, not to another server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import lru_cache, partial
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from twinraven.foundation.errors import TwinRavenError
from twinraven.serving.stream_limit import MOST_STREAMS, StreamLimit
from twinraven.tenancy import NotAuthenticated, Principal, SignIns, Tenancy

BELIEVED_S: Final = 1.0
"""How long a key that was revoked may still open the door; asking the store each time would double a call's price."""

ENDING: Final = "twinraven.ending"
"""Where a server leaves, in the scope of each request, the event that says that it is about to end."""

VOUCHED: Final = "twinraven.vouched"
"""Where another door of this process leaves, in the scope of a request it makes, how to ask who its caller is."""

_MOST_REMEMBERED: Final = 10_000
_MOST_NAMES: Final = 256
_FORWARDED: Final = frozenset({b"forwarded", b"via", b"x-real-ip"})
_FORWARDED_PREFIX: Final = b"x-forwarded-"
_logger = logging.getLogger("twinraven.serving")


class Authenticator:
    """Turns what a request shows into a principal."""

    def __init__(
        self,
        tenancy: Tenancy,
        *,
        without_key: Principal | None = None,
        sign_ins: SignIns | None = None,
        max_streams: int = MOST_STREAMS,
        believed_s: float = BELIEVED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`without_key` is who a caller is that shows none; None lets nobody in without."""
        self._tenancy = tenancy
        self._without_key = without_key
        self._sign_ins = sign_ins
        self.streams = StreamLimit(max_streams)
        """How many streams those who are let in may keep open, at every door."""
        self._believed_s = believed_s
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Future[Principal]] = {}

    @property
    def needs_key(self) -> bool:
        """Whether every request needs a key, wherever it comes from."""
        return self._without_key is None

    async def admit(self, headers: Mapping[bytes, bytes], *, client: tuple[str, int] | None) -> Principal:
        """Authenticate a request by its headers and peer address, or raise NotAuthenticated."""
        authorization = headers.get(b"authorization")
        key = (b"" if authorization is None else _bearer(authorization)) or headers.get(b"x-api-key")
        if key:
            # The key itself is not kept.
            return await self._believed(
                sha256(key).digest(), partial(self._tenancy.authenticate, key.decode("latin-1"))
            )
        if self._without_key is None:
            raise NotAuthenticated("send an API key: Authorization: Bearer <key>")
        if authorization is not None or b"x-api-key" in headers:
            raise NotAuthenticated("this is no API key; send one as Authorization: Bearer <key>, or no such header")
        if client is None or not is_loopback(client[0]) or is_forwarded(headers):
            raise NotAuthenticated("without an API key only requests that come straight from this machine are served")
        origin = headers.get(b"origin")
        if not is_at_home(
            headers.get(b"host", b"").decode("latin-1"), None if origin is None else origin.decode("latin-1")
        ):
            raise NotAuthenticated(
                "without an API key only requests to this machine itself are served; "
                "send one, or address localhost and no other name"
            )
        return self._without_key

    async def admit_key(self, tenant_id: str, key_id: str) -> Principal:
        """Return the principal of a key id that is in force, or raise NotAuthenticated."""
        mark = sha256(f"{tenant_id}\0{key_id}".encode()).digest()
        return await self._believed(mark, partial(self._tenancy.principal_of, tenant_id, key_id))

    async def admit_sign_in(self, token: str) -> Principal:
        """Return the principal of a sign-in, while it and its key are in force, or raise NotAuthenticated."""
        if self._sign_ins is None:
            raise NotAuthenticated("nobody can be signed in here")
        return await self._believed(sha256(token.encode()).digest(), partial(self._sign_ins.principal_of, token))

    def forget_sign_in(self, token: str) -> None:
        """Believe a sign-in no longer that was ended here."""
        self._known.pop(sha256(token.encode()).digest(), None)

    async def over(
        self,
        scope: Mapping[str, Any],
        headers: Mapping[bytes, bytes],
        *,
        admit: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Return when a stream must end: its caller is not let in any more, or the server is about to end.

        A stream outlives the moment in which its key was looked at, and a server cannot wait for what lasts. `admit`
        says how to look again, where it is not by the headers.
        """
        again = admit or partial(self.admit, headers, client=scope.get("client"))
        ending: asyncio.Event = scope.get(ENDING) or asyncio.Event()
        while not ending.is_set():
            try:
                await asyncio.wait_for(ending.wait(), BELIEVED_S)
            except TimeoutError:
                if not await _may_stay(again):
                    return

    async def _believed(self, mark: bytes, ask: Callable[[], Coroutine[Any, Any, Principal]]) -> Principal:
        """Return what the store said a moment ago.

        Else ask it, once for all requests that come with this key meanwhile.
        """
        known = self._known.get(mark)
        if known is not None and self._clock() < known[1]:
            return known[0]
        asking = self._asking.get(mark)
        if asking is None:
            asking = self._asking[mark] = asyncio.ensure_future(self._ask(mark, ask))
            # Whoever asked may be gone when the answer comes; then a refusal is news to nobody.
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(asking)

    async def _ask(self, mark: bytes, ask: Callable[[], Coroutine[Any, Any, Principal]]) -> Principal:
        until = self._clock() + self._believed_s
        self._known.pop(mark, None)
        try:
            principal = await ask()
        finally:
            del self._asking[mark]
        self._known[mark] = (principal, until)
        while len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        return principal


async def _may_stay(admit: Callable[[], Awaitable[object]]) -> bool:
    try:
        await admit()
    except NotAuthenticated:
        return False
    except TwinRavenError as error:
        _logger.warning("whether a stream may go on cannot be asked, trying on: %s", error)
    return True


def is_forwarded(names: Iterable[bytes]) -> bool:
    """Return whether the headers of a request show that a proxy forwarded it."""
    return any(name in _FORWARDED or name.startswith(_FORWARDED_PREFIX) for name in names)


@lru_cache(_MOST_NAMES)
def is_at_home(host: str, origin: str | None) -> bool:
    """Return whether a request is addressed to this machine and comes from no foreign page."""
    if not is_loopback(_name(f"//{host}")):
        return False
    return origin is None or is_loopback(_name(origin))


def _bearer(authorization: bytes) -> bytes:
    kind, _, shown = authorization.partition(b" ")
    return shown.strip() if kind.lower() == b"bearer" else b""


def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


@lru_cache(_MOST_NAMES)
def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
