"""The people who write to the desk: generated tickets, as untidy as real ones.

A ticket is a script of what its customer says: how they open, what they answer when asked, what they throw in between,
and what they think of afterwards. Some give a wrong address for their account, some have no order number, some change
their mind when it comes to it. The agent hears only these words; `Truth` is for whoever checks its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeVar

from examples.support_desk.chance import chance
from examples.support_desk.desk import SupportDesk
from examples.support_desk.records import Order, User
from twinraven.foundation.errors import Conflict

TicketKind = Literal[
    "where_is_my_order", "refund_request", "change_address", "cancel_order", "product_question", "policy_question"
]
Question = Literal["who", "order", "address", "confirm"]
Change = Literal["refund", "address", "cancel"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """What the customer says when asked; several replies to one question are given in turn."""

    question: Question
    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """What the customer says unasked, before the agent's n-th turn."""

    before_turn: int
    text: str


@dataclass(frozen=True, slots=True)
class FollowUp:
    """One more wish, said after the first is settled."""

    kind: TicketKind
    text: str


@dataclass(frozen=True, slots=True)
class Truth:
    """What the ticket is really about, and the change its customer wants in the end."""

    user_id: str | None = None
    order_id: str | None = None
    variant_id: str | None = None
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    ticket_id: str
    kind: TicketKind
    opening: str
    replies: tuple[Reply, ...] = ()
    remarks: tuple[Remark, ...] = ()
    follow_ups: tuple[FollowUp, ...] = ()
    truth: Truth = Truth()


class Conversation:
    """One ticket being spoken: what was said, and what the agent has not acted on yet."""

    def __init__(self, ticket: Ticket) -> None:
        self._replies = list(ticket.replies)
        self._remarks = list(ticket.remarks)
        self._new: list[str] = []
        self.hear(ticket.opening)

    def hear(self, text: str) -> None:
        self._new.append(text)

    def answer(self, question: Question) -> str | None:
        """The next reply to this question, or None when the customer has nothing to say to it."""
        reply = next((reply for reply in self._replies if reply.question == question), None)
        if reply is None:
            return None
        self._replies.remove(reply)
        self.hear(reply.text)
        return reply.text

    def remark(self, turn: int) -> str | None:
        """What was thrown in before this turn."""
        due = next((remark for remark in self._remarks if remark.before_turn <= turn), None)
        if due is None:
            return None
        self._remarks.remove(due)
        self.hear(due.text)
        return due.text

    def take(self) -> str | None:
        """Everything said since the last take: the outside input of the next call."""
        said, self._new = self._new, []
        return "\n".join(said) or None


def generate_tickets(desk: SupportDesk, count: int, *, seed: int) -> list[Ticket]:
    """Tickets about the desk as it stands now; no two of them want to change the same order."""
    maker = _Maker(desk, seed)
    return [maker.make(number) for number in range(1, count + 1)]


_KINDS: dict[TicketKind, int] = {
    "where_is_my_order": 30,
    "refund_request": 22,
    "change_address": 12,
    "cancel_order": 14,
    "product_question": 16,
    "policy_question": 6,
}
_STATUS: dict[TicketKind, tuple[str, ...]] = {
    "where_is_my_order": ("shipped",),
    "refund_request": ("delivered",),
    "change_address": ("pending",),
    "cancel_order": ("pending", "pending", "pending", "pending", "shipped"),
    "product_question": ("pending", "shipped", "delivered"),
}
_OPENINGS: dict[TicketKind, tuple[str, ...]] = {
    "where_is_my_order": ("Hello, I am still waiting for {what}. Where is it?", "When will {what} arrive?"),
    "refund_request": ("I want my money back for {what}: {why}.", "Please refund {what}. Sadly {why}."),
    "change_address": ("I have moved. {what} must go elsewhere.", "Could {what} be sent to another address?"),
    "cancel_order": ("Please cancel {what}.", "I no longer need {what}, can you cancel it?"),
    "product_question": ("How do I wash the things in {what}?", "Which other colours are there of what is in {what}?"),
}
_POLICY = (
    "How long do I have for returns and refunds?",
    "For how long is a gift card valid?",
    "Do you do repairs on old tents?",
    "What does gold membership take?",
)
_WHY = ("it arrived damaged", "it is the wrong size", "I changed my mind about it")
_REMARKS = (
    "Sorry, the dog wants out, take your time.",
    "It is raining here again, by the way.",
    "Am I talking to a person?",
    "One more thing: what are your opening hours?",
    "Oh, and do you sell a gift card?",
)
_YES = ("Yes, please.", "Yes, do that.")


class _Maker:
    def __init__(self, desk: SupportDesk, seed: int) -> None:
        self._desk = desk
        self._seed = seed
        self._order_ids: dict[str, list[str]] = {}
        for row in desk.rows("SELECT order_id, status FROM orders ORDER BY order_id"):
            self._order_ids.setdefault(row["status"], []).append(row["order_id"])
        self._taken: set[str] = set()

    def make(self, number: int) -> Ticket:
        rng = chance("ticket", self._seed, number)
        ticket_id = f"T-{self._seed}-{number:04d}"
        kind = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
        if kind == "policy_question":
            return Ticket(ticket_id, kind, _pick(rng, _POLICY))
        order = self._choose_order(rng, kind)
        user = self._desk.user(order["user_id"])
        who, who_replies = _introduce(rng, user)
        item = _pick(rng, order["items"])
        what, order_replies = self._describe(rng, order, user, item["name"], by_item=kind == "refund_request")
        opening = _pick(rng, _OPENINGS[kind]).format(what=what, why=_pick(rng, _WHY))
        change, replies = _settle(rng, kind)
        if kind == "change_address" and rng.random() < 0.6:
            opening, replies = f"{opening} {replies[0].text}", replies[1:]
        return Ticket(
            ticket_id=ticket_id,
            kind=kind,
            opening=f"{opening} {who}".strip(),
            replies=(*who_replies, *order_replies, *replies),
            remarks=(Remark(rng.randint(2, 6), _pick(rng, _REMARKS)),) if rng.random() < 0.2 else (),
            follow_ups=self._follow_up(rng, kind, order, user),
            truth=Truth(user["user_id"], order["order_id"], item["variant_id"], change),
        )

    def _choose_order(self, rng: Random, kind: TicketKind) -> Order:
        status = _pick(rng, _STATUS[kind])
        free = [order_id for order_id in self._order_ids.get(status, []) if order_id not in self._taken]
        if not free:
            raise Conflict(f"the desk has no {status} order left for a {kind} ticket; make it with more customers")
        order_id = _pick(rng, free)
        self._taken.add(order_id)
        return self._desk.order(order_id)

    def _describe(
        self, rng: Random, order: Order, user: User, item_name: str, *, by_item: bool
    ) -> tuple[str, tuple[Reply, ...]]:
        """How the customer speaks of the order: by number (perhaps a wrong one), by an item, or hardly at all."""
        order_id = order["order_id"]
        told = (Reply("order", f"It is order {order_id}."),)
        others = [self._desk.order(other) for other in user["order_ids"] if other != order_id]
        ambiguous = any(item["name"] == item_name for other in others for item in other["items"])
        manner = rng.random()
        item = f"the {item_name}" if by_item else f"the order with the {item_name}"
        if ambiguous or manner < 0.31:
            return f"{item} of order {order_id}" if by_item else f"order {order_id}", told
        if manner < 0.35:
            return f"{item} (order {_misspell(order_id)})", told
        if manner < 0.45 and not by_item:
            return "my order", told
        return item, told

    def _follow_up(self, rng: Random, kind: TicketKind, order: Order, user: User) -> tuple[FollowUp, ...]:
        if kind not in ("where_is_my_order", "product_question") or rng.random() > 0.2:
            return ()
        if kind == "where_is_my_order":
            return (FollowUp("product_question", f"Thanks! And how do I wash what is in order {order['order_id']}?"),)
        other = _pick(rng, user["order_ids"])
        return (FollowUp("where_is_my_order", f"Good. And where is order {other} at the moment?"),)


def _introduce(rng: Random, user: User) -> tuple[str, tuple[Reply, ...]]:
    """How the customer says who they are: rightly, wrongly (for good or at first), or only when asked."""
    email = f"My email is {user['email']}."
    name = f"My name is {user['first_name']} {user['last_name']}, zip code {user['address']['zip_code']}."
    manner = rng.random()
    if manner < 0.58:
        return email, ()
    if manner < 0.80:
        return name, ()
    wrong = f"My email is {user['email'].replace('example.org', 'example.net')}."
    if manner < 0.82:
        return wrong, ()
    if manner < 0.93:
        return wrong, (Reply("who", f"Hm, perhaps I used another one. {_pick(rng, (email, name))}"),)
    return "", (Reply("who", f"Of course. {_pick(rng, (email, name))}"),)


def _settle(rng: Random, kind: TicketKind) -> tuple[Change | None, tuple[Reply, ...]]:
    """What the customer wants in the end, and what they say on the way there."""
    address = f"Please send it to {_new_address(rng)}."
    second_thoughts = rng.random()
    if kind == "change_address":
        return "address", (Reply("address", address),)
    if kind == "refund_request":
        if second_thoughts < 0.12:
            return None, (Reply("confirm", "No, never mind, I will keep it."),)
        return "refund", (Reply("confirm", _pick(rng, _YES)),)
    if kind == "cancel_order":
        if second_thoughts < 0.18:
            return "address", (Reply("confirm", f"Wait, no, do not cancel it. {address}"),)
        if second_thoughts < 0.28:
            return None, (Reply("confirm", "No, I have thought about it, leave it as it is."),)
        return "cancel", (Reply("confirm", _pick(rng, _YES)),)
    return None, ()


def _new_address(rng: Random) -> str:
    street = _pick(rng, ("Quarry Road", "Mill Bank", "Upper Ness", "Station Square"))
    city = _pick(rng, ("Norvik", "Lindholm", "Østhavn"))
    return f"{street} {rng.randint(1, 80)}, {rng.randint(70_000, 98_999)} {city}"


def _misspell(order_id: str) -> str:
    return f"{order_id[:-1]}{(int(order_id[-1]) + 5) % 10}"


def _pick(rng: Random, options: Sequence[T]) -> T:
    return options[rng.randrange(len(options))]
