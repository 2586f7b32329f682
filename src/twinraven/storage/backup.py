"""Backs up and restores an embedded home: its database, and folders beside it.

A backup reads one snapshot of the database while others go on writing, and copies it compactly, so that nothing that
was deleted before is in it. A restore unpacks and checks everything before it touches anything. Then it goes in an
order in which every state between two steps is one the home can work in: keys are added, never taken away; the
database, which is the truth, changes hands in one rename; folders that can be made again from it come last.

While the database is replaced nobody else may have it open: a process that did would go on writing to a file that no
longer has a name.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from twinraven.foundation.clock import iso, utc_now
from twinraven.foundation.errors import Conflict, InvalidInput, StorageBusy, StorageCorrupt, StorageError
from twinraven.storage.archive import ArchiveWriter, unpack
from twinraven.storage.database import Transaction
from twinraven.storage.guards import APPEND_ONLY_TABLES, sqlite_guards
from twinraven.storage.sqlite import BUSY_TIMEOUT_S, SqliteDatabase, library, translate

FORMAT = 1
MANIFEST, DATABASE = "manifest.json", "twinraven.db"

Merge = Callable[[bytes, bytes], bytes]
"""From a file that is there and one from the archive, the file that serves both."""


class BackupFolder(NamedTuple):
    """A folder that is backed up beside the database, under a name of its own."""

    name: str
    path: Path
    merge: Merge | None = None
    """How files that are there already are kept; without it the folder is replaced as a whole."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The manifest of an archive."""

    made_at: str
    twinraven: str
    schema: tuple[str, ...]
    folders: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "made_at": self.made_at,
            "twinraven": self.twinraven,
            "schema": list(self.schema),
            "folders": list(self.folders),
        }


def write_backup(
    database: SqliteDatabase, out: IO[bytes], folders: Sequence[BackupFolder], *, scratch: Path, version: str
) -> BackupManifest:
    """Write an archive; `scratch` is where the copy of the database may lie meanwhile, `version` our own."""
    with _workplace(scratch, "backup") as place:
        copy = place / DATABASE
        _copy_database(database.path, copy)
        schema = _check_database(copy)
        manifest = BackupManifest(iso(utc_now()), version, schema, tuple(folder.name for folder in folders))
        archive = ArchiveWriter(out)
        archive.add_bytes(MANIFEST, json.dumps(manifest.as_json(), indent=1).encode())
        archive.add_file(DATABASE, copy)
        for folder in folders:
            for path in _files_of(folder.path):
                archive.add_file(f"{folder.name}/{path.relative_to(folder.path).as_posix()}", path)
        archive.close()
    return manifest


def restore_backup(
    archive: Path, database: SqliteDatabase, folders: Sequence[BackupFolder], *, force: bool = False
) -> BackupManifest:
    """Put an archive's database and folders in place; refuses to replace a database unless told to."""
    target = database.path
    if not archive.is_file():
        raise InvalidInput(f"there is no file {archive}", field="file")
    if target.exists() and not force:
        raise Conflict(f"{target} is there already; a restore would replace it", fix="add --force to replace it")
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _workplace(target.parent, "restore") as place:
        names = unpack(archive, place)
        manifest = _read_manifest(archive, place, names)
        _check_database(place / DATABASE)
        chosen = [folder for folder in folders if folder.name in manifest.folders]
        _check_names(archive, names, [folder.name for folder in chosen])
        for folder in chosen:
            if folder.merge is not None:
                _merge_folder(place / folder.name, folder.path, folder.merge)
        _replace_database(target, place / DATABASE)
        for folder in chosen:
            if folder.merge is None:
                _replace_folder(place / folder.name, folder.path)
    return manifest


def _copy_database(source: Path, target: Path) -> None:
    """A consistent copy without free pages; others read and write meanwhile."""
    if not source.exists():
        raise InvalidInput(f"there is no database at {source}", field="storage.url")
    try:
        raw = library.connect(str(source), timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            raw.execute("VACUUM INTO ?", (str(target),))
        finally:
            raw.close()
    except library.Error as error:
        raise translate(error) from error
    target.chmod(0o600)


def _check_database(path: Path) -> tuple[str, ...]:
    """Return the migrations of a copy that is sound, not newer than we are, and still guarded.

    Anything else is refused.
    """
    from twinraven.storage.migrations import STEPS

    copy = SqliteDatabase(path)
    connection = None
    try:
        steps = tuple(copy.applied().values())
        connection = copy.connect()
        with connection.transaction("", write=False) as tx:
            faults = _faults_of(tx)
    except StorageError as error:
        raise InvalidInput(f"the database in the backup cannot be read: {error.message}", field="file") from error
    finally:
        if connection is not None:
            connection.close()
        copy.close()
    unknown = sorted(set(steps).difference(STEPS))
    if unknown:
        faults.append(f"it was made by a newer TwinRaven ({', '.join(unknown)})")
    if faults or not steps:
        raise InvalidInput(f"the database in the backup cannot be used: {'; '.join(faults) or 'empty'}", field="file")
    return steps


def _faults_of(tx: Transaction) -> list[str]:
    faults = [row["quick_check"] for row in tx.fetch_all("PRAGMA quick_check(3)") if row["quick_check"] != "ok"]
    stored = tx.fetch_all("SELECT type, name, sql FROM sqlite_master")
    guarded = APPEND_ONLY_TABLES.intersection(row["name"] for row in stored if row["type"] == "table")
    triggers = {row["sql"] for row in stored if row["type"] == "trigger"}
    faults.extend(
        f"{table} has lost its append-only guard"
        for table in sorted(guarded)
        if not triggers.issuperset(sqlite_guards(table, ()))
    )
    return faults


def _read_manifest(archive: Path, place: Path, names: Sequence[str]) -> BackupManifest:
    if MANIFEST not in names or DATABASE not in names:
        raise InvalidInput(f"{archive} is no backup: it lacks {MANIFEST} or {DATABASE}", field="file")
    try:
        stated = json.loads((place / MANIFEST).read_bytes())
        number = int(stated["format"])
        manifest = BackupManifest(
            str(stated["made_at"]), str(stated["twinraven"]), tuple(stated["schema"]), tuple(stated["folders"])
        )
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"{MANIFEST} of {archive} cannot be read", field="file") from None
    if number != FORMAT:
        raise InvalidInput(f"{archive} has format {number}, this TwinRaven reads format {FORMAT}", field="file")
    return manifest


def _check_names(archive: Path, names: Sequence[str], folders: Sequence[str]) -> None:
    strangers = [name for name in names if name not in (MANIFEST, DATABASE) and name.partition("/")[0] not in folders]
    if strangers:
        raise InvalidInput(f"{archive} holds {strangers[0]!r}, which belongs to no part of a home", field="file")


def _files_of(folder: Path) -> list[Path]:
    """Plain files below a folder, without what programs keep there for themselves."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _merge_folder(source: Path, target: Path, merge: Merge) -> None:
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in _files_of(source):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        body = path.read_bytes()
        if place.exists():
            body = merge(place.read_bytes(), body)
        _write_private(place, body)


def _write_private(path: Path, body: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(descriptor)
    Path(name).replace(path)
    _sync_folder(path.parent)


def _replace_folder(source: Path, target: Path) -> None:
    """Put a copy of one folder in the place of another."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh, old = (Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.")) for _ in range(2))
    if source.exists():
        shutil.copytree(source, fresh, dirs_exist_ok=True)
    if target.exists():
        target.rename(old / target.name)
    fresh.rename(target)
    _sync_folder(target.parent)
    shutil.rmtree(old)


def _replace_database(target: Path, fresh: Path) -> None:
    lock = _Lock.on(target)
    try:
        if lock is None:
            # Without a sound database beside it, a log is nobody's and would be taken for the new database's.
            for suffix in ("-wal", "-shm"):
                Path(f"{target}{suffix}").unlink(missing_ok=True)
        fresh.replace(target)
        _sync_folder(target.parent)
        if lock is not None:
            lock.spoil()
    finally:
        if lock is not None:
            lock.release()


class _Lock:
    """Keeps everybody else out of a database file, and makes it useless to those who wait."""

    def __init__(self, raw: Any, descriptor: int) -> None:
        self._raw = raw
        self._descriptor = descriptor

    @classmethod
    def on(cls, path: Path) -> _Lock | None:
        """Be alone with a database; None where there is none, or none that is sound."""
        if not path.exists():
            return None
        raw = library.connect(str(path), timeout=0, isolation_level=None)
        try:
            # Leaving WAL mode takes that nobody else has the file open, and moves the log into the file.
            raw.execute("PRAGMA journal_mode = DELETE").fetchone()
            raw.execute("BEGIN EXCLUSIVE")
            raw.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except library.Error as error:
            raw.close()
            refusal = translate(error)
            if isinstance(refusal, StorageCorrupt):
                return None
            if isinstance(refusal, StorageBusy):
                raise StorageBusy(f"another process has {path} open; stop it first") from error
            raise refusal from error
        return cls(raw, os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def spoil(self) -> None:
        """Empty the old file, so that a process that waited for it gets an error and not a stale database."""
        os.ftruncate(self._descriptor, 0)

    def release(self) -> None:
        # Closing the descriptor first would drop SQLite's locks while the connection still believes in them.
        with suppress(library.Error):
            self._raw.close()
        os.close(self._descriptor)


@contextmanager
def _workplace(folder: Path, purpose: str) -> Generator[Path]:
    """Provide a folder that only we can read, gone afterwards; what a killed process left of one is gone too."""
    prefix = f".twinraven-{purpose}-"
    for left in folder.glob(f"{prefix}*"):
        with _held(left) as is_mine:
            if is_mine:
                shutil.rmtree(left, ignore_errors=True)
    try:
        place = Path(tempfile.mkdtemp(dir=folder, prefix=prefix))
    except OSError as error:
        raise InvalidInput(f"cannot write into {folder}: {error.strerror}", field="file") from error
    with _held(place):
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Generator[bool]:
    """Hold a folder as long as this process lives; False where another one does."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_mine = True
    except BlockingIOError:
        is_mine = False
    try:
        yield is_mine
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
