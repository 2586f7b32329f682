"""A restore that is killed between two of its steps, and two backups at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli import Shell, call, home_in
from twinraven.storage import open_database, write_backup
from twinraven.storage.sqlite import SqliteDatabase

DIE_AFTER = """
import os, signal, sys
from twinraven.cli import main
from twinraven.storage import backup

real = getattr(backup, sys.argv[1])

def dying(*arguments, **options):
    real(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(backup, sys.argv[1], dying)
main(["restore", sys.argv[2], "--force"])
"""


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("unpack", "now"),
        ("_merge_folder", "now"),
        ("_replace_database", "before"),
        ("_replace_folder", "before"),
    ],
)
def test_a_killed_restore_leaves_a_home_that_works(tmp_path: Path, step: str, found: str) -> None:
    """After every step the home opens, with the one database or the other, and a second restore completes."""
    shell = home_in(tmp_path)
    shell.succeed("secrets", "set", "shop", stdin=b"a-secret-of-the-shop")
    shell.succeed("import", "-", stdin=json.dumps(call("before", 1)).encode())
    shell.succeed("backup", "home.tar", "--with-keys")
    shell.succeed("secrets", "rekey")
    shell.succeed("import", "-", stdin=json.dumps(call("now", 1)).encode())
    killed = subprocess.run(
        [sys.executable, "-c", DIE_AFTER, step, "home.tar"], cwd=tmp_path, env=shell.environment(), check=False
    )
    assert killed.returncode == -signal.SIGKILL
    expected = ["before", "now"] if found == "now" else ["before"]
    assert works(shell) == expected
    shell.succeed("restore", "home.tar", "--force")
    assert works(shell) == ["before"]
    assert [path.name for path in (tmp_path / ".twinraven").glob(".twinraven-*")] == []


def works(shell: Shell) -> list[str]:
    """Which sessions a home has whose chain verifies and whose secrets can all be opened."""
    assert shell.json("audit", "verify")["ok"] is True
    assert shell.json("secrets", "rekey")["unreadable"] == 0
    return sorted(session["session_id"] for session in shell.json("sessions", "list"))


def test_two_backups_into_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    """A backup clears away what a killed one left, never what a living one works on."""
    database = open_database(f"sqlite:///{tmp_path / 'twinraven.db'}")
    database.migrate()
    assert isinstance(database, SqliteDatabase)
    (tmp_path / ".twinraven-backup-left").mkdir()

    class Second:
        """What the first backup writes to; it begins another one in the middle."""

        def __init__(self) -> None:
            self.is_first = True

        def write(self, body: bytes) -> int:
            if self.is_first:
                self.is_first = False
                with (tmp_path / "second.tar").open("wb") as out:
                    write_backup(database, out, [], scratch=tmp_path, version="test")
            return len(body)

        def tell(self) -> int:
            return 0

    write_backup(database, Second(), [], scratch=tmp_path, version="test")  # pyright: ignore[reportArgumentType]
    database.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["second.tar", "twinraven.db"]
