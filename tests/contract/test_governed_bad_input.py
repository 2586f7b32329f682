"""Bad input to governed work over REST: a documented code for each, audited where policy speaks, nothing stored."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.api_client import Door, Reply
from tests.governing import envelope, result
from tests.homes import make_home
from tests.working import FAST
from twinraven.api import api_app
from twinraven.app import TwinRaven, open_home
from twinraven.foundation.ids import new_id
from twinraven.serving import Authenticator
from twinraven.storage import Transaction
from twinraven.tenancy import LOCAL, Principal

TABLES: Final = (
    "campaigns", "goals", "budgets", "tasks", "task_specs", "task_dependencies", "worker_runs", "worker_results",
    "judge_decisions", "envelopes", "media_assets", "publish_events", "outgoing_messages", "wallets", "transactions",
    "ledger_accounts", "ledger_transfers", "idempotency_claims", "runs",
)  # fmt: skip
CODES: Final = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")
TASK: Final[dict[str, Any]] = {
    "task_type": "commerce",
    "description": "Pay the printer",
    "acceptance_criteria": [{"id": "c", "description": "checked"}],
}
EVIDENCE: Final = [{"criterion_id": "c", "satisfied": True}]
NOT_FOUND, INVALID = (404, "NOT_FOUND"), (400, "VALIDATION_FAILED")
_MB: Final = 1_000_000


@dataclass(frozen=True)
class Tenant:
    """A tenant with one of each thing, made through its door."""

    door: Door
    tenant_id: str
    ids: dict[str, str]

    def envelope(self, kind: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
        return envelope(kind, payload, tenant_id=self.tenant_id) | more

    def task(self, change: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        return self.envelope("planner.task", {**TASK, **(change or {})}, **{"goal_id": self.ids["goal"], **more})

    def result(self, task_id: str, attempt: int = 1, **payload: Any) -> dict[str, Any]:
        return result(task_id, attempt, acceptance_evidence=EVIDENCE, **payload) | {"tenant_id": self.tenant_id}

    def decision(self, result_id: str, task_id: str, version: int, **payload: Any) -> dict[str, Any]:
        said = {"result_id": result_id, "decision": "approve", "reason_summary": "fine", "state_version": version}
        return self.envelope("judge.decision", {**said, **payload}, task_id=task_id)

    def payment(self, **more: Any) -> dict[str, Any]:
        return {
            "task_id": self.ids["task"], "wallet_id": self.ids["wallet"], "budget_id": self.ids["budget"],
            "amount": "1.00", "currency": "EUR", "counterparty": "printer", "idempotency_key": new_id(), **more,
        }  # fmt: skip

    def post(self, **more: Any) -> dict[str, Any]:
        return {"task_id": self.ids["task"], "channel": "blog", "text": "x", "idempotency_key": new_id(), **more}


async def _made(door: Door, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await door.post(path, body)
    assert reply.status in (200, 201, 202), reply.body
    return reply.json()


async def _furnished(raven: TwinRaven, who: Principal) -> Tenant:
    """A tenant whose task was done, superseded by a second attempt, and approved."""
    door = Door(api_app(raven, Authenticator(raven.tenancy, without_key=who)))
    made = Tenant(door, who.tenant_id, {})
    campaign = (await _made(door, "/v1/campaigns", {"name": "spring"}))["campaign_id"]
    path = f"/v1/campaigns/{campaign}"
    goal = (await _made(door, f"{path}/goals", {"description": "be seen"}))["goal_id"]
    made.ids.update(campaign=campaign, goal=goal)
    budget = (await _made(door, f"{path}/budgets", {"total": "50.00", "currency": "EUR"}))["budget_id"]
    task = (await _made(door, "/v1/tasks", made.task()))["task_id"]
    made.ids.update(budget=budget, task=task)
    for name, attempt, verdict, status in (("old", 1, "reject", "rejected"), ("result", 2, "approve", "approved")):
        made.ids[name] = (await _made(door, "/v1/results", made.result(task, attempt)))["result_id"]
        version = (await door.get(f"/v1/tasks/{task}")).json()["state_version"]
        said = made.decision(made.ids[name], task, version, decision=verdict) | {"status": status}
        made.ids["decision"] = (await _made(door, "/v1/decisions", said))["decision_id"]
    wallet = {"agent_or_campaign_id": "spring", "currency": "EUR"}
    made.ids["wallet"] = (await _made(door, "/v1/wallets", wallet))["wallet_id"]
    await _made(door, f"/v1/wallets/{made.ids['wallet']}/fund", {"amount": "90.00", "idempotency_key": "f"})
    asset = {"campaign_id": campaign, "kind": "image", "storage_uri": "s3://x/p.png"}
    made.ids["asset"] = (await _made(door, "/v1/assets", asset))["asset_id"]
    made.ids["open"] = (await _made(door, "/v1/tasks", made.task()))["task_id"]
    made.ids["paid"] = (await _made(door, "/v1/transactions", made.payment()))["transaction_id"]
    return made


@asynccontextmanager
async def _two_tenants(folder: Path) -> AsyncGenerator[tuple[TwinRaven, Tenant, Tenant]]:
    with open_home(make_home(folder, engine=FAST, policy={"judge": "outside"})) as raven:
        other = await raven.tenancy.create_tenant("other")
        yield (
            raven,
            await _furnished(raven, LOCAL),
            await _furnished(raven, Principal(other.tenant_id, "olga", "admin")),
        )


async def _rows(raven: TwinRaven) -> dict[str, list[str]]:
    """Everything that governed work stores, of all tenants."""

    def work(tx: Transaction) -> dict[str, list[str]]:
        return {table: sorted(str(row) for row in tx.fetch_all(f"SELECT * FROM {table}")) for table in TABLES}

    return await raven.database.read("default", work)


Case = tuple[str, str, dict[str, Any], tuple[int, str]]


def _foreign(mine: Tenant, other: Tenant) -> Iterator[Case]:
    """Every reference there is, to something that another tenant really has."""
    theirs, own = other.ids, mine.ids
    asset = {"campaign_id": own["campaign"], "kind": "image", "storage_uri": "s3://x"}
    ref = {"artifacts": [{"artifact_id": "a", "kind": "image", "content_ref": f"media:{theirs['asset']}"}]}
    bodies: list[tuple[str, dict[str, Any]]] = [
        (f"/v1/campaigns/{theirs['campaign']}/goals", {"description": "steal"}),
        (f"/v1/campaigns/{theirs['campaign']}/budgets", {"total": "1", "currency": "EUR"}),
        (f"/v1/goals/{theirs['goal']}/tasks", {"tasks": [TASK | {"name": "t"}]}),
        (f"/v1/goals/{theirs['goal']}/cancel", {"state_version": 1}),
        ("/v1/tasks", mine.task(goal_id=theirs["goal"])),
        ("/v1/tasks", mine.task(campaign_id=theirs["campaign"])),
        ("/v1/tasks", mine.task({"dependencies": [theirs["task"]]})),
        ("/v1/tasks", mine.task() | {"tenant_id": other.tenant_id}),
        (f"/v1/tasks/{theirs['open']}/specs", {"payload": TASK, "state_version": 1}),
        (f"/v1/tasks/{theirs['open']}/attempts", {}),
        (f"/v1/tasks/{theirs['open']}/cancel", {"state_version": 1}),
        ("/v1/results", mine.result(theirs["open"])),
        ("/v1/results", mine.result(own["open"]) | {"goal_id": theirs["goal"]}),
        ("/v1/results", mine.result(own["open"]) | {"campaign_id": theirs["campaign"]}),
        ("/v1/results", mine.result(own["open"]) | {"tenant_id": other.tenant_id}),
        ("/v1/results", mine.result(own["open"], outputs=ref)),
        (f"/v1/results/{theirs['result']}/evaluate", {}),
        ("/v1/decisions", mine.decision(theirs["result"], theirs["task"], 5)),
        ("/v1/decisions", mine.decision(own["result"], theirs["task"], 5)),
        ("/v1/decisions", mine.decision(own["result"], own["open"], 5)),
        (f"/v1/decisions/{theirs['decision']}/resolve", {"decision": "reject", "reason": "x"}),
        ("/v1/transactions", mine.payment(task_id=theirs["task"])),
        ("/v1/transactions", mine.payment(wallet_id=theirs["wallet"])),
        ("/v1/transactions", mine.payment(budget_id=theirs["budget"])),
        (f"/v1/transactions/{theirs['paid']}/cancel", {}),
        (f"/v1/transactions/{theirs['paid']}/reverse", {"note": "mine"}),
        (f"/v1/wallets/{theirs['wallet']}/fund", {"amount": "1.00", "idempotency_key": "g"}),
        ("/v1/publications", mine.post(task_id=theirs["task"])),
        ("/v1/publications", mine.post(media_asset_id=theirs["asset"])),
        ("/v1/messages", mine.post(task_id=theirs["task"], recipient="ann")),
        ("/v1/assets", asset | {"campaign_id": theirs["campaign"]}),
        ("/v1/assets", asset | {"task_id": theirs["task"]}),
        (f"/v1/inbox/decision:{theirs['decision']}/decide", {"choice": "approve", "bound_to": "0" * 64}),
    ]
    yield from ((f"foreign {number} {path}", path, body, NOT_FOUND) for number, (path, body) in enumerate(bodies))


def _money(mine: Tenant) -> Iterator[Case]:
    """Amounts that are none, currencies that do not fit, budgets below zero."""
    budgets = f"/v1/campaigns/{mine.ids['campaign']}/budgets"
    fund = f"/v1/wallets/{mine.ids['wallet']}/fund"
    for bad in (12.5, 12, "12.505", "-1.00", "1e3", "9" * 17, "", "NaN"):
        yield f"pay {bad!r}", "/v1/transactions", mine.payment(amount=bad), INVALID
        yield f"fund {bad!r}", fund, {"amount": bad, "idempotency_key": "b"}, INVALID
        yield f"budget of {bad!r}", budgets, {"total": bad, "currency": "EUR"}, INVALID
        limits = {"constraints": {"max_budget": bad, "currency": "EUR"}}
        yield f"task with {bad!r}", "/v1/tasks", mine.task(limits), INVALID
    yield "pay nothing", "/v1/transactions", mine.payment(amount="0.00"), INVALID
    yield "another currency", "/v1/transactions", mine.payment(currency="USD"), INVALID
    yield "no currency", "/v1/transactions", mine.payment(currency="euro"), INVALID
    yield "too dear", "/v1/transactions", mine.payment(amount="50.01"), (409, "LEDGER_OVERDRAWN")


def _envelopes(mine: Tenant, kept: dict[str, dict[str, Any]]) -> Iterator[Case]:
    """Envelopes without tenant or key, replayed with another body, too large, about what is superseded."""
    ids = mine.ids
    good = {
        "/v1/tasks": mine.task(),
        "/v1/results": mine.result(ids["open"]),
        "/v1/decisions": mine.decision(ids["result"], ids["task"], 5),
    }
    for path, body in good.items():
        for name in ("tenant_id", "idempotency_key"):
            yield f"{path} without {name}", path, {key: body[key] for key in body if key != name}, INVALID
            yield f"{path} with {name} null", path, {**body, name: None}, INVALID
    for path, body in kept.items():
        other = {**body, "risk_tags": ["other"]}
        yield f"{path} replayed with another body", path, other, (422, "IDEMPOTENCY_CONFLICT")
    yield "a superseded result", "/v1/decisions", mine.decision(ids["old"], ids["task"], 9), (409, "CONFLICT")
    yield "an old state", "/v1/decisions", mine.decision(ids["result"], ids["task"], 1), (412, "OCC_CONFLICT")
    large = mine.result(ids["open"], outputs={"artifacts": [], "text": "x" * (50 * _MB)})
    yield "an artifact of 50 MB", "/v1/results", large, (413, "PAYLOAD_TOO_LARGE")
    artifact = {"artifacts": [{"artifact_id": "a", "kind": "other", "summary": "x" * (2 * _MB)}]}
    yield "an artifact of 2 MB", "/v1/results", mine.result(ids["open"], outputs=artifact), INVALID


def _plans(mine: Tenant) -> Iterator[Case]:
    """Circles, windows that end before they begin, and specs that would change in place."""
    named = [TASK | {"name": "a", "dependencies": ["b"]}, TASK | {"name": "b", "dependencies": ["a"]}]
    plan = f"/v1/goals/{mine.ids['goal']}/tasks"
    yield "a circle", plan, {"tasks": named}, INVALID
    yield "a task that waits for itself", plan, {"tasks": [TASK | {"name": "a", "dependencies": ["a"]}]}, INVALID
    window = {"time_window": {"start": "2027-02-02T00:00:00Z", "end": "2027-01-01T00:00:00Z"}}
    yield "a window that ends first", "/v1/tasks", mine.task({"constraints": window}), INVALID
    changed = {"task_id": mine.ids["open"], "description": "something else"}
    yield "a spec in place", "/v1/tasks", mine.task(changed), (409, "CONFLICT")
    specs = f"/v1/tasks/{mine.ids['open']}/specs"
    own = {**TASK, "dependencies": [mine.ids["open"]]}
    yield "a revision that waits for itself", specs, {"payload": own, "state_version": 1}, INVALID
    yield "a revision of an old version", specs, {"payload": TASK, "state_version": 7}, (412, "OCC_CONFLICT")
    yield "a revision of what is done", f"/v1/tasks/{mine.ids['task']}/specs", {
        "payload": TASK, "state_version": 7,
    }, (409, "ILLEGAL_TRANSITION")  # fmt: skip
    yield "an effect of what nobody approved", "/v1/publications", mine.post(task_id=mine.ids["open"]), (
        403, "POLICY_VIOLATION",
    )  # fmt: skip


@pytest.mark.req("CH-02", "CH-04", "CH-12", "CH-21", "CH-22")
async def test_bad_input_is_refused_by_its_code_and_leaves_nothing(tmp_path: Path) -> None:
    """Whatever is wrong with what is sent, the answer names a documented code, and no row of anybody is another one."""
    async with _two_tenants(tmp_path) as (raven, mine, other):
        kept = {"/v1/tasks": mine.task(), "/v1/results": mine.result(mine.ids["open"])}
        for path, body in kept.items():
            await _made(mine.door, path, body)
        mine.ids["open"] = (await _made(mine.door, "/v1/tasks", mine.task()))["task_id"]
        before = await _rows(raven)
        wrong: dict[str, Any] = {}
        for name, path, body, expected in (
            *_foreign(mine, other),
            *_money(mine),
            *_envelopes(mine, kept),
            *_plans(mine),
        ):
            reply = await mine.door.post(path, body)
            if (told := _told(reply)) != expected or f"`{told[1]}`" not in CODES or reply.json()["retryable"]:
                wrong[name] = (*told, reply.body[:300])
            if (now := await _rows(raven)) != before:
                wrong[f"{name} (stored)"] = [table for table in TABLES if now[table] != before[table]]
                before = now
        assert not wrong, "\n".join(f"{name}: {told}" for name, told in wrong.items())
        entries = await raven.audit.entries("default")
        assert {"POLICY_VIOLATION", "OCC_CONFLICT", "LEDGER_OVERDRAWN"} <= {each.code for each in entries}
        violation = next(each for each in entries if each.code == "POLICY_VIOLATION")
        assert (violation.subject_id, bool(violation.message)) == (mine.ids["open"], True)
        assert (await raven.audit.verify("default")).ok


@pytest.mark.req("CH-01")
async def test_ids_of_governed_work_say_nothing(tmp_path: Path) -> None:
    """Whatever two tenants make alike has ids of 128 bits in hex, each its own, with nothing in common."""
    async with _two_tenants(tmp_path) as (_, mine, other):
        found = [*mine.ids.values(), *other.ids.values()]
        for each in (mine, other):
            found.append((await _made(each.door, "/v1/publications", each.post()))["publish_id"])
            found.append((await _made(each.door, "/v1/messages", each.post(recipient="ann")))["message_id"])
        for short in ("ab", "x" * 21):
            asked = mine.task()
            refused = await mine.door.post("/v1/tasks", {**asked, "payload": {**asked["payload"], "task_id": short}})
            assert (_told(refused), "task_id" in str(refused.json()["details"])) == ((400, "VALIDATION_FAILED"), True)
    assert [each for each in found if re.fullmatch("[0-9a-f]{32}", each) is None] == []
    eighths = [each[start : start + 8] for each in found for start in range(0, 32, 8)]
    assert len(set(eighths)) == len(eighths)


def _told(reply: Reply) -> tuple[int, str]:
    return reply.status, str(reply.json().get("code"))
