"""What an agent can take from a customer's words.

A model would read them; the scripted agent has these few patterns. Nothing else of a ticket reaches its calls, so a
value it uses was said by the customer or answered by a tool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from examples.support_desk.records import Address

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ORDER = re.compile(r"\bO-\d{6}\b")
_NAME = re.compile(r"[Mm]y name is ([^\W\d_]+) ([^\W\d_]+), zip code (\d{5})")
_ADDRESS = re.compile(r"send it to ([^,]+), (\d{5}) ([^.,]+)")
_TOPICS = ("returns and refunds", "gift card", "repairs", "gold membership", "opening hours")
_REASONS = {"damaged": "damaged", "wrong size": "wrong size", "changed my mind": "changed mind"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What was said so far; the newest word counts."""

    email: str | None = None
    first_name: str | None = None
    last_name: str | None = None
    zip_code: str | None = None
    order_id: str | None = None
    address: Address | None = None

    def known(self) -> dict[str, Any]:
        """The plain values, by the names the tools use for them."""
        names = ("email", "first_name", "last_name", "zip_code", "order_id")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def read_facts(text: str, before: Facts) -> Facts:
    """`before`, brought up to date by one message."""
    facts = before
    if email := _EMAIL.search(text):
        facts = replace(facts, email=email[0].rstrip("."))
    if name := _NAME.search(text):
        facts = replace(facts, first_name=name[1], last_name=name[2], zip_code=name[3])
    if order := _ORDER.search(text):
        facts = replace(facts, order_id=order[0])
    if place := _ADDRESS.search(text):
        facts = replace(facts, address=Address(street=place[1], zip_code=place[2], city=place[3]))
    return facts


def topic_of(text: str) -> str | None:
    """The subject of the knowledge base that a message touches."""
    return next((topic for topic in _TOPICS if topic in text), None)


def refund_reason(text: str) -> str:
    return next((reason for sign, reason in _REASONS.items() if sign in text), "not stated")


def says_yes(text: str | None) -> bool:
    return text is not None and text.lower().startswith("yes")
