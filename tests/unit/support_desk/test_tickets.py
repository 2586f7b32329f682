"""Tickets are generated from the desk as it stands, by seed, with the untidiness of real ones."""

from __future__ import annotations

from collections import Counter

import pytest

from examples.support_desk import SupportDesk, Ticket, generate_tickets
from examples.support_desk.facts import Facts, read_facts
from examples.support_desk.tickets import Conversation, Remark, Reply
from tests.unit.support_desk.conftest import MakeDesk
from twinraven.foundation.errors import Conflict


def test_equal_seeds_give_equal_tickets(make_desk: MakeDesk) -> None:
    """The same desk and seed give the same tickets, and more of them begin with the same ones."""
    first, second = make_desk(2), make_desk(2)
    assert generate_tickets(first, 40, seed=4) == generate_tickets(second, 40, seed=4)
    assert generate_tickets(first, 20, seed=4) == generate_tickets(first, 40, seed=4)[:20]
    assert generate_tickets(first, 20, seed=5) != generate_tickets(first, 20, seed=4)


def test_a_batch_has_every_kind_and_every_trouble(make_desk: MakeDesk) -> None:
    """Two hundred tickets hold all kinds, wrong addresses, silence about oneself, remarks, and further wishes."""
    tickets = generate_tickets(make_desk(customers=400), 200, seed=1)
    kinds = Counter(ticket.kind for ticket in tickets)
    assert len(kinds) == 6
    assert min(kinds.values()) >= 5
    assert len({ticket.ticket_id for ticket in tickets}) == 200
    assert sum("example.net" in ticket.opening for ticket in tickets) >= 10
    assert sum(any(reply.question == "who" for reply in ticket.replies) for ticket in tickets) >= 10
    assert sum(bool(ticket.remarks) for ticket in tickets) >= 20
    assert sum(bool(ticket.follow_ups) for ticket in tickets) >= 8


def test_no_two_tickets_want_the_same_order(make_desk: MakeDesk) -> None:
    """Each order is at the centre of one ticket at most, so that no ticket spoils another."""
    tickets = generate_tickets(make_desk(customers=400), 200, seed=2)
    orders = [ticket.truth.order_id for ticket in tickets if ticket.truth.order_id]
    assert len(orders) == len(set(orders))


def test_tickets_know_the_desk_as_it_stands(desk: SupportDesk) -> None:
    """An order that was cancelled in the meantime is not one that somebody wants to cancel."""
    for ticket in generate_tickets(desk, 30, seed=3):
        if ticket.kind == "change_address" and ticket.truth.order_id:
            desk.cancel(ticket.truth.order_id, "closed")
    later = [ticket for ticket in generate_tickets(desk, 30, seed=3) if ticket.kind == "change_address"]
    assert later
    assert {desk.order(ticket.truth.order_id or "")["status"] for ticket in later} == {"pending"}


def test_a_small_shop_says_when_it_runs_out(make_desk: MakeDesk) -> None:
    """Asking for more tickets than there are orders is a clear error with the way out."""
    with pytest.raises(Conflict, match="more customers"):
        generate_tickets(make_desk(customers=5), 100, seed=1)


def test_what_customers_say_can_be_understood(make_desk: MakeDesk) -> None:
    """Whoever states a true address or name in any of their words is identified by the patterns of the agent."""
    desk = make_desk(customers=400)
    for ticket in generate_tickets(desk, 150, seed=6):
        facts = read_facts(ticket.opening, Facts())
        for reply in ticket.replies:
            facts = read_facts(reply.text, facts)
        if ticket.truth.user_id is None or (facts.email or "").endswith("example.net"):
            continue
        found = (
            desk.user_with_email(facts.email)
            if facts.email
            else desk.user_named(facts.first_name or "", facts.last_name or "", facts.zip_code or "")
        )
        assert found["user_id"] == ticket.truth.user_id


def test_an_address_is_read_whole() -> None:
    """Street, zip code and city are told apart, also beyond ASCII, and the newest word counts."""
    facts = read_facts("Please send it to Mill Bank 3, 71234 Østhavn. Thanks.", Facts(order_id="O-111111"))
    assert facts.address == {"street": "Mill Bank 3", "zip_code": "71234", "city": "Østhavn"}
    assert read_facts("No, order O-222222.", facts).order_id == "O-222222"


def test_a_conversation_says_each_thing_once() -> None:
    """Replies come in turn, remarks when due, and `take` gives everything said since the last time."""
    ticket = Ticket(
        *("T-1", "cancel_order", "Hello."),
        replies=(Reply("who", "I am one."), Reply("who", "I am two.")),
        remarks=(Remark(3, "Rain."),),
    )
    conversation = Conversation(ticket)
    assert conversation.take() == "Hello."
    assert conversation.take() is None
    assert conversation.remark(2) is None
    assert conversation.answer("who") == "I am one."
    assert conversation.remark(3) == "Rain."
    assert conversation.remark(4) is None
    assert conversation.take() == "I am one.\nRain."
    assert (conversation.answer("who"), conversation.answer("who")) == ("I am two.", None)
    assert conversation.answer("confirm") is None
