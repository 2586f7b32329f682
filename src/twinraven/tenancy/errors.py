"""What only the doors of the house raise."""

from __future__ import annotations

from twinraven.foundation.errors import TwinRavenError


class NotAuthenticated(TwinRavenError):
    """The key is unknown, revoked, expired or its user was disabled: one answer, so that nothing can be probed."""

    code = "NOT_AUTHENTICATED"
    acts = "caller"
