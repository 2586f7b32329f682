"""`batch_reads`: several reads in one call, each checked, gated and recorded as if it had been made by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway_modes import House, code_of, error_of, open_house, value_of
from twinraven.huginn import load_traces

DENY = {"rules": [{"tool": "get_order", "then": "deny", "reason": "no orders today"}]}


def read(order_id: str) -> dict[str, Any]:
    return {"tool": "get_order", "arguments": {"order_id": order_id}}


async def batch(house: House, *calls: dict[str, Any]) -> Any:
    return await house.seen.call("batch_reads", calls=list(calls))


@pytest.mark.parametrize("client", ["auto", "legacy"])
async def test_reads_asked_for_together_are_answered_together(tmp_path: Path, client: str) -> None:
    """All answers come in the order they were asked for, and one that fails keeps no other from answering."""
    async with open_house(tmp_path, "tools", client=client, batch=True) as house:
        assert "batch_reads" in await house.seen.names()
        answer = value_of(
            await batch(house, read("A1"), read("gone"), {"tool": "list_orders", "arguments": {"customer": "c"}})
        )
        first, second, third = answer["results"]
        assert first == {"tool": "get_order", "output": {"id": "A1", "total": 2}}
        assert second["error"]["code"] == "TOOL_FAILED"
        assert len(third["output"]["orders"]) == 3
        assert answer["failed"] == 1


async def test_a_batch_writes_nothing(tmp_path: Path) -> None:
    """A tool that can write, one that is not there and a batch inside are refused by their place; nothing has run."""
    async with open_house(tmp_path, "tools", batch=True) as house:
        for wrong in ({"tool": "pay", "arguments": {"to": "eve"}}, {"tool": "nobody"}, {"tool": "batch_reads"}):
            answer = await batch(house, read("A1"), wrong)
            assert code_of(answer) == "VALIDATION_FAILED"
            assert error_of(answer)["details"]["field"] == "calls[1].tool"
        assert house.shop.paid == []
        assert {event.tool_id for event in await house.events()} == {"batch_reads"}


@pytest.mark.req("CH-23")
@pytest.mark.parametrize(
    ("mode", "name", "arguments"),
    [
        ("tools", "batch_reads", {"calls": [read("A1"), read("gone")]}),
        ("code", "run_code", {"code": "get_order(order_id='A1')\npay(to='eve')"}),
    ],
)
async def test_what_a_batch_or_a_script_does_has_its_id(
    tmp_path: Path, mode: str, name: str, arguments: dict[str, Any]
) -> None:
    """The id that the client states with the call is in the events of all calls inside and in their audit entries."""
    async with open_house(tmp_path, mode, batch=mode == "tools") as house:
        await house.seen.call(name, meta={"correlation_id": "req-9"}, **arguments)
        events = await house.events()
        assert (len(events), {event.correlation_id for event in events}) == (3, {"req-9"})
        entries = [entry for entry in await house.raven.audit.entries("default") if entry.subject_type == "call"]
        assert {entry.correlation_id for entry in entries} == {"req-9"}


async def test_policy_holds_inside_a_batch(tmp_path: Path) -> None:
    """A read that policy denies is denied in a batch, too."""
    async with open_house(tmp_path, "tools", batch=True, policy=DENY) as house:
        answer = value_of(await batch(house, read("A1"), {"tool": "list_orders", "arguments": {"customer": "c"}}))
        assert answer["results"][0]["error"]["code"] == "POLICY_VIOLATION"
        assert "output" in answer["results"][1]


async def test_learning_reads_a_batch_as_calls_of_one_turn(tmp_path: Path) -> None:
    """The calls of a batch are the agent's own, asked for together; the batch itself is no step of anything."""
    async with open_house(tmp_path, "tools", batch=True) as house:
        await batch(house, read("A1"), read("B2"))
        await house.seen.call("get_order", order_id="C3")
        await house.events()
        (session,) = (await load_traces(house.raven.events, "default", idle_gap_s=600)).sessions
        assert [call.tool_id for call in session.calls] == ["get_order"] * 3
        assert [call.turn for call in session.calls] == [1, 1, 2]


async def test_it_can_be_turned_off(tmp_path: Path) -> None:
    """`gateway.batch: false` offers no batch."""
    async with open_house(tmp_path, "tools", batch=False) as house:
        assert "batch_reads" not in await house.seen.names()
