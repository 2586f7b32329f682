"""What a name suggests of a tool's effect, and that doubt is resolved on the safe side."""

from __future__ import annotations

import pytest

from twinraven.catalog import Effect, infer_effect


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("get_order_details", Effect.READ),
        ("listAllProducts", Effect.READ),
        ("HTTPSearch", Effect.READ),
        ("look_up_user", Effect.READ),
        ("calculate", Effect.READ),
        ("find_and_rank_offers", Effect.READ),
        ("cancel_pending_order", Effect.WRITE),
        ("return_delivered_order_items", Effect.WRITE),
        ("get_or_create_user", Effect.WRITE),
        ("find_and_replace", Effect.WRITE),
        ("check_in_guest", Effect.UNKNOWN),
        ("prepare_shipment", Effect.UNKNOWN),
        ("x", Effect.UNKNOWN),
    ],
)
def test_a_name_suggests_an_effect(name: str, effect: Effect) -> None:
    """The first verb decides, a write anywhere wins, and what is unclear is unknown."""
    assert infer_effect(name) is effect
