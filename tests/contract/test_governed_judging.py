"""Results are held against checks: approved, sent back with what is to be done, or shown to a person."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import login_of
from tests.governing import AGENT, MEMBER, Governed, costly, decision, draft, governed, outside, result
from twinraven.foundation.errors import Conflict, IllegalTransition, PolicyViolation, StaleState, ToolUnavailable
from twinraven.governance import Money, OutgoingContent, TaskDetail
from twinraven.tenancy import LOCAL, Principal

CHECKS = [
    {"check": "no-promises", "text": "guaranteed (profit|returns)", "then": "reject", "action": "edit"},
    {"check": "sure-enough", "confidence_below": 0.5, "then": "escalate", "reason": "the worker is not sure"},
    {"check": "long", "text": "very, very long", "then": "warn"},
]


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, postgres=login_of(request), policy={"checks": CHECKS}) as made:
        yield made


@pytest.fixture
async def small(tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, policy={"checks": CHECKS}) as made:
        yield made


async def escalated(house: Governed, name: str = "unsure") -> TaskDetail:
    """A task whose result waits for a person."""
    house.studio.answers.append({"url": "https://x", "text": "hm", "confidence_score": 0.2})
    (task,) = await house.plan(draft(name))
    await house.work()
    return await house.task(task)


@pytest.mark.req("CH-07")
async def test_rejected_work_comes_back_with_what_is_to_be_done(house: Governed) -> None:
    """A check that fires rejects; the next attempts are told the required action until one ends; what passes is
    approved."""
    house.studio.answers += [{"url": "https://x", "text": "guaranteed profit"}, {"url": "https://x", "text": "fair"}]
    (task,) = await house.plan(draft(retry_policy={"max_attempts": 3, "backoff_strategy": "none"}))
    house.studio.failures_later[1] = ToolUnavailable("not now")
    await house.work()
    found = await house.task(task)
    assert [each.decision for each in found.decisions] == ["reject", "approve"]
    first = found.decisions[0]
    assert {check.check_id: check.result for check in first.policy_checks if check.is_open} == {"no-promises": "fail"}
    assert [each["action"] for each in first.required_actions] == ["edit"]
    assert house.studio.asked[1:] == [("spring", list(first.required_actions))] * 2
    assert [run.attempt_number for run in found.runs] == [1, 2, 3]
    assert (found.task.status, found.task.attempts) == ("complete", 3)
    assert (await house.raven.campaigns.goal("default", house.goal.goal_id)).status == "complete"


@pytest.mark.req("CH-07")
async def test_a_rejected_plan_is_told_what_is_to_be_done(small: Governed) -> None:
    """Each tool of a plan that takes required actions is given them at the next attempt, over what its step states."""
    small.studio.answers += [{"text": "guaranteed profit"}, {"text": "fair"}]
    steps = [{"step_id": "1", "description": "d", "tool": "draft", "arguments": {"topic": "spring"}}]
    criteria = [{"id": "any", "description": "something", "check": "exists($.output)"}]
    planned = {"run": {"plan": "write"}, "inputs": {"plan": {"goal": "write", "steps": steps}}}
    (task,) = await small.plan({**draft(acceptance_criteria=criteria), **planned})
    await small.work()
    found = await small.task(task)
    assert [each.decision for each in found.decisions] == ["reject", "approve"]
    assert small.studio.asked == [("spring", None), ("spring", list(found.decisions[0].required_actions))]
    assert small.studio.asked[1][1][0]["action"] == "edit"


@pytest.mark.req("CH-03", "CH-07", "CH-11", "CH-22")
async def test_a_person_overrides_with_a_reason(house: Governed) -> None:
    """What is escalated waits for a person; approval of an open check needs an override, from someone who may."""
    found = await escalated(house)
    asked = found.decisions[-1]
    assert (asked.decision, asked.human_review["status"], found.task.status) == ("escalate", "pending", "escalated")
    assert (found.results[0].confidence_score, asked.confidence_score) == (0.2, 0.2)
    assert [each.decision_id for each in await house.raven.judge.escalated("default")] == [asked.decision_id]
    path = f"/v1/decisions/{asked.decision_id}/resolve"
    plain = await house.door.post(path, {"decision": "approve", "reason": "fine"})
    assert (plain.status, plain.json()["code"], plain.json()["retryable"]) == (
        403,
        "POLICY_VIOLATION",
        False,
    )
    robot = Principal("default", "robot", "approver", kind="agent")
    for who in (AGENT, MEMBER, robot):
        with pytest.raises(PolicyViolation, match="administrator or an approver"):
            await house.raven.judge.resolve(asked.decision_id, "approve", reason="x", by=who, override=True)
    done = (await house.door.post(path, {"decision": "approve", "reason": "legal saw it", "override": True})).json()
    assert (done["round"], done["override_reason"], done["human_review"]["status"]) == (2, "legal saw it", "completed")
    assert (await house.task(found.task)).task.status == "complete"
    stored = "SELECT open_checks FROM judge_decisions WHERE tenant_id = 'default' ORDER BY round"
    kept = await house.raven.database.read("default", lambda tx: tx.fetch_all(stored))
    assert [row["open_checks"] for row in kept] == [1, 1]
    refused = await house.entries("decision.refused")
    assert [each.code for each in refused] == ["POLICY_VIOLATION"] * 4
    assert {each.data["task_id"] for each in refused} == {found.task.task_id}
    assert all(each.data["campaign_id"] and each.data["goal_id"] and each.message for each in refused)
    await _refusals_of_work_are_audited(house, found)


async def _refusals_of_work_are_audited(house: Governed, judged: TaskDetail) -> None:
    """A member's claim, report, decision and change that are refused leave entries that name the whole lineage."""
    over = {"time_window": {"end": "2026-01-01T00:00:00Z"}}
    (late,), (failing,) = [
        await house.plan(outside(name, **more)) for name, more in (("late", {"constraints": over}), ("failing", {}))
    ]
    for attempt in (
        house.raven.attempts.claim(late.task_id, by=MEMBER),
        house.raven.judge.decide(decision(await house.task(judged.task), "reject"), by=MEMBER),
        house.raven.tasks.cancel(late.task_id, by=MEMBER, state_version=1),
    ):
        with pytest.raises(PolicyViolation):
            await attempt
    broken = result(failing) | {"status": "failed", "error": PolicyViolation("no").as_json()}
    await house.raven.attempts.submit(broken, by=MEMBER)
    lineage = {"tenant_id": "default", "campaign_id": late.campaign_id, "goal_id": late.goal_id}
    for event, task in (
        ("task.claim.refused", late),
        ("decision.refused", judged.task),
        ("task.refused", late),
        ("result.failed", failing),
    ):
        entry = (await house.entries(event))[-1]
        assert (entry.code, bool(entry.message)) == ("POLICY_VIOLATION", True), event
        assert {name: entry.data.get(name) for name in (*lineage, "task_id")} == {**lineage, "task_id": task.task_id}


@pytest.mark.req("CH-07")
async def test_an_outside_approval_is_held_against_the_checks_of_the_house(small: Governed) -> None:
    """A judge outside cannot approve what a mandatory check of the house, or one it brings itself, did not let pass."""
    found = await escalated(small)
    for checks in ([], [{"check_id": "sure-enough", "name": "sure", "result": "pass"}]):
        said = await small.door.post("/v1/decisions", decision(found, policy_checks=checks))
        assert (said.status, said.json()["details"]["checks"]) == (403, ["sure-enough"])
    own = [{"check_id": "tone", "name": "tone", "result": "warning"}]
    (task,) = await small.plan(outside())
    await small.raven.attempts.submit(result(task), by=AGENT)
    brought = decision(await small.task(task), policy_checks=own)
    assert (await small.door.post("/v1/decisions", brought)).json()["details"]["checks"] == ["tone"]
    optional = decision(await small.task(task), policy_checks=[{**own[0], "mandatory": False}])
    assert (await small.door.post("/v1/decisions", optional)).status == 200
    with pytest.raises(PolicyViolation, match="its own result"):
        await small.raven.judge.decide(decision(await small.task(task)), by=AGENT)
    small.studio.answers.append({"url": "https://x", "text": "guaranteed profit"})
    (promised,) = await small.plan(draft("promised", retry_policy={"max_attempts": 1}))
    await small.work()
    rejected = await small.task(promised)
    assert rejected.task.status == "rejected"
    for who in (AGENT, MEMBER):
        with pytest.raises(PolicyViolation, match="an override needs a person who may decide"):
            await small.raven.judge.decide(decision(rejected, override={"reason": "I say so"}), by=who)
    assert (await small.task(promised)).task.status == "rejected"


@pytest.mark.req("CH-08")
async def test_a_decision_on_old_state_is_refused(house: Governed) -> None:
    """A decision that names an older state_version is refused with the current one, audited, and judged anew."""
    (task,) = await house.plan(outside())
    await house.raven.attempts.submit(result(task), by=AGENT)
    seen = await house.task(task)
    old = decision(seen, "reject", state_version=seen.task.state_version - 1)
    refused = await house.door.post("/v1/decisions", old)
    assert (refused.status, refused.json()["code"]) == (412, "OCC_CONFLICT")
    assert refused.json()["details"]["current"] == seen.task.state_version
    assert [each.code for each in await house.entries("decision.refused")] == ["OCC_CONFLICT"]
    assert len((await house.task(task)).decisions) == 1
    anew = await house.door.post(f"/v1/results/{seen.results[0].result_id}/evaluate", {})
    assert (anew.json()["round"], anew.json()["state_version_used"]) == (2, seen.task.state_version)
    now = await house.task(task)
    version = seen.task.state_version
    assert [each.state_version_used for each in now.decisions] == [version - 1, version]
    path = f"/v1/decisions/{now.decisions[-1].decision_id}/resolve"
    word = (await house.door.post(path, {"decision": "reject", "reason": "not yet"})).json()
    assert (word["round"], word["state_version_used"]) == (3, now.task.state_version)


@pytest.mark.req("CH-08")
async def test_the_house_judges_anew_when_state_moves(small: Governed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a task moves while its result is judged, the judgement is drawn again from the state as it is now."""
    found = await escalated(small)
    judge, seen = small.raven.judge, list[int]()
    evaluate = judge._checks.evaluate  # pyright: ignore[reportPrivateUsage]

    async def slowly(subject: Any) -> Any:
        seen.append(subject.task.state_version)
        if len(seen) == 1:
            monkeypatch.setattr(judge._checks, "evaluate", evaluate)  # pyright: ignore
            await judge.decide(decision(found, "escalate"), by=LOCAL)
            monkeypatch.setattr(judge._checks, "evaluate", slowly)  # pyright: ignore
        return await evaluate(subject)

    monkeypatch.setattr(judge._checks, "evaluate", slowly)  # pyright: ignore
    made = await judge.evaluate(found.results[0].result_id, by=LOCAL)
    assert seen == [found.task.state_version, found.task.state_version + 1]
    assert (made.state_version_used, made.round) == (seen[1], 3)
    with pytest.raises(StaleState, match="was replaced by another"):
        await judge.resolve(found.decisions[-1].decision_id, "reject", reason="late", by=LOCAL)
    assert len((await small.task(found.task)).decisions) == 3


@pytest.mark.req("CH-07")
async def test_who_decides_sees_the_checks_of_the_house(tmp_path: Path) -> None:
    """What a judge outside escalates or rejects is shown with the checks of the house, and approved by an override."""
    async with governed(tmp_path, policy={"checks": CHECKS, "judge": "outside"}) as house:
        (task,) = await house.plan(outside())
        told = result(
            task, outputs={"artifacts": [{"artifact_id": "a", "kind": "other", "summary": "guaranteed profit"}]}
        )
        await house.raven.attempts.submit(told, by=AGENT)
        brought = [{"check_id": "tone", "name": "tone", "result": "pass"}]
        said = decision(await house.task(task), "escalate", policy_checks=brought)
        assert (await house.door.post("/v1/decisions", said)).status == 200
        (item,) = (await house.door.get("/v1/inbox")).json()["items"]
        assert [check["check_id"] for check in item["evidence"]["open_checks"]] == ["no-promises"]
        path = f"/v1/decisions/{item['ref']}/resolve"
        plain = await house.door.post(path, {"decision": "approve", "reason": "fine"})
        assert (plain.status, plain.json()["details"]["checks"]) == (403, ["no-promises"])
        meant = {"choice": "approve", "bound_to": item["bound_to"], "note": "legal has seen it"}
        assert (await house.door.post(f"/v1/inbox/{item['item_id']}/decide", meant)).status == 200
        assert (await house.task(task)).decisions[-1].override_reason == "legal has seen it"


@pytest.mark.req("CH-07")
async def test_a_worker_outside_is_told_what_a_judge_asks_for(small: Governed) -> None:
    """Who claims an attempt at a task that was sent back is given the required actions."""
    (task,) = await small.plan(outside())
    path = f"/v1/tasks/{task.task_id}/attempts"
    first = (await small.door.post(path, {})).json()
    assert (first["attempt_number"], first["required_actions"]) == (1, [])
    await small.raven.attempts.submit(result(task), by=LOCAL)
    wanted = [{"action": "rework", "target_artifact_id": None, "notes": "say less"}]
    said = decision(await small.task(task), "reject", required_actions=wanted)
    assert (await small.door.post("/v1/decisions", said)).status == 200
    again = (await small.door.post(path, {})).json()
    assert (again["attempt_number"], again["required_actions"]) == (2, wanted)
    await small.raven.attempts.submit(result(task, 2), by=LOCAL)
    last = (await small.task(task)).decisions[-1].decision_id
    other = [{"action": "explain", "target_artifact_id": None, "notes": "say why"}]
    said = {"decision": "reject", "reason": "not yet", "required_actions": other}
    assert (await small.door.post(f"/v1/decisions/{last}/resolve", said)).status == 200
    assert (await small.door.post(path, {})).json()["required_actions"] == other


@pytest.mark.req("CH-08")
async def test_a_superseded_result_is_not_judged(small: Governed) -> None:
    """A decision about a result that a later attempt replaced is refused and names the later one."""
    (task,) = await small.plan(outside())
    await small.raven.attempts.submit(result(task), by=AGENT)
    first = await small.task(task)
    await small.raven.judge.decide(decision(first, "reject"), by=LOCAL)
    again = decision(first, "reject", state_version=(await small.task(task)).task.state_version)
    with pytest.raises(IllegalTransition, match="while its task is in review"):
        await small.raven.judge.decide(again, by=LOCAL)
    await small.raven.attempts.submit(result(task, 2), by=AGENT)
    late = decision(first, state_version=(await small.task(task)).task.state_version)
    with pytest.raises(Conflict, match="superseded"):
        await small.raven.judge.decide(late, by=LOCAL)


@pytest.mark.req("CH-15", "CH-05")
async def test_the_gate_lets_pass_what_was_approved(small: Governed) -> None:
    """Effects get the decision in force, and a refusal where there is none or the task's limits forbid it."""
    limits = {"channels": ["blog"], "max_budget": "10.00", "currency": "EUR"}
    small.studio.answers.append(costly("4.00"))
    (task,) = await small.plan(draft(constraints=limits))
    read, judge = small.raven.database.read, small.raven.judge

    async def ask(**more: Any) -> Any:
        return await read("default", lambda tx: judge.gate(tx, "default", task.task_id, **more))

    with pytest.raises(PolicyViolation, match="no approval"):
        await ask()
    await small.work()
    found = await small.task(task)
    assert (
        await ask(leaving=OutgoingContent(channel="blog"), amount=Money(600, "EUR"))
    ).decision_id == found.decisions[-1].decision_id
    for more, why in (
        ({"leaving": OutgoingContent(channel="radio")}, "channels do not name"),
        ({"amount": Money(601, "EUR")}, "max_budget"),
        ({"amount": Money(1, "USD")}, "not USD"),
    ):
        with pytest.raises(PolicyViolation, match=why):
            await ask(**more)
    campaign = await small.raven.campaigns.get("default", small.goal.campaign_id)
    await small.raven.campaigns.change(
        campaign.campaign_id, by=LOCAL, state_version=campaign.state_version, status="paused"
    )
    with pytest.raises(PolicyViolation, match="paused"):
        await ask()
    await judge.resolve(found.decisions[-1].decision_id, "reject", reason="withdrawn", by=LOCAL)
    with pytest.raises(PolicyViolation, match="no approval"):
        await ask()


@pytest.mark.req("CH-07")
async def test_what_waited_too_long_has_expired(tmp_path: Path) -> None:
    """An escalated decision that nobody took in time is decided by nobody, and the result can be judged again."""
    async with governed(tmp_path, policy={"checks": CHECKS, "approval_ttl_s": 1}) as house:
        found = await escalated(house)
        house.raven.judge._moves.micros = lambda: 2**52  # pyright: ignore
        assert await house.raven.judge.escalated("default") == ()
        with pytest.raises(IllegalTransition, match="expired"):
            await house.raven.judge.resolve(found.decisions[-1].decision_id, "reject", reason="no", by=LOCAL)


FUNCTIONS = """
import time

def passes(subject):
    return subject["result"]["confidence_score"] >= 0

def says_no(subject):
    return "the word is wrong" if "wrong" in str(subject["result"]["outputs"]) else True

def raises(subject):
    if subject["task"]["spec_json"]["name"] == "raise":
        raise ValueError("broken")

def loops(subject):
    while subject["task"]["spec_json"]["name"] == "loop":
        pass

def babbles(subject):
    print("noise")
    return 7 if subject["task"]["spec_json"]["name"] == "babble" else None
"""


@pytest.mark.req("CH-07")
async def test_a_function_that_errs_or_loops_denies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that are Python functions pass, fail with their words, and deny where they raise, loop or babble."""
    (tmp_path / "house_checks.py").write_text(FUNCTIONS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    names = [f"house_checks:{name}" for name in ("passes", "says_no", "raises", "loops", "babbles")]
    async with governed(tmp_path, policy={"functions": names, "check_timeout_s": 4}) as house:
        house.studio.answers += [{"url": "u", "text": word} for word in ("fine", "fine", "fine", "fine")]
        tasks = await house.plan(*(draft(name) for name in ("fine", "raise", "loop", "babble")))
        await house.work()
        told = {}
        for task in tasks:
            found = (await house.task(task)).decisions[-1]
            told[task.spec_json["name"]] = (
                found.decision,
                [each.check_id for each in found.policy_checks if each.is_open],
            )
        assert told == {
            "fine": ("approve", []),
            "raise": ("escalate", ["house_checks:raises"]),
            "loop": ("escalate", ["house_checks:loops"]),
            "babble": ("escalate", ["house_checks:babbles"]),
        }
        house.studio.answers += [{"url": "u", "text": "wrong"}] * 3
        (bad,) = await house.plan(draft("bad"))
        await house.work()
        assert (await house.task(bad)).task.status == "rejected"


@pytest.mark.req("CH-07", "CH-22")
async def test_what_is_left_to_people_is_decided_by_people(tmp_path: Path) -> None:
    """No agent and no member decides what a judge escalated or a person decided, by an envelope or by asking the house
    to judge anew; each try is audited, and a person who may decide does."""
    judge_bot = Principal("default", "judge-bot", "member", kind="agent")
    async with governed(tmp_path, policy={"judge": "outside"}) as house:
        raven = house.raven
        left, over = await house.plan(outside("left"), outside("over", retry_policy={"max_attempts": 1}))
        for task in (left, over):
            await raven.attempts.submit(result(task), by=AGENT)
        await raven.judge.decide(decision(await house.task(left), "escalate"), by=judge_bot)
        rejected = decision(await house.task(over), "reject")
        assert (await house.door.post("/v1/decisions", rejected)).status == 200
        for task, why in ((left, "waits for a person"), (over, "was decided by a person")):
            found = await house.task(task)
            for attempt in (
                raven.judge.decide(decision(found, "approve"), by=judge_bot),
                raven.judge.decide(decision(found, "reject"), by=MEMBER),
                raven.judge.evaluate(found.results[-1].result_id, by=MEMBER),
            ):
                with pytest.raises(PolicyViolation, match=why):
                    await attempt
            assert (await house.task(task)).task.status == found.task.status
        assert len(await house.entries("decision.refused")) == 6
        path = f"/v1/results/{(await house.task(over)).results[-1].result_id}/evaluate"
        assert (await house.door.post(path, {})).json()["decision"] == "approve"
        assert (await house.door.post("/v1/decisions", decision(await house.task(left)))).status == 200
        assert [(await house.task(task)).task.status for task in (left, over)] == ["complete", "complete"]


@pytest.mark.req("CH-07")
async def test_members_do_not_judge_their_own_results(tmp_path: Path) -> None:
    """Where judges outside decide, a member cannot approve what the same member handed in; another one can."""
    async with governed(tmp_path, policy={"judge": "outside"}) as house:
        (task,) = await house.plan(outside())
        await house.raven.attempts.submit(result(task), by=MEMBER)
        with pytest.raises(PolicyViolation, match="their own result"):
            await house.raven.judge.decide(decision(await house.task(task)), by=MEMBER)
        other = Principal("default", "eve", "member")
        await house.raven.judge.decide(decision(await house.task(task)), by=other)
        assert (await house.task(task)).task.status == "complete"
