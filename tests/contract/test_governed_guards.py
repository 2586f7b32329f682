"""The database itself refuses links across tenants, changed history, and statuses that cannot follow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import login_of
from tests.contract.test_effects import wallet_of
from tests.governing import Governed, draft, governed
from twinraven.effects import MessageRequest, PaymentRequest, PublishRequest
from twinraven.foundation.errors import Conflict, StorageError, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.governance.states import TABLES
from twinraven.storage import Transaction
from twinraven.storage.migrations import m0019_governance
from twinraven.tenancy import LOCAL, Principal


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, postgres=login_of(request)) as made:
        await made.plan(draft("one"), draft("two", dependencies=["one"]))
        await made.work()
        yield made


async def refused(house: Governed, sql: str, acting: str = "default", **params: Any) -> None:
    """The database takes no such statement, and says so."""
    with pytest.raises((StorageError, Conflict)):
        await house.raven.database.write(acting, lambda tx: tx.execute(sql, **params))


async def rows(house: Governed, table: str) -> list[dict[str, Any]]:
    def work(tx: Transaction) -> list[dict[str, Any]]:
        return tx.fetch_all(f"SELECT * FROM {table} WHERE tenant_id = 'default'")

    return await house.raven.database.read("default", work)


async def copied(house: Governed, table: str, tenant_id: str, **changes: Any) -> None:
    """A row of a table, written for another tenant or with other links, is refused."""
    row = (await rows(house, table))[0] | changes | {"tenant_id": tenant_id}
    with pytest.raises((StorageError, Conflict)):
        await inserted(house, table, row)


async def inserted(house: Governed, table: str, row: dict[str, Any]) -> None:
    """The database takes a row."""
    columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
    statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"
    await house.raven.database.write(row["tenant_id"], lambda tx: tx.execute(statement, **row))


LINKED = (
    "goals",
    "tasks",
    "task_specs",
    "task_dependencies",
    "worker_runs",
    "worker_results",
    "judge_decisions",
)


@pytest.mark.req("CH-11")
async def test_no_record_points_across_tenants(house: Governed) -> None:
    """A row that names what belongs to another tenant, or a tenant that is not there, is refused."""
    other = await house.raven.tenancy.create_tenant("other")
    stranger = Principal(other.tenant_id, "s", "admin")
    own = await house.raven.campaigns.create("theirs", by=stranger)
    for table in LINKED:
        await copied(house, table, other.tenant_id)
    for table in ("campaigns", "envelopes", *LINKED):
        await copied(house, table, "nobody")
    with pytest.raises(TwinRavenError):
        await house.raven.campaigns.add_goal(own.campaign_id, "steal", by=LOCAL)
    with pytest.raises(TwinRavenError):
        await house.raven.campaigns.get("default", own.campaign_id)


RELATIONS = {
    ("goals", "campaign_id", "campaigns"),
    ("tasks", "goal_id", "goals"),
    ("task_specs", "task_id", "tasks"),
    ("task_dependencies", "task_id", "task_specs"),
    ("task_dependencies", "depends_on_task_id", "tasks"),
    ("worker_runs", "task_id", "task_specs"),
    ("worker_results", "worker_run_id", "worker_runs"),
    ("judge_decisions", "result_id", "worker_results"),
    ("media_assets", "campaign_id", "campaigns"),
    ("media_assets", "task_id", "tasks"),
    ("publish_events", "media_asset_id", "media_assets"),
    ("publish_events", "task_id", "tasks"),
    ("publish_events", "decision_id", "judge_decisions"),
    ("outgoing_messages", "decision_id", "judge_decisions"),
    ("budgets", "campaign_id", "campaigns"),
    ("transactions", "wallet_id", "wallets"),
    ("transactions", "budget_id", "budgets"),
    ("transactions", "task_id", "tasks"),
    ("transactions", "decision_id", "judge_decisions"),
}
_OF_SQLITE = """SELECT m.name AS child, f."from" AS name, f."table" AS parent
FROM sqlite_master m CROSS JOIN pragma_foreign_key_list(m.name) f WHERE m.type = 'table'"""
_OF_POSTGRES = """SELECT c.conrelid::regclass::text AS child, a.attname AS name, c.confrelid::regclass::text AS parent
FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
WHERE c.contype = 'f' AND c.connamespace = current_schema()::regnamespace"""


@pytest.mark.req("CH-11")
async def test_every_relation_is_a_foreign_key(house: Governed) -> None:
    """Each entity is tied by the database itself to what it belongs to, follows from or is allowed by."""
    raven = house.raven
    statement = _OF_SQLITE if raven.database.dialect == "sqlite" else _OF_POSTGRES
    found = await raven.database.read("default", lambda tx: tx.fetch_all(statement))
    assert {(row["child"], row["name"], row["parent"]) for row in found} >= RELATIONS


@pytest.mark.req("CH-04", "CH-13")
async def test_history_does_not_change(house: Governed) -> None:
    """Specs, dependencies, envelopes, results and decisions take no change, and no task depends on itself."""
    for table in ("task_specs", "task_dependencies", "envelopes", "worker_results", "judge_decisions"):
        await refused(house, f"UPDATE {table} SET tenant_id = tenant_id")
        await refused(house, f"DELETE FROM {table}")
    found = (await rows(house, "tasks"))[0]
    await refused(
        house,
        "INSERT INTO task_dependencies (tenant_id, id, task_id, spec_version, depends_on_task_id) "
        "VALUES ('default', 'x', :task, 1, :task)",
        task=found["task_id"],
    )
    moved = "goal_id = 'x', state_version = state_version + 1"
    await refused(house, f"UPDATE tasks SET {moved}")
    for table in ("tasks", "goals", "campaigns", "worker_runs"):
        await refused(house, f"DELETE FROM {table}")


EFFECT_COLUMNS = {
    "publish_events": ("decision_id", "channel", "provider", "media_asset_id", "disclosure_applied", "request_json"),
    "outgoing_messages": ("decision_id", "channel", "provider", "recipient", "scheduled_at", "created_by"),
    "transactions": ("decision_id", "budget_id", "campaign_id", "goal_id", "counterparty", "amount", "requested_by"),
    "wallets": ("provider", "currency", "created_by"),
    "budgets": ("campaign_id", "currency", "created_by"),
    "ledger_accounts": ("kind", "currency", "may_overdraw"),
}


@pytest.mark.req("CH-11")
async def test_what_an_effect_is_and_what_allows_it_stays(house: Governed) -> None:
    """No program gives an effect another decision, budget, channel or payee, nor a second effect its key."""
    raven, task = house.raven, (await rows(house, "tasks"))[0]["task_id"]
    await raven.campaigns.add_budget(house.goal.campaign_id, total="9", currency="EUR", by=LOCAL)
    wallet_id = await wallet_of(raven)
    await raven.effects.publish(PublishRequest(task, "blog", "x", "p"), by=LOCAL)
    await raven.effects.message(MessageRequest(task, "mail", "ann", "x", "m"), by=LOCAL)
    await raven.effects.pay(PaymentRequest(task, wallet_id, "1.00", "EUR", "printer", "t"), by=LOCAL)
    for table, columns in EFFECT_COLUMNS.items():
        before = await rows(house, table)
        version = ", state_version = state_version + 1" if table in ("wallets", "budgets") else ""
        for column in columns:
            await refused(house, f"UPDATE {table} SET {column} = {column}{version} WHERE tenant_id = 'default'")
        await refused(house, f"DELETE FROM {table} WHERE tenant_id = 'default'")
        if raven.settings.storage.admin_url is None:
            names = ", ".join(before[0])
            await refused(house, f"INSERT OR REPLACE INTO {table} ({names}) SELECT {names} FROM {table}")
        assert await rows(house, table) == before, table
    for table, key in (("publish_events", "publish_id"), ("transactions", "transaction_id")):
        (first,) = await rows(house, table)
        await copied(house, table, "default", **{key: new_id()})
        await inserted(house, table, first | {key: new_id(), "idempotency_key": "another"})


@pytest.mark.req("CH-20")
def test_the_code_and_the_database_allow_the_same() -> None:
    """The table of transitions that doors follow is the one that the triggers were made from."""
    stored = {
        table: {status: frozenset(after) for status, after in known.items()}
        for table, known in m0019_governance._STATUSES.items()  # pyright: ignore[reportPrivateUsage]
    }
    assert stored == {table: dict(transitions) for table, transitions in TABLES.values()}


@pytest.mark.req("CH-20")
async def test_no_status_follows_that_cannot(house: Governed) -> None:
    """Doors and the database refuse every transition that the tables do not have, and say what is possible."""
    (campaign,) = await rows(house, "campaigns")
    path = f"/v1/campaigns/{campaign['campaign_id']}"
    assert (await house.door.patch(path, {"status": "complete", "state_version": 1})).status == 200
    back = await house.door.patch(path, {"status": "active", "state_version": 2})
    assert (back.status, back.json()["code"]) == (409, "ILLEGAL_TRANSITION")
    assert "nothing else" in back.json()["detail"]
    for kind in ("campaign", "goal", "task", "worker run"):
        table, transitions = TABLES[kind]
        before = (await rows(house, table))[0]["status"]
        version = "" if kind == "worker run" else ", state_version = state_version + 1"
        for after in transitions.keys() - transitions[before] - {before}:
            await refused(house, f"UPDATE {table} SET status = '{after}'{version} WHERE status = '{before}'")
    done = (await house.raven.tasks.list("default"))[0]
    for word in ("retry", "cancel"):
        reply = await house.door.post(f"/v1/tasks/{done.task_id}/{word}", {"state_version": done.state_version})
        assert (reply.status, reply.json()["code"]) == (409, "ILLEGAL_TRANSITION")


@pytest.mark.req("CH-17")
async def test_shared_state_moves_on_by_one_version(house: Governed) -> None:
    """An update of a task, goal, campaign or budget that leaves its version as it is, or skips one, is refused."""
    await house.raven.campaigns.add_budget(house.goal.campaign_id, total="5", currency="EUR", by=LOCAL)
    for table in ("tasks", "goals", "campaigns", "budgets"):
        for version in ("state_version", "state_version + 2", "1000"):
            await refused(house, f"UPDATE {table} SET updated_at = 1, state_version = {version}")


@pytest.mark.req("CH-11")
async def test_an_approval_needs_its_checks_or_an_override(house: Governed) -> None:
    """The database refuses an approval with an open check, an escalation without review, and a round twice."""
    row = (await rows(house, "judge_decisions"))[0]
    changes: tuple[dict[str, Any], ...] = (
        {"open_checks": 1},
        {"decision": "escalate", "human_review_required": 0},
        {"reason_summary": ""},
        {},
    )
    for number, change in enumerate(changes):
        wrong = {"decision_id": f"d{number}", "round": 1 if not change else 2, "envelope_id": row["envelope_id"]}
        await copied(house, "judge_decisions", "default", **wrong, **change)
