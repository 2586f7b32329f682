"""Declares the port to providers: who publishes, delivers messages and moves money outside."""

from __future__ import annotations

from typing import Protocol

from twinraven.effects.model import EffectKind, EffectOrder, ProviderAnswer


class EffectProvider(Protocol):
    """Carries out effects outside.

    `send` and `find` raise ProviderRefused for a final no, ProviderUnreachable where nothing was sent, and
    ProviderSilent where it was sent and not answered. Any other error counts as silence.
    """

    @property
    def name(self) -> str:
        """The provider's name in settings, wallets and stored effects."""
        ...

    @property
    def kinds(self) -> frozenset[EffectKind]:
        """The kinds of effects it can carry out."""
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
        """Look up the outcome of a key; None where nothing happened under it."""
        ...
