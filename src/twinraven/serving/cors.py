"""Answers CORS preflights and marks answers as readable, for the web origins that the settings name.

Without the setting nothing is added and browsers keep other sites out. Naming a site lets its pages read answers; it
gives them no rights: they still need a key or a token, and no cookie is ever sent along.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from twinraven.foundation.errors import InvalidSetting

if TYPE_CHECKING:
    # Settings are checked where no web server is installed, too.
    from twinraven.serving.listening import AsgiApp, Message, Receive, Scope, Send

_ORIGIN: Final = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")
_ANY: Final = "*"
_NAMED: Final = "twinraven.named_site"
_OWN: Final = (b"same-origin", b"none")
_METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_HEADERS: Final = (
    b"Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Mcp-Method, Mcp-Name, "
    b"Mcp-Protocol-Version, Mcp-Session-Id, X-Api-Key, X-Correlation-Id"
)
_EXPOSED: Final = (
    b"ETag, Idempotent-Replayed, Location, Mcp-Session-Id, Retry-After, WWW-Authenticate, X-Correlation-Id"
)
_KEPT_S: Final = b"600"


def check_origins(origins: Sequence[str]) -> None:
    """Refuse what is no origin."""
    for each in origins:
        if each != _ANY and _ORIGIN.fullmatch(each) is None:
            raise InvalidSetting(
                f"serving.allow_origins: {each!r} is no origin; write one as https://app.example, without a path, or *",
                field="serving.allow_origins",
            )


def with_cors(app: AsgiApp, origins: Sequence[str]) -> AsgiApp:
    """Return the application, open to pages of these origins; as it is where there are none."""
    check_origins(origins)
    return _Cors(app, frozenset(origins)) if origins else app


def is_foreign_page(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser sends a request for a page of another origin that the settings do not name.

    Another port of this machine is another origin: whatever is served there must not act for the user of this one.
    """
    if scope.get(_NAMED):
        return False
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site is not None:
        return site not in _OWN
    return origin is not None and origin.partition(b"://")[2] != headers.get(b"host")


class _Cors:
    def __init__(self, app: AsgiApp, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"]) if scope["type"] == "http" else {}
        origin = headers.get(b"origin")
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif origin is not None and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            await self._preflight(origin, send)
        else:
            is_named = origin is not None and bool(self._allowed(origin))
            await self._app({**scope, _NAMED: is_named}, receive, self._marking(origin, send))

    def _allowed(self, origin: bytes) -> list[tuple[bytes, bytes]]:
        if _ANY in self._origins:
            return [(b"access-control-allow-origin", b"*")]
        if origin.decode("latin-1") in self._origins:
            return [(b"access-control-allow-origin", origin)]
        return []

    async def _preflight(self, origin: bytes, send: Send) -> None:
        headers = [(b"vary", b"Origin")]
        allowed = self._allowed(origin)
        if allowed:
            headers += [
                *allowed,
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", _HEADERS),
                (b"access-control-max-age", _KEPT_S),
            ]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _marking(self, origin: bytes | None, send: Send) -> Send:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = [*message["headers"], (b"vary", b"Origin")]
                allowed = [] if origin is None else self._allowed(origin)
                if allowed:
                    found += [*allowed, (b"access-control-expose-headers", _EXPOSED)]
                message["headers"] = found
            await send(message)

        return marked
