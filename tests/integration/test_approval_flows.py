"""Approval of composites: asked before the first step, for all of it, and for nothing that changed since."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.approving import BOB, House, code
from twinraven.calls import CallContext, Grant, SkillInvocationRequest
from twinraven.muninn import EventFilter, SqlEventStore
from twinraven.storage import Database

ORDER = {"order": "$.parameters.order"}


@pytest.fixture
def house(sqlite_database: Database, tmp_path: Path) -> Generator[House]:
    house = House(sqlite_database, tmp_path)
    yield house
    house.collector.close()


async def called(house: House) -> list[str]:
    """The tools of events that are no composite's."""
    events = await SqlEventStore(house.database).events("default", EventFilter())
    return [event.tool_id for event in events if event.tool_id != "composite"]


async def test_a_composite_asks_once_before_its_first_step(house: House) -> None:
    """No step runs before the grant; with it all do, also the one policy asks about, and no other request is made."""
    house.offer("look_up", "refund", look_up=ORDER, refund=ORDER)
    approval = await house.pending("composite", order=7)
    assert (approval.tool_id, approval.covers, await called(house)) == ("composite", ("refund",), [])
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    assert (await house.ask("composite", order=7)).status == "success"
    assert (house.desk.refunded, len(await house.approvals.list("default"))) == ([7], 1)
    intended = await house.entries("call.intended")
    assert {entry.data["tool_id"] for entry in intended} == {"composite", "refund"}
    assert {entry.data["approval"]["granted_by"] for entry in intended} == {"bob"}


@pytest.mark.req("CH-10")
async def test_a_composite_of_reads_is_asked_about_by_what_it_reads(house: House) -> None:
    """A gated read inside is covered by the grant and leaves its evidence."""
    house.offer("look_up", "read_file", look_up=ORDER, read_file={"person": "eve"})
    approval = await house.pending("composite", None, order=7)
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    assert (await house.ask("composite", None, order=7)).status == "success"
    (entry,) = await house.entries("call.read")
    assert (entry.data["tool_id"], entry.data["approval"]["approval_id"]) == ("read_file", approval.approval_id)


async def test_a_composite_inside_a_composite_is_covered(house: House) -> None:
    """What is asked about any number of levels down is asked for at the top."""
    house.offer("look_up", "refund", tool_id="inner", look_up=ORDER, refund=ORDER)
    house.offer("look_up", "inner", look_up=ORDER, inner=ORDER)
    approval = await house.pending("composite", order=7)
    assert approval.covers == ("refund",)
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    assert (await house.ask("composite", order=7)).status == "success"
    assert house.desk.refunded == [7]


async def test_a_grant_is_not_for_what_the_composite_became(house: House) -> None:
    """Where another gated tool came in since it was asked for, it must be asked for again."""
    house.offer("look_up", "refund", look_up=ORDER, refund=ORDER)
    approval = await house.pending("composite", order=7)
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    house.offer("read_file", "refund", read_file={"person": "eve"}, refund=ORDER)
    other = await house.pending("composite", order=7)
    assert (other.covers, house.desk.refunded) == (("read_file", "refund"), [])


async def test_what_is_denied_stays_denied_inside_an_approved_composite(house: House) -> None:
    """A grant answers what policy asks; it does not overrule what policy forbids."""
    house.offer("refund", "wipe", refund=ORDER)
    approval = await house.pending("composite", order=7)
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    response = await house.ask("composite", order=7)
    assert code(response) == "POLICY_VIOLATION"
    assert house.desk.refunded == [7]
    (refused,) = await house.entries("policy.refused")
    assert refused.data["tool_id"] == "wipe"


@pytest.mark.parametrize("covered", [None, "look_up", "refund"])
async def test_inside_a_composite_nothing_is_asked_and_only_what_was_granted_goes_on(
    house: House, covered: str | None
) -> None:
    """A step that policy asks about runs under a grant that covers it; else it is refused, and nobody is asked."""
    grant = None
    if covered is not None:
        seen = {"refund": house.catalog.find("default", "refund").fingerprint}
        grant = Grant("a" * 32, "outer", frozenset({covered}), "ada", granted_by="bob", definitions=seen)
    request = SkillInvocationRequest("refund", {"order": 7}, idempotency_key="outer:0")
    response = await house.calls.invoke(request, CallContext("s", caller="ada", is_inner=True, grant=grant))
    assert code(response) == (None if covered == "refund" else "POLICY_VIOLATION")
    assert house.desk.refunded == ([7] if covered == "refund" else [])
    assert await house.approvals.list("default") == ()
