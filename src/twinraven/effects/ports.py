"""Declares the port to providers: who publishes, delivers messages and moves money outside."""

from __future__ import annotations

from typing import Protocol

from twinraven.effects.model import EffectKind, EffectOrder, ProviderAnswer


class EffectProvider(Protocol):
    """Somebody outside who can be asked to do something.

    `send` and `find` raise ProviderRefused for a final no, ProviderUnreachable where nothing was sent, and
    ProviderSilent where it was sent and not answered. Any other error counts as silence.
    """

    @property
    def name(self) -> str:
        """What settings, wallets and stored effects call it."""
        ...

    @property
    def kinds(self) -> frozenset[EffectKind]:
        """What it can do."""
        ...

    @property
    def recognises_keys(self) -> bool:
        """Whether sending the same key again is the same as having sent it once."""
        ...

    @property
    def can_be_asked(self) -> bool:
        """Whether `find` knows what became of a key."""
        ...

    async def send(self, order: EffectOrder) -> ProviderAnswer:
        """Make it happen."""
        ...

    async def find(self, order: EffectOrder) -> ProviderAnswer | None:
        """What became of a key; None where nothing happened under it."""
        ...
