"""Screens texts of requests for the values of a tenant's secrets, before they are shown or kept as they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.serving.contract import Request


async def refuse_secrets(request: Request, /, **texts: str | None) -> None:
    """Refuse names and notes, which are shown and kept as they are, where they hold the value of a secret."""
    for field, text in texts.items():
        if text and await holds_secret(request.raven, request.tenant_id, text):
            raise InvalidInput(f"{field} holds the value of a secret; choose another", field=field)


async def holds_secret(raven: TwinRaven, tenant_id: str, *texts: str) -> bool:
    """Return whether one of these texts holds the value of a secret of the tenant."""
    raw = canonical_json(texts)
    return await asyncio.to_thread(raven.redactor.redact_known, tenant_id, raw) is not raw
