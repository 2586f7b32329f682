"""Handles folders that others can write into, without following links out of them.

Names are resolved one at a time below an open folder, never as paths, and a link is never followed: what is in the way
is refused with the reason. A file appears whole or not at all: it is written under another name, synchronised, renamed,
and then the folder is synchronised, too. Reading is bounded.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from twinraven.foundation.errors import InvalidDefinition, StorageError, StorageFull, StorageReadOnly
from twinraven.foundation.ids import new_id

MAX_FILE: Final = 16_000_000
_TEMPORARY: Final = ".tmp"


def _unix(*names: str) -> int:
    """Flags of `os.open` that only Unix has; nothing elsewhere, so that this module can be imported there."""
    return sum(getattr(os, name, 0) for name in names)


_NO_LINK: Final = _unix("O_NOFOLLOW", "O_CLOEXEC")
NO_SURPRISES: Final = _NO_LINK | _unix("O_NONBLOCK")
"""Flags for what may lie in a file's place: links are not followed, opening a pipe does not block."""
_FOLDER: Final = os.O_RDONLY | _NO_LINK | _unix("O_DIRECTORY")
_READ: Final = os.O_RDONLY | NO_SURPRISES
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK


class UnsafePath(InvalidDefinition):
    """Something on disk that is not what it should be; `path` says where."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path!r}: {why}", path=path)
        self.path = path
        self.why = why


class SafeFolder:
    """One open folder, accessed by descriptor; `path` is for messages."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path

    @property
    def descriptor(self) -> int:
        return self._descriptor

    @contextmanager
    def child(self, name: str, *, create: bool = False) -> Generator[SafeFolder | None]:
        """Provide a folder inside this one, or nothing where there is none and none is to be made."""
        descriptor = self._open_child(name, create=create)
        if descriptor is None:
            yield None
            return
        try:
            yield SafeFolder(descriptor, self.path / name)
        finally:
            os.close(descriptor)

    def names(self) -> list[str]:
        """Return the names in this folder."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entry.name for entry in entries)

    def read(self, name: str) -> bytes | None:
        """Read a plain file's content, or nothing where there is none."""
        try:
            descriptor = os.open(name, _READ, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnsafePath(self._shown(name), _why_unreadable(error)) from error
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise UnsafePath(self._shown(name), "is not a plain file")
            if found.st_size > MAX_FILE:
                raise UnsafePath(self._shown(name), f"has {found.st_size} bytes, more than the {MAX_FILE} allowed")
            with os.fdopen(os.dup(descriptor), "rb") as file:
                body = file.read(MAX_FILE + 1)
            if len(body) > MAX_FILE:
                raise UnsafePath(self._shown(name), f"has more than {MAX_FILE} bytes")
            return body
        finally:
            os.close(descriptor)

    def write(self, name: str, body: bytes) -> None:
        """Put a file in its place, whole and for good."""
        temporary = f".{name}.{new_id()}{_TEMPORARY}"
        try:
            descriptor = os.open(temporary, _CREATE, 0o644, dir_fd=self._descriptor)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(body)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            finally:
                # Once in its place it has that name no more.
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=self._descriptor)
            os.fsync(self._descriptor)
        except OSError as error:
            raise _unwritten(self._shown(name), error) from error

    def remove(self, name: str) -> None:
        """Take a file or a link away; what it points to stays."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)
            os.fsync(self._descriptor)

    def remove_child(self, name: str) -> None:
        """Take an empty folder away; one that holds anything stays."""
        with suppress(FileNotFoundError):
            try:
                os.rmdir(name, dir_fd=self._descriptor)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                os.fsync(self._descriptor)

    def _open_child(self, name: str, *, create: bool) -> int | None:
        try:
            return os.open(name, _FOLDER, dir_fd=self._descriptor)
        except FileNotFoundError:
            if not create:
                return None
        except OSError as error:
            raise UnsafePath(self._shown(name), _why_no_folder(error)) from error
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._descriptor)
            os.fsync(self._descriptor)
        except OSError as error:
            raise _unwritten(self._shown(name), error) from error
        return self._open_child(name, create=False)

    def _shown(self, name: str) -> str:
        return str(self.path / name)


@contextmanager
def open_root(path: Path, *, create: bool = False) -> Generator[SafeFolder | None]:
    """Provide the folder at a path that the settings name; only what lies below it is distrusted."""
    if create:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritten(str(path), error) from error
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise UnsafePath(str(path), _why_no_folder(error)) from error
    try:
        yield SafeFolder(descriptor, path)
    finally:
        os.close(descriptor)


def is_temporary(name: str) -> bool:
    """Return whether a file is what a writer leaves behind that died before it was done."""
    return name.startswith(".") and name.endswith(_TEMPORARY)


def _why_unreadable(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "is a link, and links are not followed"
    if error.errno == errno.ENXIO:
        return "is not a plain file"
    return f"cannot be read: {error.strerror}"


def _why_no_folder(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "is not a folder, or a link to one, and links are not followed"
    return f"cannot be opened: {error.strerror}"


def _unwritten(path: str, error: OSError) -> StorageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageFull(f"no room for {path}: {error.strerror}", path=path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageReadOnly(f"{path} cannot be written: {error.strerror}", path=path)
    return StorageError(f"{path} cannot be written: {error.strerror}", path=path)
