"""Translates errors of the graph driver into tool errors.

The server's own words are passed on, because they name the place in the query; ours say who must act and whether to
try again.
"""

from __future__ import annotations

import ssl

from neo4j.exceptions import (
    AuthError,
    ConnectionPoolError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)

from twinraven.foundation.errors import ToolError, ToolTimeout, ToolUnavailable, TwinRavenError

_MAX_CHARS = 300


def is_lost(error: Exception) -> bool:
    """Return whether the connection went away, so that what was asked last may or may not have happened."""
    return isinstance(error, (ServiceUnavailable, SessionExpired)) or not isinstance(error, Neo4jError)


def failure_of(error: Exception, tool_id: str) -> TwinRavenError:
    """Our error for one of the driver's."""
    said = _excerpt(error)
    distrust = _distrust(error)
    if distrust is not None:
        return ToolError(f"the graph's certificate is not trusted: {distrust}"[:_MAX_CHARS], tool_id=tool_id)
    if isinstance(error, AuthError):
        return ToolError(f"the graph refuses the credentials it was shown: {said}", tool_id=tool_id, code=error.code)
    if isinstance(error, Neo4jError):
        if "TransactionTimedOut" in str(error.code):
            return ToolTimeout(f"the graph stopped the query: {said}", tool_id=tool_id, code=error.code)
        kind = ToolUnavailable if isinstance(error, TransientError) else ToolError
        return kind(f"the graph refuses the query: {said}", tool_id=tool_id, code=error.code)
    if isinstance(error, (ServiceUnavailable, SessionExpired, ConnectionPoolError)):
        return ToolUnavailable(f"the graph cannot be reached: {said}", tool_id=tool_id)
    return ToolError(f"the graph cannot be asked: {said}", tool_id=tool_id)


def _distrust(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return what was wrong with a certificate; the driver wraps it more than once."""
    reason: BaseException | None = error
    while reason is not None and not isinstance(reason, ssl.SSLCertVerificationError):
        reason = reason.__cause__
    return reason


def _excerpt(error: Exception) -> str:
    text = error.message if isinstance(error, Neo4jError) and error.message else str(error)
    return " ".join(text.split())[:_MAX_CHARS]
