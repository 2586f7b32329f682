"""Keeps key rings: generations of 32 random bytes, in a file that only its owner may read or in the environment.

A ring has one active generation and may keep retired ones, named by a fingerprint of the key. The file is replaced
whole (written beside it, synced, renamed, the folder synced) and changed only under a lock, so a process killed at any
moment leaves the old ring or the new one, and two processes never undo each other's change. A file that others can read
is refused: a key that may have been read is not a key.

The environment variable, where set, holds one or more keys in base64, the active one first; generations in the file
stay usable beside it, so a home can move from one to the other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import Conflict, InvalidSetting, StorageBusy

_PATIENCE_S: Final = 30.0
_GLANCE_S: Final = 0.005

KEY_BYTES = 32
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class KeyGeneration:
    """One key and its place in time; `retired_at` is None for the active one."""

    id: str
    key: bytes = field(repr=False)
    made_at: int
    retired_at: int | None = None


def fingerprint(key: bytes) -> str:
    """Return the id of a key: says which key it is and nothing about it."""
    return hashlib.sha256(b"twinraven.key.id\0" + key).hexdigest()[:32]


class KeyRing:
    """The generations of one kind of key."""

    def __init__(
        self,
        path: Path,
        *,
        variable: str | None = None,
        environ: Mapping[str, str] = os.environ,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self.path = path
        self._variable = variable
        self._environ = environ
        self._micros = micros
        self._loaded: tuple[KeyGeneration, ...] | None = None

    @property
    def is_given(self) -> bool:
        """Whether the environment decides which key is active."""
        return self._variable is not None and bool(self._environ.get(self._variable))

    def active(self) -> KeyGeneration:
        """Return the generation to use for what is new; the first one is made when there is none."""
        generations = self.generations()
        if not generations:
            with self._changing() as kept:
                generations = kept or (self._new_generation(),)
                if not kept:
                    self._replace(generations)
        return generations[0]

    def first(self) -> KeyGeneration:
        """Return the oldest generation, for what must stay the same however often the ring is renewed."""
        self.active()
        return (self._given() or self.generations())[-1]

    def find(self, id: str) -> KeyGeneration | None:
        """Find a generation by its id; one that another process made a moment ago is found too."""
        return _named(id, self.generations()) or _named(id, self.reload())

    def generations(self) -> tuple[KeyGeneration, ...]:
        """Return all of them, the active one first."""
        return self.reload() if self._loaded is None else self._loaded

    def reload(self) -> tuple[KeyGeneration, ...]:
        """Read what the environment and the file say now."""
        given = self._given()
        ids = {generation.id for generation in given}
        kept = [generation for generation in self._read() if generation.id not in ids]
        if given:
            kept = [replace(one, retired_at=one.retired_at or one.made_at) for one in kept]
        self._loaded = (*given, *kept)
        return self._loaded

    def renew(self) -> KeyGeneration:
        """Make a new active generation; the ones before it are retired and kept."""
        if self.is_given:
            raise Conflict(
                f"the key comes from {self._variable}; put the new key first and the old one behind it, "
                "separated by a comma",
                variable=self._variable,
            )
        with self._changing() as kept:
            now = self._micros()
            fresh = self._new_generation()
            self._replace((fresh, *(replace(one, retired_at=one.retired_at or now) for one in kept)))
        return fresh

    def drop(self, ids: Iterable[str]) -> list[str]:
        """Forget retired generations of the file; what only they open is lost."""
        unwanted = set(ids)
        with self._changing() as kept:
            dropped = [one.id for one in kept if one.id in unwanted and one.retired_at is not None]
            if dropped:
                self._replace([one for one in kept if one.id not in dropped])
        return dropped

    @contextmanager
    def rotation(self) -> Generator[None]:
        """Be the only process on this machine that rotates; a second one is refused, not queued."""
        with _locked(self._lock_path("rotation"), patience_s=0) as alone:
            if not alone:
                raise Conflict("another process is rotating these keys; wait for it to finish")
            yield

    def _new_generation(self) -> KeyGeneration:
        key = os.urandom(KEY_BYTES)
        return KeyGeneration(fingerprint(key), key, self._micros())

    def _given(self) -> list[KeyGeneration]:
        text = self._environ.get(self._variable, "") if self._variable is not None else ""
        parts = [part.strip() for part in text.split(",") if part.strip()]
        keys = [_decoded(part, f"environment variable {self._variable}") for part in parts]
        return [KeyGeneration(fingerprint(key), key, 0, 0 if place else None) for place, key in enumerate(keys)]

    def _read(self) -> list[KeyGeneration]:
        body = read_private(self.path)
        if body is None:
            return []
        try:
            rows: list[dict[str, Any]] = json.loads(body)["generations"]
            return [_to_generation(row, self.path) for row in rows]
        except (ValueError, KeyError, TypeError):
            raise InvalidSetting(f"{self.path} is not a key file; restore it from a backup", field="keys") from None

    @contextmanager
    def _changing(self) -> Generator[tuple[KeyGeneration, ...]]:
        _make_private_folder(self.path.parent)
        path = self._lock_path("lock")
        with _locked(path, patience_s=_PATIENCE_S) as is_held:
            if not is_held:
                held = f"another process has held {path} for {_PATIENCE_S:.0f} s"
                raise StorageBusy(f"{held} to change keys; end that process if it is stopped")
            yield tuple(self._read())
        self.reload()

    def _lock_path(self, kind: str) -> Path:
        return self.path.with_name(f".{self.path.stem}.{kind}")

    def _replace(self, generations: Iterable[KeyGeneration]) -> None:
        rows = [
            {
                "id": one.id,
                "key": base64.b64encode(one.key).decode(),
                "made_at": one.made_at,
                "retired_at": one.retired_at,
            }
            for one in generations
        ]
        replace_private(self.path, json.dumps({"format": 1, "generations": rows}, indent=1).encode())


def read_private(path: Path) -> bytes | None:
    """Read a file that only its owner can read, or return None where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror}", field="keys") from None
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) or mode & _OTHERS:
            raise InvalidSetting(
                f"{path} can be read by others (mode {stat.S_IMODE(mode):04o}); "
                f"run `chmod 600 {path}`, and rotate the key if somebody may have read it",
                field="keys",
            )
        return file.read()


def replace_private(path: Path, body: bytes) -> None:
    """Replace a file atomically, readable by its owner alone at any moment."""
    for left in path.parent.glob(f".{path.name}.*.new"):
        left.unlink(missing_ok=True)
    fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(descriptor)
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names that were just created or renamed in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _named(id: str, generations: Iterable[KeyGeneration]) -> KeyGeneration | None:
    return next((one for one in generations if one.id == id), None)


def _make_private_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSetting(f"cannot create {folder}: {error.strerror}", field="keys") from None


@contextmanager
def _locked(path: Path, *, patience_s: float) -> Generator[bool]:
    """Hold a lock that ends with its process; a process that is merely stopped keeps it, so waiting has an end."""
    import fcntl

    _make_private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE_FILE)
    until = time.monotonic() + patience_s
    is_held = False
    try:
        while not is_held:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_held = True
            except BlockingIOError:
                if time.monotonic() >= until:
                    break
                time.sleep(_GLANCE_S)
        yield is_held
    finally:
        os.close(descriptor)


def _decoded(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidSetting(
            f"{where} must hold {KEY_BYTES} random bytes in base64; make them with `openssl rand -base64 {KEY_BYTES}`",
            field=where.rpartition(" ")[2],
        )
    return key


def _to_generation(row: Mapping[str, Any], path: Path) -> KeyGeneration:
    key = _decoded(row["key"], f"key file {path}")
    if row["id"] != fingerprint(key):
        raise ValueError("the key does not match its id")
    return KeyGeneration(row["id"], key, int(row["made_at"]), row["retired_at"])
