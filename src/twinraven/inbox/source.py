"""Declares the port behind which each kind of inbox item is found and decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from twinraven.inbox.model import InboxAnswer, InboxItem, ItemKind
from twinraven.tenancy import Principal


class InboxSource(Protocol):
    """One kind of item, kept by the part it belongs to."""

    @property
    def kind(self) -> ItemKind:
        """The kind that its items have."""
        ...

    async def open_items(self, tenant_id: str) -> Sequence[InboxItem]:
        """Return the waiting items."""
        ...

    async def find(self, tenant_id: str, ref: str) -> InboxItem:
        """Find one item, also one that is over; NotFound where there never was one."""
        ...

    async def decide(self, item: InboxItem, said: InboxAnswer, *, by: Principal) -> None:
        """Carry a decision out; of two at once one raises IllegalTransition or StaleState."""
        ...
