"""The keys under the secrets: rotated, lost, given from outside; and rows that were changed behind their back."""

from __future__ import annotations

import asyncio
import base64
import os
import random
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from tests.houses import VALUE, House, OpenHouse, house_opener
from tests.intruders import Intruder, intruder_of
from twinraven.foundation.errors import Conflict, StorageError
from twinraven.storage import Database, Transaction
from twinraven.tenancy import LOCAL_USER
from twinraven.vault import Secret, SecretUnreadable, SqlSecretStore, Vault
from twinraven.vault.store import StoredVersion


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def open_house(database: Database) -> OpenHouse:
    return house_opener(database)


@pytest.fixture
def house(open_house: OpenHouse, keys: Path) -> House:
    return open_house(keys)


@pytest.fixture
def intruder(database: Database, request: pytest.FixtureRequest) -> Generator[Intruder]:
    someone = intruder_of(database, request)
    yield someone
    someone.close()


@pytest.mark.req("AD-04")
async def test_rows_changed_behind_its_back_do_not_open(house: House, intruder: Intruder) -> None:
    """Swapped, copied or damaged rows are refused, each of them, and the others still open."""
    one, two = await house.keep("one"), await house.keep("two", "two-two-two-two")
    neighbour = await house.neighbour()
    intruder.run("CREATE TABLE kept AS SELECT * FROM secret_versions")
    for columns in (("ciphertext",), ("wrapped_key",), ("ciphertext", "wrapped_key", "kek_id")):
        for column in columns:
            taken = f"(SELECT {column} FROM kept WHERE secret_id = ?)"
            intruder.run(
                f"UPDATE secret_versions SET {column} = {taken} WHERE secret_id = ?", two.secret_id, one.secret_id
            )
        with pytest.raises(SecretUnreadable):
            await house.vault.reveal(one.ref, for_user=LOCAL_USER)
        intruder.restore("secret_versions", "kept")
        assert await house.vault.reveal(one.ref, for_user=LOCAL_USER) == VALUE
    intruder.run("UPDATE secrets SET owner_id = ? WHERE secret_id = ?", neighbour.user_id, one.secret_id)
    with pytest.raises(SecretUnreadable):
        await house.vault.reveal(one.ref, for_user=neighbour.user_id)
    intruder.run("UPDATE secret_versions SET secret_id = 'x' WHERE secret_id = ?", one.secret_id)
    intruder.run("UPDATE secret_versions SET secret_id = ? WHERE secret_id = ?", one.secret_id, two.secret_id)
    intruder.run("UPDATE secrets SET owner_id = ?", LOCAL_USER)
    with pytest.raises(SecretUnreadable):
        await house.vault.reveal(one.ref, for_user=LOCAL_USER)
    intruder.restore("secret_versions", "kept")
    assert await house.vault.reveal(two.ref, for_user=LOCAL_USER) == "two-two-two-two"


@pytest.mark.req("AD-04")
async def test_flipped_bits_in_the_store_are_refused(house: House, intruder: Intruder) -> None:
    """A bit that changed on disk is noticed, wherever it is."""
    made = await house.keep()
    chance = random.Random(5)
    for column in ("ciphertext", "wrapped_key"):
        body = bytes(intruder.run(f"SELECT {column} FROM secret_versions")[0][0])
        for _ in range(12):
            damaged = bytearray(body)
            damaged[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
            intruder.run(f"UPDATE secret_versions SET {column} = ?", bytes(damaged))
            with pytest.raises(SecretUnreadable):
                await house.vault.reveal(made.ref, for_user=LOCAL_USER)
        intruder.run(f"UPDATE secret_versions SET {column} = ?", body)
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == VALUE


async def test_a_damaged_row_does_not_stop_recording(
    house: House, intruder: Intruder, caplog: pytest.LogCaptureFixture
) -> None:
    """What does not open is left out of redaction with a warning; all other values are still taken out."""
    await house.keep("one")
    two = await house.keep("two", "two-two-two-two")
    intruder.run("UPDATE secret_versions SET wrapped_key = ciphertext WHERE secret_id = ?", two.secret_id)
    assert VALUE.encode() not in house.redactor.redact("default", f'"{VALUE}"'.encode())
    assert two.secret_id in caplog.text
    assert "two-two" not in caplog.text
    report = await house.vault.rotate_kek()
    assert (report.rewrapped, report.unreadable) == (1, 1)


async def test_redaction_follows_the_vault(house: House, open_house: OpenHouse, keys: Path) -> None:
    """A new value is redacted at once where it was set, and elsewhere as soon as it is revealed or looked for."""
    text = f'{{"a":"{VALUE}"}}'.encode()
    elsewhere = open_house(keys)
    assert elsewhere.redactor.redact("default", text) is text
    made = await house.keep()
    redacted = house.redactor.redact("default", text)
    assert VALUE.encode() not in redacted
    await elsewhere.vault.reveal(made.ref, for_user=LOCAL_USER)
    assert elsewhere.redactor.redact("default", text) == redacted
    assert house.redactor.redact("other", text) is text


@pytest.mark.req("AD-04")
async def test_the_key_encryption_key_is_rotated_under_everything(house: House) -> None:
    """Every tenant's values are wrapped anew, and open with the new key alone once the old one is dropped."""
    stranger = await house.other_tenant()
    mine = await house.keep()
    await house.vault.rotate("default", LOCAL_USER, mine.secret_id, "second-value")
    theirs = await house.keep(tenant=stranger.tenant_id, owner=stranger.user_id, value="their-value")
    old = house.ring.active().id
    report = await house.vault.rotate_kek()
    assert (report.tenants, report.rewrapped, report.unreadable, report.dropped) == (2, 3, 0, ())
    assert report.kek_id == house.ring.active().id != old
    house.now += timedelta(days=2) // timedelta(microseconds=1)
    again = await house.vault.rotate_kek()
    assert again.dropped == (old,)
    assert house.ring.find(old) is None
    assert await house.vault.reveal(mine.ref, for_user=LOCAL_USER) == "second-value"
    assert await house.vault.reveal(theirs.ref, for_user=stranger.user_id) == "their-value"


async def test_a_rotation_stopped_half_way_is_finished_by_the_next(house: House, intruder: Intruder) -> None:
    """Wherever it stops, everything opens, and nothing that is still needed is dropped."""
    stranger = await house.other_tenant()
    mine = await house.keep()
    theirs = await house.keep(tenant=stranger.tenant_id, owner=stranger.user_id, value="their-value")
    old = house.ring.active().id
    # Stopped before any tenant was moved: the new key is there, and nothing uses it.
    house.ring.renew()
    assert await house.vault.reveal(mine.ref, for_user=LOCAL_USER) == VALUE
    another = await house.keep("written under the retired key", "third-value")
    # Stopped between two tenants: the second one cannot be moved.
    intruder.run("UPDATE vault_state SET kek_id = ? WHERE tenant_id = ?", old, stranger.tenant_id)

    class Stopped(SqlSecretStore):
        def rewrap(self, tx: Transaction, version: StoredVersion) -> None:
            if version.place.tenant_id == stranger.tenant_id:
                raise StorageError("the power went out")
            super().rewrap(tx, version)

    broken = Vault(house.database, house.ring, audit=house.audit, store=Stopped())
    with pytest.raises(StorageError):
        await broken.rotate_kek()
    house.now += timedelta(days=3) // timedelta(microseconds=1)
    assert await house.vault.reveal(theirs.ref, for_user=stranger.user_id) == "their-value"
    await house.vault.rotate_kek()
    for ref, user, value in (
        (mine.ref, LOCAL_USER, VALUE),
        (another.ref, LOCAL_USER, "third-value"),
        (theirs.ref, stranger.user_id, "their-value"),
    ):
        assert await house.vault.reveal(ref, for_user=user) == value


async def test_writers_and_a_rotation_at_once(house: House, open_house: OpenHouse, keys: Path) -> None:
    """Secrets written by another process while the key changes open with the keys that are left."""
    elsewhere = open_house(keys)
    await elsewhere.keep("before", "value-before")

    async def write(number: int) -> Secret:
        return await elsewhere.keep(f"s{number}", f"value-{number}-x")

    rotations = asyncio.gather(*(_rotate_twice(house) for _ in range(2)), return_exceptions=True)
    made = await asyncio.gather(*(write(number) for number in range(12)))
    done = await rotations
    assert [one for one in done if not isinstance(one, BaseException)]
    assert all(isinstance(one, Conflict) for one in done if isinstance(one, BaseException))
    await house.vault.rotate_kek()
    fresh = open_house(keys)
    for number, secret in enumerate(made):
        assert await fresh.vault.reveal(secret.ref, for_user=LOCAL_USER) == f"value-{number}-x"


async def _rotate_twice(house: House) -> None:
    for _ in range(2):
        await house.vault.rotate_kek()


async def test_a_key_from_the_environment_takes_over(house: House, open_house: OpenHouse, keys: Path) -> None:
    """With a key given from outside a rotation moves everything to it and leaves the file alone."""
    made = await house.keep()
    file = (keys / "kek.json").read_bytes()
    key = base64.b64encode(os.urandom(32)).decode()
    cluster = open_house(keys, variable="TWINRAVEN_KEK", environ={"TWINRAVEN_KEK": key})
    assert await cluster.vault.reveal(made.ref, for_user=LOCAL_USER) == VALUE
    report = await cluster.vault.rotate_kek()
    assert (report.rewrapped, report.dropped) == (1, ())
    assert (keys / "kek.json").read_bytes() == file
    alone = open_house(keys / "elsewhere", variable="TWINRAVEN_KEK", environ={"TWINRAVEN_KEK": key})
    assert await alone.vault.reveal(made.ref, for_user=LOCAL_USER) == VALUE


async def test_without_its_key_nothing_opens_and_nothing_is_overwritten(
    house: House, open_house: OpenHouse, keys: Path
) -> None:
    """A lost key file is named; no new key is put under secrets that need the old one."""
    made = await house.keep()
    bare = open_house(keys / "empty")
    with pytest.raises(SecretUnreadable, match=r"kek\.json"):
        await bare.vault.reveal(made.ref, for_user=LOCAL_USER)
    with pytest.raises(SecretUnreadable):
        await bare.keep("another", "another-value")
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == VALUE
    assert len(await house.vault.secrets("default", LOCAL_USER)) == 1


async def test_nothing_blocks_the_event_loop(
    house: House, open_house: OpenHouse, keys: Path, loop_guard: BlockBuster
) -> None:
    """Files and database are reached from threads, also by a process that has not read its keys yet."""
    made = await house.keep()
    assert await open_house(keys).vault.reveal(made.ref, for_user=LOCAL_USER) == VALUE
    await house.vault.rotate("default", LOCAL_USER, made.secret_id, "another-value")
    await house.vault.rotate_kek()
    await house.vault.delete("default", LOCAL_USER, made.secret_id)
