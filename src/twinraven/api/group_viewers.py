"""Decides which groups of episodes a request may read: administrators all, others none of another user."""

from __future__ import annotations

from twinraven.foundation.errors import NotFound
from twinraven.knowledge import HiddenGroups, no_group
from twinraven.serving import Request


def viewer_of(request: Request) -> str | None:
    """Return the user whose access a request has; None may read everything of the tenant."""
    return None if request.who.role == "admin" else request.who.user_id


def hidden_from(request: Request) -> HiddenGroups | None:
    return request.raven.group_access.hidden_from(viewer_of(request))


async def check_group(request: Request, group_id: str, *, otherwise: NotFound | None = None) -> None:
    """Raise where a group belongs to another user: the given error, else that nothing can be added to it."""
    await request.raven.group_access.check_group(
        request.tenant_id, viewer_of(request), group_id, otherwise=otherwise or no_group(group_id)
    )
