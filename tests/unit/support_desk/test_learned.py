"""An agent that is given learned tools takes them where they fit, and reaches the same ends in fewer turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from examples.support_desk import Habits, Resolution, SupportDesk, Ticket, generate_tickets, solve
from tests.unit.support_desk.conftest import MakeDesk
from tests.unit.support_desk.doors import Composite, Inside, Params, RecordingDoor, door_to
from twinraven.foundation.errors import ToolError


async def _customer_orders(inside: Inside, params: Params) -> None:
    found = await inside("find_user_by_email", {"email": params["email"]})
    user = await inside("get_user", {"user_id": found["user_id"]})
    for order_id in user["order_ids"]:
        await inside("get_order", {"order_id": order_id})


async def _read_orders(inside: Inside, params: Params) -> None:
    for order_id in params["order_ids"]:
        await inside("get_order", {"order_id": order_id})


async def _broken(inside: Inside, params: Params) -> None:
    raise ToolError("the composite is broken")


CUSTOMER_ORDERS = Composite(
    "customer_orders", ("find_user_by_email", "get_user", "get_order"), ("email",), _customer_orders
)
READ_ORDERS = Composite("read_orders", ("get_order",), ("order_ids",), _read_orders)
BROKEN = replace(CUSTOMER_ORDERS, tool_id="broken_orders", run=_broken)
ONE_BY_ONE = Habits(brisk=0, parallel=0, hasty=0)


async def work_all(
    desk: SupportDesk, tickets: list[Ticket], *learned: Composite
) -> list[tuple[Resolution, RecordingDoor]]:
    worked: list[tuple[Resolution, RecordingDoor]] = []
    for ticket in tickets:
        door = door_to(desk, *learned)
        worked.append((await solve(ticket, door, learned=learned, habits=ONE_BY_ONE, seed=9), door))
    return worked


def essence(resolution: Resolution) -> tuple[Any, ...]:
    return resolution.outcome, resolution.answer, resolution.user_id, resolution.order_id, resolution.changes


@pytest.mark.parametrize("composite", [CUSTOMER_ORDERS, READ_ORDERS], ids=lambda each: each.tool_id)
async def test_the_same_ends_in_fewer_turns(make_desk: MakeDesk, composite: Composite) -> None:
    """With a learned tool every ticket ends as it did without, and the batch takes clearly fewer turns and calls."""
    first, second = make_desk(4, fault_scale=0.0), make_desk(4, fault_scale=0.0)
    tickets = generate_tickets(first, 60, seed=8)
    without = [resolution for resolution, _ in await work_all(first, tickets)]
    with_it = [resolution for resolution, _ in await work_all(second, tickets, composite)]
    assert list(map(essence, with_it)) == list(map(essence, without))
    assert sum(each.learned_calls for each in with_it) >= 10
    assert sum(each.turns for each in with_it) < 0.9 * sum(each.turns for each in without)
    assert sum(each.calls for each in with_it) < sum(each.calls for each in without)


async def test_what_a_composite_read_is_not_read_again(make_desk: MakeDesk) -> None:
    """After its answer the agent makes none of its inner calls itself, as long as nothing was changed."""
    desk = make_desk(4, fault_scale=0.0)
    tidy = replace(ONE_BY_ONE, forgetful=0.0)
    for ticket in generate_tickets(desk, 40, seed=8):
        door = door_to(desk, CUSTOMER_ORDERS)
        await solve(ticket, door, learned=[CUSTOMER_ORDERS], habits=tidy)
        used = [call for call in door.calls if call.tool_id == CUSTOMER_ORDERS.tool_id and call.error is None]
        inner = {(each["tool"], str(each["params"])) for call in used for each in call.output["calls"]}
        assert not inner & {(call.tool_id, str(call.params)) for call in door.calls}


async def test_a_broken_composite_costs_one_call(make_desk: MakeDesk) -> None:
    """When it fails the agent goes on step by step, does not try it again with the same values, and still ends well."""
    first, second = make_desk(4, fault_scale=0.0), make_desk(4, fault_scale=0.0)
    tickets = generate_tickets(first, 30, seed=8)
    without = await work_all(first, tickets)
    with_it = await work_all(second, tickets, BROKEN)
    assert [essence(resolution) for resolution, _ in with_it] == [essence(resolution) for resolution, _ in without]
    for _, door in with_it:
        tries = [str(call.params) for call in door.calls if call.tool_id == BROKEN.tool_id]
        assert len(tries) == len(set(tries))


@pytest.mark.parametrize(
    "unfit",
    [
        replace(CUSTOMER_ORDERS, steps=("find_user_by_email", "get_user", "add_note")),
        replace(CUSTOMER_ORDERS, steps=("find_user_by_email", "get_user", "somebody_elses_tool")),
        replace(CUSTOMER_ORDERS, parameters=("email", "loyalty_number")),
        replace(CUSTOMER_ORDERS, steps=("find_user_by_email", "search_kb", "check_refund_policy", "get_product")),
    ],
    ids=["writes", "unknown step", "unknown parameter", "mostly unneeded"],
)
async def test_a_composite_that_does_not_fit_is_left_alone(make_desk: MakeDesk, unfit: Composite) -> None:
    """One that writes, asks for what nobody said, or mostly does what is not needed is never called."""
    desk = make_desk(4)
    for resolution, _ in await work_all(desk, generate_tickets(desk, 30, seed=8), unfit):
        assert resolution.learned_calls == 0


async def test_the_composite_that_covers_most_is_taken(make_desk: MakeDesk) -> None:
    """Of two that begin alike the agent takes the one that does more of what lies ahead."""
    desk = make_desk(4)
    short = replace(CUSTOMER_ORDERS, tool_id="a_short_one", steps=("find_user_by_email", "get_user"))
    for _, door in await work_all(desk, generate_tickets(desk, 30, seed=8), short, CUSTOMER_ORDERS):
        called = [call.tool_id for call in door.calls]
        if short.tool_id in called:
            assert CUSTOMER_ORDERS.tool_id in called[: called.index(short.tool_id)]
