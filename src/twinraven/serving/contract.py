"""Defines routes: rows of one table, from which requests are checked and the OpenAPI document is written.

The schema that documents a body is the one that checks it, so the two cannot drift apart. A handler gets a request
that is already what its route says, and gives an answer; it never sees the wire.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from twinraven.foundation.errors import TwinRavenError

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.serving.paging import Page
    from twinraven.tenancy import Principal

JsonSchema = dict[str, Any]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Matching = Literal["no", "may", "must"]
"""Whether a request states with If-Match which version it means to change."""

NAME_SCHEMA: Final[JsonSchema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 512,
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$",
}
"""What a person can read back and both stores can hold."""
LIMIT_SCHEMA: Final[JsonSchema] = {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
TOKEN_SCHEMA: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 2048}
CURSOR_SCHEMA: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 2048}

_SEGMENT: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """One value in the path or in the query string."""

    name: str
    schema: JsonSchema
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class RawBody:
    """A body that the handler decodes itself: bytes, of which media type, and whether they are packed."""

    text: bytes
    media: str
    is_gzip: bool


# Made for every request and seen by one handler: not frozen, because that would take three times as long.
@dataclass(slots=True)
class Request:
    """A request that is what its route says."""

    raven: TwinRaven
    who: Principal
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any
    correlation_id: str
    idempotency_key: str | None = None
    if_match: str | None = None
    """The entity tag the caller means, without its quotes."""
    last_event_id: bytes | None = None

    @property
    def tenant_id(self) -> str:
        return self.who.tenant_id


@dataclass(slots=True)
class Response:
    """A response. `tag` becomes the ETag, `page` a list with a cursor; `stream` lasts."""

    body: Any = None
    status: int = 200
    tag: str | None = None
    headers: Mapping[str, str] | None = None
    page: Page | None = None
    stream: AsyncGenerator[bytes] | None = None
    media: str = "application/json"


Handler = Callable[[Request], Awaitable[Response]]


async def unhandled(request: Request) -> Response:
    """Stand for the handler of a row that no function was declared for."""
    raise NotImplementedError(request)


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that can be asked, by whom, in which form, and what can come of it."""

    method: Method
    path: str
    name: str
    """The operation's id: unique, stable, and what a generated client calls it."""
    summary: str
    answer: JsonSchema | None
    """What the body of a success looks like; None where there is none."""
    handler: Handler = unhandled
    """Set by `RouteTable.handles`, the decorator that stands at the handler."""
    status: int = 200
    query: tuple[QueryParameter, ...] = ()
    body: JsonSchema | None = None
    takes_camel_case: bool = False
    """Whether `connectionSchema` in the body is understood as `connection_schema`."""
    raw: tuple[str, ...] = ()
    """The media types of a body that is not checked here, and reaches the handler as bytes."""
    errors: tuple[type[TwinRavenError], ...] = ()
    """What can go wrong besides what can go wrong everywhere."""
    parameters: Mapping[str, JsonSchema] = field(default_factory=dict[str, JsonSchema])
    """Schemas of what stands in the path, where it is not just a name."""
    admin: bool = False
    decides: bool = False
    """Whether it is for those who decide what waits for people: approvers and administrators."""
    for_viewers: bool = False
    """Whether a read-only user may send it, although it is no GET."""
    is_open: bool = False
    """Whether it is answered without a key."""
    is_paged: bool = False
    cursor: tuple[type, ...] = (str,)
    """What a cursor of its list is made of."""
    is_tagged: bool = False
    """Whether a success carries an ETag."""
    takes_key: bool = False
    """Whether an Idempotency-Key makes sending it twice the same as sending it once."""
    keeps_key: bool = False
    """Whether the handler itself sees to that."""
    screened: bool = False
    """Whether texts of the body are kept and shown as they are, so that one with the value of a secret is refused."""
    unscreened: tuple[str, ...] = ()
    """Fields of a screened body that are cleaned where they are stored."""
    matching: Matching = "no"
    location: str = ""
    """Where what was made is found: a path with fields of the answer in it."""
    takes_token: bool = False
    """Whether a token in the query string opens it as well as a key; only for streams."""
    media: str = "application/json"
    also: Mapping[int, str] = field(default_factory=dict[int, str])
    """Further successes: status and what it means."""
    note: str = ""

    @property
    def is_change(self) -> bool:
        """Whether it changes or removes what its path names, so that If-Match may speak of it."""
        return self.method in ("PUT", "PATCH", "DELETE")

    @property
    def is_looking(self) -> bool:
        """Whether it changes nothing that a viewer may not change."""
        return self.method == "GET" or self.for_viewers

    @property
    def is_stream(self) -> bool:
        """Whether its answer lasts as long as its client listens."""
        return self.media == "text/event-stream"

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters in its path."""
        return tuple(_SEGMENT.findall(self.path))

    @property
    def tag(self) -> str:
        """The group it is listed in."""
        parts = [part for part in self.path.split("/") if part]
        return parts[1] if parts[0] == "v1" and len(parts) > 1 else "server"

    @property
    def all_query(self) -> tuple[QueryParameter, ...]:
        if self.takes_token:
            return (*self.query, QueryParameter("access_token", TOKEN_SCHEMA, "a stream token, where no key is sent"))
        if not self.is_paged:
            return self.query
        return (
            *self.query,
            QueryParameter("limit", LIMIT_SCHEMA, "at most so many"),
            QueryParameter(
                "cursor", CURSOR_SCHEMA, "`next_cursor` of the page before; everything else must be as it was"
            ),
        )


class RouteTable(list[Route]):
    """Collects the rows that handlers are declared with, in the order of their declaration.

    One list per resource module; all of them joined are the table that requests are dispatched by, the OpenAPI document
    is written from and tests walk.
    """

    def handles(self, row: Route) -> Callable[[Handler], Handler]:
        """Add a row, handled by the function that this decorates."""

        def declare(handler: Handler) -> Handler:
            self.append(replace(row, handler=handler))
            return handler

        return declare
