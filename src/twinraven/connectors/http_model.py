"""Models HTTP requests, responses, their limits, and the ways in which no response arrives.

Whether a request reached the service decides what may be done next: what was never sent can be sent again by anyone,
what was sent and not answered may have taken effect. So may what was answered with a redirect that leads nowhere.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from twinraven.connectors.urls import Url
from twinraven.foundation.errors import InvalidDefinition, TwinRavenError

Headers = tuple[tuple[str, str], ...]

# A tool that could set these could smuggle a second request into its first.
OF_THE_CONNECTION = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade"})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of HTTP requests: timeout, sizes and retries; a tool may set its own timeout."""

    timeout_ms: int = 30_000
    connect_timeout_ms: int = 5_000
    max_request_bytes: int = 10_000_000
    max_response_bytes: int = 10_000_000
    max_error_bytes: int = 65_536
    max_redirects: int = 5
    attempts: int = 3
    connections_per_endpoint: int = 16
    open_endpoints: int = 256
    keep_alive_s: float = 4.0
    """Below the five seconds after which common servers hang up: a request must not meet a closing connection."""


CredentialKind = Literal["bearer", "basic", "header", "query"]


@dataclass(frozen=True, slots=True)
class Credential:
    """A secret and where in a request it goes; it is shown to one origin alone."""

    kind: CredentialKind
    value: str
    name: str = ""
    """The user name, the header or the query parameter."""

    @classmethod
    def of(cls, stated: Any, secret: str) -> Credential:
        """From a tool's `auth` parameter, which says how its service wants to be shown the secret."""
        kind, name = read_auth(stated)
        if not secret.isprintable() or not secret.isascii():
            raise _invalid_auth("cannot carry this secret: it has characters that no header has")
        return cls(kind, secret, name)

    @property
    def headers(self) -> Headers:
        if self.kind == "query":
            return ()
        if self.kind == "header":
            return ((self.name, self.value),)
        if self.kind == "bearer":
            return (("Authorization", f"Bearer {self.value}"),)
        pair = f"{self.name}:{self.value}" if self.name else self.value
        return (("Authorization", f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"),)

    @property
    def query(self) -> list[tuple[str, str]]:
        return [(self.name, self.value)] if self.kind == "query" else []

    def hidden_in(self, text: str) -> str:
        """Return a text without the secret, which some services repeat in what they answer."""
        for secret in (*(value for _, value in self.headers), self.value):
            for spelled in (secret, json.dumps(secret)[1:-1]):
                text = text.replace(spelled, "***")
        return text


def read_auth(stated: Any) -> tuple[CredentialKind, str]:
    """Parse the authentication scheme of a service, and the header or parameter name; needs no secret."""
    if stated is not None and not isinstance(stated, (str, Mapping)):
        raise _invalid_auth("must be an object such as {type: bearer}")
    auth = cast("Mapping[str, Any]", stated) if isinstance(stated, Mapping) else {"type": stated or "bearer"}
    kind = auth.get("type", "bearer")
    if kind not in ("bearer", "basic", "header", "query"):
        raise _invalid_auth(f"has type {kind!r}; there are bearer, basic, header and query")
    field = "username" if kind == "basic" else "name"
    name = auth.get(field, "")
    if not isinstance(name, str) or (kind in ("header", "query") and not name):
        raise _invalid_auth(f"of type {kind!r} needs a text as its {field}")
    if kind == "basic" and ":" in name:
        raise _invalid_auth("has a colon in its username, where a password would begin")
    if kind == "header" and not is_header_name(name):
        raise _invalid_auth(f"names the header {name!r}, which no tool can set")
    return kind, name


def is_header_name(name: str) -> bool:
    """Return whether a header can be called so and is not the connection's own."""
    return _HEADER_NAME.fullmatch(name) is not None and name.lower() not in OF_THE_CONNECTION


class BodyListener(Protocol):
    """Hears the body of a good answer while it arrives."""

    @property
    def has_heard(self) -> bool:
        """Whether something of an answer was passed on, so that the request must not be sent a second time."""
        ...

    def hear(self, part: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, before anything is sent."""

    method: str
    url: Url
    headers: Headers = ()
    body: bytes | None = None
    credential: Credential | None = None
    ca_certificate: str | None = None
    is_strict: bool = False
    """Whether it goes where a stranger pointed, so that the operator's exceptions do not count."""
    listener: BodyListener | None = None
    """A callback for the chunks of the body; the whole body is returned as well."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One answer, read to its end; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_sequel: bool = False
    """Whether a redirect on the way here may have come after the effect that was asked for."""

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")


class NotSent(Exception):
    """The request did not leave, so nothing can have happened."""


class NoAnswer(Exception):
    """The request left and no answer came back; what it did is not known from here."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class NotFollowed(NoAnswer):
    """The service took the request and answered with a redirect, on which no further way was open."""

    def __init__(self, reason: TwinRavenError) -> None:
        super().__init__(reason.message)
        self.reason = reason


def _invalid_auth(problem: str) -> InvalidDefinition:
    return InvalidDefinition(f"connection_params.auth {problem}", field="connection_params.auth")
