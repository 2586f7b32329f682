"""`gateway.mode: search`: two tools by which all others are found and called, as if each had been called itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from tests.gateway_modes import House, code_of, open_house, text_of, value_of
from tests.gateways import promote_tool, until
from twinraven.app import load_settings
from twinraven.flow import StepDefinition
from twinraven.foundation.errors import InvalidSetting

MODES = ("auto", "legacy")
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("call_tool", {}),
    ("call_tool", {"name": 3}),
    ("call_tool", {"name": "pay", "args": {"to": "eve"}}),
    ("call_tool", {"name": "pay", "arguments": ["eve"]}),
    ("search_tools", {}),
    ("search_tools", {"query": "x", "limit": 0}),
    ("search_tools", {"query": "x", "limit": True}),
    ("search_tools", {"query": "x", "page": 2}),
]
DENY = {"rules": [{"tool": "pay", "then": "deny", "reason": "no money today"}]}


async def found(house: House, query: str, **arguments: Any) -> list[str]:
    answer = await house.seen.call("search_tools", query=query, **arguments)
    assert answer.structured_content is not None
    return [tool["name"] for tool in answer.structured_content["tools"]]


async def called(house: House, name: str, **arguments: Any) -> types.CallToolResult:
    return await house.seen.call("call_tool", name=name, arguments=arguments)


@pytest.mark.parametrize("client", MODES)
async def test_a_client_sees_two_tools_and_finds_the_others_by_words(tmp_path: Path, client: str) -> None:
    """The list is short; a search gives name, description and schema of what fits, the best first."""
    async with open_house(tmp_path, "search", client=client) as house:
        assert await house.seen.names() == {"search_tools", "call_tool"}
        assert (await found(house, "the orders of a customer"))[0] == "list_orders"
        assert await found(house, "state of an order", limit=1) == ["get_order"]
        assert await found(house, "weather") == []
        assert len(await found(house, "")) == 4
        answer = await house.seen.call("search_tools", query="mail")
        (mail,) = value_of(answer)["tools"]
        assert mail["description"] == "Sends a mail to somebody."
        assert mail["inputSchema"]["required"] == ["to"]
        assert await house.events() == []


@pytest.mark.parametrize("client", MODES)
async def test_call_tool_answers_and_records_as_the_tool_itself(tmp_path: Path, client: str) -> None:
    """Answers, errors, refusals and events are equal, whether a tool is called by its name or through `call_tool`."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_order", {"order_id": "W1"}),
        ("get_order", {"order_id": "gone"}),
        ("get_order", {"nonsense": 1}),
        ("pay", {"to": "eve"}),
        ("send_mail", {"to": "eve"}),
    ]
    async with open_house(tmp_path, "search", client=client, policy=DENY) as house:
        for name, arguments in calls:
            direct = await house.seen.call(name, **arguments)
            through = await called(house, name, **arguments)
            assert (through.is_error, code_of(through)) == (direct.is_error, code_of(direct))
            assert (through.structured_content, text_of(through)) == (direct.structured_content, text_of(direct))
        assert house.shop.paid == ["mail eve", "mail eve"]
        events = await house.events()
        kept = [(event.tool_id, event.input_params, event.raised, event.parent_event_id) for event in events]
        assert kept[0::2] == kept[1::2]
        assert [tool_id for tool_id, *_ in kept[0::2]] == [name for name, _ in calls]


async def test_a_key_runs_a_call_once_on_either_way(tmp_path: Path) -> None:
    """Under one key a write happens once, whether it is sent through `call_tool` or by the tool's own name."""
    meta = {"twinraven/idempotency_key": "k1"}
    async with open_house(tmp_path, "search") as house:
        arguments = {"name": "pay", "arguments": {"to": "bob"}}
        first = await house.seen.client.call_tool("call_tool", arguments, meta=meta)  # pyright: ignore[reportArgumentType]
        again = await house.seen.call("pay", meta=meta, to="bob")
        assert house.shop.paid == ["bob"]
        assert first.structured_content == again.structured_content


async def test_what_cannot_be_called_is_said_to_the_model(tmp_path: Path) -> None:
    """An unknown name, and arguments that are none, are answers with a code and the field, not protocol errors."""
    async with open_house(tmp_path, "search") as house:
        unknown = await called(house, "get_ordre")
        assert code_of(unknown) == "NOT_FOUND"
        assert "get_order" in text_of(unknown)
        for name, wrong in WRONG:
            assert code_of(await house.seen.call(name, None, **wrong)) == "VALIDATION_FAILED"
        assert house.shop.paid == []


@pytest.mark.parametrize("mode", ["search", "code"])
@pytest.mark.parametrize("client", MODES)
async def test_a_learned_tool_is_found_first_though_the_list_stays(tmp_path: Path, mode: str, client: str) -> None:
    """A promotion changes no list, so nobody is told; a search finds the learned tool ahead of its parts."""
    async with open_house(tmp_path, mode, client=client) as house:
        before = await house.seen.names()
        assert "customer_orders" not in await found(house, "what the agent does with orders every time")
        steps = [StepDefinition(0, "list_orders", {"customer": "$.parameters.q"})]
        steps.append(StepDefinition(1, "list_orders", {"customer": "$.parameters.q"}))
        await promote_tool(house.raven, *steps, tool_id="customer_orders")
        await house.raven.learned.refresh("default")

        async def is_found() -> bool:
            return "customer_orders" in await found(house, "customer orders")

        await until(is_found)
        assert (await found(house, "customer orders"))[0] == "customer_orders"
        assert await house.seen.names() == before
        assert house.seen.news == []


def test_a_mode_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """The settings name the key and what it may be."""
    (tmp_path / "twinraven.yaml").write_text("gateway: {mode: magic}")
    with pytest.raises(InvalidSetting, match=r"gateway\.mode") as refused:
        load_settings(tmp_path / ".twinraven", env={})
    assert "search" in refused.value.message
