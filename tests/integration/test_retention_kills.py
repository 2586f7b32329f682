"""Retention that is killed in the middle, and retention beside a recorder."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.neighbours import settle_tenants
from tests.postgres import PostgresLogin
from tests.pruning import DAYS, POINTS, loose_outputs, prune, remember, retention_of, session_sizes, start_pruner
from tests.recording import start_recorder
from twinraven.audit import AuditLog, KeyRing, Signer
from twinraven.foundation.errors import AppendOnly
from twinraven.muninn.retention import Retention
from twinraven.storage import Database, maintained, open_database

pytestmark = pytest.mark.tenants("t")

OLD = 40
SESSIONS = {f"s{number:02d}": 3 for number in range(20)}


def fill(database: Database) -> None:
    """Twenty old sessions that share outputs with each other and with one that stays."""
    remember(database, [(name, [OLD] * 3, [name, "shared", f"{name[:2]}"]) for name in SESSIONS])
    remember(database, [("new", [0], ["shared"])])
    connection = database.connect()
    with connection.transaction("t", write=True) as tx:
        tx.execute(
            "INSERT INTO session_verdicts (tenant_id, session_id, outcome, stated_at, stated_by) "
            "VALUES ('t', 'new', 'success', 0, 'somebody')"
        )
    connection.close()


async def assert_consistent(database: Database, keys: Path) -> dict[str, int]:
    """Every session is whole or gone, no output is loose, notes tell what is missing, guards stand."""
    sizes = await database.read("t", session_sizes)
    assert sizes.pop("new") == 1
    assert sizes.items() <= SESSIONS.items()
    assert await database.read("t", loose_outputs) == []
    notes = await Retention(database).notes("t", limit=1000)
    assert sum(note.sessions for note in notes) == len(SESSIONS) - len(sizes)
    assert sum(note.events for note in notes) == sum(SESSIONS.values()) - sum(sizes.values())
    assert (await AuditLog(database, Signer(KeyRing(keys))).verify("t")).ok
    connection = maintained(database).maintenance()
    for table in ("muninn_event_log", "session_verdicts"):
        with pytest.raises(AppendOnly), connection.transaction("t", write=True) as tx:
            tx.execute(f"DELETE FROM {table}")
    connection.close()
    return sizes


@pytest.mark.req("TR-02")
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_in_the_middle_leaves_nothing_half_done(
    sqlite_database: Database, sqlite_url: str, tmp_path: Path, point: str, count: int
) -> None:
    """Killed while the guard is lifted, or at any later step of a batch, SQLite stands as before the batch."""
    keys = tmp_path / "keys" / "audit.json"
    fill(sqlite_database)
    assert prune(sqlite_url, keys, point, count) == -signal.SIGKILL
    left = await assert_consistent(sqlite_database, keys)
    assert 0 < len(left) <= len(SESSIONS)
    assert prune(sqlite_url, keys, "never", 1) == 0
    assert await assert_consistent(sqlite_database, keys) == {}


@pytest.mark.req("TR-02")
async def test_a_kill_on_postgres_leaves_the_guard_standing(
    postgres_database: Database, postgres_login: PostgresLogin, tmp_path: Path
) -> None:
    """Killed while the trigger is disabled, Postgres stands as before the batch."""
    keys = tmp_path / "keys" / "audit.json"
    fill(postgres_database)
    owner = ("--admin-url", postgres_login.admin_url)
    assert prune(postgres_login.url, keys, "delete_sessions", 2, *owner) == -signal.SIGKILL
    assert await assert_consistent(postgres_database, keys) != {}
    assert prune(postgres_login.url, keys, "never", 1, *owner) == 0
    assert await assert_consistent(postgres_database, keys) == {}


@pytest.mark.req("TR-02")
async def test_kills_at_any_moment_leave_nothing_half_done(
    sqlite_database: Database, sqlite_url: str, tmp_path: Path, full_scale: bool
) -> None:
    """Killed wherever it happens to be, also while it writes the file anew, again and again until all have left."""
    keys = tmp_path / "keys" / "audit.json"
    fill(sqlite_database)
    chance = random.Random(7)
    for _ in range(200 if full_scale else 6):
        with start_pruner(sqlite_url, keys, "never", 1) as pruner:
            time.sleep(chance.uniform(0.02, 0.4))
            pruner.kill()
        await assert_consistent(sqlite_database, keys)
    assert prune(sqlite_url, keys, "never", 1) == 0
    assert await assert_consistent(sqlite_database, keys) == {}


async def test_a_recorder_loses_nothing_beside_retention(
    database: Database, storage_address: tuple[str, ...], tmp_path: Path
) -> None:
    """Events acknowledged while sessions leave are all there, each with its output."""
    fill(database)
    recorder = start_recorder(storage_address[0], "busy", 300, "--acknowledge", "--pause", "1")
    keys = tmp_path / "keys" / "audit.json"
    await retention_of(database, keys, batch_events=3).run("t", days=DAYS)
    printed, _ = recorder.communicate()
    assert recorder.returncode == 0
    assert len(printed.splitlines()) == 300
    assert await database.read("default", lambda tx: session_sizes(tx, "default")) == {"busy": 300}
    assert await database.read("default", lambda tx: loose_outputs(tx, "default")) == []
    assert await assert_consistent(database, keys) == {}


@pytest.fixture
def storage_address(request: pytest.FixtureRequest, database: Database) -> tuple[str, ...]:
    """The address of the database that the test uses."""
    if database.dialect == "sqlite":
        return (request.getfixturevalue("sqlite_url"),)
    return (request.getfixturevalue("postgres_login").url,)


SESSION = st.lists(st.tuples(st.booleans(), st.sampled_from([None, "x", "y", "z"])), min_size=1, max_size=4)


@settings(max_examples=40)
@given(st.lists(SESSION, max_size=6), st.integers(1, 8))
async def test_what_is_left_is_what_the_rule_says(
    tmp_path_factory: pytest.TempPathFactory, sessions: list[list[tuple[bool, str | None]]], batch: int
) -> None:
    """For any log and any batch size, exactly the sessions without a young call leave, and no output is loose."""
    database = open_database(f"sqlite:///{tmp_path_factory.mktemp('rule') / 'twinraven.db'}")
    database.migrate()
    settle_tenants(database, "t")
    named = {f"s{number}": calls for number, calls in enumerate(sessions)}
    remember(
        database,
        [
            (name, [1 if young else OLD for young, _ in calls], [output for _, output in calls])
            for name, calls in named.items()
        ],
    )
    await Retention(database, batch_events=batch).run("t", days=DAYS, compact=False)
    staying = {name: calls for name, calls in named.items() if any(young for young, _ in calls)}
    assert await database.read("t", session_sizes) == Counter({name: len(calls) for name, calls in staying.items()})
    assert await database.read("t", loose_outputs) == []
    database.close()
