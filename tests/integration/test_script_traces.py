"""Scripts that recur over sessions become sessions to learn from, through the log of a real gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.gateway_modes import House, open_house
from twinraven.calls import CallContext
from twinraven.catalog import RUN_CODE
from twinraven.huginn.mining_run import load_columns
from twinraven.huginn.scripts import load_script_traces
from twinraven.huginn.traces import load_traces

SCRIPT = """
found = await list_orders(customer={customer!r})
rows = []
for order in found['orders']:
    rows.append(await get_order(order_id=order['id']))
sum(row['total'] for row in rows)
"""


async def run(house: House, session: str, code: str) -> None:
    await house.raven.calls.call(RUN_CODE, {"code": code}, CallContext(session_id=session))


async def test_a_script_that_recurs_is_a_session_of_its_calls(tmp_path: Path) -> None:
    """Runs with equal skeletons in enough sessions give one trace each: the calls in order, each in its own turn."""
    async with open_house(tmp_path, "code") as house:
        for session, customer in (("s1", "ada"), ("s2", "eve"), ("s3", "bob"), ("s3", "cy")):
            await run(house, session, SCRIPT.format(customer=customer))
        await run(house, "s4", "get_order(order_id='W1')")
        await asyncio.to_thread(house.raven.collector.flush)
        found = await load_script_traces(house.raven.events, "default")
        (script,) = found.scripts
        assert (script.sessions, len(script.runs)) == (3, 4)
        assert script.varying == (0,)
        assert len(found.sessions) == 4
        for trace in found.sessions:
            assert [call.tool_id for call in trace.calls] == ["list_orders", *["get_order"] * 3]
            assert [call.turn for call in trace.calls] == [1, 2, 3, 4]
            assert trace.calls[0].params["customer"] in (trace.calls[0].outside_input or "")
            assert [call.outside_input for call in trace.calls[1:]] == [None] * 3
            orders = [order["id"] for order in trace.calls[0].output["orders"]]
            assert [call.params["order_id"] for call in trace.calls[1:]] == orders
        assert len({trace.session_id for trace in found.sessions}) == 4
        assert len({trace.task_id for trace in found.sessions}) == 3
        assert (await load_script_traces(house.raven.events, "default", least_sessions=4)).scripts == []


async def test_a_script_is_no_step_and_nothing_is_chained_across_it(tmp_path: Path) -> None:
    """Of a session with a script in its middle, learning reads the agent's own calls, cut where the script was."""
    async with open_house(tmp_path, "code") as house:
        calls, context = house.raven.calls, CallContext(session_id="s1")
        await calls.call("list_orders", {"customer": "ada"}, context)
        await run(house, "s1", "get_order(order_id='W1')")
        await calls.call("get_order", {"order_id": "W1"}, context)
        await calls.call("get_order", {"order_id": "W2"}, context)
        await asyncio.to_thread(house.raven.collector.flush)
        (trace,) = (await load_traces(house.raven.events, "default", idle_gap_s=900)).sessions
        assert [call.tool_id for call in trace.calls] == ["list_orders", "get_order", "get_order"]
        assert [call.outside_input for call in trace.calls] == [None, "", None]
        columns, arrivals = await load_columns(house.raven.events, "default", idle_gap_s=900)
        assert (len(columns), len(arrivals)) == (3, 3)
        assert [bool(cut) for cut in columns.breaks[1:]] == [True, False]
