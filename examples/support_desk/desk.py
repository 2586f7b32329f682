"""The support desk: one SQLite database of its own and the rules of the shop.

The demo needs a system that TwinRaven does not own, so the desk keeps its state apart from any home. It shares only the
choice of SQLite library, because two of them in one process damage each other's locks.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from examples.support_desk.records import (
    Address,
    Article,
    Note,
    Order,
    OrderAddress,
    OrderItem,
    OrderStatus,
    PaymentMethod,
    Product,
    Refund,
    RefundTerms,
    Scan,
    Tracking,
    User,
    UserRef,
    Variant,
)
from examples.support_desk.weather import Weather
from examples.support_desk.world import SCHEMA, TODAY, make_world
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound
from twinraven.storage import Row
from twinraven.storage.sqlite import library, translate

_REFUND_DAYS = {"basic": 30, "gold": 60}


def create_desk(
    path: Path, seed: int, *, customers: int = 400, time_scale: float = 1.0, fault_scale: float = 1.0
) -> SupportDesk:
    """Make the shop of this seed in a new file; equal seeds give equal shops.

    `time_scale` stretches how long the tools take (0: not at all), `fault_scale` how often they fail.
    """
    if not 1 <= customers <= 5000:
        raise InvalidInput(f"customers is {customers}; give a number from 1 to 5000", field="customers")
    if path.exists():
        raise Conflict(f"{path} is there already; a desk is made in a new file", path=str(path))
    raw = _connect(path)
    raw.executescript(SCHEMA)
    desk = SupportDesk(raw, seed, Weather(seed, time_scale=time_scale, fault_scale=fault_scale))
    with desk.changing() as connection:
        for table, rows in make_world(seed, customers=customers).items():
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608  (tables of our own)
    return desk


def open_desk(path: Path, seed: int) -> SupportDesk:
    """Open the shop that `create_desk` made in a file, as it was left."""
    if not path.exists():
        raise NotFound(f"there is no desk at {path}", path=str(path))
    return SupportDesk(_connect(path), seed, Weather(seed, time_scale=1.0, fault_scale=1.0))


def _connect(path: Path) -> Any:
    raw = library.connect(str(path), isolation_level=None, check_same_thread=False)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("PRAGMA synchronous = NORMAL")
    raw.execute("PRAGMA foreign_keys = ON")
    return raw


class SupportDesk:
    """What the shop's people may look up and change."""

    def __init__(self, raw: Any, seed: int, weather: Weather) -> None:
        self.seed = seed
        self.weather = weather
        self._raw = raw
        self._lock = threading.Lock()

    def close(self) -> None:
        self._raw.close()

    def rows(self, sql: str, **params: Any) -> list[Row]:
        """Any question to the desk's database."""
        with self._lock:
            cursor = self._raw.execute(sql, params)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    @contextmanager
    def changing(self) -> Generator[Any]:
        """One transaction, kept or undone as a whole."""
        with self._lock:
            try:
                with self._raw:
                    self._raw.execute("BEGIN IMMEDIATE")
                    yield self._raw
            except library.Error as error:
                raise translate(error) from error

    def user_with_email(self, email: str) -> UserRef:
        return UserRef(user_id=self._one("user", "SELECT user_id FROM users WHERE email = :key", email)["user_id"])

    def user_named(self, first_name: str, last_name: str, zip_code: str) -> UserRef:
        found = self.rows(
            "SELECT user_id FROM users WHERE first_name = :first AND last_name = :last AND zip_code = :zip",
            first=first_name,
            last=last_name,
            zip=zip_code,
        )
        if not found:
            raise NotFound(f"no user {first_name} {last_name} in {zip_code}")
        return UserRef(user_id=found[0]["user_id"])

    def user(self, user_id: str) -> User:
        row = self._one("user", "SELECT * FROM users WHERE user_id = :key", user_id)
        methods = self.rows(
            "SELECT payment_method_id, kind, last_four FROM payment_methods WHERE user_id = :user ORDER BY 1",
            user=user_id,
        )
        orders = self.rows(
            "SELECT order_id FROM orders WHERE user_id = :user ORDER BY placed_on DESC, order_id", user=user_id
        )
        return User(
            user_id=user_id,
            first_name=row["first_name"],
            last_name=row["last_name"],
            email=row["email"],
            tier=row["tier"],
            address=_address(row),
            payment_methods=[PaymentMethod(**method) for method in methods],
            order_ids=[order["order_id"] for order in orders],
        )

    def order(self, order_id: str) -> Order:
        row = self._one("order", "SELECT * FROM orders WHERE order_id = :key", order_id)
        items = self.rows(
            "SELECT v.product_id, i.variant_id, p.name, i.quantity, i.price_cents FROM order_items i "
            "JOIN variants v ON v.variant_id = i.variant_id JOIN products p ON p.product_id = v.product_id "
            "WHERE i.order_id = :order_id ORDER BY i.line",
            order_id=order_id,
        )
        codes = self.rows("SELECT tracking_code FROM shipments WHERE order_id = :id ORDER BY 1", id=order_id)
        return Order(
            order_id=order_id,
            user_id=row["user_id"],
            status=row["status"],
            placed_on=row["placed_on"],
            payment_method_id=row["payment_method_id"],
            total_cents=sum(item["quantity"] * item["price_cents"] for item in items),
            address=_address(row),
            items=[OrderItem(**item) for item in items],
            tracking_codes=[code["tracking_code"] for code in codes],
        )

    def product(self, product_id: str) -> Product:
        row = self._one("product", "SELECT * FROM products WHERE product_id = :key", product_id)
        variants = self.rows(
            "SELECT variant_id, colour, size, price_cents, in_stock FROM variants WHERE product_id = :id ORDER BY 1",
            id=product_id,
        )
        return Product(
            product_id=product_id,
            name=row["name"],
            category=row["category"],
            care=row["care"],
            returnable=bool(row["returnable"]),
            variants=[Variant(**variant) for variant in variants],
        )

    def tracking(self, tracking_code: str) -> Tracking:
        row = self._one("parcel", "SELECT * FROM shipments WHERE tracking_code = :key", tracking_code)
        scans = self.rows(
            "SELECT day, place, event FROM scans WHERE tracking_code = :code ORDER BY number", code=tracking_code
        )
        return Tracking(
            tracking_code=tracking_code,
            carrier=row["carrier"],
            status=row["status"],
            expected_on=row["expected_on"],
            scans=[Scan(**scan) for scan in scans],
        )

    def refund_terms(self, order_id: str, variant_id: str) -> RefundTerms:
        """Whether the money may go back, how much of it, and to where."""
        found = self.rows(
            "SELECT o.status, o.delivered_on, o.payment_method_id, u.tier, p.returnable, "
            "i.quantity * i.price_cents AS paid, r.refund_id FROM orders o JOIN users u ON u.user_id = o.user_id "
            "JOIN order_items i ON i.order_id = o.order_id JOIN variants v ON v.variant_id = i.variant_id "
            "JOIN products p ON p.product_id = v.product_id "
            "LEFT JOIN refunds r ON r.order_id = o.order_id AND r.variant_id = i.variant_id "
            "WHERE o.order_id = :order_id AND i.variant_id = :variant",
            order_id=order_id,
            variant=variant_id,
        )
        if not found:
            raise NotFound(f"order {order_id} has no item {variant_id}")
        row = found[0]
        days_left = _days_left(row)
        refused = _refusal(row, days_left)
        return RefundTerms(
            order_id=order_id,
            variant_id=variant_id,
            eligible=not refused,
            reason=refused or "within the time for returns",
            days_left=days_left,
            refundable_cents=0 if refused else row["paid"],
            payment_method_id=row["payment_method_id"],
        )

    def articles(self, query: str, limit: int) -> list[Article]:
        """The articles that share most words with the query, best first."""
        wanted = _words(query)
        scored = [
            (len(wanted & _words(f"{row['title']} {row['body']}")), row)
            for row in self.rows("SELECT article_id, title, body FROM articles ORDER BY article_id")
        ]
        hits = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return [Article(**row) for _, row in hits[:limit]]

    def pay_back(self, terms: RefundTerms, reason: str) -> Refund:
        refund = Refund(
            refund_id=f"R-{terms['order_id'][2:]}-{terms['variant_id'][2:]}",
            order_id=terms["order_id"],
            variant_id=terms["variant_id"],
            amount_cents=terms["refundable_cents"],
            payment_method_id=terms["payment_method_id"],
        )
        with self.changing() as connection:
            connection.execute("INSERT INTO refunds VALUES (?, ?, ?, ?, ?, ?)", (*refund.values(), reason))
        return refund

    def cancel(self, order_id: str, reason: str) -> OrderStatus:
        status = self.order(order_id)["status"]
        with self.changing() as connection:
            done = connection.execute(
                "UPDATE orders SET status = 'cancelled', cancel_reason = ? WHERE order_id = ? AND status = 'pending'",
                (reason, order_id),
            ).rowcount
        if not done:
            raise Conflict(f"order {order_id} is {status}; only a pending order can be cancelled")
        return OrderStatus(order_id=order_id, status="cancelled")

    def redirect(self, order_id: str, address: Address) -> OrderAddress:
        status = self.order(order_id)["status"]
        with self.changing() as connection:
            done = connection.execute(
                "UPDATE orders SET street = ?, zip_code = ?, city = ? WHERE order_id = ? AND status = 'pending'",
                (*address.values(), order_id),
            ).rowcount
        if not done:
            raise Conflict(f"order {order_id} is {status}; only a pending order can go elsewhere")
        return OrderAddress(order_id=order_id, address=address)

    def note(self, user_id: str, body: str) -> Note:
        self._one("user", "SELECT user_id FROM users WHERE user_id = :key", user_id)
        with self.changing() as connection:
            count = connection.execute("SELECT count(*) FROM notes WHERE user_id = ?", (user_id,)).fetchone()[0]
            note_id = f"N-{user_id[2:]}-{count + 1}"
            connection.execute("INSERT INTO notes VALUES (?, ?, ?)", (note_id, user_id, body))
        return Note(note_id=note_id, user_id=user_id)

    def _one(self, noun: str, sql: str, key: str) -> Row:
        found = self.rows(sql, key=key)
        if not found:
            raise NotFound(f"no {noun} {key!r}")
        return found[0]


def _words(text: str) -> set[str]:
    """The words that say something: the short ones are in every article."""
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def _address(row: Row) -> Address:
    return Address(street=row["street"], zip_code=row["zip_code"], city=row["city"])


def _days_left(row: Row) -> int:
    if row["delivered_on"] is None:
        return 0
    return max(0, _REFUND_DAYS[row["tier"]] - (TODAY - date.fromisoformat(row["delivered_on"])).days)


def _refusal(row: Row, days_left: int) -> str | None:
    if row["status"] != "delivered":
        return f"the order is {row['status']}, not delivered"
    if row["refund_id"]:
        return "it was refunded before"
    if not row["returnable"]:
        return "this product is not taken back"
    return None if days_left else "the time for returns is over"
