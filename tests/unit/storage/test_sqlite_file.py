"""The file of an embedded home, and the folder that it lies in."""

from __future__ import annotations

from pathlib import Path
from stat import S_IMODE

from twinraven.storage.sqlite import SqliteDatabase


def test_a_folder_that_is_made_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    """Nobody else looks into a home that is made by opening it; a folder that was there stays as it is."""
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    for folder, mode in ((tmp_path / "made", 0o700), (there, 0o755)):
        database = SqliteDatabase(folder / "twinraven.db")
        database.migrate()
        database.close()
        assert S_IMODE(folder.stat().st_mode) == mode
