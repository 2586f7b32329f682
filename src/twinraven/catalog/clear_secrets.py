"""Rejects definitions that hold secrets in clear text: definitions are shown, exported and copied.

What is looked for are the values that the tenant's vault keeps. The refusal names the field and never the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidDefinition

HoldsSecret = Callable[[str, bytes], bool]
"""Whether a JSON text holds a value of a tenant's vault."""


def refuse_clear_secrets(holds_secret: HoldsSecret, tenant_id: str, fields: Mapping[str, Any]) -> None:
    """Raise InvalidDefinition if a field holds a secret's value, naming the innermost place that does."""

    def holds(value: Any) -> bool:
        return holds_secret(tenant_id, canonical_json(value))

    for name, value in fields.items():
        if holds(value):
            field = name + _place(value, holds)
            raise InvalidDefinition(
                f"{field} holds the value of a secret; take it out and bind the tool to the secret instead", field=field
            )


def _place(value: Any, holds: Callable[[Any], bool]) -> str:
    """Return where inside a value the secret stands; a member whose very name holds it is not named."""
    members: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        members = [(f".{name}", member) for name, member in named.items() if not holds(name)]
    elif isinstance(value, list):
        members = [(f"[{index}]", member) for index, member in enumerate(cast("list[Any]", value))]
    for step, member in members:
        if holds(member):
            return step + _place(member, holds)
    return ""
