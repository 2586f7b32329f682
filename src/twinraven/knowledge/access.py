"""Decides whether a user reaches a group, or an entity of one."""

from __future__ import annotations

from collections.abc import Iterable

from twinraven.foundation.errors import NotFound
from twinraven.knowledge.entities.sql import surviving
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.storage import Database, Transaction


class GroupAccess:
    """Decides which groups of a tenant a user may read; None stands for a user who may read all."""

    def __init__(self, database: Database, others: Iterable[str]) -> None:
        self._database = database
        self._others = tuple(others)

    def hidden_from(self, viewer: str | None) -> HiddenGroups | None:
        return None if viewer is None else HiddenGroups(viewer, self._others)

    async def check_group(self, tenant_id: str, viewer: str | None, group_id: str, *, otherwise: NotFound) -> None:
        """Raise where a group belongs to another user."""
        hidden = self.hidden_from(viewer)
        if hidden is not None and await self._database.read(
            tenant_id, lambda tx: hidden.holds(tx, tenant_id, group_id)
        ):
            raise otherwise

    async def check_entities(self, tenant_id: str, viewer: str | None, entity_ids: Iterable[str]) -> None:
        """Raise NotFound for an entity of another user's group; an absent entity is no matter here."""
        hidden = self.hidden_from(viewer)
        if hidden is None:
            return

        def work(tx: Transaction) -> None:
            for entity_id in entity_ids:
                found = surviving(tx, tenant_id, entity_id)
                if found is not None and hidden.holds(tx, tenant_id, found.group_id):
                    raise NotFound(f"no entity {entity_id!r}", field="entity_id")

        await self._database.read(tenant_id, work)


def no_group(group_id: str) -> NotFound:
    """Build the error of adding to a group that belongs to another user."""
    return NotFound(f"there is no group {group_id!r} that you may add to", field="group_id")
