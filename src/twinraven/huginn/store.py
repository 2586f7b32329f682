"""Declares the port to stored chains: added once, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from twinraven.huginn.chains import CandidateChain


class ChainStore(Protocol):
    """Candidate chains of a tenant."""

    async def add(self, tenant_id: str, chains: Sequence[CandidateChain]) -> None: ...

    async def chain(self, tenant_id: str, chain_id: str) -> CandidateChain:
        """Return one chain by its id or the beginning of it, or NotFound."""
        ...

    async def chains(self, tenant_id: str, *, limit: int = 100, after: str | None = None) -> list[CandidateChain]:
        """Return the latest chains, the most valuable of a run first."""
        ...

    async def exists(self, tenant_id: str, chain_id: str) -> bool: ...
