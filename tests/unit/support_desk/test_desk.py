"""The shop behind the desk is made from a seed and keeps its own rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples.support_desk import SupportDesk, create_desk
from tests.unit.support_desk.conftest import MakeDesk
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound

TABLES = (
    *("users", "payment_methods", "products", "variants", "orders", "order_items", "shipments", "scans", "articles"),
    *("refunds", "notes"),
)


def everything(desk: SupportDesk) -> dict[str, list[dict[str, Any]]]:
    return {table: desk.rows(f"SELECT * FROM {table} ORDER BY rowid") for table in TABLES}


def test_equal_seeds_make_equal_shops(make_desk: MakeDesk) -> None:
    """The same seed gives the same rows in every table, another seed another shop."""
    first, second, other = make_desk(7), make_desk(7), make_desk(8)
    assert everything(first) == everything(second)
    assert everything(first)["orders"] != everything(other)["orders"]


def test_the_world_is_whole(desk: SupportDesk) -> None:
    """Every reference leads somewhere, and customers differ in how many orders, items and parcels they have."""
    assert desk.rows("PRAGMA foreign_key_check") == []
    orders = desk.rows("SELECT count(*) AS n FROM orders GROUP BY user_id")
    parcels = desk.rows("SELECT count(*) AS n FROM shipments GROUP BY order_id")
    items = desk.rows("SELECT count(*) AS n FROM order_items GROUP BY order_id")
    assert {row["n"] for row in orders} == {1, 2, 3, 4, 5}
    assert {row["n"] for row in parcels} == {1, 2, 3}
    assert {row["n"] for row in items} == {1, 2, 3, 4}


def test_a_desk_is_made_in_a_new_file(tmp_path: Path) -> None:
    """What is there already is never overwritten."""
    path = tmp_path / "precious"
    path.write_text("do not touch")
    with pytest.raises(Conflict, match="new file"):
        create_desk(path, 1)
    assert path.read_text() == "do not touch"


@pytest.mark.parametrize("customers", [0, 5001])
def test_an_impossible_size_is_refused(tmp_path: Path, customers: int) -> None:
    """A number of customers that the world cannot hold is named, and no file is left behind."""
    with pytest.raises(InvalidInput, match="customers"):
        create_desk(tmp_path / "desk.db", 1, customers=customers)
    assert not (tmp_path / "desk.db").exists()


def test_a_failed_change_leaves_nothing(desk: SupportDesk) -> None:
    """A transaction that breaks half-way is undone as a whole, and the desk goes on."""
    user_id = desk.rows("SELECT user_id FROM users")[0]["user_id"]

    def break_half_way() -> None:
        with desk.changing() as connection:
            connection.execute("INSERT INTO notes VALUES ('N-1', ?, 'half')", (user_id,))
            raise RuntimeError("the phone rang")

    with pytest.raises(RuntimeError):
        break_half_way()
    assert desk.rows("SELECT * FROM notes") == []
    assert desk.note(user_id, "whole")["user_id"] == user_id


def test_the_database_refuses_a_second_refund(desk: SupportDesk) -> None:
    """Two clerks with the same terms in hand pay once: the second is told so by the database."""
    item = desk.rows(
        "SELECT i.order_id, i.variant_id FROM order_items i JOIN orders o USING (order_id) WHERE o.status = 'delivered'"
    )[0]
    terms = desk.refund_terms(item["order_id"], item["variant_id"])
    desk.pay_back(terms, "damaged")
    with pytest.raises(Conflict):
        desk.pay_back(terms, "damaged")
    assert len(desk.rows("SELECT * FROM refunds")) == 1


def test_refund_terms_follow_the_rules(desk: SupportDesk) -> None:
    """Only delivered goods that are taken back, within 30 days (gold: 60), are refunded, and for what was paid."""
    rows = desk.rows(
        "SELECT i.*, o.status, p.returnable, u.tier, julianday('2026-11-02') - julianday(o.delivered_on) AS days "
        "FROM order_items i JOIN orders o USING (order_id) JOIN users u USING (user_id) "
        "JOIN variants v USING (variant_id) JOIN products p USING (product_id)"
    )
    for row in rows:
        terms = desk.refund_terms(row["order_id"], row["variant_id"])
        days = 60 if row["tier"] == "gold" else 30
        expected = row["status"] == "delivered" and bool(row["returnable"]) and row["days"] < days
        assert terms["eligible"] == expected
        assert terms["refundable_cents"] == (row["quantity"] * row["price_cents"] if expected else 0)


def test_articles_are_found_by_their_words(desk: SupportDesk) -> None:
    """The best match comes first, `limit` is kept, and words every text has find nothing."""
    assert desk.articles("opening hours", 3)[0]["title"] == "Opening hours"
    assert len(desk.articles("order parcel returned days", 2)) == 2
    assert desk.articles("the and for of", 3) == []


def test_what_is_not_there_is_said_to_be_so(desk: SupportDesk) -> None:
    """Every look-up of an unknown key is a NotFound that names it."""
    with pytest.raises(NotFound, match="nobody"):
        desk.user_with_email("nobody@example.org")
    with pytest.raises(NotFound, match="No Body"):
        desk.user_named("No", "Body", "00000")
    for look_up in (desk.user, desk.order, desk.product, desk.tracking):
        with pytest.raises(NotFound, match="X-1"):
            look_up("X-1")
    with pytest.raises(NotFound, match="X-1"):
        desk.refund_terms("X-1", "X-2")
