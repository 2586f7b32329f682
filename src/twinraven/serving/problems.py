"""Maps errors to problem details (RFC 9457): the status says whose turn it is, the code says what happened.

Codes are those of docs/errors.md, the same at every door. A body holds nothing that differs between two requests for
the same thing, so that what is not there and what is not yours answer alike, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import orjson

from twinraven.foundation.canonical import canonical_json, to_json_value
from twinraven.foundation.errors import (
    AppendOnly,
    Conflict,
    EffectUnknown,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    PolicyViolation,
    StaleState,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageUnavailable,
    ToolError,
    ToolTimeout,
    ToolUnavailable,
    TwinRavenError,
)
from twinraven.models import ModelNotConfigured
from twinraven.serving.stream_limit import TooManyStreams
from twinraven.tenancy import NotAuthenticated

MEDIA: Final = "application/problem+json"


class MethodRefused(TwinRavenError):
    """The path is there and takes other methods; Allow names them."""

    code = "METHOD_NOT_ALLOWED"
    acts = "caller"


class TooLarge(TwinRavenError):
    """The body has more bytes than anybody should send."""

    code = "PAYLOAD_TOO_LARGE"
    acts = "caller"


class MediaRefused(TwinRavenError):
    """The body is of another type than JSON, or says so."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    acts = "caller"


class EncodingRefused(MediaRefused):
    """The body is packed in a way that cannot be unpacked; Accept-Encoding names those that can."""


class MatchRequired(TwinRavenError):
    """The change does not say which version it means; send the ETag in If-Match."""

    code = "PRECONDITION_REQUIRED"
    acts = "caller"


_STATUSES: Final[tuple[tuple[type[TwinRavenError], int], ...]] = (
    (NotAuthenticated, 401),
    (PolicyViolation, 403),
    (NotFound, 404),
    (MethodRefused, 405),
    (StaleState, 412),
    (TooLarge, 413),
    (MediaRefused, 415),
    (IdempotencyConflict, 422),
    (MatchRequired, 428),
    (TooManyStreams, 429),
    (Conflict, 409),
    (EffectUnknown, 409),
    (InvalidInput, 400),
    # Nobody's fault and no outage: until somebody configures a model, the state of things does not allow it.
    (ModelNotConfigured, 409),
    (ToolUnavailable, 503),
    (ToolTimeout, 504),
    (ToolError, 502),
    (StorageBusy, 503),
    (StorageUnavailable, 503),
    (StorageFull, 507),
    (AppendOnly, 409),
    (StorageError, 500),
    (TwinRavenError, 500),
)
"""The first that fits decides."""

EVERYWHERE: Final[tuple[type[TwinRavenError], ...]] = (
    InvalidInput,
    TwinRavenError,
    StorageError,
    StorageBusy,
    StorageUnavailable,
    StorageFull,
)
_TITLES: Final = {507: "Insufficient Storage"}


@cache
def status_of(kind: type[TwinRavenError]) -> int:
    return next(status for each, status in _STATUSES if each in kind.__mro__)


def status_of_code(code: str) -> int:
    """Return the status of an error known by its code alone."""
    kind = _kinds().get(code, TwinRavenError)
    return status_of(kind)


def problem(error: TwinRavenError) -> dict[str, Any]:
    """Return the error as a problem."""
    status = status_of_code(error.code) if type(error).code != error.code else status_of(type(error))
    return {
        "type": f"urn:twinraven:error:{error.code}",
        "title": title(status),
        "status": status,
        "detail": error.message,
        "code": error.code,
        "retryable": error.retryable,
        "details": error.details,
    }


def encode(body: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(body, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return canonical_json(to_json_value(body))


def title(status: int) -> str:
    return _TITLES.get(status) or HTTPStatus(status).phrase


def family(kinds: tuple[type[TwinRavenError], ...]) -> Iterator[type[TwinRavenError]]:
    """These errors and all that are kinds of them and answer with the same status."""
    for kind in kinds:
        yield kind
        yield from (each for each in _below(kind) if status_of(each) == status_of(kind))


def _below(kind: type[TwinRavenError]) -> Iterator[type[TwinRavenError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _kinds() -> dict[str, type[TwinRavenError]]:
    return {each.code: each for each in (TwinRavenError, *_below(TwinRavenError))}
