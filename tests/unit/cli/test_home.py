"""Which home a command works in, and what it says where the home cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinraven.cli import main


@pytest.mark.parametrize("command", ["sessions list", "inbox list"])
def test_a_store_that_cannot_be_opened_is_named_with_a_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """The error is trouble with the store, and says which folder the user needs rights to."""
    home = tmp_path / ".twinraven"
    assert main(["init", str(tmp_path)]) == 0
    (home / "twinraven.db").unlink(missing_ok=True)
    (home / "twinraven.db").mkdir()
    assert main([*command.split(), "--home", str(home)]) == 3
    said = capsys.readouterr().err
    assert "SQLite: unable to open database file" in said
    assert f"fix: let your user read and write {home} and its files" in said
