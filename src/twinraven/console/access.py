"""Decides who a browser's request is from, and whether a form was sent by a page of ours.

A cookie holds a sign-in; without one the request must be one that needs no key. Forms are protected by what browsers
say of themselves (Sec-Fetch-Site, else Origin) instead of by tokens: another port of this machine is the same site, and
is refused all the same.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from twinraven.console.api_caller import Vouch
from twinraven.serving import Authenticator, Scope, is_loopback

Headers = Mapping[bytes, bytes]
_PLAIN: Final = "twinraven"
_BOUND: Final = "__Host-twinraven"
_MOST_TRIES: Final = 10
_WINDOW_S: Final = 60.0
_MOST_CLIENTS: Final = 1_000


def vouch_for(authenticator: Authenticator, scope: Scope, headers: Headers) -> Vouch:
    """Return a callback that authenticates a request, now and for as long as a stream lasts."""
    token = sign_in_token(headers)
    if token is not None:
        return partial(authenticator.admit_sign_in, token)
    return partial(authenticator.admit, headers, client=scope.get("client"))


def sign_in_token(headers: Headers) -> str | None:
    """Return the sign-in that a request's cookie holds, under the name that this address uses."""
    try:
        cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return None
    found = cookies.get(_cookie_name(headers))
    return None if found is None or not found.value else found.value


def cookie_of(headers: Headers, token: str, *, lasts_s: int) -> str:
    """Build the Set-Cookie header; 0 seconds deletes the cookie. Plain HTTP is only for this machine."""
    name = _cookie_name(headers)
    secure = "; Secure" if name == _BOUND else ""
    return f"{name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts_s}{secure}"


def _cookie_name(headers: Headers) -> str:
    return _PLAIN if is_loopback(_host_name(headers)) else _BOUND


def _host_name(headers: Headers) -> str:
    try:
        return urlsplit(f"//{headers.get(b'host', b'').decode('latin-1')}").hostname or ""
    except ValueError:
        return ""


def is_own_form(headers: Headers) -> bool:
    """Return whether a form was sent by a page of this very origin."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site == b"same-origin"
    origin = headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] == headers.get(b"host")


class TryLimit:
    """Counts refused keys per client, so that guessing is slow; the counts are this process's own."""

    def __init__(self) -> None:
        self._refused: OrderedDict[str, list[float]] = OrderedDict()

    def is_reached(self, client: str) -> bool:
        return len(self._recent(client)) >= _MOST_TRIES

    def note(self, client: str) -> None:
        """Remember that a key was refused."""
        self._refused[client] = [*self._recent(client), time.monotonic()]
        self._refused.move_to_end(client)
        while len(self._refused) > _MOST_CLIENTS:
            self._refused.popitem(last=False)

    def _recent(self, client: str) -> list[float]:
        since = time.monotonic() - _WINDOW_S
        return [at for at in self._refused.get(client, ()) if at > since]
