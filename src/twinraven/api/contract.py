"""What a route is: one row of a table, from which requests are checked and the OpenAPI document is written.

The schema that documents a body is the one that checks it, so the two cannot drift apart. A handler gets a request
that is already what its route says, and gives an answer; it never sees the wire.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from twinraven.foundation.errors import TwinRavenError

if TYPE_CHECKING:
    from twinraven.api.pages import Page
    from twinraven.app import TwinRaven
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
CURSOR_SCHEMA: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 2048}

_SEGMENT: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Parameter:
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
class Answer:
    """What goes back. `tag` becomes the ETag, `page` a list with a cursor; `stream` lasts."""

    body: Any = None
    status: int = 200
    tag: str | None = None
    headers: Mapping[str, str] | None = None
    page: Page | None = None
    stream: AsyncIterator[bytes] | None = None
    media: str = "application/json"


Handler = Callable[[Request], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that can be asked, by whom, in which form, and what can come of it."""

    method: Method
    path: str
    name: str
    """The operation's id: unique, stable, and what a generated client calls it."""
    summary: str
    handler: Handler
    answer: JsonSchema | None
    """What the body of a success looks like; None where there is none."""
    status: int = 200
    query: tuple[Parameter, ...] = ()
    body: JsonSchema | None = None
    raw: tuple[str, ...] = ()
    """The media types of a body that is not checked here, and reaches the handler as bytes."""
    errors: tuple[type[TwinRavenError], ...] = ()
    """What can go wrong besides what can go wrong everywhere."""
    parameters: Mapping[str, JsonSchema] = field(default_factory=dict[str, JsonSchema])
    """Schemas of what stands in the path, where it is not just a name."""
    admin: bool = False
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
    matching: Matching = "no"
    media: str = "application/json"
    also: Mapping[int, str] = field(default_factory=dict[int, str])
    """Further successes: status and what it means."""
    note: str = ""

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
    def all_query(self) -> tuple[Parameter, ...]:
        if not self.is_paged:
            return self.query
        return (
            *self.query,
            Parameter("limit", LIMIT_SCHEMA, "at most so many"),
            Parameter("cursor", CURSOR_SCHEMA, "`next_cursor` of the page before; everything else must be as it was"),
        )
