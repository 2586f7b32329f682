"""No record points across tenants or to a tenant that does not exist: the database of a home refuses it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.api_homes import ApiHome, api_home, login_of, seed
from tests.unit.test_tables import OWNERS
from twinraven.foundation.errors import TwinRavenError
from twinraven.storage import Row, Transaction

_ALONE: Final = frozenset(
    {
        *("approvals", "blobs", "campaigns", "candidate_chains", "catalog_version"),
        *("entities", "envelopes", "episode_vectors", "episodes", "idempotency_claims", "introspections"),
        *("knowledge_groups", "knowledge_postings", "learning_rounds", "ledger_accounts", "metric_definitions"),
        *("muninn_event_log", "process_versions", "processes", "registry_state", "runs"),
        *("session_verdicts", "summaries", "tool_records", "users", "vault_state", "wallets"),
    }
)
"""Tables whose rows refer to nothing but their tenant, or to what is looked up within it alone."""
_FREE: Final = {
    "activity_failures": {"tool_id"},
    "alternatives": {"run_id"},
    "approvals": {"correlation_id", "session_id", "tool_id"},
    "audit_heads": {"key_id"},
    "audit_log": {"actor_id", "correlation_id", "subject_id"},
    "campaigns": {"persona_id"},
    "compressions": {"group_id"},
    "drafts": {"tool_id"},
    "entities": {"group_id"},
    "entity_facts": {"group_id"},
    "entity_mentions": {"group_id"},
    "entity_places": {"group_id"},
    "envelopes": {"campaign_id", "correlation_id", "goal_id", "task_id"},
    "episode_vectors": {"group_id"},
    "episodes": {"group_id"},
    "extraction_progress": {"group_id", "run_id"},
    "graph_progress": {"run_id"},
    "held_spans": {"trace_id"},
    "idempotency_claims": {"tool_id"},
    "inbox_reservations": {"item_id"},
    "introspections": {"user_id"},
    "judge_decisions": {"human_reviewer_id"},
    "key_repeats": {"tool_id"},
    "knowledge_postings": {"group_id"},
    "ledger_transfers": {"subject_id"},
    "media_assets": {"character_id"},
    "metric_values": {"entity_id"},
    "muninn_event_log": {"actor_id", "correlation_id", "parent_event_id", "session_id", "task_id", "tool_id"},
    "outgoing_messages": {"correlation_id", "external_message_id"},
    "process_versions": {"owner_id", "process_id"},
    "publish_events": {"correlation_id", "external_post_id"},
    "reflections": {"group_id", "user_id"},
    "rejections": {"tool_id"},
    "retention_notes": {"key_id"},
    "run_steps": {"tool_id"},
    "secret_versions": {"kek_id"},
    "session_verdicts": {"session_id"},
    "sign_ins": {"user_id"},
    "summaries": {"group_id", "process_id", "run_id"},
    "tasks": {"owner_id"},
    "transactions": {"correlation_id"},
    "upstream_tools": {"tool_id"},
    "vault_state": {"kek_id"},
    "wallets": {"agent_or_campaign_id"},
    "alternative_episodes": {"episode_id"},
    "introspection_contents": {"episode_id"},
    "summary_contents": {"episode_id"},
    "summary_sources": {"episode_id"},
    "worker_runs": {"run_id"},
}
"""Columns named as ids that no key guards: names that people and protocols give (also of whom notes are), ids of other
systems, records of what once was (runs and tools that may be gone), and episodes, of which only the parts have keys.
What a call lies inside of is fenced by a trigger of its own."""
_CHAINED: Final = frozenset({"audit_log", "audit_heads", "change_notes"})
"""Tables in which every tenant has a row of the same number."""


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    """A home with neighbours."""
    async with api_home(tmp_path / "full", postgres=login_of(request)) as opened:
        yield opened


async def rows_of(home: ApiHome, tenant_id: str) -> dict[str, Row]:
    """One row of each table in which a tenant has any."""

    def read(tx: Transaction) -> dict[str, Row]:
        found = {
            table: tx.fetch_one(f"SELECT * FROM {table} WHERE tenant_id = :tenant LIMIT 1", tenant=tenant_id)
            for table in OWNERS
            if table not in ("tenants", "muninn_events", "schema_migrations", "engine_workers", "engine_schedules")
        }
        return {table: row for table, row in found.items() if row is not None}

    return await home.raven.database.read(tenant_id, read)


async def guarded_columns(home: ApiHome, table: str) -> tuple[set[str], set[str]]:
    """The columns of a table, and those that a foreign key or a trigger looks up, with the id of the row itself."""

    def read(tx: Transaction) -> tuple[set[str], set[str]]:
        if tx.dialect == "postgres":
            named = tx.fetch_all(
                "SELECT a.attname AS name, EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conrelid = a.attrelid "
                "AND (c.contype = 'f' AND a.attnum = ANY (c.conkey) OR c.contype = 'p' AND cardinality(c.conkey) > 1 "
                "AND a.attnum = c.conkey[cardinality(c.conkey)])) AS known FROM pg_attribute a "
                f"WHERE a.attrelid = '{table}'::regclass AND a.attnum > 0 AND NOT a.attisdropped"
            )
            return {row["name"] for row in named}, {row["name"] for row in named if row["known"]}
        columns = tx.fetch_all(f"SELECT name, pk FROM pragma_table_info('{table}')")
        keys = tx.fetch_all(f"SELECT \"from\" AS name FROM pragma_foreign_key_list('{table}')")
        triggers = tx.fetch_all(
            f"SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{table}' "
            "AND (name LIKE '%\\_within\\_made' ESCAPE '\\' OR name LIKE '%\\_tenant\\_exists\\_made' ESCAPE '\\')"
        )
        looked_up = {name for row in triggers for name in re.findall(r"NEW\.(\w+)", row["sql"])}
        last = max(row["pk"] for row in columns)
        own = {row["name"] for row in columns if row["pk"] == last > 1}
        return {row["name"] for row in columns}, looked_up | own | {row["name"] for row in keys}

    return await home.raven.database.read("default", read)


@pytest.mark.req("CH-12")
async def test_every_reference_of_every_table_is_guarded(home: ApiHome) -> None:
    """Each table of tenants leads to its tenant by a check of the database, and so does each id that it refers to."""
    free: dict[str, set[str]] = {}
    for table in OWNERS:
        columns, guarded = await guarded_columns(home, table)
        if "tenant_id" not in columns or table in ("tenants", "muninn_events"):
            continue
        assert "tenant_id" in guarded, table
        ids = {name for name in columns if name.endswith("_id")} | (columns & {"merged_into", "forked_from"})
        left = ids - guarded - {"event_id", "entry_id", "episode_id" if table == "episodes" else ""}
        if left - {"forked_from" if table == "runs" else ""}:
            free[table] = left
    assert free == _FREE


async def takes(home: ApiHome, table: str, row: Row, tenant_id: str) -> bool:
    """Whether the database stores a copy of a row for another tenant."""
    values: dict[str, Any] = {name: value for name, value in row.items() if name != "arrival"}
    values["tenant_id"] = tenant_id
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    return await stores(home, tenant_id, f"INSERT INTO {table} ({names}) VALUES ({marks})", values)


async def stores(home: ApiHome, tenant_id: str, statement: str, values: dict[str, Any]) -> bool:
    """Whether the database of a tenant takes a statement; it is taken back."""

    def work(tx: Transaction) -> None:
        tx.execute(statement, **values)
        raise _TakenBackError

    try:
        await home.raven.database.write(tenant_id, work)
    except _TakenBackError:
        return True
    except TwinRavenError:
        return False
    raise AssertionError(statement)


class _TakenBackError(Exception):
    """The row was stored; it is taken back, so that no other row can refer to it."""


@pytest.mark.req("CH-12")
async def test_no_row_names_a_tenant_that_is_not_there_or_what_another_tenant_has(home: ApiHome) -> None:
    """A copy of each row is refused for nobody, and for a neighbour unless it refers to nothing."""
    bob = await seed(home.raven, await home.tenant("bob"), name="bob")
    ada = await home.tenant("ada")
    approval = bob.ids["approvals", "approval_id"]
    assert (await bob.door.post(f"/v1/approvals/{approval}/deny", {"note": "no"})).status == 200
    assert (await bob.door.post("/v1/sessions/bob-session/verdicts", {"outcome": "failure"})).status == 201
    rows = await rows_of(home, bob.tenant_id)
    assert {table for table, row in rows.items() if await takes(home, table, row, "nobody")} == set()
    moved = "UPDATE {} SET tenant_id = 'nobody' WHERE tenant_id = :tenant"
    assert {
        table for table in rows if await stores(home, bob.tenant_id, moved.format(table), {"tenant": bob.tenant_id})
    } == set()
    taken = {table for table, row in rows.items() if await takes(home, table, row, ada.tenant_id)}
    assert taken - _CHAINED == _ALONE
    own_tool = {**rows["catalog_tools"], "owner_id": ada.user_id, "secret_id": None}
    assert not await takes(home, "catalog_tools", own_tool, ada.tenant_id), "on a service of bob's"
    assert {"approval_decisions", "audit_log", "catalog_tools", "drafts", "judge_decisions"} <= rows.keys()


@pytest.mark.req("CH-12")
async def test_a_call_inside_a_call_of_another_tenant_is_refused_at_the_door(home: ApiHome) -> None:
    """A parent that another tenant has is refused by its field, and one that is yet to come is taken."""
    ada, bob = await home.tenant("ada"), await home.tenant("bob")
    event: dict[str, Any] = {"session_id": "s", "tool_id": "search", "input_params": {}}
    theirs, yet_to_come = str(uuid4()), str(uuid4())
    assert (await bob.door.post("/v1/events", {"events": [{**event, "event_id": theirs}]})).status == 201
    refused = await ada.door.post("/v1/events", {"events": [{**event, "parent_event_id": theirs}]})
    assert (refused.status, refused.json()["code"]) == (400, "VALIDATION_FAILED")
    assert "parent_event_id" in refused.json()["detail"]
    assert (await ada.door.get("/v1/events")).json()["items"] == []
    for parent in (yet_to_come, yet_to_come):
        kept = await ada.door.post("/v1/events", {"events": [{**event, "parent_event_id": parent}]})
        assert kept.status == 201
    assert (await ada.door.post("/v1/events", {"events": [{**event, "event_id": yet_to_come}]})).status == 201
