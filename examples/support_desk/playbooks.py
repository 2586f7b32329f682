"""How each kind of ticket is worked: a list of needs, each with the way to meet it.

A decision is skipped when its need is met already, and the tools of the decisions still ahead are what the agent
foresees; a learned tool is taken when it covers them. The rules use the customer's words and the tools' answers alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from examples.support_desk.facts import Facts, read_facts, refund_reason, says_yes, topic_of
from examples.support_desk.tickets import Change, Question, TicketKind
from examples.support_desk.worker import Worker
from twinraven.foundation.errors import TwinRavenError

Result = Literal["success", "partial", "failure"]


class GaveUp(Exception):
    """The ticket cannot be worked any further, and the customer is told why."""


@dataclass(slots=True)
class Case:
    """What is known of a ticket, and how it stands."""

    text: str
    facts: Facts
    met: set[str] = field(default_factory=set[str])
    user_id: str = ""
    user: dict[str, Any] = field(default_factory=dict[str, Any])
    order: dict[str, Any] = field(default_factory=dict[str, Any])
    terms: dict[str, Any] = field(default_factory=dict[str, Any])
    changes: list[Change] = field(default_factory=list[Change])
    answers: list[str] = field(default_factory=list[str])
    result: Result = "success"

    def conclude(self, answer: str, *, whole: bool = True) -> None:
        self.answers.append(answer)
        if not whole:
            self.result = "partial"


How = Callable[[Worker, Case], Awaitable[TicketKind | None]]


@dataclass(frozen=True, slots=True)
class Decision:
    """A need, how it is met, and with which tools; the way may turn the ticket into another kind."""

    need: str
    how: How
    tools: tuple[str, ...] = ()


async def work(worker: Worker, case: Case, kind: TicketKind) -> None:
    """Meet the needs of this kind of ticket, one after the other."""
    ahead: Sequence[Decision] = PLAYBOOKS[kind]
    while ahead:
        decision, ahead = ahead[0], ahead[1:]
        if decision.need in case.met:
            continue
        pending = (each for each in (decision, *ahead) if each.need not in case.met)
        worker.foreseen = frozenset(tool for each in pending for tool in each.tools)
        worker.known.update(case.facts.known())
        turned_into = await decision.how(worker, case)
        case.met.add(decision.need)
        if turned_into is not None:
            ahead = PLAYBOOKS[turned_into]


async def _ask(worker: Worker, case: Case, question: Question) -> str | None:
    reply = await worker.ask(question)
    if reply is not None:
        case.text = f"{case.text}\n{reply}"
        case.facts = read_facts(reply, case.facts)
        worker.known.update(case.facts.known())
    return reply


async def _identify(worker: Worker, case: Case) -> None:
    tried: set[tuple[str, ...]] = set()
    while not case.user_id:
        facts = case.facts
        if facts.first_name and facts.last_name and facts.zip_code:
            tool_id = "find_user_by_name_zip"
            names = ("first_name", "last_name", "zip_code")
        else:
            tool_id, names = "find_user_by_email", ("email",)
        params = {name: value for name, value in facts.known().items() if name in names}
        attempt = tuple(params.values())
        if params and attempt not in tried:
            tried.add(attempt)
            try:
                case.user_id = (await worker.read(tool_id, params))["user_id"]
            except TwinRavenError:
                continue
        elif await _ask(worker, case, "who") is None:
            raise GaveUp("no account was found")
    worker.known["user_id"] = case.user_id


async def _read_user(worker: Worker, case: Case) -> None:
    if not (case.facts.order_id and worker.inclined("brisk", "user")):
        await _need_user(worker, case)


async def _need_user(worker: Worker, case: Case) -> None:
    if case.user:
        return
    case.user = await worker.read("get_user", {"user_id": case.user_id})
    if worker.inclined("forgetful", "user"):
        case.user = await worker.read("get_user", {"user_id": case.user_id}, anew=True)


async def _find_order(worker: Worker, case: Case) -> None:
    order = await _order_by_number(worker, case) or await _order_by_item(worker, case)
    if order is None and await _ask(worker, case, "order") is not None:
        order = await _order_by_number(worker, case)
    if order is None:
        raise GaveUp("it is not clear which order is meant")
    case.order = order
    if worker.inclined("forgetful", "order"):
        case.order = await worker.read("get_order", {"order_id": order["order_id"]}, anew=True)
    if worker.inclined("curious", "order"):
        await worker.read_each("get_product", "product_id", [order["items"][0]["product_id"]])


async def _order_by_number(worker: Worker, case: Case) -> dict[str, Any] | None:
    if case.facts.order_id is None:
        return None
    try:
        order = await worker.read("get_order", {"order_id": case.facts.order_id})
    except TwinRavenError:
        return None
    return order if order["user_id"] == case.user_id else None


async def _order_by_item(worker: Worker, case: Case) -> dict[str, Any] | None:
    """Read the customer's orders and take the one with the item that was spoken of, or the only one."""
    await _need_user(worker, case)
    order_ids = case.user["order_ids"]
    enough = partial(_mentioned, case) if worker.inclined("hasty", "orders") else None
    orders = await worker.read_each("get_order", "order_id", order_ids, enough=enough)
    fitting = [order for order in orders if _mentioned(case, order)] or (orders if len(orders) == 1 else [])
    return fitting[0] if fitting else None


def _mentioned(case: Case, order: Mapping[str, Any]) -> bool:
    return any(item["name"] in case.text for item in order["items"])


async def _track(worker: Worker, case: Case) -> None:
    codes: list[str] = case.order["tracking_codes"]
    parcels = await worker.read_each("track_shipment", "tracking_code", codes)
    if not codes:
        case.conclude(f"the order is {case.order['status']} and has no parcel", whole=False)
    elif len(parcels) < len(codes):
        await worker.read_each("search_kb", "query", ["carrier delays"])
        await _leave_note(worker, case, "the carrier did not answer")
        case.conclude("the carrier could not be asked about every parcel", whole=False)
    else:
        states = "; ".join(f"{parcel['status']}, expected {parcel['expected_on']}" for parcel in parcels)
        case.conclude(f"{len(parcels)} parcel(s): {states}")


async def _read_products(worker: Worker, case: Case) -> None:
    product_ids = list(dict.fromkeys(item["product_id"] for item in case.order["items"]))
    products = await worker.read_each("get_product", "product_id", product_ids)
    case.conclude("; ".join(f"{product['name']}: {product['care']}" for product in products))


async def _check_terms(worker: Worker, case: Case) -> None:
    items = case.order["items"]
    item = next((item for item in items if item["name"] in case.text), items[0])
    params = {"order_id": case.order["order_id"], "variant_id": item["variant_id"]}
    case.terms = await worker.read("check_refund_policy", params)


async def _refund(worker: Worker, case: Case) -> None:
    terms = case.terms
    if not terms["eligible"]:
        if worker.inclined("curious", "refund"):
            await worker.read_each("search_kb", "query", ["returns and refunds"])
        case.conclude(f"no refund: {terms['reason']}", whole=False)
    elif says_yes(await _ask(worker, case, "confirm")):
        params = {
            "order_id": terms["order_id"],
            "variant_id": terms["variant_id"],
            "amount_cents": terms["refundable_cents"],
            "payment_method_id": terms["payment_method_id"],
            "reason": refund_reason(case.text),
        }
        await _change(worker, case, "refund", "issue_refund", params)
    else:
        case.conclude("nothing is refunded, as wished")


async def _cancel(worker: Worker, case: Case) -> TicketKind | None:
    if case.order["status"] != "pending" and not worker.inclined("hopeful", "cancel"):
        case.conclude(f"too late to cancel: the order is {case.order['status']}", whole=False)
        return None
    address_before = case.facts.address
    if says_yes(await _ask(worker, case, "confirm")):
        params = {"order_id": case.order["order_id"], "reason": "no longer wanted"}
        await _change(worker, case, "cancel", "cancel_order", params)
    elif case.facts.address != address_before:
        return "change_address"
    else:
        case.conclude("nothing is cancelled, as wished")
    return None


async def _redirect(worker: Worker, case: Case) -> None:
    if case.facts.address is None:
        await _ask(worker, case, "address")
    if case.facts.address is None:
        raise GaveUp("no new address was given")
    params = {"order_id": case.order["order_id"], **case.facts.address}
    await _change(worker, case, "address", "update_address", params)


async def _change(worker: Worker, case: Case, change: Change, tool_id: str, params: dict[str, Any]) -> None:
    try:
        await worker.write(tool_id, params)
    except TwinRavenError as error:
        case.conclude(f"it could not be done: {error}", whole=False)
        return
    case.changes.append(change)
    case.conclude(f"done: {change}")
    if worker.inclined("careful", change):
        await _leave_note(worker, case, f"{change} done for order {case.order['order_id']}")


async def _leave_note(worker: Worker, case: Case, text: str) -> None:
    await worker.write("add_note", {"user_id": case.user_id, "text": text})


async def _look_up(worker: Worker, case: Case) -> None:
    query = topic_of(case.text) or case.text
    found = await worker.read_each("search_kb", "query", [query])
    titles = [article["title"] for answer in found for article in answer["articles"]]
    case.conclude(", ".join(titles) or "nothing was found", whole=bool(titles))


_FIND = ("find_user_by_email", "find_user_by_name_zip")
_WHO_AND_WHICH = (
    Decision("user_id", _identify, _FIND),
    Decision("user", _read_user, ("get_user",)),
    Decision("order", _find_order, ("get_order",)),
)

PLAYBOOKS: Mapping[TicketKind, tuple[Decision, ...]] = {
    "where_is_my_order": (*_WHO_AND_WHICH, Decision("parcels", _track, ("track_shipment",))),
    "product_question": (*_WHO_AND_WHICH, Decision("products", _read_products, ("get_product",))),
    "refund_request": (
        *_WHO_AND_WHICH,
        Decision("terms", _check_terms, ("check_refund_policy",)),
        Decision("refund", _refund, ("issue_refund",)),
    ),
    "cancel_order": (*_WHO_AND_WHICH, Decision("cancellation", _cancel, ("cancel_order",))),
    "change_address": (*_WHO_AND_WHICH, Decision("address", _redirect, ("update_address",))),
    "policy_question": (Decision("article", _look_up, ("search_kb",)),),
}

WISHES = frozenset({"order", "parcels", "products", "terms", "refund", "cancellation", "address", "article"})
"""The needs that belong to one wish; a customer's next wish brings them up again."""
