"""A migrated SQLite database that tests copy: a migration is paid for once in a process, not once in a test."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from twinraven.storage import open_database


def copy_migrated(target: Path) -> None:
    """Put a database at the newest version where a home or a test expects its own."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_migrated(), target)


@cache
def _migrated() -> Path:
    folder = Path(mkdtemp(prefix="twinraven-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    database = open_database(f"sqlite:///{folder}/migrated.db")
    database.migrate()
    database.close()
    return folder / "migrated.db"
