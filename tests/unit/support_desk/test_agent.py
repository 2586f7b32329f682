"""The scripted agent solves tickets from what it was told, and its sessions hold the chains a learner should find."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from examples.support_desk import Habits, Resolution, SupportDesk, Ticket, create_desk, generate_tickets, solve
from examples.support_desk.tickets import Truth
from tests.unit.support_desk.conftest import MakeDesk
from tests.unit.support_desk.doors import Call, RecordingDoor, door_to

WORDED = {"reason", "text", "query"}
"""Arguments the agent words itself."""

Worked = list[tuple[Ticket, Resolution, RecordingDoor]]


async def work_all(desk: SupportDesk, tickets: Iterable[Ticket]) -> Worked:
    worked: Worked = []
    for ticket in tickets:
        door = door_to(desk)
        worked.append((ticket, await solve(ticket, door, seed=9), door))
    return worked


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Worked:
    desk = create_desk(tmp_path_factory.mktemp("worked") / "desk.db", 1, time_scale=0.0)
    try:
        return asyncio.run(work_all(desk, generate_tickets(desk, 200, seed=5)))
    finally:
        desk.close()


def leaves(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set[str]().union(*map(leaves, value.values()))  # pyright: ignore[reportUnknownArgumentType,reportUnknownMemberType]
    if isinstance(value, list):
        return set[str]().union(*map(leaves, value))  # pyright: ignore[reportUnknownArgumentType]
    return {str(value)}


async def test_runs_can_be_repeated(make_desk: MakeDesk) -> None:
    """Equal seeds give the same calls in the same turns, with the same failures."""
    runs: list[list[list[tuple[Any, ...]]]] = []
    for _ in range(2):
        desk = make_desk(4)
        done = await work_all(desk, generate_tickets(desk, 40, seed=8))
        runs.append(
            [[(call.tool_id, call.params, call.turn, str(call.error)) for call in door.calls] for _, _, door in done]
        )
    assert runs[0] == runs[1]


def test_most_tickets_are_solved_rightly(worked: Worked) -> None:
    """Nine in ten end well, and every ticket that got as far as an order got the right one."""
    outcomes = [resolution.outcome for _, resolution, _ in worked]
    assert outcomes.count("failure") <= 0.1 * len(outcomes)
    assert outcomes.count("success") >= 0.7 * len(outcomes)
    for ticket, resolution, _ in worked:
        if resolution.outcome != "failure" and not ticket.follow_ups:
            assert resolution.order_id == ticket.truth.order_id
            assert resolution.user_id == ticket.truth.user_id


async def test_changes_reach_the_database(make_desk: MakeDesk) -> None:
    """A solved ticket that wanted a change finds it in the desk's rows, and no ticket changed what nobody wanted."""
    desk = make_desk(customers=400)
    for ticket, resolution, _ in await work_all(desk, generate_tickets(desk, 120, seed=6)):
        wanted = ticket.truth.change
        assert set(resolution.changes) <= {wanted}
        if resolution.outcome != "success" or wanted is None:
            continue
        order = desk.rows("SELECT * FROM orders WHERE order_id = :id", id=ticket.truth.order_id)[0]
        user = desk.user(order["user_id"])
        refunds = desk.rows("SELECT variant_id FROM refunds WHERE order_id = :id", id=ticket.truth.order_id)
        assert {
            "cancel": order["status"] == "cancelled",
            "address": order["zip_code"] != user["address"]["zip_code"],
            "refund": refunds == [{"variant_id": ticket.truth.variant_id}],
        }[wanted]


def test_arguments_were_known_before_they_were_used(worked: Worked) -> None:
    """Every argument stood in the customer's words or in an earlier answer, save what the agent words itself."""
    for _, _, door in worked:
        said, answered = "", set[str]()
        for turn in sorted({call.turn for call in door.calls}):
            together = [call for call in door.calls if call.turn == turn]
            said += "\n".join(call.outside_input or "" for call in together)
            for call in together:
                values = {str(value) for name, value in call.params.items() if name not in WORDED}
                assert all(value in answered or value in said for value in values), call
            answered |= leaves([call.output for call in together])


async def test_the_truth_is_not_read(make_desk: MakeDesk) -> None:
    """With the truth taken off the tickets, the agent makes the same calls."""
    first, second = make_desk(4), make_desk(4)
    tickets = generate_tickets(first, 40, seed=8)
    blind = [replace(ticket, truth=Truth()) for ticket in tickets]
    calls = [[door.calls for _, _, door in await work_all(first, tickets)]]
    calls += [[door.calls for _, _, door in await work_all(second, blind)]]
    assert [[(call.tool_id, call.params) for call in each] for each in calls[0]] == [
        [(call.tool_id, call.params) for call in each] for each in calls[1]
    ]


def test_turns_are_counted_and_the_customer_is_heard(worked: Worked) -> None:
    """Turns rise from call to call and end with a word to the customer; the first call carries the opening."""
    for ticket, resolution, door in worked:
        turns = [call.turn for call in door.calls]
        assert turns == sorted(turns)
        assert turns[0] >= 1
        assert turns[-1] < resolution.turns
        assert (door.calls[0].outside_input or "").startswith(ticket.opening)
        assert resolution.calls == len(door.calls)
        assert resolution.failures == sum(call.error is not None for call in door.calls)
    assert any(len({call.turn for call in door.calls}) < len(door.calls) for _, _, door in worked)


def test_a_changed_mind_is_followed(worked: Worked) -> None:
    """A customer who wants another address instead of a cancellation gets it, across a message of theirs."""
    turned = [
        (resolution, door)
        for ticket, resolution, door in worked
        if (ticket.kind, ticket.truth.change) == ("cancel_order", "address") and resolution.outcome == "success"
    ]
    assert turned
    for resolution, door in turned:
        assert resolution.changes == ("address",)
        change = next(call for call in door.calls if call.tool_id == "update_address")
        assert "do not cancel it" in (change.outside_input or "")


async def test_what_may_be_retried_is_retried(make_desk: MakeDesk) -> None:
    """With a carrier that is often away the agent asks the same again in a later turn, and gives up in order."""
    desk = make_desk(customers=200, fault_scale=6.0)
    where = [ticket for ticket in generate_tickets(desk, 80, seed=5) if ticket.kind == "where_is_my_order"]
    worked = await work_all(desk, where)
    retried = 0
    for _, _, door in worked:
        for call in door.calls:
            same = [other for other in door.calls if (other.tool_id, other.params) == (call.tool_id, call.params)]
            if call.error is not None and call.error.retryable and call is same[0]:
                assert len(same) >= 2 or call is door.calls[-1]
                assert [other.turn for other in same] == sorted({other.turn for other in same})
                retried += 1
    assert retried >= 10
    left_open = [(resolution, door) for _, resolution, door in worked if "could not be asked" in resolution.answer]
    assert left_open
    for resolution, door in left_open:
        assert resolution.outcome == "partial"
        assert {"search_kb", "add_note"} <= {call.tool_id for call in door.calls}


def test_a_stranger_is_turned_away(worked: Worked) -> None:
    """Somebody who cannot be identified ends as a failure, and nothing was looked up or changed for them."""
    strangers = [(resolution, door) for _, resolution, door in worked if resolution.user_id is None]
    failed = [(resolution, door) for resolution, door in strangers if resolution.outcome == "failure"]
    assert failed
    for resolution, door in failed:
        assert resolution.answer == "no account was found"
        assert {call.tool_id for call in door.calls} <= {"find_user_by_email", "find_user_by_name_zip", "search_kb"}


async def test_thinking_takes_time(make_desk: MakeDesk) -> None:
    """Each turn costs the model's time, so that a saved turn is saved time."""
    desk = make_desk()
    ticket = generate_tickets(desk, 1, seed=5)[0]
    begun = time.perf_counter()
    resolution = await solve(ticket, door_to(desk), turn_s=0.002)
    assert time.perf_counter() - begun >= resolution.turns * 0.002


async def test_habits_make_the_noise(make_desk: MakeDesk) -> None:
    """A tidy agent reads nothing twice; a forgetful one does."""
    tidy = Habits(brisk=0, parallel=0, hasty=0, forgetful=0, curious=0, hopeful=0, careful=0)
    repeats: list[int] = []
    for habits in (tidy, replace(tidy, forgetful=1.0)):
        desk = make_desk(4, fault_scale=0.0)
        count = 0
        for ticket in generate_tickets(desk, 30, seed=8):
            door = door_to(desk)
            await solve(ticket, door, habits=habits)
            made = [(call.tool_id, str(call.params)) for call in door.calls if call.tool_id != "search_kb"]
            count += len(made) - len(set(made))
        repeats.append(count)
    assert repeats[0] == 0
    assert repeats[1] >= 30


def straight(calls: list[Call], *tools: str) -> bool:
    """Whether these tools were called one right after the other, with nothing from the customer between them."""
    names = [call.tool_id for call in calls]
    for start in range(len(names) - len(tools) + 1):
        window = calls[start : start + len(tools)]
        if tuple(names[start : start + len(tools)]) == tools and not any(call.outside_input for call in window[1:]):
            return True
    return False


def mapped(calls: list[Call], source: str, key: str, target: str, argument: str) -> bool:
    """Whether some answer's list, of two or more, was read element by element."""
    lists = [call.output[key] for call in calls if call.tool_id == source and call.output]
    read = {call.params[argument] for call in calls if call.tool_id == target}
    return any(len(values) > 1 and set(values) <= read for values in lists)


def test_sessions_hold_the_planted_chains(worked: Worked) -> None:
    """What a learner should find is there at a healthy rate, and so is the noise around it."""
    sessions = [door.calls for _, _, door in worked]
    where = [door.calls for ticket, _, door in worked if ticket.kind == "where_is_my_order"]

    def share(hits: Iterable[bool], of: list[Any]) -> float:
        return sum(hits) / len(of)

    assert share((straight(each, "find_user_by_email", "get_user", "get_order") for each in sessions), sessions) > 0.35
    assert share((straight(each, "find_user_by_name_zip", "get_user") for each in sessions), sessions) > 0.1
    assert share((mapped(each, "get_user", "order_ids", "get_order", "order_id") for each in sessions), sessions) > 0.3
    tracked = (mapped(each, "get_order", "tracking_codes", "track_shipment", "tracking_code") for each in where)
    assert share(tracked, where) > 0.35
    products = [
        {
            item["product_id"]
            for call in each
            if call.tool_id == "get_order" and call.output
            for item in call.output["items"]
        }
        & {call.params["product_id"] for call in each if call.tool_id == "get_product"}
        for each in sessions
    ]
    assert share((len(each) > 1 for each in products), sessions) > 0.08
    assert share((any(call.error for call in each) for each in sessions), sessions) > 0.15
    assert share((any(call.outside_input for call in each[1:]) for each in sessions), sessions) > 0.25
