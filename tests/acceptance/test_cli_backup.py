"""A home in one file and back: beside a recorder, damaged, hostile, onto another machine."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell, call, calls_file, home_in
from tests.postgres import PostgresLogin
from tests.recording import start_recorder
from twinraven.storage import open_database
from twinraven.storage.sqlite import library

SUMS = "SHA256SUMS"


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home with two sessions, a secret, a learned tool's file and a backup of it, keys included."""
    shell = home_in(made(tmp_path / "here"))
    shell.succeed("import", str(calls_file(tmp_path / "calls.jsonl", [call("a", 1), call("b", 1)])))
    shell.succeed("secrets", "set", "shop", "--type", "api_key", stdin=b"a-secret-of-the-shop")
    tool = shell.folder / ".twinraven" / "tools" / "generated" / "greet" / "v1.json"
    tool.parent.mkdir(parents=True)
    tool.write_text('{"tool_id": "greet"}')
    shell.succeed("backup", "home.tar", "--with-keys")
    return shell


def sessions(shell: Shell, *arguments: str) -> list[str]:
    return sorted(session["session_id"] for session in shell.json("sessions", "list", *arguments))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a home that a reader or a writer of it would miss."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".lock", ".rotation"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def rewritten(archive: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The archive with its members changed and its sums right."""
    with tarfile.open(archive) as tar:
        members = {info.name: (tar.extractfile(info) or io.BytesIO()).read() for info in tar}
    members.pop(SUMS)
    change(members)
    sums = "".join(f"{hashlib.sha256(body).hexdigest()}  {name}\n" for name, body in members.items())
    changed = archive.with_name("changed.tar")
    with tarfile.open(changed, "w") as tar:
        for name, body in {**members, SUMS: sums.encode()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return changed


def test_a_home_is_put_back_on_another_machine(shell: Shell, tmp_path: Path) -> None:
    """Sessions, tools, secrets' keys and a chain that verifies are there again where nothing was."""
    other = made(tmp_path / "other machine")
    there = Shell(other)
    restored = there.json("restore", str(shell.folder / "home.tar"))
    assert restored["home"] == str(other / ".twinraven")
    assert sessions(there) == sessions(shell) == ["a", "b"]
    assert there.json("audit", "verify")["ok"] is True
    assert there.json("secrets", "list") == shell.json("secrets", "list")
    assert (other / ".twinraven/tools/generated/greet/v1.json").read_text() == '{"tool_id": "greet"}'
    for name in ("kek.keys", "audit.keys"):
        path = other / ".twinraven" / "keys" / name
        assert path.read_bytes() == (shell.folder / ".twinraven" / "keys" / name).read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_backup_is_private_and_holds_no_keys_unless_asked(shell: Shell) -> None:
    """Only its owner may read it, and without `--with-keys` no key and no secret's value is in it."""
    shell.succeed("backup", "plain.tar")
    file = shell.folder / "plain.tar"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as tar:
        assert sorted(tar.getnames()) == [SUMS, "manifest.json", "tools/greet/v1.json", "twinraven.db"]
    generations = json.loads((shell.folder / ".twinraven/keys/kek.keys").read_bytes())["generations"]
    assert generations[0]["key"].encode() not in file.read_bytes()
    assert b"a-secret-of-the-shop" not in (shell.folder / "home.tar").read_bytes()
    assert [path.name for path in shell.folder.iterdir() if path.name.startswith(".twinraven-")] == []


def test_a_database_is_not_replaced_unless_told_to(shell: Shell) -> None:
    """Without `--force` a restore over a home is refused and changes nothing; with it, later sessions are gone."""
    shell.succeed("import", "-", stdin=json.dumps(call("later", 1)).encode())
    before = contents(shell.folder / ".twinraven")
    refused = shell.run("restore", "home.tar")
    assert refused.code == 1
    assert "--force" in refused.err
    assert contents(shell.folder / ".twinraven") == before
    shell.succeed("restore", "home.tar", "--force")
    assert sessions(shell) == ["a", "b"]
    assert shell.json("audit", "verify")["ok"] is True


def test_a_backup_beside_a_recorder_is_one_moment(shell: Shell, tmp_path: Path) -> None:
    """A copy made while somebody records holds all that was acknowledged before it, whole and in order."""
    url = f"sqlite:///{shell.folder / '.twinraven' / 'twinraven.db'}"
    recorder = start_recorder(url, "busy", 2000, "--acknowledge")
    for _ in range(100):
        assert recorder.stdout.readline()
    for number in range(3):
        shell.succeed("backup", f"busy{number}.tar")
    printed, _ = recorder.communicate()
    assert recorder.returncode == 0
    assert len(printed.splitlines()) == 1900
    seen: list[int] = []
    for number in range(3):
        there = Shell(made(tmp_path / f"copy{number}"))
        there.succeed("restore", str(shell.folder / f"busy{number}.tar"))
        events = there.json("sessions", "show", "busy")
        seen.append(len(events))
        assert [event["arrival"] for event in events] == sorted(event["arrival"] for event in events)
        assert there.json("doctor")
    assert 100 <= seen[0] <= seen[1] <= seen[2] <= 2000


@pytest.mark.parametrize("place", [0.01, 0.3, 0.6, 0.9, 0.99])
def test_a_damaged_archive_is_refused_and_nothing_changes(shell: Shell, place: float) -> None:
    """Wherever bytes are lost, the home stays exactly as it was."""
    archive = shell.folder / "home.tar"
    body = bytearray(archive.read_bytes())
    used = len(bytes(body).rstrip(b"\0"))
    start = int(used * place)
    body[start : start + 40] = bytes(value ^ 0xFF for value in body[start : start + 40])
    archive.write_bytes(body)
    before = contents(shell.folder / ".twinraven")
    refused = shell.run("restore", "home.tar", "--force")
    assert refused.code == 2
    assert refused.err.startswith("twinraven: error:")
    assert contents(shell.folder / ".twinraven") == before


def hide(name: str, body: bytes = b"x") -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.update({name: body})


def leave_out(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        del members[name]

    return change


def without_guard(members: dict[str, bytes]) -> None:
    members["twinraven.db"] = _changed_database(members["twinraven.db"], "DROP TRIGGER muninn_event_log_no_delete")


def from_the_future(members: dict[str, bytes]) -> None:
    members["twinraven.db"] = _changed_database(
        members["twinraven.db"], "INSERT INTO schema_migrations VALUES (9999, 'm9999_future', 0)"
    )


def other_format(members: dict[str, bytes]) -> None:
    members["manifest.json"] = json.dumps({**json.loads(members["manifest.json"]), "format": 99}).encode()


def _changed_database(body: bytes, statement: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "twinraven.db"
        path.write_bytes(body)
        raw: Any = library.connect(str(path), isolation_level=None)
        raw.execute(statement)
        raw.close()
        return path.read_bytes()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (hide("../../escaped"), "leads elsewhere"),
        (hide("/tmp/twinraven-escaped"), "leads elsewhere"),
        (hide("tools/../../escaped"), "leads elsewhere"),
        (hide("bin/run"), "belongs to no part"),
        (hide("twinraven.db", b"not a database" * 100), "cannot be read"),
        (leave_out("twinraven.db"), "lacks"),
        (leave_out("manifest.json"), "lacks"),
        (other_format, "format 99"),
        (without_guard, "append-only guard"),
        (from_the_future, "newer TwinRaven"),
    ],
)
def test_a_hostile_archive_is_refused_and_nothing_changes(
    shell: Shell, change: Callable[[dict[str, bytes]], None], reason: str
) -> None:
    """Names that lead elsewhere, strange files and databases that cannot be trusted are refused, right sums or not."""
    changed = rewritten(shell.folder / "home.tar", change)
    before = contents(shell.folder / ".twinraven")
    refused = shell.run("restore", str(changed), "--force")
    assert refused.code == 2
    assert reason in refused.err
    assert contents(shell.folder / ".twinraven") == before
    assert not list(shell.folder.parent.glob("escaped"))
    assert not Path("/tmp/twinraven-escaped").exists()


def test_a_database_that_somebody_has_open_is_not_replaced(shell: Shell) -> None:
    """A restore waits for nobody: it refuses while another process could go on writing to the old file."""
    database = open_database(f"sqlite:///{shell.folder / '.twinraven' / 'twinraven.db'}")
    holder = database.connect()
    with holder.transaction("default", write=False) as tx:
        tx.fetch_all("SELECT count(*) FROM blobs")
        refused = shell.run("restore", "home.tar", "--force")
    holder.close()
    database.close()
    assert refused.code == 3
    assert "stop it first" in refused.err
    assert sessions(shell) == ["a", "b"]
    shell.succeed("restore", "home.tar", "--force")


@pytest.mark.parametrize("wreck", [b"", b"no database at all", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_ruined_database_is_replaced(shell: Shell, wreck: bytes) -> None:
    """What cannot be opened any more, with whatever log lies beside it, does not stand in a restore's way."""
    home = shell.folder / ".twinraven"
    (home / "twinraven.db").write_bytes(wreck)
    (home / "twinraven.db-wal").write_bytes(b"left over")
    shell.succeed("restore", "home.tar", "--force")
    assert sessions(shell) == ["a", "b"]


def test_keys_that_are_there_are_kept_beside_those_that_arrive(shell: Shell, tmp_path: Path) -> None:
    """A restore into a home with keys of its own leads with the archive's and loses none."""
    other = home_in(made(tmp_path / "other"))
    other.succeed("secrets", "set", "own", "--type", "password", stdin=b"another-secret-here")
    own = json.loads((other.folder / ".twinraven/keys/kek.keys").read_bytes())["generations"]
    arriving = json.loads((shell.folder / ".twinraven/keys/kek.keys").read_bytes())["generations"]
    other.succeed("restore", str(shell.folder / "home.tar"), "--force")
    merged = json.loads((other.folder / ".twinraven/keys/kek.keys").read_bytes())["generations"]
    assert [row["id"] for row in merged] == [arriving[0]["id"], own[0]["id"]]
    assert [row["retired_at"] is None for row in merged] == [True, False]
    assert other.json("audit", "verify")["ok"] is True


def test_tools_that_the_backup_does_not_know_are_gone(shell: Shell) -> None:
    """The folder of learned tools is the archive's after a restore, not a mixture."""
    generated = shell.folder / ".twinraven" / "tools" / "generated"
    (generated / "later").mkdir()
    (generated / "later" / "v1.json").write_text("{}")
    shell.succeed("restore", "home.tar", "--force")
    assert [path.name for path in generated.rglob("*.json")] == ["v1.json"]
    assert (generated / "greet").is_dir()


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_shared_database_is_left_to_its_own_tools(
    tmp_path: Path, postgres_login: PostgresLogin, command: str
) -> None:
    """On Postgres both commands end with 2 and name the tool to use."""
    shell = home_in(tmp_path)
    shell.env["TWINRAVEN__STORAGE__URL"] = postgres_login.url
    ended = shell.run(command, "home.tar")
    assert ended.code == 2
    assert f"pg_{'dump' if command == 'backup' else 'restore'}" in ended.err
    assert not (tmp_path / "home.tar").exists()


def test_a_file_that_is_not_there_is_bad_input(shell: Shell) -> None:
    """Neither a missing archive nor a folder that cannot be written leaves anything behind."""
    assert shell.run("restore", "nowhere.tar", "--force").code == 2
    ended = shell.run("backup", "nowhere/home.tar")
    assert ended.code == 2
    assert "nowhere" in ended.err


def test_sums_can_be_checked_without_us(shell: Shell, tmp_path: Path) -> None:
    """An archive is a tar with SHA-256 sums that common tools verify."""
    place = made(tmp_path / "by hand")
    subprocess.run(["tar", "xf", str(shell.folder / "home.tar")], cwd=place, check=True)
    subprocess.run(["sha256sum", "--strict", "-c", SUMS], cwd=place, check=True, capture_output=True)
