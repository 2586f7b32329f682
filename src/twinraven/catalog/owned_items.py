"""Implements the use cases that services and tools share: create, update and delete by the owner, in one transaction.

What that means for either stands in `create_in`, `update_in` and `delete_in`, which run inside an act and so can also
be parts of a larger one, such as applying a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from twinraven.catalog.transactions import CatalogTransaction, CatalogTransactions
from twinraven.tenancy import Principal

ItemT = TypeVar("ItemT")
SpecT = TypeVar("SpecT")
ChangeT = TypeVar("ChangeT")


class OwnedItems(ABC, Generic[ItemT, SpecT, ChangeT]):
    """Items of a tenant's users."""

    def __init__(self, acts: CatalogTransactions) -> None:
        self._acts = acts
        self._store = acts.store

    async def create(self, who: Principal, spec: SpecT, *, correlation_id: str | None = None) -> ItemT:
        """Create a new one, of the user's own."""
        return await self._acts.perform(who, lambda act: self.create_in(act, spec), correlation_id=correlation_id)

    async def update(
        self,
        who: Principal,
        ref: str,
        change: ChangeT,
        *,
        expected_version: int | None = None,
        correlation_id: str | None = None,
    ) -> ItemT:
        """Change what may change of an own one."""
        return await self._acts.perform(
            who,
            lambda act: self.update_in(act, ref, change, expected_version=expected_version),
            correlation_id=correlation_id,
        )

    async def delete(
        self, who: Principal, ref: str, *, expected_version: int | None = None, correlation_id: str | None = None
    ) -> None:
        """Remove an own one that nothing uses."""
        await self._acts.perform(
            who,
            lambda act: self.delete_in(act, ref, expected_version=expected_version),
            correlation_id=correlation_id,
        )

    @abstractmethod
    def create_in(self, act: CatalogTransaction, spec: SpecT) -> ItemT: ...

    @abstractmethod
    def update_in(
        self, act: CatalogTransaction, ref: str, change: ChangeT, *, expected_version: int | None = None
    ) -> ItemT: ...

    @abstractmethod
    def delete_in(self, act: CatalogTransaction, ref: str, *, expected_version: int | None = None) -> None: ...
