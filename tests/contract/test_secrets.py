"""The vault on both stores: sealed, owner-only, rotated, and gone from everything else."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.fences import Attempt, assert_fenced, methods_of
from tests.houses import VALUE, House, OpenHouse, house_opener
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput, NotFound
from twinraven.storage import Database, Transaction
from twinraven.tenancy import LOCAL_USER
from twinraven.vault import Secret, SecretRef, SecretStore, SqlSecretStore
from twinraven.vault.cipher import SealBinding, SealedValue
from twinraven.vault.store import StoredVersion

_TABLES = ("secrets", "secret_versions", "vault_state")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def open_house(database: Database) -> OpenHouse:
    return house_opener(database)


@pytest.fixture
def house(open_house: OpenHouse, keys: Path) -> House:
    return open_house(keys)


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
    for form in (VALUE, base64.b64encode(VALUE.encode()).decode()):
        assert form not in shown
    assert len(bytes.fromhex(made.secret_id)) == 16


@pytest.mark.req("AD-04")
async def test_the_value_comes_out_for_its_owner_alone(house: House) -> None:
    """Whatever `shared` says, to anybody else and to anybody else's tool the secret does not exist."""
    made = await house.keep(shared=True)
    neighbour, stranger = await house.neighbour(), await house.other_tenant()
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == VALUE
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER, tool_owner=LOCAL_USER) == VALUE
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
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == VALUE


@pytest.mark.req("AD-04")
async def test_a_value_is_rotated_under_the_same_id(house: House) -> None:
    """References stay good, the new value is used, and the old one is still redacted."""
    made = await house.keep()
    house.now += 5
    after = await house.vault.rotate("default", LOCAL_USER, made.secret_id, "another-horse-altogether")
    assert (after.secret_id, after.version, after.created_at) == (made.secret_id, 2, made.created_at)
    assert after.updated_at > made.updated_at
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == "another-horse-altogether"
    text = f'"{VALUE} another-horse-altogether"'.encode()
    redacted = house.redactor.redact("default", text)
    assert VALUE.encode() not in redacted
    assert b"altogether" not in redacted


@pytest.mark.req("AD-04")
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
    assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == VALUE
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
    lambda house: house.keep(value="\ud800" + VALUE),
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
    assert VALUE not in repr(refusal.value) + refusal.value.message


async def test_an_owner_is_a_user_of_the_same_tenant(house: House, database: Database) -> None:
    """A secret for somebody unknown, or known elsewhere, is refused by the database."""
    stranger = await house.other_tenant()
    with pytest.raises(NotFound):
        await house.keep(owner=stranger.user_id)
    with pytest.raises(NotFound):
        await house.keep(owner="nobody")
    assert await house.vault.secrets("default", LOCAL_USER) == []
    made = await house.keep()
    place = SealBinding(stranger.tenant_id, made.secret_id, 7, stranger.user_id)
    version = StoredVersion(place, SealedValue("k", b"w", b"c"))
    with pytest.raises(Conflict):
        await database.write(stranger.tenant_id, lambda tx: SqlSecretStore().add_version(tx, version, created_at=1))


@pytest.mark.req("AD-04", "CH-23")
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
    assert VALUE not in stored
    assert "another-horse" not in stored


async def test_what_cannot_be_audited_does_not_happen(house: House, keys: Path) -> None:
    """Without its audit entry no secret is stored."""
    (keys / "audit.json").parent.mkdir(parents=True, exist_ok=True)
    (keys / "audit.json").write_text("{}")
    (keys / "audit.json").chmod(0o600)
    with pytest.raises(InvalidInput):
        await house.keep()
    assert await house.vault.secrets("default", LOCAL_USER) == []


async def test_no_method_of_the_store_crosses_tenants(house: House, database: Database) -> None:
    """Every method, given another tenant's ids, sees nothing of it and changes nothing."""
    stranger = await house.other_tenant()
    victim, mine = stranger.tenant_id, "default"
    theirs = await house.keep("victim's", "their-value", tenant=victim, owner=stranger.user_id)
    await house.keep()
    store = SqlSecretStore()
    place = SealBinding(mine, theirs.secret_id, 1, LOCAL_USER)
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
        "last_use": lambda tx: store.last_use(tx, mine, theirs.secret_id),
        "note_use": lambda tx: store.note_use(tx, mine, theirs.secret_id, at=2, unless_since=2),
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
            tx, StoredVersion(SealBinding(victim, theirs.secret_id, 1, stranger.user_id), SealedValue("k", b"w", b"c"))
        ),
    }
    assert methods_of(SecretStore) <= {*attempts, *on_postgres}
    if database.dialect == "postgres":
        attempts |= on_postgres
    marks = (victim, theirs.secret_id, "victim's")
    await assert_fenced(database, attempts, intruder=mine, victim=victim, tables=_TABLES, marks=marks)
    assert await house.vault.reveal(theirs.ref, for_user=stranger.user_id) == "their-value"


async def test_a_secret_says_when_it_was_last_used(house: House) -> None:
    """What a connector was given is noted, once a minute at most; reading about a secret is no use of it."""
    made, begin = await house.keep(), house.now

    async def used_at() -> int | None:
        found = (await house.vault.get("default", LOCAL_USER, made.secret_id)).last_used_at
        return None if found is None else to_micros(found)

    with pytest.raises(NotFound):
        await house.vault.reveal(made.ref, for_user="somebody")
    assert await used_at() is None
    for elapsed_s, noted_s in ((0, 0), (59, 0), (61, 61)):
        house.now = begin + elapsed_s * 1_000_000
        assert await house.vault.reveal(made.ref, for_user=LOCAL_USER) == VALUE
        assert await used_at() == begin + noted_s * 1_000_000
    rotated = await house.vault.rotate("default", LOCAL_USER, made.secret_id, "another-value")
    assert rotated.as_json()["last_used_at"] is not None
