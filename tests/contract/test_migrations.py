"""The schema comes up the same way on every store, once, whole, and whoever asks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from types import ModuleType
from typing import Any

import pytest

from twinraven.foundation.errors import StorageError
from twinraven.storage import Database, migrations, open_database
from twinraven.storage.migrations import STEPS, Ddl, latest


@pytest.fixture
def empty_database(storage_settings: dict[str, Any]) -> Generator[Database]:
    """A database without any schema, on each store in turn."""
    database = open_database(storage_settings["url"], admin_url=storage_settings["admin_url"])
    yield database
    database.close()


def test_migrating_twice_is_migrating_once(empty_database: Database) -> None:
    """The first run names every step, the second none, and the database remembers them."""
    assert empty_database.applied() == {}
    assert empty_database.migrate() == list(STEPS)
    assert empty_database.migrate() == []
    assert list(empty_database.applied().values()) == list(STEPS)
    assert max(empty_database.applied()) == latest()


def test_many_may_migrate_at_once(storage_settings: dict[str, Any], empty_database: Database) -> None:
    """Processes that start together on an empty database agree on who does it, and none fails."""
    program = (
        "import sys; from twinraven.storage import open_database; "
        "database = open_database(sys.argv[1], admin_url=sys.argv[2] or None); "
        "sys.stdin.read(); print(len(database.migrate())); database.close()"
    )
    command = [sys.executable, "-c", program, storage_settings["url"], storage_settings["admin_url"] or ""]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(5)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
        child.stdin = None
    answers = [child.communicate(timeout=60) for child in children]
    assert [errors for _, errors in answers] == [""] * len(children)
    assert sorted(int(printed) for printed, _ in answers) == [0, 0, 0, 0, len(STEPS)]
    assert len(empty_database.applied()) == len(STEPS)


def test_a_broken_step_leaves_the_database_as_it_was(empty_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pending steps run in one transaction, so a database is never between two versions."""
    broken = ModuleType("twinraven.storage.migrations.m9999_broken")

    def upgrade(ddl: Ddl) -> None:
        ddl.table("half_made", "tenant_id TEXT NOT NULL PRIMARY KEY")
        ddl.run("CREATE NONSENSE")

    monkeypatch.setattr(broken, "upgrade", upgrade, raising=False)
    monkeypatch.setitem(sys.modules, broken.__name__, broken)
    monkeypatch.setattr(migrations, "STEPS", (*STEPS, "m9999_broken"))
    with pytest.raises(StorageError):
        empty_database.migrate()
    assert empty_database.applied() == {}
    monkeypatch.undo()
    assert empty_database.migrate() == list(STEPS)


def test_a_guarded_table_must_be_declared_in_both_places(empty_database: Database) -> None:
    """A migration that makes an append-only table which the guards do not know is a programming error."""
    ddl = Ddl(empty_database.dialect, lambda _: None)
    with pytest.raises(AssertionError, match="disagree"):
        ddl.table("unheard_of", "tenant_id TEXT NOT NULL", append_only=[("tenant_id",)])
    with pytest.raises(AssertionError, match="disagree"):
        ddl.table("muninn_event_log", "tenant_id TEXT NOT NULL")
