"""`gateway.mode: code`: scripts whose only powers are tool calls, each judged, keyed and recorded for itself."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from tests.gateway_modes import House, code_of, open_house, text_of, value_of
from tests.gateways import OLD, home_with, http_gateway, open_client, stdio_gateway
from tests.homes import opened_home
from tools.requirements import ROOT
from twinraven.app import open_home
from twinraven.catalog import RUN_CODE
from twinraven.foundation.errors import InvalidSetting
from twinraven.gateway import Gateway
from twinraven.tenancy import LOCAL

SUM = """
import asyncio
found = await list_orders(customer='ada')
rows = await asyncio.gather(*[get_order(order_id=order['id']) for order in found['orders']])
print('rows:', len(rows))
sum(row['total'] for row in rows)
"""
PLAIN = """
found = list_orders(customer='ada')
result = [get_order(order_id=order['id'])['total'] for order in found['orders']]
"""


@pytest.mark.parametrize("client", ["auto", "legacy"])
async def test_a_script_calls_tools_and_answers_with_its_last_value(tmp_path: Path, client: str) -> None:
    """With and without `await`, one by one and at once, by function and by name; prints are kept."""
    async with open_house(tmp_path, "code", client=client) as house:
        assert await house.seen.names() == {"search_tools", "run_code"}
        answer = await house.run(SUM)
        assert answer.structured_content == {"result": 15, "printed": "rows: 3\n", "calls": 4}
        assert await house.result(PLAIN) == [5, 5, 5]
        assert await house.result("call_tool('get_order', {'order_id': 'W1'})['total']") == 2
        assert await house.result("get_order({'order_id': 'W1'})['total']") == 2
        assert await house.result("read = get_order\nread(order_id='W1')['total']") == 2
        assert await house.result("search_tools('mail')['tools'][0]['function']") == "send_mail"
        assert await house.result("(1, {2: 'x'}, None)") == [1, {"2": "x"}, None]
        assert await house.result("x = 1") is None


async def test_inner_calls_are_recorded_under_the_script(tmp_path: Path) -> None:
    """The log has the script with its text, and each call under its own tool's name with the script as its parent."""
    async with open_house(tmp_path, "code") as house:
        await house.result(PLAIN)
        events = await house.events()
        (script,) = [event for event in events if event.tool_id == RUN_CODE]
        assert script.input_params == {"code": PLAIN}
        inner = [event for event in events if event.tool_id != RUN_CODE]
        assert [event.tool_id for event in inner] == ["list_orders", *["get_order"] * 3]
        assert {event.parent_event_id for event in inner} == {script.event_id}
        assert {event.session_id for event in inner} == {script.session_id}


async def test_calls_that_fail_can_be_caught_by_code(tmp_path: Path) -> None:
    """A call's failure is an exception with code and message in the script; uncaught, it ends the script with both."""
    async with open_house(tmp_path, "code") as house:
        caught = "try:\n    get_order(order_id='gone')\nexcept RuntimeError as error:\n    said = str(error)\nsaid"
        assert str(await house.result(caught)).startswith("TOOL_FAILED: ")
        for call, code in (
            ("get_order(order_id='gone')", "TOOL_FAILED"),
            ("get_order(nonsense=1)", "VALIDATION_FAILED"),
            ("call_tool('nothing', {})", "NOT_FOUND"),
            ("get_order(1, 2)", "VALIDATION_FAILED"),
            ("nothing()", "NameError"),
        ):
            for script in (call, f"await {call}"):
                answer = await house.run(script)
                assert code_of(answer) == "SCRIPT_FAILED"
                assert code in text_of(answer)
        failed = [event.error_code for event in await house.events() if event.tool_id == RUN_CODE]
        assert failed == [None, *["SCRIPT_FAILED"] * 10]


async def test_a_call_that_was_not_awaited_is_made_all_the_same(tmp_path: Path) -> None:
    """A call begins when it is made, and the script's answer waits for it."""
    async with open_house(tmp_path, "code") as house:
        await house.result("order = await get_order(order_id='W1')\npay(to=order['id'])\n1")
        assert house.shop.paid == ["W1"]


async def test_policy_denies_inside_as_outside(tmp_path: Path) -> None:
    """A write that policy forbids is not made from a script either, and the refusal is in the audit chain."""
    rules = {"rules": [{"tool": "pay", "then": "deny", "reason": "no money today"}]}
    async with open_house(tmp_path, "code", policy=rules) as house:
        answer = await house.run("pay(to='eve')")
        assert code_of(answer) == "SCRIPT_FAILED"
        assert answer.meta is not None
        assert answer.meta["twinraven/error"]["details"]["cause"]["code"] == "POLICY_VIOLATION"
        assert house.shop.paid == []
        entries = await house.raven.audit.entries("default")
        assert "policy.refused" in {entry.event_type for entry in entries}


async def test_a_write_that_waits_for_approval_lets_the_script_go_on_later(tmp_path: Path) -> None:
    """The script ends as pending; granted, the same code under the key it was told goes on, and repeats no write."""
    rules = {"rules": [{"tool": "pay", "then": "ask", "reason": "somebody must look"}]}
    code = "send_mail(to='ada')\npay(to='eve')['paid']"
    async with open_house(tmp_path, "code", policy=rules) as house:
        waiting = await house.run(code)
        meta: Any = waiting.meta
        assert waiting.is_error
        assert meta["twinraven/pending"]["tool"] == "pay"
        key = meta["twinraven/idempotency_key"]
        assert repr(key) in text_of(waiting)
        assert house.shop.paid == ["mail ada"]
        (still,) = [(await house.run(code, key=key)).meta]
        assert still is not None
        assert still["twinraven/pending"]["approval_id"] == meta["twinraven/pending"]["approval_id"]
        await house.raven.approvals.grant("default", meta["twinraven/pending"]["approval_id"], by=LOCAL)
        granted = await house.run(code, key=key)
        assert value_of(granted)["result"] == "eve"
        assert house.shop.paid == ["mail ada", "eve"]
        again = await house.run(code, key=key)
        assert again.structured_content == granted.structured_content
        assert house.shop.paid == ["mail ada", "eve"]


async def test_a_script_under_a_key_repeats_no_write(tmp_path: Path) -> None:
    """Under one key the same script answers again without an effect; another script under it is a conflict."""
    code = "[pay(to=name)['paid'] for name in ('a', 'b')]"
    async with open_house(tmp_path, "code") as house:
        first = await house.run(code, key="k1")
        assert first.structured_content == (await house.run(code, key="k1")).structured_content
        assert house.shop.paid == ["a", "b"]
        assert code_of(await house.run("pay(to='c')", key="k1")) == "IDEMPOTENCY_CONFLICT"
        assert code_of(await house.run("1", key="")) == "VALIDATION_FAILED"
        assert house.shop.paid == ["a", "b"]
        await house.run(code)
        assert house.shop.paid == ["a", "b", "a", "b"]


async def test_a_script_that_failed_after_a_write_can_be_run_again_without_it(tmp_path: Path) -> None:
    """The failure names a key; under it the same code finds its write done and makes only what is missing."""
    code = "pay(to='ada')\nget_order(order_id='gone')"
    async with open_house(tmp_path, "code") as house:
        failed: Any = (await house.run(code)).meta
        key = failed["twinraven/error"]["details"]["idempotency_key"]
        assert code_of(await house.run(code, key=key)) == "SCRIPT_FAILED"
        assert house.shop.paid == ["ada"]
        harmless: Any = (await house.run("get_order(order_id='gone')")).meta
        assert "idempotency_key" not in harmless["twinraven/error"]["details"]


async def test_the_example_of_the_how_to_answers_what_the_page_says(tmp_path: Path) -> None:
    """The page's tools, search and script, run as they stand there, give the answers that stand there."""
    page = (ROOT / "docs" / "how-to" / "code-mode.md").read_text(encoding="utf-8")
    tools, script, careful = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found, answer = (json.loads(each) for each in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    (tmp_path / "desk_tools.py").write_text(tools)
    shell = home_with(tmp_path, {}, gateway={"mode": "code"}, tools={"modules": ["desk_tools"]})
    async with open_client(stdio_gateway(shell)) as seen:
        searched = await seen.call("search_tools", query="orders of a customer", limit=1)
        assert searched.structured_content == found
        assert (await seen.call("run_code", code=script)).structured_content == answer
        missing = (await seen.call("run_code", code=careful)).structured_content
        assert missing is not None
        assert missing["result"] == {"missing": "TOOL_FAILED: KeyError: 'W9'"}


async def test_a_script_cannot_run_another(tmp_path: Path) -> None:
    """The tool behind scripts is in no list, and a script that knows its name cannot call it."""
    async with open_house(tmp_path, "code") as house:
        assert RUN_CODE not in [entry.tool_id for entry in house.raven.catalog.entries("default")]
        answer = await house.run(f"call_tool({RUN_CODE!r}, {{'code': '1'}})")
        assert code_of(answer) == "SCRIPT_FAILED"
        assert "cannot run another script" in text_of(answer)


async def test_scripts_run_behind_every_door_with_the_powers_of_their_caller(tmp_path: Path) -> None:
    """On stdio and on HTTP a script calls a server's tool; a key of another tenant neither finds nor reaches it."""
    shell = home_with(tmp_path, {"old": OLD}, gateway={"mode": "code"})
    code = "await old__echo(text='hi')"
    async with open_client(stdio_gateway(shell)) as seen:
        assert not (await seen.call("run_code", code=code)).is_error
    with open_home(tmp_path / ".twinraven") as raven:
        tenant = await raven.tenancy.create_tenant("other")
        user = await raven.tenancy.add_user(tenant.tenant_id, "stranger")
        issued = await raven.tenancy.issue_key(tenant.tenant_id, user.user_id, label="agent")
    with http_gateway(shell) as address:
        async with open_client(f"{address}/mcp", mode="legacy") as seen:
            assert not (await seen.call("run_code", code=code)).is_error
        keyed = httpx2.AsyncClient(headers={"Authorization": f"Bearer {issued.clear}"}, timeout=90)
        way = streamable_http_client(f"{address}/mcp", http_client=keyed)
        async with keyed, open_client(way, mode="legacy") as stranger:
            found = await stranger.call("search_tools", query="")
            assert value_of(found)["tools"] == []
            assert "NameError" in text_of(await stranger.call("run_code", code=code))
            by_name = "call_tool('old__echo', {'text': 'hi'})"
            assert "NOT_FOUND" in text_of(await stranger.call("run_code", code=by_name))


def no_module(name: str) -> None:
    """What is found of a module that is not installed."""
    del name


def test_without_the_sandbox_the_mode_is_refused_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is missing, opening the gateway names the setting and what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", no_module)
    with opened_home(tmp_path, gateway={"mode": "code"}) as raven, pytest.raises(InvalidSetting) as refused:
        Gateway(raven)
    assert refused.value.details["field"] == "gateway.mode"
    assert "twinraven[code]" in refused.value.details["fix"]


async def answered_meanwhile(house: House, script: str) -> int:
    """How many other scripts were answered while this one ran."""
    running = asyncio.ensure_future(house.run(script))
    count = 0
    while not running.done():
        await house.result("get_order(order_id='W1')['total']")
        count += 1
    assert code_of(running.result()) == "SCRIPT_STOPPED"
    return count


async def test_the_gateway_answers_while_a_script_computes_without_end(tmp_path: Path) -> None:
    """A script that never ends keeps neither the loop nor another script from being served."""
    async with open_house(tmp_path, "code", code={"max_cpu_seconds": 2.0}) as house:
        assert await answered_meanwhile(house, "while True: pass") >= 3
