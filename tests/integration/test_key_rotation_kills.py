"""Rotating the key-encryption key under load, with kill -9 at any moment."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from twinraven.audit import AuditLog, KeyRing, Signer
from twinraven.foundation.clock import now_micros
from twinraven.storage import Database
from twinraven.vault import SecretRef, Vault
from twinraven.vault.cipher import Cipher
from twinraven.vault.sql import SqlSecretStore

_WORKER = """
import asyncio, json, sys
from pathlib import Path
from twinraven.audit import AuditLog, KeyRing, Signer
from twinraven.foundation.clock import now_micros
from twinraven.storage import open_database
from twinraven.vault import Vault

role, url, keys, label = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
database = open_database(url)
audit = AuditLog(database, Signer(KeyRing(keys / "audit.json")))
two_days = 2 * 24 * 3600 * 1_000_000
# To the rotator every retired key has been retired for long, so that keys are dropped all the time.
clock = (lambda: now_micros() + two_days) if role == "rotate" else now_micros
vault = Vault(database, KeyRing(keys / "kek.json"), audit=audit, micros=clock)

async def write():
    number = 0
    while True:
        number += 1
        name = f"{label}-{number}"
        secret = await vault.create("default", "local", name=name, type="password", value=f"first value of {name}")
        print(json.dumps([secret.secret_id, f"first value of {name}"]), flush=True)
        await vault.rotate("default", "local", secret.secret_id, f"second value of {name}")
        print(json.dumps([secret.secret_id, f"second value of {name}"]), flush=True)

async def rotate():
    while True:
        await vault.rotate_kek()
        print("rotated", flush=True)

print("ready", flush=True)
asyncio.run(write() if role == "write" else rotate())
"""


class Crew:
    """Processes at work on one vault, until they are killed."""

    def __init__(self, url: str, keys: Path) -> None:
        self._url = url
        self._keys = keys

    def work_until_killed(self, label: str, *, seconds: float, chance: random.Random) -> list[str]:
        """What three processes said before each was killed in the middle of something."""
        roles = ("write", "write", "rotate")
        crew = [self._start(role, f"{label}-{place}") for place, role in enumerate(roles)]
        for process in crew:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        chance.shuffle(crew)
        for process in crew:
            process.kill()
            time.sleep(chance.random() * 0.02)
        return [line for process in crew for line in process.communicate()[0].splitlines()]

    def _start(self, role: str, label: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _WORKER, role, self._url, str(self._keys), label]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.req("AD-04")
async def test_no_kill_leaves_anything_undecryptable(
    database: Database, tmp_path: Path, request: pytest.FixtureRequest, full_scale: bool
) -> None:
    """After any number of kills every version opens, and everything acknowledged is there."""
    url: str = (
        request.getfixturevalue("sqlite_url")
        if database.dialect == "sqlite"
        else request.getfixturevalue("postgres_login").url
    )
    keys = tmp_path / "keys"
    ring = KeyRing(keys / "kek.json")
    audit = AuditLog(database, Signer(KeyRing(keys / "audit.json")))
    vault = Vault(database, ring, audit=audit)
    await vault.create("default", "local", name="first", type="password", value="the first of all")
    crew, chance = Crew(url, keys), random.Random(11)
    acknowledged: dict[str, str] = {}
    rotations = 0
    for trial in count():
        if trial >= (60 if full_scale else 3) and rotations and acknowledged:
            break
        assert trial < 80, "no process came far enough to be killed in the middle of something"
        said = crew.work_until_killed(str(trial), seconds=chance.uniform(0.1, 0.6), chance=chance)
        rotations += said.count("rotated")
        acknowledged.update(json.loads(line) for line in said if line.startswith("["))
        ring.reload()
        for place, sealed in await database.read("default", lambda tx: SqlSecretStore().versions(tx, "default")):
            assert Cipher(ring).open(sealed, place)
    for secret_id, value in acknowledged.items():
        now = await vault.reveal(SecretRef("default", secret_id), for_user="local")
        assert now in (value, value.replace("first", "second"))
    assert (await audit.verify("default")).ok
    much_later = Vault(database, ring, audit=audit, micros=lambda: now_micros() + 2 * 24 * 3600 * 1_000_000)
    await much_later.rotate_kek()
    assert len(ring.generations()) == 1
