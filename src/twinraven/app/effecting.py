"""Opens effects: the ledger, wallets, media assets, providers, and delivery."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from twinraven.app.calling import claims, runs
from twinraven.app.foundations import audit, database, holds_secret
from twinraven.app.governing import judge
from twinraven.app.parts import Home, Part

if TYPE_CHECKING:
    from twinraven.connectors import HttpTransport
    from twinraven.effects import Delivery, EffectAuditTrail, Effects, MediaAssets, PaymentBooks, Wallets
    from twinraven.ledger import Ledger


@Part
def ledger(home: Home) -> Ledger:
    """Money in double entry."""
    from twinraven.ledger import Ledger

    return Ledger(database(home), micros=home.micros)


@Part
def delivery(home: Home) -> Delivery:
    """Carries effects out through providers."""
    from twinraven.effects import Delivery, DeliveryParts, read_channels, read_providers

    parts = DeliveryParts(
        database=database(home),
        runs=lambda: runs(home),
        claims=claims(home),
        judge=lambda: judge(home),
        books=_books(home),
        witness=_witness(home),
        micros=home.micros,
        first_pause_s=home.settings.effects.first_pause_s,
    )
    stated = home.settings.effects.providers
    providers = read_providers(stated, home=home.home, transport=lambda: _http(home))
    return Delivery(parts, providers, read_channels(stated))


@Part
def effects(home: Home) -> Effects:
    """Publications, messages and payments."""
    from twinraven.effects import EffectParts, Effects

    parts = EffectParts(
        database=database(home),
        claims=claims(home),
        judge=lambda: judge(home),
        books=_books(home),
        witness=_witness(home),
        delivery=delivery(home),
        holds_secret=partial(holds_secret, home),
        micros=home.micros,
        disclosure=home.settings.effects.disclosure,
    )
    return Effects(parts)


@Part
def wallets(home: Home) -> Wallets:
    from twinraven.effects import Wallets

    return Wallets(database(home), _books(home), delivery(home), audit=audit(home), micros=home.micros)


@Part
def assets(home: Home) -> MediaAssets:
    from twinraven.effects import MediaAssets

    return MediaAssets(database(home), audit=audit(home), micros=home.micros)


@Part
def _http(home: Home) -> HttpTransport:
    """What speaks to providers outside; addresses inside are refused unless settings allow them."""
    from twinraven.connectors import AddressGuard, AddressRules, HttpTransport

    return HttpTransport(AddressGuard(AddressRules.of(home.settings.connectors.allow_private)))


def _books(home: Home) -> PaymentBooks:
    from twinraven.effects import PaymentBooks

    return PaymentBooks(ledger(home))


def _witness(home: Home) -> EffectAuditTrail:
    from twinraven.effects import EffectAuditTrail

    return EffectAuditTrail(audit(home))
