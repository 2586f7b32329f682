"""Writes and reads a backup file: an uncompressed tar of regular files, with their SHA-256 sums as its last member.

Anybody can open it with `tar` and check it with `sha256sum -c SHA256SUMS`. An archive comes from outside, so nothing in
it is trusted before all of it was read: names that lead elsewhere, links, devices, names that come twice, files that no
sum covers and sums that no file matches are refused, and so is an archive that was cut off.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from twinraven.foundation.errors import InvalidInput

SUMS = "SHA256SUMS"
_CHUNK = 1 << 20
_PRIVATE = 0o600
_SUM_LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)")


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class ArchiveWriter:
    """Adds files and, at the end, their sums."""

    def __init__(self, out: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by `close`
        self._sums: list[tuple[str, str]] = []

    def add_bytes(self, name: str, body: bytes) -> None:
        self._add(name, io.BytesIO(body), len(body))

    def add_file(self, name: str, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            self._add(name, file, os.fstat(descriptor).st_size)

    def close(self) -> None:
        """Write the sums and end the archive."""
        lines = "".join(f"{digest}  {name}\n" for name, digest in self._sums)
        self._add(SUMS, io.BytesIO(lines.encode()), len(lines.encode()))
        self._tar.close()

    def _add(self, name: str, file: IO[bytes], size: int) -> None:
        info = tarfile.TarInfo(check_member(name))
        info.size, info.mode = size, _PRIVATE
        hashed = _Hashed(file)
        self._tar.addfile(info, hashed)  # pyright: ignore[reportArgumentType] - tarfile only reads
        self._sums.append((name, hashed.digest.hexdigest()))


class _Hashed:
    """Hashes what is read through it."""

    def __init__(self, file: _Readable) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        body = self._file.read(size)
        self.digest.update(body)
        return body


def check_member(name: str) -> str:
    """Return a name that stays below the folder it is unpacked into."""
    path = PurePosixPath(name)
    parts = path.parts
    if not parts or path.is_absolute() or ".." in parts or str(path) != name or "\\" in name or not name.isprintable():
        raise InvalidInput(f"the archive holds a file with the name {name!r}, which leads elsewhere", field="file")
    return name


def unpack(archive: Path, into: Path) -> list[str]:
    """Read all of an archive into an empty folder, check every sum, and name the files."""
    try:
        with tarfile.open(archive, mode="r:") as tar:
            sums = {member.name: _unpack_member(tar, member, into) for member in _members(tar)}
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{archive} is damaged or no backup: {error}", field="file") from error
    except OSError as error:
        raise InvalidInput(f"{archive} cannot be read: {error.strerror or error}", field="file") from error
    _check_sums(archive, into, sums)
    return sorted(sums.keys() - {SUMS})


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    seen: set[str] = set()
    for member in tar:
        check_member(member.name)
        if not member.isreg() or member.issparse():
            raise InvalidInput(f"the archive holds {member.name!r}, which is no plain file", field="file")
        if member.name in seen:
            raise InvalidInput(f"the archive holds {member.name!r} twice", field="file")
        seen.add(member.name)
        yield member


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> str:
    target = into / member.name
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    source = tar.extractfile(member)
    assert source is not None
    digest = hashlib.sha256()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
    with os.fdopen(descriptor, "wb") as out:
        while body := source.read(_CHUNK):
            digest.update(body)
            out.write(body)
        out.flush()
        os.fsync(descriptor)
    if target.stat().st_size != member.size:
        raise InvalidInput(f"the archive was cut off inside {member.name!r}", field="file")
    return digest.hexdigest()


def _check_sums(archive: Path, into: Path, found: dict[str, str]) -> None:
    if SUMS not in found:
        raise InvalidInput(f"{archive} is no backup, or was cut off: it ends without {SUMS}", field="file")
    stated: dict[str, str] = {}
    for line in (into / SUMS).read_text("utf-8", "replace").splitlines():
        match = _SUM_LINE.fullmatch(line)
        if match is None:
            raise InvalidInput(f"{SUMS} of {archive} cannot be read", field="file")
        stated[match[2]] = match[1]
    actual = {name: digest for name, digest in found.items() if name != SUMS}
    wrong = sorted(name for name in stated.keys() | actual.keys() if stated.get(name) != actual.get(name))
    if wrong:
        raise InvalidInput(f"{archive} is damaged: {', '.join(wrong[:5])} is not what was backed up", field="file")
