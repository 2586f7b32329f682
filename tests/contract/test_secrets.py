"""The vault on both stores: sealed, owner-only, rotated, and gone from everything else."""

from __future__ import annotations

import asyncio
import base64
import os
import random
from collections.abc import Awaitable, Callable, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster

from tests.fences import Attempt, assert_fenced, methods_of
from tests.intruders import Intruder, intruder_of
from twinraven.audit import AuditLog, KeyRing, Signer
from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput, NotFound, StorageError
from twinraven.storage import Database, Transaction
from twinraven.tenancy import LOCAL_USER, Tenancy, User
from twinraven.vault import (
    Redactor,
    Secret,
    SecretRef,
    SecretStore,
    SecretUnreadable,
    SqlSecretStore,
    StoredValues,
    TenantKeys,
    Vault,
)
from twinraven.vault.cipher import Place, SealedValue
from twinraven.vault.store import StoredVersion

_VALUE = "correct-horse-battery-staple"
_TABLES = ("secrets", "secret_versions", "vault_state")


class House:
    """A vault with everything it is wired to."""

    def __init__(self, database: Database, folder: Path, **ring: Any) -> None:
        self.database = database
        self.now = now_micros()
        self.ring = KeyRing(folder / "kek.json", micros=lambda: self.now, **ring)
        self.values = StoredValues(database, self.ring)
        self.redactor = Redactor(TenantKeys(KeyRing(folder / "tokens.json")), self.values)
        self.audit = AuditLog(database, Signer(KeyRing(folder / "audit.json")), redact=self.redactor.redact)
        self.vault = Vault(database, self.ring, audit=self.audit, watch=self.redactor, micros=lambda: self.now)
        self.tenancy = Tenancy(database)

    async def keep(self, name: str = "bank", value: str = _VALUE, *, tenant: str = "default", **more: Any) -> Secret:
        more.setdefault("type", "api_key")
        owner = more.pop("owner", LOCAL_USER)
        return await self.vault.create(tenant, owner, name=name, value=value, **more)

    async def neighbour(self) -> User:
        """Another user of the same tenant."""
        return await self.tenancy.add_user("default", "neighbour")

    async def other_tenant(self) -> User:
        tenant = await self.tenancy.create_tenant("other")
        return await self.tenancy.add_user(tenant.tenant_id, "stranger")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def open_house(database: Database) -> Generator[Callable[..., House]]:
    """As many processes would: several vaults on one database, closed at the end."""
    opened: list[House] = []

    def open_one(folder: Path, **ring: Any) -> House:
        opened.append(House(database, folder, **ring))
        return opened[-1]

    yield open_one
    for house in opened:
        house.values.close()


@pytest.fixture
def house(open_house: Callable[..., House], keys: Path) -> House:
    return open_house(keys)


@pytest.fixture
def intruder(database: Database, request: pytest.FixtureRequest) -> Generator[Intruder]:
    someone = intruder_of(database, request)
    yield someone
    someone.close()


async def everything(database: Database, tenant: str = "default") -> str:
    """All a tenant's rows in all tables of vault and audit, as text."""
    tables = (*_TABLES, "audit_log", "audit_bodies", "audit_heads")

    def work(tx: Transaction) -> str:
        rows = [tx.fetch_all(f"SELECT * FROM {table} WHERE tenant_id = :tenant", tenant=tenant) for table in tables]
        return repr(rows)

    return await database.read(tenant, work)


@pytest.mark.req("AD-04", "CH-01")
async def test_a_secret_is_described_and_never_shown(house: House, database: Database) -> None:
    """Creating, reading and listing give everything but the value, and no table holds it."""
    made = await house.keep(shared=True)
    assert (made.name, made.type, made.owner_id, made.version, made.shared) == ("bank", "api_key", LOCAL_USER, 1, True)
    assert await house.vault.get("default", LOCAL_USER, made.secret_id) == made
    assert await house.vault.find("default", LOCAL_USER, "bank") == made
    assert await house.vault.secrets("default", LOCAL_USER) == [made]
    shown = repr(made) + str(made.ref) + repr(made.as_json()) + await everything(database)
    for form in (_VALUE, base64.b64encode(_VALUE.encode()).decode()):
        assert form not in shown
    assert len(bytes.fromhex(made.secret_id)) == 16


@pytest.mark.req("AD-04")
async def test_the_value_comes_out_for_its_owner_alone(house: House) -> None:
    """Whatever `shared` says, to anybody else and to anybody else's tool the secret does not exist."""
    made = await house.keep(shared=True)
    neighbour, stranger = await house.neighbour(), await house.other_tenant()
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == _VALUE
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER, tool_owner=LOCAL_USER) == _VALUE
    foreign = SecretRef(stranger.tenant_id, made.secret_id)
    attempts = [
        house.vault.reveal(made.ref, for_user=neighbour.user_id),
        house.vault.reveal(made.ref, for_user=LOCAL_USER, tool_owner=neighbour.user_id),
        house.vault.reveal(made.ref, for_user=neighbour.user_id, tool_owner=neighbour.user_id),
        house.vault.reveal(foreign, for_user=LOCAL_USER),
        house.vault.reveal(foreign, for_user=stranger.user_id),
        house.vault.get("default", neighbour.user_id, made.secret_id),
        house.vault.find("default", neighbour.user_id, "bank"),
        house.vault.rotate("default", neighbour.user_id, made.secret_id, "other-value"),
        house.vault.update("default", neighbour.user_id, made.secret_id, name="mine"),
        house.vault.delete("default", neighbour.user_id, made.secret_id),
        house.vault.get("default", LOCAL_USER, "0" * 32),
    ]
    for attempt in attempts:
        with pytest.raises(NotFound):
            await attempt
    assert await house.vault.secrets("default", neighbour.user_id) == []
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == _VALUE


@pytest.mark.req("AD-04")
async def test_a_value_is_rotated_under_the_same_id(house: House) -> None:
    """References stay good, the new value is used, and the old one is still redacted."""
    made = await house.keep()
    house.now += 5
    after = await house.vault.rotate("default", LOCAL_USER, made.secret_id, "another-horse-altogether")
    assert (after.secret_id, after.version, after.created_at) == (made.secret_id, 2, made.created_at)
    assert after.updated_at > made.updated_at
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == "another-horse-altogether"
    text = f'"{_VALUE} another-horse-altogether"'.encode()
    redacted = house.redactor.redact("default", text)
    assert _VALUE.encode() not in redacted
    assert b"altogether" not in redacted


async def test_names_and_sharing_change_and_nothing_else_does(house: House, database: Database) -> None:
    """A secret may be renamed; its owner and type are fixed by the database itself, and a stored value too."""
    made = await house.keep()
    await house.keep("other")
    renamed = await house.vault.update("default", LOCAL_USER, made.secret_id, name="account", shared=True)
    assert (renamed.name, renamed.shared, renamed.version) == ("account", True, 1)
    assert await house.vault.update("default", LOCAL_USER, made.secret_id, name="account") != made
    with pytest.raises(Conflict):
        await house.vault.update("default", LOCAL_USER, made.secret_id, name="other")
    with pytest.raises(Conflict):
        await house.keep("other")
    for statement in (
        "UPDATE secrets SET owner_id = 'x'",
        "UPDATE secrets SET type = 'password'",
        "UPDATE secret_versions SET ciphertext = wrapped_key",
        "UPDATE secret_versions SET version = 9",
    ):
        with pytest.raises(AppendOnly):
            await database.write("default", lambda tx, run=statement: tx.execute(run))


@pytest.mark.req("AD-04")
async def test_a_secret_in_use_is_not_deleted(house: House, database: Database) -> None:
    """Deletion asks everybody who may use the secret, inside its own transaction, and then leaves nothing."""
    made = await house.keep()
    users: list[str] = ["tool get_balance", "service bank"]
    house.vault.register_usage(
        lambda _, tenant, secret: users if (tenant, secret) == ("default", made.secret_id) else []
    )
    with pytest.raises(Conflict, match="get_balance") as refusal:
        await house.vault.delete("default", LOCAL_USER, made.secret_id)
    assert refusal.value.details["used_by"] == users
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == _VALUE
    users.clear()
    await house.vault.delete("default", LOCAL_USER, made.secret_id)
    with pytest.raises(NotFound):
        await house.vault.reveal(made.ref, for_user=LOCAL_USER)
    assert await database.read("default", lambda tx: tx.fetch_all("SELECT 1 FROM secret_versions")) == []


_WRONG: list[Callable[[House], Awaitable[object]]] = [
    lambda house: house.keep(" "),
    lambda house: house.keep("line\nbreak"),
    lambda house: house.keep(type="token"),
    lambda house: house.keep(value=""),
    lambda house: house.keep(value="\ud800" + _VALUE),
    lambda house: house.keep(value="x" * 70_000),
]


@pytest.mark.parametrize("wrong", _WRONG)
async def test_bad_input_names_its_field_and_not_the_value(
    house: House, wrong: Callable[[House], Awaitable[object]]
) -> None:
    """What cannot be kept is refused without repeating it."""
    with pytest.raises(InvalidInput) as refusal:
        await wrong(house)
    assert refusal.value.details["field"] in ("name", "type", "value")
    assert _VALUE not in repr(refusal.value) + refusal.value.message


@pytest.mark.req("CH-12")
async def test_an_owner_is_a_user_of_the_same_tenant(house: House, database: Database) -> None:
    """A secret for somebody unknown, or known elsewhere, is refused by the database."""
    stranger = await house.other_tenant()
    with pytest.raises(NotFound):
        await house.keep(owner=stranger.user_id)
    with pytest.raises(NotFound):
        await house.keep(owner="nobody")
    assert await house.vault.secrets("default", LOCAL_USER) == []
    made = await house.keep()
    place = Place(stranger.tenant_id, made.secret_id, 7, stranger.user_id)
    version = StoredVersion(place, SealedValue("k", b"w", b"c"))
    with pytest.raises(Conflict):
        await database.write(stranger.tenant_id, lambda tx: SqlSecretStore().add_version(tx, version, created_at=1))


async def test_every_change_is_audited_without_the_value(house: House, database: Database) -> None:
    """Who did what to which secret is in the chain, under the request's correlation id."""
    made = await house.keep(correlation_id="req-1")
    await house.vault.rotate("default", LOCAL_USER, made.secret_id, "another-horse", correlation_id="req-2")
    await house.vault.update("default", LOCAL_USER, made.secret_id, name="new", correlation_id="req-3")
    await house.vault.rotate_kek()
    await house.vault.delete("default", LOCAL_USER, made.secret_id, correlation_id="req-4")
    entries = await house.audit.entries("default")
    told = ["secret.created", "secret.rotated", "secret.updated", "vault.kek_rotated", "secret.deleted"]
    assert [entry.event_type for entry in entries] == told
    assert [entries[place].correlation_id for place in (0, 1, 2, 4)] == ["req-1", "req-2", "req-3", "req-4"]
    assert {entries[place].subject_id for place in (0, 1, 2, 4)} == {made.secret_id}
    assert (await house.audit.verify("default")).ok
    stored = await everything(database)
    assert _VALUE not in stored
    assert "another-horse" not in stored


async def test_what_cannot_be_audited_does_not_happen(house: House, keys: Path) -> None:
    """Without its audit entry no secret is stored."""
    (keys / "audit.json").parent.mkdir(parents=True, exist_ok=True)
    (keys / "audit.json").write_text("{}")
    (keys / "audit.json").chmod(0o600)
    with pytest.raises(InvalidInput):
        await house.keep()
    assert await house.vault.secrets("default", LOCAL_USER) == []


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
        assert await house.vault.reveal(one.ref, for_user=LOCAL_USER) == _VALUE
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
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == _VALUE


async def test_a_damaged_row_does_not_stop_recording(
    house: House, intruder: Intruder, caplog: pytest.LogCaptureFixture
) -> None:
    """What does not open is left out of redaction with a warning; all other values are still taken out."""
    await house.keep("one")
    two = await house.keep("two", "two-two-two-two")
    intruder.run("UPDATE secret_versions SET wrapped_key = ciphertext WHERE secret_id = ?", two.secret_id)
    assert _VALUE.encode() not in house.redactor.redact("default", f'"{_VALUE}"'.encode())
    assert two.secret_id in caplog.text
    assert "two-two" not in caplog.text
    report = await house.vault.rotate_kek()
    assert (report.rewrapped, report.unreadable) == (1, 1)


async def test_redaction_follows_the_vault(house: House, open_house: Callable[..., House], keys: Path) -> None:
    """A new value is redacted at once where it was set, and elsewhere as soon as it is revealed or looked for."""
    text = f'{{"a":"{_VALUE}"}}'.encode()
    elsewhere = open_house(keys)
    assert elsewhere.redactor.redact("default", text) is text
    made = await house.keep()
    redacted = house.redactor.redact("default", text)
    assert _VALUE.encode() not in redacted
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
    assert await house.vault.reveal(mine.ref, for_user=LOCAL_USER) == _VALUE
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
        (mine.ref, LOCAL_USER, _VALUE),
        (another.ref, LOCAL_USER, "third-value"),
        (theirs.ref, stranger.user_id, "their-value"),
    ):
        assert await house.vault.reveal(ref, for_user=user) == value


async def test_writers_and_a_rotation_at_once(house: House, open_house: Callable[..., House], keys: Path) -> None:
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


async def test_a_key_from_the_environment_takes_over(
    house: House, open_house: Callable[..., House], keys: Path
) -> None:
    """With a key given from outside a rotation moves everything to it and leaves the file alone."""
    made = await house.keep()
    file = (keys / "kek.json").read_bytes()
    key = base64.b64encode(os.urandom(32)).decode()
    cluster = open_house(keys, variable="TWINRAVEN_KEK", environ={"TWINRAVEN_KEK": key})
    assert await cluster.vault.reveal(made.ref, for_user=LOCAL_USER) == _VALUE
    report = await cluster.vault.rotate_kek()
    assert (report.rewrapped, report.dropped) == (1, ())
    assert (keys / "kek.json").read_bytes() == file
    alone = open_house(keys / "elsewhere", variable="TWINRAVEN_KEK", environ={"TWINRAVEN_KEK": key})
    assert await alone.vault.reveal(made.ref, for_user=LOCAL_USER) == _VALUE


async def test_without_its_key_nothing_opens_and_nothing_is_overwritten(
    house: House, open_house: Callable[..., House], keys: Path
) -> None:
    """A lost key file is named; no new key is put under secrets that need the old one."""
    made = await house.keep()
    bare = open_house(keys / "empty")
    with pytest.raises(SecretUnreadable, match=r"kek\.json"):
        await bare.vault.reveal(made.ref, for_user=LOCAL_USER)
    with pytest.raises(SecretUnreadable):
        await bare.keep("another", "another-value")
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == _VALUE
    assert len(await house.vault.secrets("default", LOCAL_USER)) == 1


async def test_nothing_blocks_the_event_loop(
    house: House, open_house: Callable[..., House], keys: Path, loop_guard: BlockBuster
) -> None:
    """Files and database are reached from threads, also by a process that has not read its keys yet."""
    made = await house.keep()
    assert await open_house(keys).vault.reveal(made.ref, for_user=LOCAL_USER) == _VALUE
    await house.vault.rotate("default", LOCAL_USER, made.secret_id, "another-value")
    await house.vault.rotate_kek()
    await house.vault.delete("default", LOCAL_USER, made.secret_id)


@pytest.mark.req("CH-12")
async def test_no_method_of_the_store_crosses_tenants(house: House, database: Database) -> None:
    """Every method, given another tenant's ids, sees nothing of it and changes nothing."""
    stranger = await house.other_tenant()
    victim, mine = stranger.tenant_id, "default"
    theirs = await house.keep("victim's", "their-value", tenant=victim, owner=stranger.user_id)
    await house.keep()
    store = SqlSecretStore()
    place = Place(mine, theirs.secret_id, 1, LOCAL_USER)
    stolen = StoredVersion(place, SealedValue("k", b"w", b"c"))
    as_mine = Secret(mine, theirs.secret_id, stranger.user_id, "x", "api_key", True, 5, *[from_micros(1)] * 2)
    attempts: dict[str, Attempt] = {
        "lock_state": lambda tx: store.lock_state(tx, mine, "k"),
        "set_kek": lambda tx: store.set_kek(tx, mine, house.ring.active().id),
        "count_change": lambda tx: store.count_change(tx, mine),
        "changes": lambda tx: store.changes(tx, mine),
        "add": lambda tx: store.add(tx, as_mine),
        "secret": lambda tx: store.secret(tx, mine, stranger.user_id, theirs.secret_id),
        "named": lambda tx: store.named(tx, mine, stranger.user_id, "victim's"),
        "secrets": lambda tx: store.secrets(tx, mine, stranger.user_id),
        "change": lambda tx: store.change(tx, as_mine),
        "remove": lambda tx: store.remove(tx, mine, stranger.user_id, theirs.secret_id),
        "add_version": lambda tx: store.add_version(tx, stolen, created_at=1),
        "current": lambda tx: store.current(tx, mine, stranger.user_id, theirs.secret_id),
        "versions": lambda tx: store.versions(tx, mine),
        "rewrap": lambda tx: store.rewrap(tx, stolen),
        "keks_in_use": lambda tx: store.keks_in_use(tx, mine),
    }
    on_postgres: dict[str, Attempt] = {
        "tenants": store.tenants,
        "current of the victim": lambda tx: store.current(tx, victim, stranger.user_id, theirs.secret_id),
        "versions of the victim": lambda tx: store.versions(tx, victim),
        "removal at the victim's": lambda tx: store.remove(tx, victim, stranger.user_id, theirs.secret_id),
        "rewrapping at the victim's": lambda tx: store.rewrap(
            tx, StoredVersion(Place(victim, theirs.secret_id, 1, stranger.user_id), SealedValue("k", b"w", b"c"))
        ),
    }
    assert methods_of(SecretStore) <= {*attempts, *on_postgres}
    if database.dialect == "postgres":
        attempts |= on_postgres
    marks = (victim, theirs.secret_id, "victim's")
    await assert_fenced(database, attempts, intruder=mine, victim=victim, tables=_TABLES, marks=marks)
    assert await house.vault.reveal(theirs.ref, for_user=stranger.user_id) == "their-value"
