"""What the database itself refuses, whoever asks: changing history, and crossing tenants."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.homes import make_home
from tests.postgres import PostgresLogin, PostgresServer
from tests.records import EVENT_COLUMNS, add_blob, add_events, all_rows, blob_keys, event_row
from twinraven.app import open_home
from twinraven.foundation.errors import AppendOnly, InvalidSetting, StorageError
from twinraven.storage import Database, Transaction, Work
from twinraven.storage.guards import APP_ROLE, APPEND_ONLY_TABLES
from twinraven.storage.postgres import PostgresDatabase
from twinraven.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.tenants("t", "u")

_ON_EITHER = (
    "UPDATE muninn_event_log SET outcome = 'failure'",
    "UPDATE session_verdicts SET outcome = 'failure'",
    "DELETE FROM muninn_event_log",
    "DELETE FROM session_verdicts WHERE arrival = 1",
    "DROP TABLE muninn_event_log",
    "DROP VIEW muninn_events",
    "ALTER TABLE muninn_event_log RENAME TO forgotten",
)
_ON_SQLITE = (
    "DROP TRIGGER muninn_event_log_no_update",
    "CREATE TRIGGER late AFTER INSERT ON muninn_event_log BEGIN SELECT 1; END",
    "PRAGMA writable_schema = ON",
    "PRAGMA WRITABLE_SCHEMA = ON",
    "PRAGMA synchronous = OFF",
    "PRAGMA secure_delete = OFF",
    "ATTACH DATABASE ':memory:' AS elsewhere",
    "INSERT INTO muninn_event_log SELECT * FROM muninn_event_log WHERE true ON CONFLICT DO UPDATE SET tool_id = 'x'",
)
_ON_POSTGRES = (
    "TRUNCATE muninn_event_log",
    "TRUNCATE session_verdicts",
    "DROP TRIGGER muninn_event_log_no_update ON muninn_event_log",
    "ALTER TABLE muninn_event_log DISABLE TRIGGER ALL",
    "ALTER TABLE muninn_event_log DISABLE ROW LEVEL SECURITY",
)


async def remember(database: Database) -> None:
    """Put one row into each guarded table."""
    await database.write("t", add_events("t", "e"))
    columns = ("tenant_id", "session_id", "outcome", "stated_at", "stated_by")
    await database.write("t", lambda tx: tx.insert_rows("session_verdicts", columns, [("t", "s", "success", 1, "me")]))


async def history(database: Database) -> list[list[dict[str, object]]]:
    return [await database.read("t", all_rows(table)) for table in sorted(APPEND_ONLY_TABLES)]


def execute(statement: str) -> Work[int]:
    return lambda tx: tx.execute(statement)


@pytest.mark.req("TR-02")
@pytest.mark.parametrize("statement", _ON_EITHER)
async def test_history_does_not_change(database: Database, statement: str) -> None:
    """Changing or removing history is refused and leaves it as it was."""
    await remember(database)
    before = await history(database)
    with pytest.raises(AppendOnly):
        await database.write("t", execute(statement))
    assert await history(database) == before


@pytest.mark.req("TR-02")
@pytest.mark.parametrize("statement", _ON_SQLITE)
async def test_sqlite_keeps_its_guards(sqlite_database: Database, statement: str) -> None:
    """Nothing that would lift or go round a guard is possible on a connection of ours."""
    await remember(sqlite_database)
    before = await history(sqlite_database)
    connection = sqlite_database.connect()
    with pytest.raises(AppendOnly), connection.transaction("t", write=True) as tx:
        tx.execute(statement)
    connection.close()
    assert await history(sqlite_database) == before


@pytest.mark.req("TR-02")
@pytest.mark.parametrize("statement", _ON_POSTGRES)
async def test_postgres_keeps_its_guards(postgres_database: Database, statement: str) -> None:
    """The application's login can neither lift a guard nor go round it."""
    await remember(postgres_database)
    before = await history(postgres_database)
    with pytest.raises(AppendOnly):
        await postgres_database.write("t", execute(statement))
    assert await history(postgres_database) == before


@pytest.mark.req("TR-02")
@pytest.mark.parametrize(
    ("arrival", "event_id", "source_key"),
    [(1, "other", "other"), (2, "e", "other"), (2, "other", "k")],
    ids=["arrival", "event_id", "source_key"],
)
async def test_an_insert_never_replaces(
    sqlite_database: Database, arrival: int, event_id: str, source_key: str
) -> None:
    """INSERT OR REPLACE, which fires no DELETE trigger, is refused for each unique key."""
    columns = ", ".join(("arrival", *EVENT_COLUMNS))
    insert = f"INTO muninn_event_log ({columns}) VALUES ({', '.join('?' * (len(EVENT_COLUMNS) + 1))})"
    first = (1, *event_row("t", "e", source_key="k"))
    second = (arrival, *event_row("t", event_id, source_key=source_key))
    await sqlite_database.write("t", lambda tx: tx.execute_many(f"INSERT {insert}", [first]))
    before = await history(sqlite_database)
    with pytest.raises(AppendOnly):
        await sqlite_database.write("t", lambda tx: tx.execute_many(f"INSERT OR REPLACE {insert}", [second]))
    assert await history(sqlite_database) == before


@pytest.mark.req("TR-02")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE muninn_event_log SET tool_id = 'x'",
        "DELETE FROM muninn_event_log",
        "INSERT OR REPLACE INTO muninn_event_log SELECT * FROM muninn_event_log",
        "UPDATE OR REPLACE session_verdicts SET arrival = 5",
    ],
)
async def test_a_foreign_program_meets_the_same_guard(
    sqlite_database: Database, tmp_path: Path, statement: str
) -> None:
    """A program that opens the file with a SQLite of its own is refused by the file itself."""
    await remember(sqlite_database)
    before = await history(sqlite_database)
    program = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()"
    command = [sys.executable, "-c", program, str(tmp_path / "twinraven.db"), statement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "append-only" in done.stderr
    assert await history(sqlite_database) == before


@pytest.mark.req("TR-02")
@pytest.mark.parametrize("verb", ["UPDATE {} SET outcome = 'failure'", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("table", ["muninn_event_log", "session_verdicts"])
async def test_the_owner_meets_the_same_guard(
    postgres_database: Database, postgres_login: PostgresLogin, table: str, verb: str
) -> None:
    """Not even the superuser changes history with a plain statement."""
    await remember(postgres_database)
    statement = sql.SQL("{}").format(sql.SQL(verb.format(table)))  # pyright: ignore[reportArgumentType]
    with psycopg.connect(postgres_login.admin_url) as owner, pytest.raises(psycopg.Error, match="append-only"):
        owner.execute(statement)


@pytest.mark.req("CH-18")
@pytest.mark.parametrize("table", sorted(APPEND_ONLY_TABLES))
async def test_no_append_only_table_lacks_its_guard(database: Database, table: str) -> None:
    """Whatever is declared append-only has a trigger against every way to change it."""
    triggers = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :table"
        if database.dialect == "sqlite"
        else "SELECT tgname AS name FROM pg_trigger WHERE tgrelid = :table::regclass AND tgenabled = 'O'"
    )
    names = {row["name"] for row in await database.read("t", lambda tx: tx.fetch_all(triggers, table=table))}
    third = "no_replace_0" if database.dialect == "sqlite" else "no_truncate"
    assert names >= {f"{table}_no_update", f"{table}_no_delete", f"{table}_{third}"}


def test_maintenance_still_meets_the_triggers(sqlite_database: Database) -> None:
    """A maintenance connection may lift a guard, but does not go past one that stands."""
    assert isinstance(sqlite_database, SqliteDatabase)
    connection = sqlite_database.maintenance()
    with connection.transaction("t", write=True) as tx:
        add_events("t", "e")(tx)
    with pytest.raises(AppendOnly), connection.transaction("t", write=True) as tx:
        tx.execute("DELETE FROM muninn_event_log")
    with connection.transaction("t", write=True) as tx:
        tx.execute("DROP TRIGGER muninn_event_log_no_delete")
        assert tx.execute("DELETE FROM muninn_event_log") == 1
    connection.close()


@pytest.mark.parametrize("table", ["muninn_event_log", "muninn_events", "blobs"])
async def test_a_query_without_a_filter_sees_one_tenant(postgres_database: Database, table: str) -> None:
    """Row-level security binds the application even where its own filter is missing."""
    for tenant in ("t", "u"):
        await postgres_database.write(tenant, add_events(tenant, f"event of {tenant}"))
        await postgres_database.write(tenant, add_blob(tenant, "a"))
    assert {row["tenant_id"] for row in await postgres_database.read("t", all_rows(table))} == {"t"}
    assert {row["tenant_id"] for row in await postgres_database.read("u", all_rows(table))} == {"u"}
    assert await postgres_database.read("", all_rows(table)) == []


async def test_a_tenant_can_neither_write_nor_change_for_another(postgres_database: Database) -> None:
    """A row of another tenant can be neither inserted, changed, removed nor taken over."""
    await postgres_database.write("u", add_blob("u", "a"))
    with pytest.raises(StorageError, match="another tenant"):
        await postgres_database.write("t", add_blob("u", "b"))
    await postgres_database.write("t", add_blob("t", "own"))
    with pytest.raises(StorageError, match="another tenant"):
        await postgres_database.write("t", execute("UPDATE blobs SET tenant_id = 'u'"))
    assert await postgres_database.write("t", execute("DELETE FROM blobs")) == 1
    assert await postgres_database.read("u", blob_keys("u")) == ["a"]


async def test_a_tenant_does_not_outlive_its_transaction(postgres_database: Database) -> None:
    """What one transaction was allowed to see is forgotten by the next on the same connection."""
    await postgres_database.write("t", add_blob("t", "a"))
    connection = postgres_database.connect()
    with connection.transaction("t", write=False) as tx:
        assert len(all_rows("blobs")(tx)) == 1
    with connection.transaction("", write=False) as tx:
        assert all_rows("blobs")(tx) == []
    connection.close()


async def test_the_existence_of_a_key_does_not_leak(postgres_database: Database) -> None:
    """Two tenants may use the same key; neither learns of the other."""
    await postgres_database.write("t", add_blob("t", "same"))
    await postgres_database.write("u", add_blob("u", "same"))
    assert await postgres_database.read("u", blob_keys("u")) == ["same"]


async def test_every_table_is_fenced(postgres_database: Database) -> None:
    """No table that holds anything of a tenant exists without forced row-level security.

    A worker looks for work of all tenants: what it reads for that holds ids and times alone.
    """
    ids_and_times = ["engine_schedules", "engine_workers", "run_dispatch"]

    def work(tx: Transaction) -> list[str]:
        rows = tx.fetch_all(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT (relrowsecurity AND relforcerowsecurity)"
        )
        return [row["relname"] for row in rows]

    assert sorted(await postgres_database.read("t", work)) == [*ids_and_times, "schema_migrations"]


@pytest.fixture
def odd_login(postgres_server: PostgresServer, postgres_login: PostgresLogin) -> Generator[str]:
    """A login whose attributes a test changes."""
    database = postgres_login.url.partition("@/")[2].partition("?")[0]
    postgres_server.execute(sql.SQL("CREATE ROLE odd LOGIN"))
    yield postgres_server.url(user="odd", database=database)
    postgres_server.execute(sql.SQL("ALTER ROLE odd NOSUPERUSER"), sql.SQL("DROP ROLE odd"))


def check(url: str) -> None:
    database = PostgresDatabase(url)
    try:
        database.check_role()
    finally:
        database.close()


@pytest.mark.parametrize(
    ("change", "fault"), [("SUPERUSER", "superuser"), ("BYPASSRLS", "bypassrls"), ("LOGIN", f"GRANT {APP_ROLE} TO odd")]
)
def test_a_login_the_fence_does_not_bind_is_refused(
    postgres_server: PostgresServer, odd_login: str, change: str, fault: str
) -> None:
    """A start under a superuser, a bypassing role or a stranger is refused with what to do instead."""
    postgres_server.execute(sql.SQL("ALTER ROLE odd {}").format(sql.SQL(change)))  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidSetting, match=fault) as refusal:
        check(odd_login)
    assert refusal.value.details["field"] == "storage.url"


def test_the_owner_is_refused_and_a_plain_member_is_not(postgres_login: PostgresLogin) -> None:
    """The migrations' own login may not serve the application; a plain member of the role may."""
    with pytest.raises(InvalidSetting, match="owner"):
        check(postgres_login.admin_url)
    check(postgres_login.url)


def test_no_home_opens_under_a_login_the_fence_does_not_bind(postgres_login: PostgresLogin, tmp_path: Path) -> None:
    """What `doctor` would find is found before anything is served."""
    with pytest.raises(InvalidSetting, match="superuser"):
        open_home(make_home(tmp_path / "a", postgres=replace(postgres_login, url=postgres_login.admin_url)))
    open_home(make_home(tmp_path / "b", postgres=postgres_login)).close()
