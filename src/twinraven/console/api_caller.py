"""Asks the REST API in process, as the person who looks at a page.

A question is a request to the API's ASGI application, with the same checks, roles, redaction and problems as one that
came over a socket. The paths that a page was made from are kept, so that the page can link them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import quote, unquote, urlencode

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_id
from twinraven.serving import VOUCHED, AsgiApp, Message, Scope, encode_json
from twinraven.tenancy import Principal

Vouch = Callable[[], Awaitable[Principal]]
_OK: Final = range(200, 300)


class ApiRefused(Exception):
    """An answer of the API that is a problem."""

    def __init__(self, status: int, problem: Mapping[str, Any], correlation_id: str) -> None:
        super().__init__(problem.get("detail", ""))
        self.status = status
        self.problem = problem
        self.correlation_id = correlation_id

    @property
    def code(self) -> str:
        return str(self.problem.get("code", ""))


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """A response of the API: status, decoded body and entity tag."""

    status: int
    body: Any
    tag: str


def api_path(*parts: str) -> str:
    """Return a path below /v1; what names something may hold any character."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def items_of(found: Any) -> list[Any]:
    """Return the items of a list that was asked for; none where there was no answer."""
    return [] if found is None else list(found["items"])


def members(value: Any) -> Mapping[str, Any]:
    """Return the members of an object in an answer; none where there is no object."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def typed_value(text: str) -> Any:
    """Parse typed text as JSON; what is no JSON is a text."""
    try:
        return parse_json(text)
    except InvalidInput:
        return text


def api_scope(scope: Scope, method: str, target: str, vouch: Vouch | None) -> Scope:
    """Return the scope of a request to the API that is made for a request to the console."""
    path, _, query = target.partition("?")
    return {
        **scope,
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
        **({} if vouch is None else {VOUCHED: vouch}),
    }


@dataclass(slots=True)
class ApiCaller:
    """Questions of one visit."""

    api: AsgiApp
    scope: Scope
    vouch: Vouch | None
    asked: list[str] = field(default_factory=list[str])
    """The paths that were read, in order."""
    correlation_id: str = field(default_factory=new_id)

    @property
    def origin(self) -> str:
        """The address of this server, as the browser called it."""
        host = dict(self.scope["headers"]).get(b"host", b"localhost").decode("latin-1")
        return f"{self.scope.get('scheme', 'http')}://{host}"

    async def get(self, *parts: str, **query: Any) -> Any:
        """Return the body of a GET request."""
        return (await self.show(*parts, **query)).body

    async def show(self, *parts: str, **query: Any) -> ApiAnswer:
        """Return the body of a GET request, with its entity tag."""
        words = {name: _word(value) for name, value in query.items() if value not in (None, "")}
        target = api_path(*parts) + (f"?{urlencode(words, quote_via=quote)}" if words else "")
        if target not in self.asked:
            self.asked.append(target)
        return await self.send("GET", target)

    async def text(self, target: str) -> str:
        """Return the text of a GET request."""
        status, _, body = await _exchange(self.api, api_scope(self.scope, "GET", target, self.vouch), b"")
        if status not in _OK:
            raise ApiRefused(status, {"title": "Not now", "detail": f"{target} answered {status}"}, "")
        return body.decode("utf-8", "replace")

    async def find(self, *parts: str, **query: Any) -> Any:
        """Return the body of a GET request; None where the path is not found or hidden from this user."""
        try:
            return await self.get(*parts, **query)
        except ApiRefused as refusal:
            if refusal.status in (403, 404):
                return None
            raise

    async def post(self, *parts: str, body: Any = None, if_match: str | None = None, key: str | None = None) -> Any:
        """Send a request that changes something, and return its response."""
        answer = await self.send("POST", api_path(*parts), body=body or {}, if_match=if_match, key=key)
        return answer.body

    async def send(
        self,
        method: str,
        target: str,
        *,
        body: Any = None,
        if_match: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiAnswer:
        """Return one request and its answer; a problem is raised."""
        content = b"" if body is None else encode_json(body)
        inner = api_scope(self.scope, method, target, self.vouch)
        stated = {"x-correlation-id": self.correlation_id, **(headers or {})}
        if body is not None:
            stated |= {"content-type": "application/json", "content-length": str(len(content))}
        if if_match is not None:
            stated["if-match"] = f'"{if_match}"'
        if key is not None:
            stated["idempotency-key"] = key
        inner["headers"] = [(name.encode(), value.encode("latin-1")) for name, value in stated.items()]
        status, found, text = await _exchange(self.api, inner, content)
        # Digit by digit: a person decides on what a page shows.
        answer: Any = parse_json(text) if text else None
        if status not in _OK:
            raise ApiRefused(status, answer or {}, found.get(b"x-correlation-id", b"").decode())
        return ApiAnswer(status, answer, found.get(b"etag", b"").decode().strip('"').partition("-gzip")[0])


async def _exchange(app: AsgiApp, scope: Scope, content: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    status, headers, parts = 500, dict[bytes, bytes](), list[bytes]()

    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], dict(message["headers"])
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    # Making an answer and reading it are two turns of the event loop, which serves calls of agents in between.
    await asyncio.sleep(0)
    return status, headers, b"".join(parts)


def _word(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
