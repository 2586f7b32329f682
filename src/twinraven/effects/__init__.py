"""Makes effects happen once: publications, messages and payments, allowed by a decision and sent under one key.

An effect is an intent, stored with its audit entry, its key and the money it holds before anything is sent; a durable
run sends it through a provider; what came of it is stored after. Where a worker died in between, the provider is asked
what became of the key before anything is sent again, and what nobody can tell is parked for a person.

Names are resolved on first use: a command that needs none of them does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.effects.asset_sql import AssetStore
    from twinraven.effects.assets import AssetRequest, MediaAssets
    from twinraven.effects.audit_trail import EffectAuditTrail
    from twinraven.effects.delivery import EFFECT_WORK, Delivery, DeliveryParts
    from twinraven.effects.errors import ProviderRefused, ProviderSilent, ProviderUnreachable
    from twinraven.effects.linkage import find_unlinked
    from twinraven.effects.model import (
        EFFECT_KINDS,
        TABLES,
        EffectKind,
        EffectOrder,
        MessageRequest,
        PaymentRequest,
        ProviderAnswer,
        PublishRequest,
        StoredEffect,
    )
    from twinraven.effects.money import PaymentBooks, budget_account, wallet_account
    from twinraven.effects.ports import EffectProvider
    from twinraven.effects.providers.files import FileOutbox
    from twinraven.effects.providers.http import HttpProvider
    from twinraven.effects.providers.settings import read_channels, read_providers
    from twinraven.effects.service import EffectParts, Effects
    from twinraven.effects.settings import EffectsSettings
    from twinraven.effects.sql import EffectRecord, EffectStore
    from twinraven.effects.wallet_sql import WalletStore
    from twinraven.effects.wallets import WalletBalance, Wallets


__all__ = [
    "EFFECT_KINDS",
    "EFFECT_WORK",
    "TABLES",
    "AssetRequest",
    "AssetStore",
    "Delivery",
    "DeliveryParts",
    "EffectAuditTrail",
    "EffectKind",
    "EffectOrder",
    "EffectParts",
    "EffectProvider",
    "EffectRecord",
    "EffectStore",
    "Effects",
    "EffectsSettings",
    "FileOutbox",
    "HttpProvider",
    "MediaAssets",
    "MessageRequest",
    "PaymentBooks",
    "PaymentRequest",
    "ProviderAnswer",
    "ProviderRefused",
    "ProviderSilent",
    "ProviderUnreachable",
    "PublishRequest",
    "StoredEffect",
    "WalletBalance",
    "WalletStore",
    "Wallets",
    "budget_account",
    "find_unlinked",
    "read_channels",
    "read_providers",
    "wallet_account",
]


__getattr__ = lazy_names(__name__)
