"""Decides whether a user reaches a group, or an entity of one."""

from __future__ import annotations

from collections.abc import Iterable

from twinraven.foundation.errors import NotFound
from twinraven.knowledge.entities.sql import surviving
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.storage import Database, Transaction


class GroupAccess:
    """Says what of a tenant's groups a user reaches; None is whoever sees all of them."""

    def __init__(self, database: Database, others: Iterable[str]) -> None:
        self._database = database
        self._others = tuple(others)

    def hidden_from(self, viewer: str | None) -> HiddenGroups | None:
        return None if viewer is None else HiddenGroups(viewer, self._others)

    async def check_group(self, tenant_id: str, viewer: str | None, group_id: str, *, otherwise: NotFound) -> None:
        """Raise where a group is somebody else's."""
        hidden = self.hidden_from(viewer)
        if hidden is not None and await self._database.read(
            tenant_id, lambda tx: hidden.holds(tx, tenant_id, group_id)
        ):
            raise otherwise

    async def check_entities(self, tenant_id: str, viewer: str | None, entity_ids: Iterable[str]) -> None:
        """Raise NotFound for an entity of a group that is somebody else's; one that is not there is no matter here."""
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
    """What is said of a group that is somebody else's to whoever wants to add to it."""
    return NotFound(f"there is no group {group_id!r} that you may add to", field="group_id")
