"""Who stands at the door: an API key becomes a principal, and a key is believed for a second.

Only where nobody but this machine can connect may the key be left out, and then the caller is the home's own user. A
web page open in a browser on this machine can connect, too: such a request must be addressed to this machine by name
and must not come from another site. The key is read here and goes no further: not into a log, not to another server.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from twinraven.tenancy import NotAuthenticated, Principal, Tenancy, hash_key

BELIEVED_S: Final = 1.0
"""How long a key that was revoked may still open the door; asking the store each time would double a call's price."""

_MOST_REMEMBERED: Final = 10_000


class Doorkeeper:
    """Turns what a request shows into a principal."""

    def __init__(
        self,
        tenancy: Tenancy,
        *,
        without_key: Principal | None = None,
        believed_s: float = BELIEVED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`without_key` is who a caller is that shows none; None lets nobody in without."""
        self._tenancy = tenancy
        self._without_key = without_key
        self._believed_s = believed_s
        self._clock = clock
        self._known: OrderedDict[str, tuple[Principal, float]] = OrderedDict()

    async def admit(
        self, *, authorization: str = "", api_key: str = "", host: str = "", origin: str | None = None
    ) -> Principal:
        """Who this is, by the headers of a request, or NotAuthenticated."""
        kind, _, shown = authorization.partition(" ")
        key = shown.strip() if kind.lower() == "bearer" else ""
        key = key or api_key
        if key:
            return await self._known_by(key)
        if self._without_key is None:
            raise NotAuthenticated("send an API key: Authorization: Bearer <key>")
        if not is_at_home(host, origin):
            raise NotAuthenticated(
                "without an API key only requests to this machine itself are served; "
                "send one, or address localhost and no other name"
            )
        return self._without_key

    async def _known_by(self, key: str) -> Principal:
        now = self._clock()
        hashed = hash_key(key)
        found = self._known.get(hashed)
        if found is not None and now < found[1]:
            return found[0]
        self._known.pop(hashed, None)
        principal = await self._tenancy.authenticate(key)
        self._known[hashed] = (principal, now + self._believed_s)
        while len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        return principal


def is_at_home(host: str, origin: str | None) -> bool:
    """Whether a request is addressed to this machine and comes from no foreign page."""
    if not is_loopback(_name(f"//{host}")):
        return False
    return origin is None or is_loopback(_name(origin))


def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
