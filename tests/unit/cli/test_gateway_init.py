"""`gateway init` puts its file in place on every system, and never over one that it did not mean."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from twinraven.cli import main


class Home:
    """A home without servers, and the file of a client that has one."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".twinraven"
        self.path.mkdir()
        self.servers = self.path / "mcp.json"
        self._client = folder / "client.json"
        self._client.write_text(json.dumps({"mcpServers": {"git": {"command": "git-server"}}}))

    def write_client(self, **servers: object) -> None:
        self._client.write_text(json.dumps({"mcpServers": servers}))

    def initialize(self, *more: str) -> int:
        return main(["gateway", "init", "--home", str(self.path), "--from", str(self._client), *more])

    def names(self) -> list[str]:
        return list(json.loads(self.servers.read_text())["mcpServers"])

    def files(self) -> list[str]:
        return [file.name for file in self.path.iterdir()]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_what_only_the_client_can_fill_in_is_named(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Variables of a client are told with their place when its servers are taken over; ours are not."""
    home.write_client(
        gh={"command": "x", "args": ["${workspaceFolder}/a"], "env": {"T": "${input:gh}", "U": "${secret:gh}"}}
    )
    assert home.initialize() == 0
    said = capsys.readouterr().out
    assert "gh: ${workspaceFolder} in args[0]\n" in said
    assert "gh: ${input:gh} in env.T\n" in said
    assert "${secret:gh}" not in said


def refuse_link(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_a_file_is_replaced_where_permissions_are_of_another_kind(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--force` works on a system that cannot change the permissions of an open file."""
    monkeypatch.delattr(os, "fchmod")
    home.servers.write_text('{"mcpServers": {}}')
    assert home.initialize("--force") == 0
    assert home.names() == ["git"]


@pytest.mark.parametrize("has_links", [True, False])
def test_servers_that_appear_meanwhile_are_not_overwritten(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, has_links: bool
) -> None:
    """A file that another program puts there while ours is being written stays, with links or without, and alone."""
    sync = os.fsync

    def sync_while_another_writes(descriptor: int) -> None:
        sync(descriptor)
        home.servers.write_text("theirs")

    monkeypatch.setattr(os, "fsync", sync_while_another_writes)
    if not has_links:
        monkeypatch.setattr(os, "link", refuse_link)
    assert home.initialize() == 2
    assert "is there already; --force replaces it" in capsys.readouterr().err
    assert home.servers.read_text() == "theirs"
    assert home.files() == ["mcp.json"]


@pytest.mark.parametrize("has_links", [True, False])
def test_new_servers_come_whole(home: Home, monkeypatch: pytest.MonkeyPatch, *, has_links: bool) -> None:
    """With links or without, a new file is for its owner alone, and nothing is left beside it."""
    if not has_links:
        monkeypatch.setattr(os, "link", refuse_link)
    assert home.initialize() == 0
    assert home.names() == ["git"]
    assert stat.S_IMODE(home.servers.stat().st_mode) == 0o600
    assert home.files() == ["mcp.json"]


def test_a_place_that_was_only_held_is_given_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the finished file cannot take the place held for it, no empty one stays there."""

    def refuse_replacement(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", refuse_link)
    monkeypatch.setattr(os, "replace", refuse_replacement)
    assert home.initialize() == 2
    assert home.files() == []
