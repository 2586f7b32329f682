"""Settings of memory and mining act at the doors that are not commands over the log: REST, spans and Parquet files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.desk import Desk, Step, customer_steps
from tests.api_homes import ApiHome, api_home
from twinraven import tool

TOKEN = "q8Zr3vT1xY7bN5mK2pL9sD4fG6hJ0aQwE8uR"
WORDS = "long " * 80


@tool(effect="read")
def find_note(key: str) -> dict[str, Any]:
    """Find a note."""
    return {"key": key, "text": WORDS}


def span(output: dict[str, Any]) -> dict[str, Any]:
    """What an exporter sends of one call."""
    stated = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_note",
        "gen_ai.tool.call.arguments": json.dumps({"key": TOKEN}),
        "gen_ai.tool.call.result": json.dumps(output),
        "gen_ai.conversation.id": "by-span",
    }
    body = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": f"{1:016x}",
        "name": "execute_tool find_note",
        "startTimeUnixNano": "1760000000000000000",
        "endTimeUnixNano": "1760000000250000000",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in stated.items()],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [body]}]}]}


async def recorded(home: ApiHome) -> list[dict[str, Any]]:
    """The event of a call over REST, and the event of a span."""
    called = {"tool_name": "find_note", "payload": {"key": TOKEN}, "session_id": "by-rest"}
    assert (await home.door.post("/v1/calls", called)).status == 200
    assert (await home.door.post("/v1/traces", span({"key": TOKEN, "text": WORDS}))).status == 200
    found: list[dict[str, Any]] = []
    for session in ("by-rest", "by-span"):
        (event,) = (await home.door.get(f"/v1/events?session_id={session}")).json()["items"]
        found.append(event)
    return found


@pytest.mark.req("TR-10", "TR-26")
@pytest.mark.parametrize(
    ("settings", "hidden", "kept", "longest"),
    [
        ({}, False, True, None),
        ({"redact_high_entropy": True, "store_outputs": False, "summary_chars": 60}, True, False, 60),
        ({"summaries": "off"}, False, True, 0),
    ],
)
async def test_memory_keeps_what_the_settings_say_at_every_door(
    tmp_path: Path, settings: dict[str, Any], *, hidden: bool, kept: bool, longest: int | None
) -> None:
    """A call over REST and a span are redacted, summarised and kept alike, by the settings of `muninn:`."""
    async with api_home(tmp_path, functions=[find_note], muninn=settings) as home:
        for event in await recorded(home):
            assert (TOKEN in json.dumps(event)) is not hidden
            assert (event["output_hash"] is not None) is kept
            summary = event["output_summary"]
            assert (summary is None) is (longest == 0)
            assert summary is None or 20 < len(summary) <= (longest or 10_000)


@pytest.mark.req("TR-26")
def test_files_are_mined_by_the_settings_of_the_home(tmp_path: Path) -> None:
    """Support, lengths and the idle gap of the settings decide which chains of a Parquet file `mine` finds."""
    desk = Desk(tmp_path)
    slow = [Step("get_balance", {"account": "x"}, {}), Step("find_customer", {"email": "x"}, {}, gap_s=100)]
    desk.record_all([*((f"s{number}", customer_steps(number)) for number in range(9)), ("t1", slow), ("t2", slow)])
    file = str(tmp_path / "events.parquet")
    desk.run("export", "parquet", file)
    pairs = {("find_customer", "load_customer"), ("load_customer", "get_balance")}
    whole, late = ("find_customer", "load_customer", "get_balance"), ("get_balance", "find_customer")
    low = {"min_sessions": 2, "min_support": 0.01}
    for mining, muninn, expected in (
        (low, {}, {*pairs, whole, late}),
        (low, {"session_idle_gap_s": 50}, {*pairs, whole}),
        ({**low, "min_support": 0.5}, {}, {*pairs, whole}),
        ({**low, "min_sessions": 3, "max_length": 2}, {}, pairs),
        ({**low, "min_length": 3}, {}, {whole}),
    ):
        desk.configure(mining=mining, muninn=muninn)
        assert set(desk.mine(file)) == expected, (mining, muninn)
