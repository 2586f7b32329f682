"""The shop behind the desk: Fellgate Outfitters, its goods, its customers and what they ordered, made from a seed.

The world is small but it is not a fixture: customers have one to five orders, orders one to four items and up to three
parcels, so that an agent has to look around, and everything stands in an ordinary SQLite database that can be opened
and queried. Its calendar stands still at `TODAY`, so that a seed gives the same refunds next year.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any, TypeVar

from examples.support_desk.chance import chance

T = TypeVar("T")

TODAY = date(2026, 11, 2)

SCHEMA = """
CREATE TABLE users (
    user_id TEXT PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, email TEXT NOT NULL UNIQUE,
    tier TEXT NOT NULL, street TEXT NOT NULL, zip_code TEXT NOT NULL, city TEXT NOT NULL,
    UNIQUE (first_name, last_name, zip_code)
);
CREATE TABLE payment_methods (
    payment_method_id TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users, kind TEXT NOT NULL,
    last_four TEXT NOT NULL
);
CREATE TABLE products (
    product_id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL, care TEXT NOT NULL,
    returnable INTEGER NOT NULL
);
CREATE TABLE variants (
    variant_id TEXT PRIMARY KEY, product_id TEXT NOT NULL REFERENCES products, colour TEXT NOT NULL, size TEXT NOT NULL,
    price_cents INTEGER NOT NULL, in_stock INTEGER NOT NULL
);
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users, status TEXT NOT NULL, placed_on TEXT NOT NULL,
    delivered_on TEXT, payment_method_id TEXT NOT NULL REFERENCES payment_methods, street TEXT NOT NULL,
    zip_code TEXT NOT NULL, city TEXT NOT NULL, cancel_reason TEXT
);
CREATE TABLE order_items (
    order_id TEXT NOT NULL REFERENCES orders, line INTEGER NOT NULL, variant_id TEXT NOT NULL REFERENCES variants,
    quantity INTEGER NOT NULL, price_cents INTEGER NOT NULL, PRIMARY KEY (order_id, line)
);
CREATE TABLE shipments (
    tracking_code TEXT PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders, carrier TEXT NOT NULL,
    status TEXT NOT NULL, expected_on TEXT NOT NULL
);
CREATE TABLE scans (
    tracking_code TEXT NOT NULL REFERENCES shipments, number INTEGER NOT NULL, day TEXT NOT NULL, place TEXT NOT NULL,
    event TEXT NOT NULL, PRIMARY KEY (tracking_code, number)
);
CREATE TABLE refunds (
    refund_id TEXT PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders, variant_id TEXT NOT NULL,
    amount_cents INTEGER NOT NULL, payment_method_id TEXT NOT NULL, reason TEXT NOT NULL, UNIQUE (order_id, variant_id)
);
CREATE TABLE notes (
    note_id TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users, body TEXT NOT NULL
);
CREATE TABLE articles (article_id TEXT PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX orders_of_user ON orders (user_id, placed_on);
CREATE INDEX shipments_of_order ON shipments (order_id);
CREATE INDEX variants_of_product ON variants (product_id);
"""

_FIRST = "Aino Bram Cato Dilan Edda Femi Greta Håkon Ines Jonas Kaja Lior Mette Noor Oskar Pia Rune Saga Tove Ulf Vera"
_LAST = "Ahlgren Berg Costa Dahl Ekström Falk Grønli Holm Ibsen Jarl Krog Lund Moe Nyberg Osei Palme Rask Strand Vik"
_STREETS = "Alder Lane|Birch Row|Canal Street|Dock Road|Elm Walk|Ferry Hill|Granary Yard|Harbour View|Iron Gate"
_CITIES = "Norvik Østhavn Fellgate Tarnby Lindholm Sandvær Brekke Marholt"
_WOODS = "Alder Aspen Birch Cedar Elder Hazel Juniper Larch Maple Rowan Spruce Willow"
_GOODS = {"tent": "Tent", "bed": "Sleeping Bag", "pack": "Rucksack", "light": "Lantern", "stove": "Stove"}
_CARE = ("machine wash at 30 degrees", "hand wash only", "wipe with a damp cloth", "do not wash")
_COLOURS = ("moss", "slate", "rust", "sand", "night")
_SIZES = ("small", "regular", "large")
_CARRIERS = ("Nordpost", "Fjordline Cargo")
_HUBS = ("Fellgate depot", "Brekke sorting hall", "local office")

ARTICLES = (
    ("KB-01", "Returns and refunds", "Goods may go back within 30 days of delivery, 60 days for gold members."),
    ("KB-02", "What cannot be returned", "Stoves that were lit and opened sleeping bags are not taken back."),
    ("KB-03", "Carrier delays", "A parcel counts as lost ten days after its expected day; then we send another."),
    ("KB-04", "Cancelling an order", "An order can be cancelled until it leaves the depot."),
    ("KB-05", "Changing the address", "The address can be changed while the order is pending."),
    ("KB-06", "Opening hours", "The shop in Fellgate is open from Tuesday to Saturday, ten to six."),
    ("KB-07", "Gift cards", "A gift card is valid for three years and pays for postage too."),
    ("KB-08", "Washing down", "Down is washed with two tennis balls, at low heat, for a long time."),
    ("KB-09", "Repairs", "Zips, poles and buckles are repaired free of charge for five years."),
    ("KB-10", "Gold membership", "Members who spent 900 in a year become gold in the next."),
)

_STATUSES = {"pending": 30, "shipped": 32, "delivered": 33, "cancelled": 5}
_AGES = {"pending": (0, 2), "shipped": (7, 12), "delivered": (8, 50), "cancelled": (8, 50)}
"""How many days ago an order of this status was placed; a parcel's last scan is at most six days later."""


Rows = dict[str, list[tuple[Any, ...]]]
"""Rows by table, each in the order of the table's columns; tables in an order that respects their references."""


def make_world(seed: int, *, customers: int) -> Rows:
    """Everything the shop knows on the morning of `TODAY`."""
    maker = _Maker(chance("world", seed), customers)
    maker.stock_shelves()
    for customer in range(customers):
        maker.add_customer(customer)
    return maker.rows


@dataclass(frozen=True, slots=True)
class _Customer:
    user_id: str
    address: tuple[str, str, str]
    payment_method_ids: tuple[str, ...]


class _Maker:
    def __init__(self, rng: Random, customers: int) -> None:
        self.rows: Rows = {"articles": list(ARTICLES)}
        self._rng = rng
        self._prices: dict[str, int] = {}
        self._order_numbers = iter(rng.sample(range(100_000, 1_000_000), customers * 5))
        self._parcel_numbers = iter(rng.sample(range(10_000_000, 100_000_000), customers * 15))

    def stock_shelves(self) -> None:
        names = [(wood, category) for wood in _WOODS.split() for category in _GOODS]
        product_numbers = self._rng.sample(range(1000, 10_000), len(names))
        variant_numbers = iter(self._rng.sample(range(10_000, 100_000), len(names) * 4))
        for (wood, category), number in zip(names, product_numbers, strict=True):
            product_id = f"P-{number}"
            returnable = int(self._rng.random() < 0.85)
            self._add("products", product_id, f"{wood} {_GOODS[category]}", category, self._pick(_CARE), returnable)
            price = self._rng.randrange(1900, 42_000, 100)
            for colour in self._rng.sample(_COLOURS, self._rng.randint(2, 4)):
                variant_id = f"V-{next(variant_numbers)}"
                self._prices[variant_id] = price + self._rng.randrange(0, 3000, 50)
                stock = (self._pick(_SIZES), self._prices[variant_id], self._rng.randrange(40))
                self._add("variants", variant_id, product_id, colour, *stock)

    def add_customer(self, number: int) -> None:
        first, last = self._pick(_FIRST.split()), self._pick(_LAST.split())
        user_id = f"U-{10_000 + number * 7 + self._rng.randrange(7)}"
        # Each customer has a zip code of their own, so that a name and a zip code name one person.
        street = f"{self._pick(_STREETS.split('|'))} {self._rng.randint(1, 98)}"
        address = (street, f"{10_000 + number * 11}", self._pick(_CITIES.split()))
        email = f"{_plain(first)}.{_plain(last)}{number}@example.org"
        self._add("users", user_id, first, last, email, self._pick(("basic", "gold"), (4, 1)), *address)
        method_ids = tuple(f"M-{user_id[2:]}{index}" for index in range(self._rng.randint(1, 2)))
        for method_id in method_ids:
            last_four = f"{self._rng.randrange(10_000):04d}"
            self._add("payment_methods", method_id, user_id, self._pick(("card", "gift card", "invoice")), last_four)
        for _ in range(self._pick((1, 2, 3, 4, 5), (15, 30, 30, 15, 10))):
            self._add_order(_Customer(user_id, address, method_ids))

    def _add_order(self, customer: _Customer) -> None:
        order_id = f"O-{next(self._order_numbers)}"
        status = self._pick(tuple(_STATUSES), tuple(_STATUSES.values()))
        placed_on = TODAY - timedelta(days=self._rng.randint(*_AGES[status]))
        delivered_on = placed_on + timedelta(days=self._rng.randint(2, 7)) if status == "delivered" else None
        days = (placed_on.isoformat(), delivered_on.isoformat() if delivered_on else None)
        paid_with = self._pick(customer.payment_method_ids)
        self._add("orders", order_id, customer.user_id, status, *days, paid_with, *customer.address, None)
        items = self._rng.sample(tuple(self._prices), self._pick((1, 2, 3, 4), (30, 35, 25, 10)))
        for line, variant_id in enumerate(items, start=1):
            self._add("order_items", order_id, line, variant_id, self._pick((1, 2), (3, 1)), self._prices[variant_id])
        if status in ("shipped", "delivered"):
            for _ in range(self._pick((1, 2, 3), (50, 35, 15))):
                self._add_shipment(order_id, placed_on, delivered_on)

    def _add_shipment(self, order_id: str, placed_on: date, delivered_on: date | None) -> None:
        code = f"FG{next(self._parcel_numbers)}NO"
        expected_on = delivered_on or TODAY + timedelta(days=self._rng.randint(-2, 6))
        under_way = self._pick(("in transit", "out for delivery", "delayed"), (2, 1, 1))
        status = "delivered" if delivered_on else under_way
        self._add("shipments", code, order_id, self._pick(_CARRIERS), status, expected_on.isoformat())
        days = sorted(self._rng.sample(range(1, 7), 3))
        for number, (day, place) in enumerate(zip(days, _HUBS, strict=True), start=1):
            event = status if number == len(days) else "scanned"
            self._add("scans", code, number, (placed_on + timedelta(days=day)).isoformat(), place, event)

    def _add(self, table: str, *row: Any) -> None:
        self.rows.setdefault(table, []).append(row)

    def _pick(self, options: Sequence[T], weights: Sequence[int] | None = None) -> T:
        return self._rng.choices(options, weights)[0]


def _plain(name: str) -> str:
    return name.lower().translate(str.maketrans({"å": "a", "ö": "o", "ø": "o"}))
