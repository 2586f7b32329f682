"""Defines the error of a request that is not authenticated."""

from __future__ import annotations

from twinraven.foundation.errors import TwinRavenError


class NotAuthenticated(TwinRavenError):
    """The key is unknown, revoked, expired or its user was disabled: one answer, so that nothing can be probed."""

    code = "NOT_AUTHENTICATED"
    acts = "caller"
