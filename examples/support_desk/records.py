"""What the desk's tools answer, as types, so that their output schemas can be read off the functions.

Dates are ISO strings and money is in cents, because these are the values that travel as JSON.
"""

from __future__ import annotations

# pydantic reads typing's own TypedDict only from Python 3.12 on.
from typing_extensions import TypedDict


class UserRef(TypedDict):
    user_id: str


class Address(TypedDict):
    street: str
    zip_code: str
    city: str


class PaymentMethod(TypedDict):
    payment_method_id: str
    kind: str
    last_four: str


class User(TypedDict):
    user_id: str
    first_name: str
    last_name: str
    email: str
    tier: str
    address: Address
    payment_methods: list[PaymentMethod]
    order_ids: list[str]


class OrderItem(TypedDict):
    product_id: str
    variant_id: str
    name: str
    quantity: int
    price_cents: int


class Order(TypedDict):
    order_id: str
    user_id: str
    status: str
    placed_on: str
    payment_method_id: str
    total_cents: int
    address: Address
    items: list[OrderItem]
    tracking_codes: list[str]


class Variant(TypedDict):
    variant_id: str
    colour: str
    size: str
    price_cents: int
    in_stock: int


class Product(TypedDict):
    product_id: str
    name: str
    category: str
    care: str
    returnable: bool
    variants: list[Variant]


class Scan(TypedDict):
    day: str
    place: str
    event: str


class Tracking(TypedDict):
    tracking_code: str
    carrier: str
    status: str
    expected_on: str
    scans: list[Scan]


class RefundTerms(TypedDict):
    order_id: str
    variant_id: str
    eligible: bool
    reason: str
    days_left: int
    refundable_cents: int
    payment_method_id: str


class Refund(TypedDict):
    refund_id: str
    order_id: str
    variant_id: str
    amount_cents: int
    payment_method_id: str


class OrderStatus(TypedDict):
    order_id: str
    status: str


class OrderAddress(TypedDict):
    order_id: str
    address: Address


class Note(TypedDict):
    note_id: str
    user_id: str


class Article(TypedDict):
    article_id: str
    title: str
    body: str


class Articles(TypedDict):
    articles: list[Article]
