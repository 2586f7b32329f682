"""Approvals on both stores: asked once, decided once, spent on one effect, and never forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.approving import ADA, BOB, ROOT, TTL_S, House, code
from twinraven.calls import Approval
from twinraven.foundation.errors import AppendOnly, IllegalTransition, InvalidInput, NotFound, PolicyViolation
from twinraven.muninn import EventFilter, SqlEventStore
from twinraven.storage import Database
from twinraven.tenancy import Principal

pytestmark = pytest.mark.tenants("other")


@pytest.fixture
def house(database: Database, tmp_path: Path) -> Generator[House]:
    house = House(database, tmp_path)
    yield house
    house.collector.close()


@pytest.mark.req("CH-16", "CH-21")
async def test_a_granted_call_runs_once(house: House) -> None:
    """Pending as long as nobody decided, then one effect, then the first answer for whoever repeats it."""
    approval = await house.pending()
    assert (await house.pending()).approval_id == approval.approval_id
    assert house.desk.refunded == []
    granted = await house.approvals.grant("default", approval.approval_id, by=BOB, note="checked")
    assert (approval.state, granted.state, granted.decided_by, granted.note) == ("pending", "granted", "bob", "checked")
    first, again = await house.ask(), await house.ask()
    assert (first.status, first.replayed, again.replayed, again.output) == ("success", False, True, first.output)
    assert house.desk.refunded == [7]
    assert (await house.approvals.get("default", approval.approval_id)).state == "used"


@pytest.mark.req("CH-21", "CH-22")
async def test_the_audit_log_tells_who_asked_who_allowed_and_by_which_rule(house: House) -> None:
    """Request, decision, intent and result stand in the chain, each naming the approval; polling adds nothing."""
    approval = await house.pending()
    waiting = await house.ask()
    assert waiting.error is not None
    assert waiting.error["retryable"] is False
    await house.approvals.grant("default", approval.approval_id, by=BOB, note="receipt seen")
    await house.ask()
    requested, granted, intended, succeeded = await house.entries()
    assert [entry.event_type for entry in (requested, granted, intended, succeeded)] == [
        "approval.requested",
        "approval.granted",
        "call.intended",
        "call.succeeded",
    ]
    assert (requested.subject_id, granted.subject_id) == (approval.approval_id, approval.approval_id)
    assert (requested.actor_id, granted.actor_id, intended.actor_id) == ("ada", "bob", "ada")
    assert (granted.data["requested_by"], granted.data["by_requester"]) == ("ada", False)
    for entry in (intended, succeeded):
        told = entry.data["approval"]
        assert (told["approval_id"], told["requested_by"], told["granted_by"]) == (approval.approval_id, "ada", "bob")
    assert intended.data["policy"]["rule"] == requested.data["policy"]["rule"] == "rules[1]"
    assert {entry.correlation_id for entry in (requested, granted, intended, succeeded)} == {"ticket-9"}
    assert (await house.audit.entry("default", granted.id)).body == {"note": "receipt seen"}
    assert (await house.audit.entry("default", requested.id)).body == {"params": {"order": 7, "amount": 1}}
    assert (await house.audit.verify("default")).ok


@pytest.mark.req("CH-22")
async def test_a_denied_call_stays_denied_and_says_why(house: House) -> None:
    """Whoever repeats it reads the note; each refusal is audited with its code."""
    approval = await house.pending()
    await house.approvals.deny("default", approval.approval_id, by=BOB, note="paid already")
    refused = await house.ask()
    assert refused.error is not None
    assert (refused.error["code"], refused.error["retryable"]) == ("APPROVAL_DENIED", False)
    assert refused.error["details"]["note"] == "paid already"
    (entry,) = await house.entries("policy.refused")
    assert (entry.code, entry.data["tool_id"]) == ("APPROVAL_DENIED", "refund")
    assert house.desk.refunded == []


@pytest.mark.req("CH-16")
@pytest.mark.parametrize("decided", [None, "granted", "used"])
async def test_another_body_under_the_same_key_is_refused(house: House, decided: str | None) -> None:
    """What was approved is these arguments; others under the key are a conflict, asked for or run."""
    approval = await house.pending()
    if decided is not None:
        await house.approvals.grant("default", approval.approval_id, by=BOB)
    if decided == "used":
        await house.ask()
    before = list(house.desk.refunded)
    assert code(await house.ask(order=8)) == "IDEMPOTENCY_CONFLICT"
    assert code(await house.ask("read_file", person="x")) == "IDEMPOTENCY_CONFLICT"
    assert house.desk.refunded == before
    assert len(await house.approvals.list("default")) == 1


@pytest.mark.req("CH-15")
async def test_an_approval_is_for_its_caller_key_and_arguments(house: House) -> None:
    """Somebody else, another key or other arguments need an approval of their own."""
    approval = await house.pending()
    await house.approvals.grant("default", approval.approval_id, by=ROOT)
    others = [
        await house.pending(caller="eve"),
        await house.pending(key="k2"),
        await house.pending(key="k3", order=8),
    ]
    assert len({approval.approval_id, *(other.approval_id for other in others)}) == 4
    assert house.desk.refunded == []


@pytest.mark.req("CH-16")
async def test_a_call_without_a_key_of_its_own_finds_its_request_again(house: House) -> None:
    """However often it is made it waits under one key; granted, one of them runs, and the next is a new request."""
    first = await house.pending(key=None, spare="s1")
    assert (await house.pending(key=None, spare="s2")).approval_id == first.approval_id
    assert (await house.pending(key=first.idempotency_key)).approval_id == first.approval_id
    await house.approvals.grant("default", first.approval_id, by=BOB)
    assert (await house.ask(key=None, spare="s3")).status == "success"
    assert (await house.ask(key=first.idempotency_key)).replayed
    assert (await house.ask(key=None, spare=first.idempotency_key)).replayed
    assert house.desk.refunded == [7]
    assert (await house.pending(key=None, spare="s4")).approval_id != first.approval_id
    assert house.desk.refunded == [7]


async def test_a_read_that_policy_asks_about_waits_too(house: House) -> None:
    """It needs no key; each grant is good for one reading."""
    approval = await house.pending("read_file", None, person="eve")
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    assert (await house.ask("read_file", None, person="eve")).output == "all about eve"
    await house.pending("read_file", None, person="eve")


async def test_an_effect_that_did_not_happen_leaves_the_grant(house: House) -> None:
    """After a failure that may be tried again the approval is unspent; time ends it."""
    approval = await house.pending()
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    house.desk.is_down = True
    assert code(await house.ask()) == "TOOL_UNAVAILABLE"
    assert (await house.approvals.get("default", approval.approval_id)).state == "granted"
    house.desk.is_down = False
    house.pass_s(TTL_S)
    assert (await house.approvals.get("default", approval.approval_id)).state == "expired"
    assert (await house.pending()).approval_id != approval.approval_id
    assert house.desk.refunded == []


@pytest.mark.req("CH-20")
async def test_what_is_over_cannot_be_decided(house: House) -> None:
    """Granted, denied, used and expired requests refuse every further decision and say what they are."""
    granted, denied, used, expired = [await house.pending(key=name, order=1) for name in "abcd"]
    await house.approvals.grant("default", granted.approval_id, by=BOB)
    await house.approvals.deny("default", denied.approval_id, by=BOB)
    await house.approvals.grant("default", used.approval_id, by=BOB)
    await house.ask(key="c", order=1)
    await _refuse_decisions(house, {"granted": granted, "denied": denied, "used": used})
    house.pass_s(TTL_S)
    await _refuse_decisions(house, {"expired": expired})
    by_state = {state: await house.approvals.list("default", state=state) for state in ("expired", "denied", "used")}
    assert {state: len(found) for state, found in by_state.items()} == {"expired": 2, "denied": 1, "used": 1}


async def _refuse_decisions(house: House, approvals: dict[str, Approval]) -> None:
    for state, approval in approvals.items():
        for decide in (house.approvals.grant, house.approvals.deny):
            with pytest.raises(IllegalTransition) as caught:
                await decide("default", approval.approval_id, by=BOB)
            assert caught.value.details["state"] == state


async def test_of_two_who_decide_at_once_one_is_told_that_it_is_decided(house: House) -> None:
    """Grant and deny at the same moment: one holds, the others are refused, and the log has one decision."""
    approval = await house.pending()
    deciding = [
        decide("default", approval.approval_id, by=BOB) for decide in (house.approvals.grant, house.approvals.deny) * 4
    ]
    results = await asyncio.gather(*deciding, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Approval"] + ["IllegalTransition"] * 7
    (decision,) = await house.entries("approval.granted", "approval.denied")
    held = await house.approvals.get("default", approval.approval_id)
    assert decision.event_type == f"approval.{held.state}"


@pytest.mark.req("CH-16")
@pytest.mark.parametrize("key", ["k", None])
async def test_racing_callers_ask_once_and_pay_once(house: House, key: str | None) -> None:
    """Whoever makes the same call at the same time shares one request, and the grant is spent once."""
    asked = await asyncio.gather(*(house.ask(key=key, spare=f"s{number}") for number in range(8)))
    assert {code(response) for response in asked} == {"APPROVAL_PENDING"}
    (approval,) = await house.approvals.list("default")
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    await asyncio.gather(*(house.ask(key=key, spare=f"t{number}") for number in range(8)))
    assert house.desk.refunded == [7]


async def test_nobody_grants_their_own_request_but_an_administrator(house: House) -> None:
    """A member can withdraw what they asked for and not allow it; an administrator can, and the log says so."""
    first, second = await house.pending(key="a"), await house.pending(key="b")
    with pytest.raises(PolicyViolation):
        await house.approvals.grant("default", first.approval_id, by=ADA)
    assert (await house.approvals.get("default", first.approval_id)).state == "pending"
    assert (await house.approvals.deny("default", first.approval_id, by=ADA)).state == "denied"
    await house.approvals.grant("default", second.approval_id, by=Principal("default", "ada", "admin"))
    (entry,) = await house.entries("approval.granted")
    assert (entry.data["by_requester"], entry.data["role"]) == (True, "admin")


async def test_another_tenants_approval_is_not_there(house: House) -> None:
    """Reading, deciding and paging with another tenant's id gives the answer of an id that never was."""
    mine = await house.pending()
    theirs = await house.pending(tenant="other")
    stranger = Principal("other", "mallory", "admin")
    for unknown in (theirs.approval_id, "0" * 32):
        attempts: list[Callable[[], Coroutine[Any, Any, object]]] = [
            partial(house.approvals.get, "default", unknown),
            partial(house.approvals.grant, "default", unknown, by=ROOT),
            partial(house.approvals.deny, "default", unknown, by=ROOT),
            partial(house.approvals.list, "default", older_than=unknown),
        ]
        for attempt in attempts:
            with pytest.raises(NotFound) as refused:
                await attempt()
            assert refused.value.message == f"no approval '{unknown}'"
    with pytest.raises(NotFound) as refused:
        await house.approvals.grant("default", mine.approval_id, by=stranger)
    assert refused.value.message == f"no approval '{mine.approval_id}'"
    assert [one.approval_id for one in await house.approvals.list("default")] == [mine.approval_id]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE approvals SET expires_at = expires_at + 1",
        "DELETE FROM approvals",
        "UPDATE approval_decisions SET verdict = 'granted'",
        "DELETE FROM approval_decisions",
    ],
)
async def test_the_database_refuses_to_change_requests_and_decisions(house: House, statement: str) -> None:
    """Neither a request nor a decision can be edited or removed."""
    approval = await house.pending()
    await house.approvals.deny("default", approval.approval_id, by=BOB)
    with pytest.raises(AppendOnly):
        await house.database.write("default", lambda tx: tx.execute(statement))


async def test_the_listing_is_paged_and_its_words_are_checked(house: House) -> None:
    """The newest come first, a page goes on after its last one, and what is not a state is refused by name."""
    made: list[str] = []
    for number in range(5):
        made.insert(0, (await house.pending(key=f"k{number}", order=number)).approval_id)
        house.pass_s(1)
    first = await house.approvals.list("default", limit=2)
    rest = await house.approvals.list("default", older_than=first[-1].approval_id)
    assert [one.approval_id for one in (*first, *rest)] == made
    wrong: list[dict[str, Any]] = [{"state": "open"}, {"limit": 0}]
    for options in wrong:
        with pytest.raises(InvalidInput):
            await house.approvals.list("default", **options)
    with pytest.raises(InvalidInput):
        await house.approvals.grant("default", made[0], by=BOB, note="x" * 2_001)


async def test_an_approval_is_input_from_outside(house: House) -> None:
    """No chain is learned across the moment at which a person said yes."""
    approval = await house.pending()
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    await house.ask()
    events = await SqlEventStore(house.database).events("default", EventFilter())
    assert {event.outside_input for event in events} == {None, "approved by bob"}


@pytest.mark.req("CH-16")
async def test_another_call_under_the_key_does_not_spend_the_approval(house: House) -> None:
    """Where a call that needs no approval took the key first, the approved one is a conflict and stays unspent."""
    approval = await house.pending()
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    assert (await house.ask("look_up")).status == "success"
    assert (await house.approvals.get("default", approval.approval_id)).state == "granted"
    assert code(await house.ask()) == "IDEMPOTENCY_CONFLICT"
    assert house.desk.refunded == []
