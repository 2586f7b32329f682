"""Defines the error of a server that is shutting down."""

from __future__ import annotations

from twinraven.foundation.errors import TwinRavenError


class ServerEnding(TwinRavenError):
    """The server ended before the request did; under the same idempotency key it may be sent again."""

    code = "SERVER_ENDING"
    acts = "nobody"
    retryable = True
