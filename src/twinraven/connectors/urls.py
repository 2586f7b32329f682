"""Parses URLs of HTTP requests into origin, path and query, once.

Two parsers that read one URL differently are how requests end up where nobody checked. So a URL is parsed here, into
the parts that are checked and the very same parts that are sent; its text is not read again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from twinraven.connectors.addresses import check_host
from twinraven.foundation.errors import InvalidDefinition, InvalidInput

MAX_URL_CHARS = 16_000

_PORTS = {"http": 80, "https": 443}
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_SLASHES = re.compile(r"[/\\]")
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"
_QUERY_SAFE = _PATH_SAFE + "?"


class Origin(NamedTuple):
    """The origin of a URL (scheme, host, port); credentials of one are not sent to another."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Url:
    """A URL without credentials and fragment."""

    origin: Origin
    path: str
    query: str = ""

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"

    def extended(self, path: str) -> Url:
        """This URL with a path below it, encoded already; it may not climb, however late a server decodes it."""
        if not {".", ".."}.isdisjoint(_SLASHES.split(unquote(path))):
            raise InvalidInput("the path may not climb with '.' or '..'", field="params")
        below = quote(path.removeprefix("/"), safe=_PATH_SAFE)
        return replace(self, path=f"{self.path.rstrip('/')}/{below}") if below else self

    def asking(self, pairs: list[tuple[str, str]]) -> Url:
        """This URL with more of a query."""
        added = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
        return replace(self, query="&".join(part for part in (self.query, added) if part))

    def redirected(self, location: str) -> Url:
        """Resolve a `Location` header against this URL."""
        return parse_url(urljoin(str(self), location), field="Location")


@lru_cache(1024)
def parse_url(text: str, *, field: str = "endpoint") -> Url:
    """Parse an absolute http or https URL, or InvalidDefinition; a host in disguise is a PolicyViolation."""
    if len(text) > MAX_URL_CHARS or _UNSAFE.search(text):
        raise _invalid(text, "is too long, or has blanks, control characters or backslashes in it", field)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _invalid(text, f"is not a URL: {error}", field) from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise _invalid(text, "must begin with http:// or https:// and a host", field)
    if port == 0:
        raise _invalid(text, "has port 0, which nobody can be reached at", field)
    if "@" in parts.netloc:
        raise _invalid(text.rpartition("@")[2], "has credentials in it; put them into a secret", field)
    origin = Origin(parts.scheme, check_host(parts.hostname), port or _PORTS[parts.scheme])
    return Url(origin, quote(parts.path, safe=_PATH_SAFE) or "/", quote(parts.query, safe=_QUERY_SAFE))


def _invalid(text: str, problem: str, field: str) -> InvalidDefinition:
    return InvalidDefinition(f"{field} {text[:100]!r} {problem}", field=field)
