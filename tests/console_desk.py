"""A home whose pages are worth looking at: a day at a support desk, learned tools, calls that ask, odd sessions.

Sessions are made up from a seed and recorded with times of their own, spread over the last day, so that a home is full
within a few seconds. The same home serves the tests of the console and the pictures in its documentation.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.homes import make_home
from twinraven import tool
from twinraven.app import TwinRaven, open_home
from twinraven.app.foundations import database
from twinraven.calls import CallContext, CallFailed
from twinraven.foundation.clock import to_micros, utc_now
from twinraven.muninn import Outcome, Receipt

HOSTILE = (
    "<script>window.__pwned=1</script>",
    '"><img src=x onerror="window.__pwned=1">',
    "javascript:window.__pwned=1",
    "' onmouseover='window.__pwned=1",
    '<div hx-get="/v1/keys" hx-trigger="load">x</div>',
    "{{7*7}}${7*7}<%=7*7%>",
    "</title><svg onload=window.__pwned=1>",
    "\u202egnp.exe\u202c \u200bzero\u200d",
    "&lt;b&gt; <!-- -->",
    "</script><!--",
)
HOSTILE_SESSION = 'hostile <b>session</b> "quoted"'
_FIRST = ("Ada", "Bruno", "Chen", "Dora", "Emil", "Fatou", "Greta", "Hugo", "Ines", "Jonas")
_LAST = ("Lund", "Vik", "Moreau", "Okafor", "Silva", "Novak", "Haddad", "Tanaka")
_PRODUCTS = ("Cedar Lantern", "Wool Blanket", "Steel Kettle", "Reading Lamp", "Trail Boots", "Walnut Desk")
_RULES = [
    {"tool": "issue_refund", "then": "ask", "reason": "refunds need a person"},
    {"tool": "cancel_order", "then": "ask", "reason": "a cancelled order cannot be brought back"},
]


def _number(text: str) -> int:
    return random.Random(text).randrange(10**6)


@tool(effect="read")
def find_user_by_email(email: str) -> dict[str, Any]:
    """Find a customer by e-mail."""
    return {"user_id": f"U-{_number(email)}"}


@tool(effect="read")
def find_user_by_name_zip(first_name: str, last_name: str, zip_code: str) -> dict[str, Any]:
    """Find a customer by name and zip code."""
    return {"user_id": f"U-{_number(first_name + last_name + zip_code)}"}


@tool(effect="read")
def get_user(user_id: str) -> dict[str, Any]:
    """One customer, with orders and payment methods."""
    orders = [f"O-{_number(f'{user_id} {place}')}" for place in range(1 + _number(user_id) % 4)]
    return {"user_id": user_id, "tier": "gold", "order_ids": orders, "payment_method_id": f"M-{_number(user_id)}"}


@tool(effect="read")
def get_order(order_id: str) -> dict[str, Any]:
    """One order with its items."""
    number = _number(order_id)
    item = {"product_id": f"P-{number % 97}", "variant_id": f"V-{number}", "price_cents": 1000 + number % 20000}
    return {"order_id": order_id, "status": "delivered", "items": [item], "tracking_codes": [f"T-{number}"]}


@tool(effect="read")
def get_product(product_id: str) -> dict[str, Any]:
    """One product."""
    return {"product_id": product_id, "name": _PRODUCTS[_number(product_id) % len(_PRODUCTS)]}


@tool(effect="read")
def track_shipment(tracking_code: str) -> dict[str, Any]:
    """Where a parcel is."""
    return {"tracking_code": tracking_code, "place": "Hamburg", "eta_days": _number(tracking_code) % 5}


@tool(effect="read")
def check_refund_policy(order_id: str, variant_id: str) -> dict[str, Any]:
    """Whether something can be refunded."""
    return {"order_id": order_id, "variant_id": variant_id, "refundable": True}


@tool(effect="write")
def issue_refund(amount_cents: int, order_id: str, payment_method_id: str, reason: str) -> dict[str, Any]:
    """Pay money back."""
    return {"refund_id": f"R-{order_id}", "amount_cents": amount_cents, "payment_method_id": payment_method_id}


@tool(effect="write")
def cancel_order(order_id: str, reason: str) -> dict[str, Any]:
    """Cancel an order."""
    return {"order_id": order_id, "status": "cancelled"}


@tool(effect="write")
def add_note(user_id: str, text: str) -> dict[str, Any]:
    """Leave a note for colleagues."""
    return {"note_id": f"N-{_number(user_id + text)}"}


TOOLS = (
    find_user_by_email, find_user_by_name_zip, get_user, get_order, get_product, track_shipment,
    check_refund_policy, issue_refund, cancel_order, add_note,
)  # fmt: skip
_BY_NAME = {each.__name__: each for each in TOOLS}


@dataclass(frozen=True, slots=True)
class Made:
    """One call of a made-up session; `at_once` calls share a turn and a beginning with the one before."""

    tool_id: str
    params: dict[str, Any]
    said: str | None = None
    error: str | None = None
    at_once: bool = False
    inner: tuple[Made, ...] = ()

    def output(self) -> Any:
        if self.error is not None:
            return {"error": f"no such thing ({self.error})"}
        if self.inner:
            return {"steps": [each.output() for each in self.inner]}
        if self.tool_id not in _BY_NAME or "big" in self.params:
            return {"echo": self.params}
        return _BY_NAME[self.tool_id](**self.params)


def make_desk(folder: Path, **sections: Any) -> Path:
    """A home that has the desk's tools and rules, and nothing in it."""
    home = make_home(folder)
    settings: dict[str, Any] = {"tools": {"modules": [__name__]}, "policy": {"rules": _RULES}, **sections}
    (folder / "twinraven.yaml").write_text(json.dumps(settings))
    return home


def fill_desk(
    home: Path, *, sessions: int = 90, long: int = 0, learn: bool = True, hostile: bool = True, seed: int = 7
) -> None:
    """A day of sessions, learned tools that wait, calls that ask, and sessions with something odd in them."""
    chance = random.Random(seed)
    with open_home(home) as raven:
        begin = utc_now() - timedelta(hours=23)
        for number in range(sessions):
            at = begin + timedelta(hours=23) * _day_curve(chance)
            record(raven, f"ticket-{4100 + number}", list(_ticket(number, chance)), at, chance)
        raven.collector.flush()
        names = asyncio.run(_learn(raven)) if learn else []
        for number in range(sessions // 8 if names else 0):
            at = utc_now() - timedelta(hours=5) * chance.random() - timedelta(minutes=10)
            record(raven, f"ticket-{4800 + number}", list(_learned_ticket(number, names, chance)), at, chance)
        record(raven, "ticket-4990", list(_parallel()), utc_now() - timedelta(minutes=14), chance)
        if hostile:
            record(raven, HOSTILE_SESSION, list(_hostile()), utc_now() - timedelta(minutes=8), chance)
        if long:
            record(raven, "night-batch", list(_batch(long)), utc_now() - timedelta(hours=3), chance)
        raven.collector.flush()
        for number in range(4):
            told = list(_ticket(600 + 6 * number, chance))[:-2]
            record(
                raven, f"ticket-{5001 + number}", told, utc_now() - timedelta(minutes=5 + number), chance, hurried=True
            )
        raven.collector.flush()
        asyncio.run(_ask(raven, chance))


def record(
    raven: TwinRaven,
    session_id: str,
    calls: Sequence[Made],
    at: datetime,
    chance: random.Random,
    *,
    hurried: bool = False,
) -> None:
    """One session: the model takes a second before each turn, people minutes; if hurried, nobody says how it went."""
    receipts: list[Receipt] = []
    with raven.collector.observe(session_id) as session:
        turn, moment, ended = 0, at, at
        for number, made in enumerate(calls):
            if not made.at_once:
                turn += 1
                wait_s = chance.uniform(25, 190) if made.said and number else chance.uniform(0.4, 1.6)
                moment = ended + timedelta(seconds=wait_s if number else 0)
            latency = _inner_ms(made, chance) if made.inner else chance.randrange(60, 460)
            ended = max(ended, moment + timedelta(milliseconds=latency))
            event_id = uuid4()
            receipts.append(_record(session, made, moment, latency, turn, event_id=event_id))
            inside = moment + timedelta(milliseconds=4)
            for place, inner in enumerate(made.inner):
                taken = chance.randrange(80, 240)
                if place < 3:
                    inside += timedelta(milliseconds=latency // 4 if place else 0)
                receipts.append(
                    _record(session, inner, inside, min(taken, latency // 2), turn, parent_event_id=event_id)
                )
    for receipt in receipts:
        receipt.result()
    outcome = Outcome.FAILURE if calls[-1].error else Outcome.SUCCESS
    if chance.random() < 0.8 and not hurried:
        asyncio.run(raven.events.state_verdict("default", session_id, outcome, stated_by="desk"))


def _record(session: Any, made: Made, at: datetime, latency: int, turn: int, **more: Any) -> Any:
    return session.record(
        made.tool_id,
        made.params,
        output=made.output(),
        latency_ms=latency,
        timestamp=at,
        turn=turn,
        outside_input=made.said,
        raised=made.error is not None,
        error_code=made.error,
        outcome="failure" if made.error else "partial",
        **more,
    )


def desk_tickets(number: int, chance: random.Random) -> Iterator[Iterator[Made]]:
    """The calls of so many tickets that are worked on by hand."""
    return (_ticket(each, chance) for each in range(number))


def learned_tickets(number: int, names: Sequence[str], chance: random.Random) -> Iterator[Iterator[Made]]:
    """The calls of so many tickets for which learned tools are taken."""
    return (_learned_ticket(each, names, chance) for each in range(number))


def _inner_ms(made: Made, chance: random.Random) -> int:
    return 420 + 40 * len(made.inner) + chance.randrange(120)


def _day_curve(chance: random.Random) -> float:
    """When in the day something happens: busier from the middle on."""
    return min(0.999, chance.random() ** 0.7)


def _person(number: int) -> tuple[str, str, str, str]:
    first, last = _FIRST[number % len(_FIRST)], _LAST[number * 3 % len(_LAST)]
    return first, last, f"{10000 + number * 37 % 80000}", f"{first}.{last}{number}@example.net".lower()


def _ticket(number: int, chance: random.Random) -> Iterator[Made]:
    first, last, zip_code, email = _person(number)
    product = _PRODUCTS[number % len(_PRODUCTS)]
    if number % 3 == 2:
        said = f"Where is my {product}? My name is {first} {last}, zip code {zip_code}."
        found = Made("find_user_by_name_zip", {"first_name": first, "last_name": last, "zip_code": zip_code}, said)
    else:
        said = f"I want my money back for the {product}: it is the wrong size. My email is {email}."
        if number % 7 == 3:
            yield Made("find_user_by_email", {"email": f"x{email}"}, said, error="NOT_FOUND")
            said = f"Sorry, I meant {email}."
        found = Made("find_user_by_email", {"email": email}, said)
    yield found
    user = found.output()["user_id"]
    yield Made("get_user", {"user_id": user})
    known = get_user(user)
    for order_id in known["order_ids"]:
        yield Made("get_order", {"order_id": order_id})
    yield from _after_orders(number, known, chance)


def _after_orders(number: int, known: dict[str, Any], chance: random.Random) -> Iterator[Made]:
    order_id = known["order_ids"][-1]
    item = get_order(order_id)["items"][0]
    if number % 3 == 2:
        error = "TIMEOUT" if number % 11 == 5 else None
        yield Made("track_shipment", {"tracking_code": get_order(order_id)["tracking_codes"][0]}, error=error)
        return
    yield Made("get_product", {"product_id": item["product_id"]})
    yield Made("check_refund_policy", {"order_id": order_id, "variant_id": item["variant_id"]})
    if number % 2 == 0:
        yield Made("issue_refund", _refund(known, order_id, chance), "Yes, please.")
        yield Made("add_note", {"user_id": known["user_id"], "text": f"refund done for order {order_id}"})


def _refund(known: dict[str, Any], order_id: str, chance: random.Random) -> dict[str, Any]:
    return {
        "amount_cents": get_order(order_id)["items"][0]["price_cents"],
        "order_id": order_id,
        "payment_method_id": known["payment_method_id"],
        "reason": chance.choice(("wrong size", "changed mind", "damaged")),
    }


def _learned_ticket(number: int, names: Sequence[str], chance: random.Random) -> Iterator[Made]:
    first, last, _, email = _person(number + 500)
    name = next((each for each in names if "email" in each), names[0])
    found = Made("find_user_by_email", {"email": email})
    said = f"My lamp arrived broken. I am {first} {last}, {email}."
    if number % 4 == 1:
        lost = Made("find_user_by_email", {"email": f"x{email}"}, error="NOT_FOUND")
        yield Made(name, {"email": f"x{email}"}, said, error="NOT_FOUND", inner=(lost,))
        said = "Hm, perhaps I used another one."
    user = get_user(found.output()["user_id"])
    orders = tuple(Made("get_order", {"order_id": each}) for each in user["order_ids"])
    inner = (found, Made("get_user", {"user_id": user["user_id"]}), *orders)
    yield Made(name, {"email": email}, said, inner=inner)
    yield from _after_orders(number * 2, user, chance)


def _parallel() -> Iterator[Made]:
    yield Made("find_user_by_email", {"email": "ines.silva@example.net"}, "What did I order this year?")
    user = get_user("U-77")
    yield Made("get_user", {"user_id": "U-77"})
    for place, order_id in enumerate([*user["order_ids"], "O-1", "O-2", "O-3", "O-4"]):
        yield Made("get_order", {"order_id": order_id}, at_once=place > 0)
    for place in range(4):
        yield Made("get_product", {"product_id": f"P-{place}"}, at_once=place > 0)


def _hostile() -> Iterator[Made]:
    for number, text in enumerate(HOSTILE):
        tool_id = f"evil{text[:20]}".replace("\n", " ") if number == 0 else "get_order"
        said = text if number % 2 else None
        yield Made(
            tool_id, {"order_id": text, text: "name", "big": "A" * 400}, said, error="BAD" if number == 4 else None
        )


def _batch(calls: int) -> Iterator[Made]:
    for number in range(calls):
        error = "TIMEOUT" if number % 90 == 45 else None
        yield Made("track_shipment", {"tracking_code": f"T-{number}"}, error=error)


async def _learn(raven: TwinRaven) -> list[str]:
    outcome = await raven.huginn.learn("default", by="local")
    names = [each.tool_id for each in outcome.proposals]
    if len(names) > 1:
        await raven.registry.promote("default", names[-1], by="local")
        # Sessions of the last hours used it, so it came into service before them.
        before = to_micros(utc_now() - timedelta(hours=6))
        served = "UPDATE tool_records SET in_service_since = :at WHERE tool_id = :tool"
        await database(raven).write("default", lambda tx: tx.execute(served, at=before, tool=names[-1]))
    return names


async def _ask(raven: TwinRaven, chance: random.Random) -> None:
    for number in range(3):
        _, _, _, email = _person(600 + 6 * number)
        user = get_user(find_user_by_email(email)["user_id"])
        params: dict[str, Any] = _refund(user, user["order_ids"][-1], chance)
        await _wish(raven, "issue_refund", params, f"ticket-{5001 + number}")
    await _wish(raven, "cancel_order", {"order_id": "O-621797", "reason": "no longer wanted"}, "ticket-5004")


async def _wish(raven: TwinRaven, tool_id: str, params: dict[str, Any], session_id: str) -> None:
    try:
        await raven.calls.call(tool_id, params, CallContext(session_id=session_id, turn=20, caller="local"))
    except CallFailed:
        return
    raise AssertionError(f"{tool_id} was to ask first")
