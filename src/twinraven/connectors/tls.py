"""Chooses the CA certificates that service connections are verified against."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from twinraven.foundation.errors import InvalidDefinition


def make_tls_context(
    ca_certificate: str | None, *, system: Callable[[], ssl.SSLContext] = ssl.create_default_context
) -> ssl.SSLContext:
    """Trust the system's authorities, or the given one alone."""
    if ca_certificate is None:
        return system()
    try:
        return ssl.create_default_context(cadata=ca_certificate)
    except (ssl.SSLError, ValueError, TypeError) as error:
        raise InvalidDefinition(
            f"connection_params.ca_certificate is not a certificate in PEM form: {error}",
            field="connection_params.ca_certificate",
        ) from None
