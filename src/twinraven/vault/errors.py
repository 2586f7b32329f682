"""Defines the error of a secret that cannot be decrypted."""

from __future__ import annotations

from twinraven.foundation.errors import TwinRavenError


class SecretUnreadable(TwinRavenError):
    """A stored secret does not open: it was changed or moved behind our back, or its key is not here."""

    code = "SECRET_UNREADABLE"
    acts = "operator"
