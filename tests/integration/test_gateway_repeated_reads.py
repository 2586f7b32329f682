"""`gateway.repeat_reads_s`: a session's repeated read is answered from its own record, while nothing was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway_modes import House, code_of, open_house, value_of
from twinraven.calls import CallContext
from twinraven.huginn import load_traces

LONG = 3_600.0
CACHED = "twinraven/cached"
ONE = {"conversation_id": "one"}
DENY = {"rules": [{"tool": "get_order", "then": "deny", "reason": "no orders today"}]}


async def read(house: House, order_id: str = "A1", meta: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Read an order; what the answer says of its age, or None where the tool was asked."""
    answer = await house.seen.call("get_order", meta=meta or ONE, order_id=order_id)
    assert value_of(answer) == {"id": order_id, "total": len(order_id)}
    return (answer.meta or {}).get(CACHED)


@pytest.mark.req("TR-08")
@pytest.mark.parametrize("client", ["auto", "legacy"])
async def test_a_repeated_read_is_answered_from_the_record(tmp_path: Path, client: str) -> None:
    """The tool is asked once; the second answer is the same, says its age, and its event is tagged."""
    async with open_house(tmp_path, "tools", client=client, repeat_reads_s=LONG) as house:
        assert await read(house) is None
        about = await read(house)
        assert house.shop.read == ["A1"]
        first, second = await house.events()
        assert about is not None
        assert about["event_id"] == str(first.event_id)
        assert 0 <= about["age_s"] < LONG
        assert ("cached-result" in first.tags, "cached-result" in second.tags) == (False, True)
        assert second.output_hash == first.output_hash


async def test_it_is_off_unless_asked_for(tmp_path: Path) -> None:
    """Without the setting every read is made."""
    async with open_house(tmp_path, "tools") as house:
        assert [await read(house), await read(house)] == [None, None]
        assert house.shop.read == ["A1", "A1"]


async def test_only_the_same_read_of_the_same_session_counts(tmp_path: Path) -> None:
    """Other arguments, and the same read in another conversation, are made."""
    async with open_house(tmp_path, "tools", repeat_reads_s=LONG) as house:
        await read(house)
        assert await read(house, "B2") is None
        assert await read(house, meta={"conversation_id": "two"}) is None
        assert house.shop.read == ["A1", "B2", "A1"]


async def test_a_write_in_the_session_ends_it(tmp_path: Path) -> None:
    """After a write of the session, by any door, the read is made again; a write of another session changes nothing."""
    async with open_house(tmp_path, "tools", repeat_reads_s=LONG) as house:
        await read(house)
        await house.seen.call("pay", meta={"conversation_id": "two"}, to="eve")
        assert await read(house) is not None
        await house.seen.call("pay", meta=ONE, to="eve")
        assert await read(house) is None
        assert await read(house) is not None
        (session,) = {event.session_id for event in await house.events() if event.session_id.endswith("-one")}
        await house.raven.calls.call("pay", {"to": "bob"}, CallContext(session_id=session))
        assert await read(house) is None


async def test_an_old_answer_is_not_given_again(tmp_path: Path) -> None:
    """What is older than the setting is asked for anew."""
    async with open_house(tmp_path, "tools", repeat_reads_s=0.0001) as house:
        assert [await read(house), await read(house)] == [None, None]


async def test_failures_and_refusals_are_not_remembered(tmp_path: Path) -> None:
    """A read that failed is made again, and one that policy denies is denied each time."""
    async with open_house(tmp_path / "open", "tools", repeat_reads_s=LONG) as house:
        for _ in range(2):
            assert code_of(await house.seen.call("get_order", meta=ONE, order_id="gone")) == "TOOL_FAILED"
        assert house.shop.read == ["gone", "gone"]
    async with open_house(tmp_path / "shut", "tools", repeat_reads_s=LONG, policy=DENY) as house:
        for _ in range(2):
            assert code_of(await house.seen.call("get_order", meta=ONE, order_id="A1")) == "POLICY_VIOLATION"


async def test_learning_takes_it_for_a_repeat(tmp_path: Path) -> None:
    """A repeat from the record is the same call to learning, and no turn that a tool could save."""
    async with open_house(tmp_path, "tools", repeat_reads_s=LONG) as house:
        for _ in range(3):
            await read(house)
        await house.events()
        (session,) = (await load_traces(house.raven.events, "default", idle_gap_s=600)).sessions
        assert len({call.key for call in session.calls}) == 1
