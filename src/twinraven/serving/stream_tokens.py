"""Signs short-lived tokens that open a live stream, for browsers: EventSource cannot send a key in a header.

A token stands in an address, which may be written down on the way, so it opens streams alone, only for a few minutes,
and only while the key that it was made with is in force. It is signed and not stored: every process of a home knows it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, cast

import orjson

from twinraven.tenancy import NotAuthenticated, Principal

LIFETIME_S: Final = 300
_PREFIX: Final = "trs_"
_PURPOSE: Final = "stream-token"

Sign = Callable[[str, str, bytes], str]
"""A keyed hash, by tenant and purpose."""


class StreamTokens:
    """Makes and reads the tokens of one home."""

    def __init__(self, sign: Sign, *, clock: Callable[[], float] = time.time) -> None:
        self._sign = sign
        self._clock = clock

    def issue(self, who: Principal) -> tuple[str, datetime]:
        """Return a token for a principal, and when it ends."""
        until = int(self._clock()) + LIFETIME_S
        body = orjson.dumps([who.tenant_id, who.key_id, until])
        text = base64.urlsafe_b64encode(body).rstrip(b"=").decode()
        token = f"{_PREFIX}{text}.{self._sign(who.tenant_id, _PURPOSE, body)}"
        return token, datetime.fromtimestamp(until, UTC)

    def read(self, token: str) -> tuple[str, str | None]:
        """Read the tenant and the key that a token was made with, or NotAuthenticated."""
        text, _, signature = token.removeprefix(_PREFIX).partition(".")
        try:
            body = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            found: object = orjson.loads(body)
        except (binascii.Error, ValueError):
            raise _refusal() from None
        parts = cast("list[object]", found) if isinstance(found, list) else []
        if len(parts) != 3 or not isinstance(parts[0], str) or not isinstance(parts[2], int):
            raise _refusal()
        tenant_id, key_id, until = parts[0], parts[1], parts[2]
        expected = self._sign(tenant_id, _PURPOSE, body)
        if not hmac.compare_digest(expected.encode(), signature.encode()) or self._clock() >= until:
            raise _refusal()
        return tenant_id, key_id if isinstance(key_id, str) else None


def _refusal() -> NotAuthenticated:
    return NotAuthenticated("access_token is none, or is over; ask for another with POST /v1/stream-tokens")
