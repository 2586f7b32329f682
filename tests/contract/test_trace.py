"""Traces: from any id to everything before and after it, indexed, for those who may see it."""

from __future__ import annotations

import logging
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from tests.api_homes import api_home
from tests.contract.test_effects import house, payment, settled, wallet_of
from tests.contract.test_inbox import ASK
from tests.governed import approved_task
from tests.governing import draft, governed
from tests.working import FAST, reach, working
from twinraven.app import TwinRaven
from twinraven.audit import AuditFilter
from twinraven.effects import MessageRequest, PaymentRequest, PublishRequest
from twinraven.foundation.errors import NotFound, ToolError
from twinraven.tenancy import LOCAL
from twinraven.tracing import draw_trace, trace_lines

LOG = logging.getLogger(__name__)


async def _paid(raven: TwinRaven) -> tuple[Any, str]:
    task, wallet_id = await approved_task(raven), await wallet_of(raven)
    made = await raven.effects.pay(payment(task, wallet_id), by=LOCAL)
    transaction_id = made.as_json()["transaction_id"]
    async with working(raven):
        await settled(raven, "transaction", transaction_id)
    return task, transaction_id


@pytest.mark.req("CH-19", "CH-25")
async def test_a_payment_leads_back_to_its_campaign_and_on_to_its_transfers(tmp_path: Path) -> None:
    """From a payment, by its id, its key or what the outside calls it: decision, result, attempt, task, goal, campaign,
    the transfers, the delivery and the audit entries of each; and from each of them to the payment."""
    async with house(tmp_path) as raven:
        task, transaction_id = await _paid(raven)
        trace = await raven.tracer.trace("default", transaction_id)
        kinds = {key.kind for key in trace.nodes}
        assert kinds >= {
            "transaction", "judge_decision", "worker_result", "worker_run", "task", "goal", "campaign", "audit_entry",
            "ledger_transfer", "run", "envelope",
        }  # fmt: skip
        assert {node.key.id for node in trace.nodes.values()} >= {
            task.campaign_id, task.goal_id, task.task_id, task.result_id, task.decision_id,
        }  # fmt: skip
        events = {node.title for node in trace.nodes.values() if node.key.kind == "audit_entry"}
        assert {"transaction.approved", "transaction.executed"} <= events
        for each in ("inv-1", f"transaction:{transaction_id}"):
            assert (await raven.tracer.trace("default", each)).start == trace.start
        for each in (task.task_id, task.decision_id, task.campaign_id):
            forward = await raven.tracer.trace("default", each)
            assert transaction_id in {key.id for key in forward.nodes}
        lines = trace_lines(trace)
        assert lines[0].startswith("campaign spring")
        assert any(line.lstrip("│├└─ ").startswith("► payment of 12.50 EUR") for line in lines)
        svg = draw_trace(trace)
        assert svg.startswith("<svg")
        assert svg.count("<text") == len(lines)


@pytest.mark.req("CH-19", "CH-23")
async def test_every_record_of_governed_work_leads_to_its_origin_and_its_effects(tmp_path: Path) -> None:
    """From the run, the call, the envelope, the asset, the budget, the wallet and the entries of governed work a trace
    leads up to the campaign and down to what left the house; one correlation id runs from the plan to the decision."""
    async with governed(tmp_path) as house:
        door, raven = house.door, house.raven
        house.studio.failures.append(ToolError("no"))
        twice = draft(retry_policy={"max_attempts": 2, "backoff_strategy": "none"})
        planned = await door.post(f"/v1/goals/{house.goal.goal_id}/tasks", {"tasks": [twice]}, X_Correlation_Id="c-7")
        assert planned.status == 200, planned.body
        await house.work()
        (task,) = await raven.tasks.list("default")
        found, campaign = await house.task(task), house.goal.campaign_id
        wallet = await wallet_of(raven)
        budget = await door.post(f"/v1/campaigns/{campaign}/budgets", {"total": "50.00", "currency": "EUR"})
        made = {"campaign_id": campaign, "task_id": task.task_id, "kind": "image", "storage_uri": "s3://x/p"}
        asset = (await door.post("/v1/assets", made)).json()["asset_id"]
        post = {"task_id": task.task_id, "channel": "blog", "text": "x", "idempotency_key": "p"}
        posted = await door.post("/v1/publications", {**post, "media_asset_id": asset}, X_Correlation_Id="c-8")
        publication = posted.json()["publish_id"]
        assert posted.json()["correlation_id"] == "c-8"
        (noted,) = await raven.audit.entries("default", AuditFilter(correlation_id="c-8"))
        assert (noted.event_type, noted.subject_id) == ("publish.scheduled", publication)
        wish = PaymentRequest(task.task_id, wallet, "1.00", "EUR", "printer", "t")
        paid = (await raven.effects.pay(wish, by=LOCAL)).as_json()["transaction_id"]
        told = await raven.audit.entries("default", AuditFilter(correlation_id="c-7"))
        assert [entry.event_type for entry in told] == [
            "task.planned", "task.attempt_begun", "call.failed", "result.failed", "task.attempt_begun",
            "result.complete", "decision.approved",
        ]  # fmt: skip
        raven.collector.flush()
        failed, event = sorted((await door.get("/v1/events")).json()["items"], key=lambda each: each["timestamp"])
        assert (failed["correlation_id"], event["correlation_id"]) == ("c-7", "c-7")
        (spec,) = await raven.tasks.specs("default", task.task_id)
        for each in (spec.envelope_id, found.results[1].envelope_id, found.decisions[0].envelope_id):
            assert (await door.get(f"/v1/envelopes/{each}")).json()["correlation_id"] == "c-7"
        whole = {campaign, task.task_id, found.decisions[0].decision_id, event["event_id"], publication, paid}
        starts = {
            found.runs[1].run_id: whole,
            event["event_id"]: whole,
            found.results[1].envelope_id: whole,
            task.task_id: {campaign, failed["event_id"], *(each.result_id for each in found.results)},
            told[4].id: whole,
            "c-7": whole - {campaign},
            f"effect:{paid}": {campaign, task.task_id, paid},
            asset: {campaign, task.task_id, publication},
            f"budget:{budget.json()['budget_id']}": {campaign, paid},
            f"wallet:{wallet}": {paid},
            publication: {campaign, asset, event["event_id"], told[0].id, told[-2].id, told[-1].id},
        }
        for start, wanted in starts.items():
            shown = await door.get(f"/v1/trace/{start}")
            assert shown.status == 200, (start, shown.body)
            assert wanted <= {node["id"] for node in shown.json()["nodes"]}, start
            assert (await door.get(f"/v1/trace/{start}/svg")).status == 200


@pytest.mark.req("CH-19")
async def test_posts_and_messages_are_found_by_what_the_outside_calls_them(tmp_path: Path) -> None:
    """A post and a message are traced from their external ids to the decision that allowed them."""
    async with house(tmp_path) as raven, working(raven):
        task = await approved_task(raven)
        post = await raven.effects.publish(PublishRequest(task.task_id, "blog", "x", "k"), by=LOCAL)
        mail = await raven.effects.message(MessageRequest(task.task_id, "mail", "ann", "x", "l"), by=LOCAL)
        done = [
            await settled(raven, "publish", post.as_json()["publish_id"]),
            await settled(raven, "message", mail.as_json()["message_id"]),
        ]
        for external in (done[0].external_post_id, done[1].external_message_id):
            trace = await raven.tracer.trace("default", external)
            assert task.decision_id in {key.id for key in trace.nodes}


@pytest.mark.req("CH-19")
async def test_a_persons_decision_leads_to_the_call_it_let_run(tmp_path: Path) -> None:
    """From the audit entry of a grant to the approval, and from the call that ran to who let it."""
    async with api_home(tmp_path) as home:
        call = {"tool_name": "refund", "payload": {"order": 7}, "session_id": "s"}
        asked = await home.door.post("/v1/calls", call, Idempotency_Key="k")
        approval = asked.json()["error"]["details"]["approval_id"]
        await home.door.post(f"/v1/approvals/{approval}/grant", {}, X_Correlation_Id="request-7")
        ran = (await home.door.post("/v1/calls", call, Idempotency_Key="k")).json()
        (entry,) = await home.raven.audit.entries("default", AuditFilter(event_type="approval.granted"))
        forward = (await home.door.get(f"/v1/trace/{entry.id}")).json()
        assert f"approval:{approval}" in {node["key"] for node in forward["nodes"]}
        backward = (await home.door.get(f"/v1/trace/{ran['event_id']}")).json()
        assert {"before": f"approval:{approval}", "after": f"event:{ran['event_id']}", "word": "let run"} in backward[
            "links"
        ]
        drawn = await home.door.get(f"/v1/trace/{ran['event_id']}/svg")
        assert (drawn.status, drawn.headers["content-type"].split(";")[0]) == (200, "image/svg+xml")


@pytest.mark.req("CH-19")
async def test_runs_and_their_calls_are_traced(tmp_path: Path) -> None:
    """A run leads to the calls it made, and an answer of a person to the run."""
    async with api_home(tmp_path, engine=FAST) as home:
        await home.door.post("/v1/runs", {"definition": ASK, "run_id": "r1"})
        async with working(home.raven):
            await reach(home.raven, "r1", "waiting")
            await home.door.post("/v1/runs/r1/answer", {"place": "0", "answer": "tea"})
            await reach(home.raven, "r1", "succeeded")
        home.raven.collector.flush()
        trace = await home.raven.tracer.trace("default", "r1")
        assert {node.title for node in trace.nodes.values()} >= {"run of ask", "call of search", "run.answered"}
        assert {node.status for node in trace.nodes.values() if node.title == "call of search"} == {"succeeded"}


@pytest.mark.req("CH-19")
async def test_only_those_who_decide_see_traces_and_nobody_anothers(tmp_path: Path) -> None:
    """A member is refused, another tenant finds nothing, and nonsense is not found."""
    async with api_home(tmp_path, needs_key=True) as home:
        admin = await home.tenant("ada")
        bob, other = await home.user(admin.tenant_id, "bob"), await home.tenant("eve")
        run = (await admin.door.post("/v1/runs", {"tool_id": "search", "parameters": {"query": "x"}})).json()["run_id"]
        assert (await admin.door.get(f"/v1/trace/{run}")).status == 200
        assert (await bob.door.get(f"/v1/trace/{run}")).status == 403
        assert (await other.door.get(f"/v1/trace/{run}")).status == 404
        for each in ("nonsense", "task:", "task:x", "%00"):
            assert (await admin.door.get(f"/v1/trace/{each}")).status in (400, 404)
        with pytest.raises(NotFound):
            await home.raven.tracer.trace(admin.tenant_id, "x" * 600)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_every_step_of_a_trace_uses_an_index(
    tmp_path: Path, store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of every statement that a trace asks, by id, by key, by what the outside calls it or in vain, reads an
    index, by more than the tenant: none reads a whole table, nor all that a tenant has in one."""
    login = request.getfixturevalue("postgres_login") if store == "postgres" else None
    async with house(tmp_path, login) as raven:
        _, transaction_id = await _paid(raven)
        (wallet_id,) = [each.wallet.wallet_id for each in await raven.wallets.list("default")]
        asked: list[tuple[str, dict[str, Any]]] = []

        def spying(tx: Any) -> None:
            kind = cast("Any", type(tx))
            for name in ("fetch_one", "fetch_all"):
                whole = getattr(kind, name)

                def spied(self: Any, query: str, *, whole: Any = whole, **values: Any) -> Any:
                    asked.append((query, values))
                    return whole(self, query, **values)

                monkeypatch.setattr(kind, name, spied)

        await raven.database.read("default", spying)
        for each in (transaction_id, "inv-1", f"wallet:{wallet_id}"):
            await raven.tracer.trace("default", each)
        with pytest.raises(NotFound):
            await raven.tracer.trace("default", "nothing")
        monkeypatch.undo()

        def plan(tx: Any, query: str, values: dict[str, Any]) -> str:
            if store == "sqlite":
                return "\n".join(str(row["detail"]) for row in tx.fetch_all(f"EXPLAIN QUERY PLAN {query}", **values))
            tx.execute("SET LOCAL enable_seqscan = off")
            return "\n".join(str(row["QUERY PLAN"]) for row in tx.fetch_all(f"EXPLAIN {query}", **values))

        tables = [pair for pair in asked if " FROM " in pair[0] and "run_dispatch" not in pair[0]]
        assert len(tables) > 15
        for query, values in tables:
            shown = await raven.database.read("default", lambda tx, q=query, v=values: plan(tx, q, v))
            assert not _reads_too_much(shown), (query, shown)


def _reads_too_much(plan: str) -> bool:
    """Whether a plan reads a whole table, or, as SQLite tells it, everything of a tenant."""
    return any(
        "Seq Scan" in line
        or (line.startswith("SCAN") and "INDEX" not in line)
        or line.rstrip().endswith("(tenant_id=?)")
        for line in plan.splitlines()
    )


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
async def test_a_trace_does_not_grow_with_the_log(
    tmp_path: Path, store: str, request: pytest.FixtureRequest, full_scale: bool
) -> None:
    """Among a million entries about other things a trace holds what it held without them, and costs at most ten
    look-ups of the effect that it is about."""
    login = request.getfixturevalue("postgres_login") if store == "postgres" else None
    async with house(tmp_path, login) as raven:
        _, transaction_id = await _paid(raven)
        before = await raven.tracer.trace("default", transaction_id)
        await _add_noise(raven, 1_000_000 if full_scale else 200)
        after = await raven.tracer.trace("default", transaction_id)
        assert len(after.nodes) == len(before.nodes)
        costs = [
            (
                await _seconds(raven.tracer.trace("default", f"transaction:{transaction_id}")),
                await _seconds(raven.effects.get("transaction", transaction_id, by=LOCAL)),
            )
            for _ in range(200 if full_scale else 1)
        ]
        trace, look = (min(each) for each in zip(*costs, strict=True))
        LOG.info("%s: a trace of %d records costs %.1f look-ups", store, len(after.nodes), trace / look)
        assert not full_scale or trace <= 10 * look


async def _add_noise(raven: TwinRaven, count: int) -> None:
    """Entries about other payments, written as rows: what is measured does not look at their hashes."""

    def last(tx: Any) -> dict[str, Any]:
        return tx.fetch_one("SELECT * FROM audit_log WHERE tenant_id = 'default' ORDER BY sequence DESC LIMIT 1")

    row = await raven.database.read("default", last)
    for first in range(0, count, 20_000):
        rows = [
            tuple({
                **row,
                "sequence": row["sequence"] + 1 + number,
                "id": f"noise-{number}",
                "correlation_id": f"noise-{number}",
                "subject_id": f"other-{number % 9_973}",
                "previous_hash": f"noise-{number - 1}",
                "entry_hash": f"noise-{number}",
            }.values())
            for number in range(first, min(first + 20_000, count))
        ]  # fmt: skip
        await raven.database.write("default", lambda tx, rows=rows: tx.insert_rows("audit_log", tuple(row), rows))


async def _seconds(asking: Coroutine[Any, Any, Any]) -> float:
    begun = time.perf_counter()
    await asking
    return time.perf_counter() - begun


@pytest.mark.req("CH-12", "CH-19")
async def test_a_trace_holds_no_call_of_another_tenant(tmp_path: Path) -> None:
    """A call that names the task or the run of another tenant is in the trace of neither."""
    async with api_home(tmp_path) as home:
        ada, bob = await home.tenant("ada"), await home.tenant("bob")
        task = await approved_task(home.raven, tenant_id=ada.tenant_id)
        started = await ada.door.post("/v1/runs", {"tool_id": "search", "parameters": {"query": "x"}})
        run_id = started.json()["run_id"]
        called: dict[str, str] = {}
        for who in (ada, bob):
            event: dict[str, Any] = {"session_id": f"run:{run_id}", "tool_id": "search", "input_params": {}}
            event["task_id"] = task.task_id
            reply = await who.door.post("/v1/events", {"events": [event]})
            (called[who.tenant_id],) = reply.json()["event_ids"]
        for name in (task.task_id, run_id):
            trace = await home.raven.tracer.trace(ada.tenant_id, name)
            seen = {key.id for key in trace.nodes}
            assert called[ada.tenant_id] in seen, name
            assert called[bob.tenant_id] not in seen, name
