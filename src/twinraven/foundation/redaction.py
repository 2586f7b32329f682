"""Names the redaction of texts, which the vault makes and everybody who stores something applies."""

from __future__ import annotations

from collections.abc import Callable

Redact = Callable[[str, bytes], bytes]
"""Replaces what must not be stored in a text, for a tenant; a text without any of it is given back itself."""


def keep_everything(tenant_id: str, text: bytes) -> bytes:
    """The redaction of a home that has no secrets."""
    del tenant_id
    return text
