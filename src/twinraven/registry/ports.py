"""Declares the ports of the registry, each with one question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from twinraven.catalog import ToolEntry
from twinraven.foundation.canonical import JsonObject
from twinraven.registry.adoption import Adoption
from twinraven.registry.model import RegisteredTool, RegistryChange
from twinraven.storage import Transaction

FindTool = Callable[[str, str], ToolEntry | None]
"""A tool of a tenant's catalogue, by tenant and id."""

AuditRegistryChange = Callable[[Transaction, RegistryChange], None]
"""Told of every change inside its own transaction, so that an audit log holds both or neither."""

Announce = Callable[[str], Awaitable[None]]
"""Told, after a change, whose catalogue is another one now."""

HoldsSecret = Callable[[str, bytes], bool]
"""Whether a text of a tenant holds one of its secrets; may ask the store."""


class ChainLookup(Protocol):
    """Looks up candidate chains."""

    async def exists(self, tenant_id: str, chain_id: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Support:
    """The current support of a chain."""

    support: float
    confidence: float
    sessions: int
    """The sessions looked at; without any, nothing can be said."""


class SupportProbe(Protocol):
    """Mines one chain again."""

    async def measure(self, tenant_id: str, chain: JsonObject, *, tool_id: str, since: datetime) -> Support:
        """Return the chain's support in sessions since a time, calls of `tool_id` counting as occurrences of the chain.

        `chain` is a stored candidate by the names of its fields: its tools, and the configuration that found it.
        """
        ...


class AdoptionProbe(Protocol):
    """Reads from the log how tools in service were received."""

    async def measure(
        self, tenant_id: str, tools: Sequence[RegisteredTool], *, since: datetime, wait: bool = True
    ) -> Mapping[str, Adoption]:
        """Return the adoption of each tool from its promotion on, or from `since` if that is later, by tool id.

        With `wait` everything recorded is counted first; without it, what would take long is counted afterwards.
        """
        ...
