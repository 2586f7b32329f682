"""The database itself refuses links across tenants, changed history, and statuses that cannot follow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import login_of
from tests.governing import Governed, draft, governed
from twinraven.foundation.errors import Conflict, StorageError, TwinRavenError
from twinraven.governance.states import TABLES
from twinraven.storage import Transaction
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
    columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
    await refused(house, f"INSERT INTO {table} ({columns}) VALUES ({marks})", tenant_id, **row)


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
