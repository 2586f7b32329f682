"""A migrated SQLite database that tests copy: a migration is paid for once in a process, not once in a test."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from twinraven.storage import open_database


def copy_migrated(target: Path) -> None:
    """Put a database at the newest version where a home or a test expects its own."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Path(_folder().name) / "migrated.db", target)


@cache
def _folder() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="twinraven-template-")
    database = open_database(f"sqlite:///{folder.name}/migrated.db")
    database.migrate()
    database.close()
    return folder
