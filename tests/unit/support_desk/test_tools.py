"""The tools over the desk read, change, take time and fail as they say."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest

from examples.support_desk import EFFECTS, SupportDesk, desk_tools
from examples.support_desk.weather import CLIMATES, SPELL, Weather
from tests.unit.support_desk.conftest import MakeDesk
from tests.unit.support_desk.test_desk import everything
from twinraven.catalog import FunctionTools
from twinraven.foundation.errors import Conflict, InvalidInput, ToolUnavailable, TwinRavenError
from twinraven.foundation.json_schema import compile_schema

Tools = dict[str, Callable[..., Any]]


def tools_of(desk: SupportDesk) -> Tools:
    return {tool.__name__: tool for tool in desk_tools(desk)}


async def answer(tool: Callable[..., Any], **params: Any) -> Any:
    output = tool(**params)
    return await output if inspect.isawaitable(output) else output


def an_order(desk: SupportDesk, status: str) -> Any:
    order_id = desk.rows("SELECT order_id FROM orders WHERE status = :status ORDER BY 1", status=status)[0]["order_id"]
    return desk.order(order_id)


def some_reads(desk: SupportDesk) -> dict[str, dict[str, Any]]:
    order = an_order(desk, "delivered")
    user = desk.user(order["user_id"])
    item = order["items"][0]
    name = {"first_name": user["first_name"], "last_name": user["last_name"], "zip_code": user["address"]["zip_code"]}
    return {
        "find_user_by_email": {"email": user["email"]},
        "find_user_by_name_zip": name,
        "get_user": {"user_id": user["user_id"]},
        "get_order": {"order_id": order["order_id"]},
        "get_product": {"product_id": item["product_id"]},
        "track_shipment": {"tracking_code": order["tracking_codes"][0]},
        "check_refund_policy": {"order_id": order["order_id"], "variant_id": item["variant_id"]},
        "search_kb": {"query": "gift card"},
    }


async def test_reads_read_and_change_nothing(make_desk: MakeDesk) -> None:
    """Every tool declared a read answers by its own output schema and leaves the database as it was."""
    desk = make_desk(fault_scale=0.0)
    before = everything(desk)
    reads = some_reads(desk)
    assert set(reads) == {tool_id for tool_id, effect in EFFECTS.items() if effect == "read"}
    entries = {entry.tool_id: entry for entry in FunctionTools(desk_tools(desk)).entries("default")}
    for tool_id, params in reads.items():
        output = await answer(tools_of(desk)[tool_id], **params)
        schema = entries[tool_id].output_schema
        assert schema is not None
        compile_schema(schema).check(output)
    assert everything(desk) == before


def test_the_catalogue_takes_every_tool(desk: SupportDesk) -> None:
    """All twelve become entries with a description, named parameters and the declared effect."""
    entries = FunctionTools(desk_tools(desk)).entries("default")
    assert {entry.tool_id: entry.effect for entry in entries} == EFFECTS
    assert set(EFFECTS) == set(CLIMATES)
    for entry in entries:
        assert entry.effect_origin == "declared"
        assert entry.description.endswith(".")
        assert entry.input_schema["properties"]
    assert {tool.__name__ for tool in desk_tools(desk) if inspect.iscoroutinefunction(tool)} == {
        *("track_shipment", "check_refund_policy", "search_kb", "issue_refund")
    }


def test_a_pending_order_is_cancelled_once(desk: SupportDesk) -> None:
    """Cancelling changes the order's row; doing it again, or to a shipped one, is refused and changes nothing."""
    tools, order_id = tools_of(desk), an_order(desk, "pending")["order_id"]
    assert tools["cancel_order"](order_id=order_id, reason="no longer wanted")["status"] == "cancelled"
    assert tools["get_order"](order_id=order_id)["status"] == "cancelled"
    before = everything(desk)
    for refused in (order_id, an_order(desk, "shipped")["order_id"]):
        with pytest.raises(Conflict, match="only a pending order"):
            tools["cancel_order"](order_id=refused, reason="again")
    assert everything(desk) == before


def test_a_pending_order_can_go_elsewhere(desk: SupportDesk) -> None:
    """The new address stands in the order and not in the customer's record; a delivered order stays where it went."""
    tools, order = tools_of(desk), an_order(desk, "pending")
    address = {"street": "Mill Bank 3", "zip_code": "71000", "city": "Norvik"}
    home = desk.user(order["user_id"])["address"]
    tools["update_address"](order_id=order["order_id"], **address)
    assert tools["get_order"](order_id=order["order_id"])["address"] == address
    assert desk.user(order["user_id"])["address"] == home
    with pytest.raises(Conflict, match="only a pending order"):
        tools["update_address"](order_id=an_order(desk, "delivered")["order_id"], **address)


async def test_a_refund_is_paid_as_the_policy_says(make_desk: MakeDesk) -> None:
    """Another amount is refused, the right one is paid, and after that the policy says no."""
    desk = make_desk(fault_scale=0.0)
    tools = tools_of(desk)
    rows = desk.rows("SELECT i.order_id, i.variant_id FROM order_items i JOIN orders o USING (order_id) ORDER BY 1, 2")
    terms = next(each for each in (desk.refund_terms(**row) for row in rows) if each["eligible"])
    item = {"order_id": terms["order_id"], "variant_id": terms["variant_id"]}
    paid = {"payment_method_id": terms["payment_method_id"], "reason": "damaged"}
    with pytest.raises(Conflict, match="amount"):
        await tools["issue_refund"](**item, **paid, amount_cents=terms["refundable_cents"] + 1)
    assert desk.rows("SELECT * FROM refunds") == []
    refund = await tools["issue_refund"](**item, **paid, amount_cents=terms["refundable_cents"])
    assert desk.rows("SELECT * FROM refunds") == [{**refund, "reason": "damaged"}]
    assert not (await tools["check_refund_policy"](**item))["eligible"]
    with pytest.raises(Conflict, match="refunded before"):
        await tools["issue_refund"](**item, **paid, amount_cents=terms["refundable_cents"])


def test_notes_are_numbered_per_customer(desk: SupportDesk) -> None:
    """Each note gets an id of its own, and both are kept."""
    user_id = an_order(desk, "pending")["user_id"]
    notes = [tools_of(desk)["add_note"](user_id=user_id, text=text) for text in ("first", "second")]
    assert len({note["note_id"] for note in notes}) == 2
    assert [row["body"] for row in desk.rows("SELECT body FROM notes ORDER BY note_id")] == ["first", "second"]


async def test_a_search_needs_a_sensible_limit(make_desk: MakeDesk) -> None:
    """A limit below one is the caller's mistake and named as such."""
    with pytest.raises(InvalidInput, match="limit is 0"):
        await tools_of(make_desk(fault_scale=0.0))["search_kb"](query="gift card", limit=0)


async def test_the_carrier_is_away_at_its_rate_and_by_seed(make_desk: MakeDesk) -> None:
    """About eight in a hundred first attempts fail, and the same ones in every desk of the seed."""

    async def failing(desk: SupportDesk) -> list[str]:
        failed: list[str] = []
        track = tools_of(desk)["track_shipment"]
        for row in desk.rows("SELECT tracking_code FROM shipments ORDER BY 1"):
            try:
                await track(**row)
            except ToolUnavailable:
                failed.append(row["tracking_code"])
        return failed

    first, second = make_desk(3, customers=400), make_desk(3, customers=400)
    away = await failing(first)
    share = len(away) / len(first.rows("SELECT 1 FROM shipments"))
    assert 0.05 < share < 0.11
    assert await failing(second) == away


def test_faults_come_in_spells() -> None:
    """Right after a fault the same call fails more often than at first, but mostly works."""
    weather = Weather(5, time_scale=0.0, fault_scale=1.0)
    calls = [{"tracking_code": str(number)} for number in range(6000)]
    failed = [call for call in calls if weather.toll("track_shipment", call).fault]
    again = [call for call in failed if weather.toll("track_shipment", call).fault]
    assert SPELL - 0.1 < len(again) / len(failed) < SPELL + 0.1


def test_tools_of_the_house_never_fail_by_chance(desk: SupportDesk) -> None:
    """Only what belongs to others has faults; with a scale of zero not even that."""
    for tool_id, climate in CLIMATES.items():
        scale = 1.0 if climate.fault_rate == 0 else 0.0
        weather = Weather(1, time_scale=0.0, fault_scale=scale)
        assert not any(weather.toll(tool_id, {"n": number}).fault for number in range(100))


def test_tools_take_real_time(make_desk: MakeDesk) -> None:
    """A stretched call lasts as long as its toll says, and with a scale of zero there is no waiting."""
    params = {"user_id": "U-none"}
    slow = make_desk(1, time_scale=5.0)
    toll = Weather(1, time_scale=5.0, fault_scale=1.0).toll("get_user", params)
    begun = time.perf_counter()
    with pytest.raises(TwinRavenError):
        tools_of(slow)["get_user"](**params)
    assert time.perf_counter() - begun >= toll.seconds > 0.002
    assert Weather(1, time_scale=0.0, fault_scale=1.0).toll("get_user", params).seconds == 0
