"""Reads which version of shared state a change is meant for: If-Match, or `state_version` in the body."""

from __future__ import annotations

from typing import Any, Final

from twinraven.api.schemas import WHOLE
from twinraven.foundation.errors import InvalidInput
from twinraven.serving import JsonSchema, Request, expected_version

STATE_VERSION: Final[dict[str, JsonSchema]] = {
    "state_version": {**WHOLE, "description": "the version that was seen, in place of If-Match"}
}


def seen_version(request: Request, body: dict[str, Any]) -> int:
    """Return the version that a change is meant for, taken out of the body; one of the two places must name it."""
    stated: int | None = body.pop("state_version", None)
    matched = expected_version(request)
    if stated is None and matched is None:
        raise InvalidInput(
            "say which version you saw: If-Match with the ETag, or state_version in the body", field="state_version"
        )
    if stated is not None and matched is not None and stated != matched:
        raise InvalidInput("If-Match and state_version name two versions", field="state_version")
    return matched or stated or 0
