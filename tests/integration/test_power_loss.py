"""Power cuts: whatever was acknowledged is in every image a disk could show afterwards.

A recording process is traced. An image is what the disk may hold when the power fails between two system calls: all
that was synchronised before, and of what was only written since, any sectors and not others.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.recording import assert_linked
from tests.workers import ROOT
from twinraven.muninn import SqlEventStore
from twinraven.storage.sqlite import SqliteDatabase

SECTOR = 512
_CALLS = "pwrite64,write,fsync,fdatasync,ftruncate"
_LINE = re.compile(r'\d+ +(\w+)\((\d+)<([^>]*)>(?:, "([^"]*)", \d+(?:, (\d+))?|, (\d+))?\) += \d+')

_UNFINISHED = "<unfinished ...>"


class Traced(NamedTuple):
    """One system call that went well."""

    name: str
    descriptor: int
    path: str
    data: bytes
    place: int


@dataclass
class Disk:
    """What is safe, and what was only written so far."""

    safe: dict[str, bytearray]
    pending: dict[str, list[Traced]] = field(default_factory=dict[str, list[Traced]])

    def see(self, call: Traced) -> None:
        if call.name in ("fsync", "fdatasync"):
            for waiting in self.pending.pop(call.path, []):
                _apply(self.safe.setdefault(call.path, bytearray()), waiting)
        elif call.name in ("pwrite64", "ftruncate"):
            self.pending.setdefault(call.path, []).append(call)

    def image(self, rng: random.Random) -> dict[str, bytearray]:
        """The files as one power cut might leave them."""
        files = {path: bytearray(body) for path, body in self.safe.items()}
        for path, calls in self.pending.items():
            for call in calls:
                for part in _sectors(call):
                    if rng.random() < 0.5:
                        _apply(files.setdefault(path, bytearray()), part)
        return files


async def test_nothing_acknowledged_is_lost_when_the_power_fails(tmp_path: Path, *, full_scale: bool) -> None:
    """Of hundreds of images none lacks an acknowledged event, breaks a link or fails SQLite's own check."""
    if shutil.which("strace") is None:
        pytest.skip("system calls are recorded with strace, which is not installed here")
    calls = _record(tmp_path, 1_000 if full_scale else 150)
    images = 600 if full_scale else 40
    rng = random.Random(17)
    cuts = sorted(rng.randrange(len(calls)) for _ in range(images))
    disk = Disk({str(tmp_path / "log.db"): bytearray((tmp_path / "begin.db").read_bytes())})
    acknowledged: set[int] = set()
    seen = 0
    for cut in cuts:
        for call in calls[seen:cut]:
            disk.see(call)
            if call.name == "write" and call.descriptor == 1:
                acknowledged.add(int(call.data.split()[1]))
        seen = cut
        await _check(tmp_path / "image", disk.image(rng), acknowledged)
    assert len(acknowledged) > images


def _record(folder: Path, count: int) -> list[Traced]:
    database = SqliteDatabase(folder / "log.db")
    database.migrate()
    database.close()
    shutil.copy(folder / "log.db", folder / "begin.db")
    tracer = ["strace", "-f", "-y", "-xx", "-s", "70000", "-e", f"trace={_CALLS}", "-o", str(folder / "calls")]
    recorder = [sys.executable, "-m", "tests.recording", f"sqlite:///{folder / 'log.db'}", "s", str(count)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    subprocess.run([*tracer, *recorder, "--acknowledge"], cwd=ROOT, env=environment, check=True, capture_output=True)
    return list(_traced(folder / "calls"))


def _traced(path: Path) -> Iterator[Traced]:
    with path.open() as lines:
        for line in _whole(lines):
            found = _LINE.match(line)
            if found is not None:
                name, descriptor, file, data, offset, length = found.groups()
                yield Traced(
                    name, int(descriptor), _plain(file).decode(), _plain(data or ""), int(offset or length or 0)
                )


def _whole(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a trace, with calls that another thread's stood between in one piece, where they ended."""
    begun: dict[str, str] = {}
    for line in lines:
        thread, _, rest = line.partition(" ")
        if rest.rstrip().endswith(_UNFINISHED):
            begun[thread] = line.rstrip().removesuffix(_UNFINISHED).rstrip()
        elif " resumed>" in rest and thread in begun:
            yield begun.pop(thread) + rest.partition(" resumed>")[2]
        else:
            yield line


def _plain(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _sectors(call: Traced) -> Iterator[Traced]:
    """A write in the parts that a disk stores whole; other calls as they are."""
    if call.name != "pwrite64":
        yield call
        return
    place, data = call.place, call.data
    while data:
        size = SECTOR - place % SECTOR
        yield call._replace(place=place, data=data[:size])
        place, data = place + size, data[size:]


def _apply(file: bytearray, call: Traced) -> None:
    if call.name == "ftruncate":
        del file[call.place :]
        return
    if len(file) < call.place:
        file.extend(bytes(call.place - len(file)))
    file[call.place : call.place + len(call.data)] = call.data


async def _check(folder: Path, files: dict[str, bytearray], acknowledged: set[int]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path, body in files.items():
        if path.endswith((".db", ".db-wal")):
            (folder / Path(path).name).write_bytes(body)
    database = SqliteDatabase(folder / "log.db")
    events = []
    if acknowledged:
        events = list((await SqlEventStore(database).session("default", "s")).events)
    found = [event.input_params["number"] for event in events]
    assert acknowledged <= set(found)
    assert len(found) == len(set(found))
    assert_linked(events)
    whole = await database.read("default", lambda tx: tx.fetch_all("PRAGMA integrity_check"))
    assert [list(row.values()) for row in whole] == [["ok"]]
    database.close()
