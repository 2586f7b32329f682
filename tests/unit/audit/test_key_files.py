"""Key files: whole, private, and kept through every change."""

from __future__ import annotations

import base64
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from twinraven.audit import KeyRing
from twinraven.audit.key_files import fingerprint
from twinraven.foundation.errors import Conflict, InvalidSetting, StorageBusy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "keys" / "kek.json"


def given(*keys: bytes) -> dict[str, str]:
    return {"KEYS": ",".join(base64.b64encode(key).decode() for key in keys)}


def test_the_first_use_makes_a_private_file(path: Path) -> None:
    """The file and its folder are readable by their owner alone, and the key has 256 bits."""
    key = KeyRing(path).active()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(key.key) == 32
    assert KeyRing(path).active() == key


def test_a_key_is_not_printed(path: Path) -> None:
    """Printing a generation shows its id and not its key."""
    key = KeyRing(path).active()
    assert repr(key.key) not in repr(key)
    assert key.id == fingerprint(key.key)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o610])
def test_a_file_others_can_reach_is_refused(path: Path, mode: int) -> None:
    """A key that may have been read is not used, and the error says what to do."""
    KeyRing(path).active()
    path.chmod(mode)
    with pytest.raises(InvalidSetting, match="chmod 600"):
        KeyRing(path).active()


def test_a_link_is_refused(path: Path, tmp_path: Path) -> None:
    """A key file is the file itself, not a way to another one."""
    KeyRing(path).active()
    elsewhere = tmp_path / "elsewhere.json"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(InvalidSetting):
        KeyRing(path).active()


@pytest.mark.parametrize("body", ["", "{}", '{"generations": [{"id": "x"}]}', '{"generations": 3}', "not json"])
def test_a_damaged_file_is_refused_and_left_alone(path: Path, body: str) -> None:
    """Nothing makes a new key over a file that cannot be understood: what it sealed would be lost."""
    KeyRing(path).active()
    path.write_text(body)
    with pytest.raises(InvalidSetting):
        KeyRing(path).active()
    with pytest.raises(InvalidSetting):
        KeyRing(path).renew()
    assert path.read_text() == body


def test_a_key_that_does_not_match_its_id_is_refused(path: Path) -> None:
    """A flipped bit in the file is noticed before anything is sealed with it."""
    key = KeyRing(path).active()
    other = base64.b64encode(os.urandom(32)).decode()
    path.write_text(path.read_text().replace(base64.b64encode(key.key).decode(), other))
    with pytest.raises(InvalidSetting):
        KeyRing(path).active()


def test_renewal_keeps_what_was_before(path: Path) -> None:
    """A new generation becomes active and the old ones stay to be found."""
    ring = KeyRing(path)
    first = ring.active()
    second = ring.renew()
    assert ring.active() == second
    found = KeyRing(path).find(first.id)
    assert found is not None
    assert found.key == first.key
    assert found.retired_at is not None
    assert ring.first().id == first.id


def test_another_process_is_noticed(path: Path) -> None:
    """A generation that somebody else made is found by a ring that was read before."""
    mine = KeyRing(path)
    mine.active()
    made = KeyRing(path).renew()
    assert mine.find(made.id) == made
    assert mine.find("0" * 32) is None


def test_only_retired_generations_are_dropped(path: Path) -> None:
    """The active key cannot be dropped by any mistake."""
    ring = KeyRing(path)
    first = ring.active()
    second = ring.renew()
    assert ring.drop([second.id]) == []
    assert ring.drop([first.id, "0" * 32]) == [first.id]
    assert [one.id for one in ring.generations()] == [second.id]


def test_a_killed_writer_leaves_the_old_file(path: Path) -> None:
    """What a writer left unfinished beside the file is ignored and swept away by the next."""
    ring = KeyRing(path)
    first = ring.active()
    left = path.with_name(f".{path.name}.dead.new")
    left.write_text("half of a k")
    assert KeyRing(path).active() == first
    ring.renew()
    assert not left.exists()
    assert ring.find(first.id) is not None


def test_the_environment_decides_and_the_file_still_opens(path: Path) -> None:
    """With a key from outside nothing is written, and what the file's keys sealed stays readable."""
    kept = KeyRing(path).active()
    before = path.read_bytes()
    new, old = os.urandom(32), os.urandom(32)
    ring = KeyRing(path, variable="KEYS", environ=given(new, old))
    assert ring.active().key == new
    assert {ring.find(one) is not None for one in (fingerprint(old), kept.id)} == {True}
    assert ring.first().key == old
    with pytest.raises(Conflict, match="KEYS"):
        ring.renew()
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["short", base64.b64encode(b"x" * 31).decode(), "!" * 44])
def test_a_key_of_the_wrong_form_is_refused(path: Path, text: str) -> None:
    """A key from the environment must be 32 bytes in base64, and the error does not repeat it."""
    with pytest.raises(InvalidSetting) as refusal:
        KeyRing(path, variable="KEYS", environ={"KEYS": text}).active()
    assert text not in refusal.value.message


def test_processes_that_start_together_agree(path: Path) -> None:
    """Of many first uses at once one makes the key, and all have it."""
    program = (
        "import sys; from pathlib import Path; from twinraven.audit import KeyRing; "
        "print(KeyRing(Path(sys.argv[1])).active().id)"
    )
    command = [sys.executable, "-c", program, str(path)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    assert len({process.communicate()[0] for process in started}) == 1


def test_two_rotations_at_once_are_refused(path: Path) -> None:
    """The second process is told to wait instead of undoing the first."""
    ring = KeyRing(path)
    with ring.rotation(), pytest.raises(Conflict), KeyRing(path).rotation():
        pass
    with ring.rotation():
        pass


def test_a_stopped_process_does_not_hold_others_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds the lock of the keys held waits for a while and says whose it is; freed, the key is made."""
    monkeypatch.setattr("twinraven.audit.key_files._PATIENCE_S", 0.05)
    path.parent.mkdir(parents=True, mode=0o700)
    with path.with_name(".kek.lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StorageBusy, match="end that process if it is stopped"):
            KeyRing(path).active()
        assert not path.exists()
    assert KeyRing(path).active().key
