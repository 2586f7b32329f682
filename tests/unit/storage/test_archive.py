"""Archives from outside: what is read back is what was written, and nothing else is ever accepted."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twinraven.foundation.errors import InvalidInput
from twinraven.storage.archive import SUMS, ArchiveWriter, unpack


def archive_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    writer = ArchiveWriter(out)
    for name, body in files.items():
        writer.add_bytes(name, body)
    writer.close()
    return out.getvalue()


FILES = {"manifest.json": b"{}", "twinraven.db": b"\0" * 3000, "tools/a/v1.json": b"[1]"}
WHOLE = archive_of(FILES)


def unpacked(folder: Path, archive: bytes) -> dict[str, bytes]:
    file, into = folder / "archive.tar", folder / "into"
    file.write_bytes(archive)
    into.mkdir()
    return {name: (into / name).read_bytes() for name in unpack(file, into)}


def hostile(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """An archive with members of any kind and sums that cover them."""
    out = io.BytesIO()
    sums = "".join(f"{hashlib.sha256(body).hexdigest()}  {info.name}\n" for info, body in members).encode()
    closing = tarfile.TarInfo(SUMS)
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, body in (*members, (closing, sums)):
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return out.getvalue()


def named(name: str, *, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Every file comes back under its name, readable by its owner alone."""
    assert unpacked(tmp_path, WHOLE) == FILES
    assert {(tmp_path / "into" / name).stat().st_mode & 0o777 for name in FILES} == {0o600}


def test_common_tools_can_check_an_archive(tmp_path: Path) -> None:
    """`tar` unpacks it and `sha256sum` agrees with its sums."""
    (tmp_path / "archive.tar").write_bytes(WHOLE)
    subprocess.run(["tar", "xf", "archive.tar"], cwd=tmp_path, check=True)
    subprocess.run(["sha256sum", "--strict", "-c", SUMS], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize(
    "name", ["../escaped", "/tmp/escaped", "a/../../escaped", "a/./b", "a//b", "..", "", "a\\b", "a\nb", "./a"]
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """No member is ever written outside the folder, whatever its name."""
    with pytest.raises(InvalidInput):
        unpacked(tmp_path, hostile((named(name), b"x")))
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize(
    "member",
    [
        named("link", kind=tarfile.SYMTYPE, target="/etc/passwd"),
        named("link", kind=tarfile.LNKTYPE, target="twinraven.db"),
        named("fifo", kind=tarfile.FIFOTYPE),
        named("device", kind=tarfile.CHRTYPE),
        named("folder", kind=tarfile.DIRTYPE),
    ],
    ids=["symlink", "hardlink", "fifo", "device", "folder"],
)
def test_only_plain_files_are_accepted(tmp_path: Path, member: tarfile.TarInfo) -> None:
    """Links, pipes and devices are refused, also where a sum covers them."""
    with pytest.raises(InvalidInput, match="no plain file"):
        unpacked(tmp_path, hostile((member, b"")))


def test_a_link_cannot_redirect_a_later_member(tmp_path: Path) -> None:
    """A folder that is a link is refused before anything is written through it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    link = named("tools", kind=tarfile.SYMTYPE, target=str(outside))
    with pytest.raises(InvalidInput):
        unpacked(tmp_path, hostile((link, b""), (named("tools/x"), b"y")))
    assert list(outside.iterdir()) == []


def test_a_member_that_comes_twice_is_refused(tmp_path: Path) -> None:
    """Which of two members of one name is meant cannot be known."""
    with pytest.raises(InvalidInput, match="twice"):
        unpacked(tmp_path, hostile((named("a"), b"1"), (named("a"), b"2")))


def test_every_member_needs_a_sum_and_every_sum_a_member(tmp_path: Path) -> None:
    """A file that was slipped in, or left out, shows."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, body in (("a", b"1"), (SUMS, f"{hashlib.sha256(b'1').hexdigest()}  b\n".encode())):
            info = named(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    with pytest.raises(InvalidInput, match="damaged"):
        unpacked(tmp_path, out.getvalue())


@settings(max_examples=300)
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
@example(0, 1)
def test_a_changed_byte_is_found_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, place: int, flip: int
) -> None:
    """Whatever byte of an archive changes, it is refused or what comes out is exactly what went in."""
    damaged = bytearray(WHOLE)
    damaged[place] ^= flip
    with suppress(InvalidInput):
        assert unpacked(tmp_path_factory.mktemp("flip"), bytes(damaged)) == FILES


@settings(max_examples=60)
@given(st.integers(0, len(WHOLE) - 1))
def test_an_archive_that_was_cut_off_is_refused(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    """Wherever an archive ends too early, it is refused, unless only its padding is missing."""
    try:
        assert unpacked(tmp_path_factory.mktemp("cut"), WHOLE[:length]) == FILES
    except InvalidInput:
        pass
    else:
        assert not WHOLE[length:].strip(b"\0")


@pytest.mark.parametrize("body", [b"", b"nonsense", b"\x1f\x8b" + b"x" * 100, b"\0" * 10240])
def test_what_is_no_archive_is_refused(tmp_path: Path, body: bytes) -> None:
    """Any other file is bad input, never a fault."""
    with pytest.raises(InvalidInput):
        unpacked(tmp_path, body)
