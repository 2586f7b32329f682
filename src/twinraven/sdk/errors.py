"""Turns error responses of the server into the errors that a caller in process would get.

A problem carries a stable code, and the code names the class: whoever catches `NotFound` catches it here as there. A
code this version does not know stays readable on a `RemoteError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from twinraven.foundation import errors
from twinraven.foundation.errors import TwinRavenError


class RemoteError(TwinRavenError):
    """The server answered something that is none of the errors known here; its own code is kept where it gave one."""

    code = "REMOTE_FAILED"


class ServerUnreachable(RemoteError):
    """No answer: the server could not be reached, or the connection broke before it had answered."""

    code = "SERVER_UNREACHABLE"
    acts = "nobody"
    retryable = True


def error_of(body: Mapping[str, Any]) -> TwinRavenError:
    """Return the error in a problem or in a call's envelope."""
    code = str(body.get("code", RemoteError.code))
    kind = _kinds().get(code, RemoteError)
    error = kind(str(body.get("detail") or body.get("message") or code))
    error.code = code
    error.retryable = body.get("retryable") is True
    details = body.get("details")
    error.details = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    return error


@cache
def _kinds() -> dict[str, type[TwinRavenError]]:
    from twinraven.tenancy import NotAuthenticated

    known = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TwinRavenError)]
    return {kind.code: kind for kind in (*known, NotAuthenticated)}
