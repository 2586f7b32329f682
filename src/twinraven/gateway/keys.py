"""Chooses the idempotency key of a request: the client's own, or one made for this request alone.

A key that a client states and that cannot be used is refused. To run without it would be to run a second time what
the client believes to be protected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from twinraven.foundation.errors import InvalidInput
from twinraven.gateway import answers
from twinraven.muninn import check_name

_NAMES: Final = (answers.KEY, "idempotency_key", "idempotencyKey")
_LONGEST_ID: Final = 200
_FIX: Final = "send a text of 1 to 512 characters without control characters, or leave it out"


def stated_key(meta: Mapping[str, Any]) -> str | None:
    """Return the key in a request's `_meta`, if there is one; null is none."""
    for name in _NAMES:
        value = meta.get(name)
        if value is None:
            continue
        return _usable(value, f"_meta.{name}")
    return None


def argument_key(value: Any) -> str | None:
    """Return the key that a script is run under again, if the call states one; null is none."""
    return None if value is None else _usable(value, "key")


def request_key(session_id: str, request_id: str | int) -> str:
    """Return the key of a request in a protocol session: an id is used once there, and 2 and "2" are two ids."""
    text = json.dumps(request_id)
    if len(text) > _LONGEST_ID:
        text = hashlib.sha256(text.encode()).hexdigest()
    return f"{session_id}:{text}"


def _usable(value: Any, field: str) -> str:
    try:
        return check_name(value, field=field)
    except InvalidInput as error:
        raise InvalidInput(f"{error.message}; nothing was sent", field=field, fix=_FIX) from error
