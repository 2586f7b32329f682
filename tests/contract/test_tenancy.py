"""Tenants, users and keys, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.fences import Attempt, assert_fenced, methods_of
from tests.postgres import PostgresLogin
from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput, NotFound, PolicyViolation, StorageError
from twinraven.storage import Database, Row, Transaction, open_database
from twinraven.tenancy import (
    LOCAL,
    LOCAL_USER,
    ApiKey,
    NotAuthenticated,
    Principal,
    SqlTenancyStore,
    Tenancy,
    TenancyChange,
    TenancyStore,
    Tenant,
    User,
)
from twinraven.tenancy.keys import hash_key

_TABLES = ("tenants", "users", "api_keys")


class Clock:
    def __init__(self) -> None:
        self.now = now_micros()

    def __call__(self) -> int:
        return self.now

    def pass_by(self, span: timedelta) -> None:
        self.now += span // timedelta(microseconds=1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tenancy(database: Database, clock: Clock) -> Tenancy:
    return Tenancy(database, micros=clock)


async def settle(tenancy: Tenancy, name: str) -> tuple[Tenant, User, str]:
    """A tenant with an administrator and their key."""
    tenant = await tenancy.create_tenant(name)
    user = await tenancy.add_user(tenant.tenant_id, f"admin of {name}", role="admin")
    issued = await tenancy.issue_key(tenant.tenant_id, user.user_id, label=f"key of {name}")
    return tenant, user, issued.clear


async def test_the_embedded_home_has_its_tenant_and_user(tenancy: Tenancy) -> None:
    """Nothing has to be created before anything can be owned."""
    assert (await tenancy.tenant(LOCAL.tenant_id)).tenant_id == "default"
    assert (await tenancy.user(LOCAL.tenant_id, LOCAL.user_id)).role == "admin"


@pytest.mark.req("CH-01")
async def test_ids_are_opaque_and_random(tenancy: Tenancy) -> None:
    """Tenants, users and keys have ids of 128 random bits that say nothing."""
    tenant, user, _ = await settle(tenancy, "acme")
    keys = await tenancy.keys(tenant.tenant_id)
    ids = [tenant.tenant_id, user.user_id, keys[0].key_id]
    assert all(len(bytes.fromhex(one)) == 16 for one in ids)
    assert len(set(ids)) == 3


async def test_a_key_stands_for_its_user(tenancy: Tenancy) -> None:
    """Each key opens the door of its own tenant as its own user."""
    first, admin, key = await settle(tenancy, "first")
    second, other, other_key = await settle(tenancy, "second")
    who = await tenancy.authenticate(key)
    assert (who.tenant_id, who.user_id, who.role) == (first.tenant_id, admin.user_id, "admin")
    stranger = await tenancy.authenticate(other_key)
    assert (stranger.tenant_id, stranger.user_id) == (second.tenant_id, other.user_id)


async def test_a_key_is_shown_once_and_stored_as_a_hash(tenancy: Tenancy, database: Database) -> None:
    """Neither the table nor any later answer holds the key."""
    tenant, _, key = await settle(tenancy, "acme")
    listed = await tenancy.keys(tenant.tenant_id)
    stored = await database.read(tenant.tenant_id, lambda tx: tx.fetch_all("SELECT * FROM api_keys"))
    assert key not in repr(listed) + repr(stored)
    assert listed[0].prefix == key[:11]
    assert stored[0]["key_hash"] == hash_key(key)


async def test_wrong_revoked_expired_and_orphaned_keys_get_one_answer(tenancy: Tenancy, clock: Clock) -> None:
    """Whoever cannot get in does not learn why."""
    tenant, user, key = await settle(tenancy, "acme")
    expiring = await tenancy.issue_key(tenant.tenant_id, user.user_id, expires_in=timedelta(hours=1))
    revoked = await tenancy.issue_key(tenant.tenant_id, user.user_id)
    await tenancy.revoke_key(tenant.tenant_id, revoked.key.key_id)
    assert (await tenancy.authenticate(expiring.clear)).key_id == expiring.key.key_id
    clock.pass_by(timedelta(hours=1))
    leaver = await tenancy.add_user(tenant.tenant_id, "leaver")
    orphaned = await tenancy.issue_key(tenant.tenant_id, leaver.user_id)
    await tenancy.change_user(tenant.tenant_id, leaver.user_id, active=False)
    unknown = key[:-1] + ("A" if key[-1] != "A" else "B")
    messages: set[str] = set()
    for refused in (unknown, "nonsense", revoked.clear, expiring.clear, orphaned.clear):
        with pytest.raises(NotAuthenticated) as refusal:
            await tenancy.authenticate(refused)
        messages.add(refusal.value.message)
    assert len(messages) == 1


async def test_use_is_noted_to_the_hour(tenancy: Tenancy, clock: Clock) -> None:
    """The last use is known roughly and does not cost a write on every request."""
    tenant, _, key = await settle(tenancy, "acme")
    await tenancy.authenticate(key)
    first = (await tenancy.keys(tenant.tenant_id))[0].last_used_at
    assert first == from_micros(clock.now)
    clock.pass_by(timedelta(minutes=30))
    await tenancy.authenticate(key)
    assert (await tenancy.keys(tenant.tenant_id))[0].last_used_at == first
    clock.pass_by(timedelta(minutes=31))
    await tenancy.authenticate(key)
    assert (await tenancy.keys(tenant.tenant_id))[0].last_used_at == from_micros(clock.now)


async def test_revoking_twice_changes_nothing(tenancy: Tenancy, clock: Clock) -> None:
    """The time of the first revocation stands."""
    tenant, user, _ = await settle(tenancy, "acme")
    issued = await tenancy.issue_key(tenant.tenant_id, user.user_id)
    await tenancy.revoke_key(tenant.tenant_id, issued.key.key_id)
    when = clock.now
    clock.pass_by(timedelta(days=1))
    await tenancy.revoke_key(tenant.tenant_id, issued.key.key_id)
    key = next(key for key in await tenancy.keys(tenant.tenant_id) if key.key_id == issued.key.key_id)
    assert key.revoked_at == from_micros(when)


async def test_members_manage_their_own_keys_and_nothing_else(tenancy: Tenancy) -> None:
    """What belongs to administrators is refused to members, and another tenant is not found."""
    tenant, admin, admin_key = await settle(tenancy, "acme")
    other, _, _ = await settle(tenancy, "other")
    member = await tenancy.add_user(tenant.tenant_id, "member", by=await tenancy.authenticate(admin_key))
    key = await tenancy.issue_key(tenant.tenant_id, member.user_id)
    who = await tenancy.authenticate(key.clear)
    own = await tenancy.issue_key(tenant.tenant_id, member.user_id, by=who)
    await tenancy.revoke_key(tenant.tenant_id, own.key.key_id, by=who)
    admins = next(one for one in await tenancy.keys(tenant.tenant_id) if one.user_id == admin.user_id)
    with pytest.raises(PolicyViolation):
        await tenancy.add_user(tenant.tenant_id, "friend", by=who)
    with pytest.raises(PolicyViolation):
        await tenancy.change_user(tenant.tenant_id, member.user_id, role="admin", by=who)
    with pytest.raises(PolicyViolation):
        await tenancy.issue_key(tenant.tenant_id, admin.user_id, by=who)
    with pytest.raises(NotFound):
        await tenancy.revoke_key(tenant.tenant_id, admins.key_id, by=who)
    with pytest.raises(NotFound):
        await tenancy.add_user(other.tenant_id, "spy", by=who)


async def test_a_key_cannot_name_a_user_of_another_tenant(tenancy: Tenancy, database: Database) -> None:
    """The service does not find such a user, and the database refuses such a row."""
    first, _, _ = await settle(tenancy, "first")
    _, stranger, _ = await settle(tenancy, "second")
    with pytest.raises(NotFound):
        await tenancy.issue_key(first.tenant_id, stranger.user_id)
    key = ApiKey(first.tenant_id, "k", stranger.user_id, "tr_", "", from_micros(1))
    with pytest.raises(Conflict):
        await database.write(first.tenant_id, lambda tx: SqlTenancyStore().add_key(tx, key, "0" * 64))
    user = User("no-such-tenant", "u", "u", "member", active=True, created_at=from_micros(1))
    with pytest.raises(Conflict):
        await database.write("no-such-tenant", lambda tx: SqlTenancyStore().add_user(tx, user))


async def test_whose_key_it_is_never_changes(tenancy: Tenancy, database: Database) -> None:
    """The database refuses to give a key to somebody else or to exchange its hash."""
    tenant, _, _ = await settle(tenancy, "acme")
    for change in ("user_id = 'local'", "key_hash = 'x'", "tenant_id = 'default'"):
        with pytest.raises(AppendOnly):
            await database.write(tenant.tenant_id, lambda tx, to=change: tx.execute(f"UPDATE api_keys SET {to}"))


_LOCKOUTS: list[dict[str, Any]] = [{"role": "member"}, {"active": False}, {"role": "member", "active": False}]


@pytest.mark.parametrize("change", _LOCKOUTS, ids=str)
async def test_the_last_active_administrator_stays_one(tenancy: Tenancy, change: dict[str, Any]) -> None:
    """Nobody, the operator neither, leaves a tenant without an administrator whose keys open something."""
    tenant, admin, key = await settle(tenancy, "acme")
    tenant_id = tenant.tenant_id
    gone = await tenancy.add_user(tenant_id, "gone", role="admin")
    await tenancy.change_user(tenant_id, gone.user_id, active=False)
    await tenancy.add_user(tenant_id, "member")
    await settle(tenancy, "other")
    for by in (await tenancy.authenticate(key), None):
        with pytest.raises(Conflict, match="last active administrator"):
            await tenancy.change_user(tenant_id, admin.user_id, by=by, **change)
    assert await tenancy.user(tenant_id, admin.user_id) == admin
    await tenancy.change_user(tenant_id, gone.user_id, active=True)
    changed = await tenancy.change_user(tenant_id, admin.user_id, **change)
    assert (changed.role, changed.active) == (change.get("role", "admin"), change.get("active", True))


async def test_two_administrators_who_demote_each_other_leave_one(tenancy: Tenancy) -> None:
    """Of two changes at once that would leave nobody in charge, one is refused."""
    tenant, ada, _ = await settle(tenancy, "acme")
    bob = await tenancy.add_user(tenant.tenant_id, "bob", role="admin")
    done = await asyncio.gather(
        *(tenancy.change_user(tenant.tenant_id, user.user_id, role="member") for user in (ada, bob)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in done) == ["Conflict", "User"]
    assert sorted(user.role for user in await tenancy.users(tenant.tenant_id)) == ["admin", "member"]


@pytest.mark.parametrize("change", _LOCKOUTS, ids=str)
async def test_the_homes_own_user_stays_its_administrator(tenancy: Tenancy, change: dict[str, Any]) -> None:
    """Who needs no key cannot be locked out by taking away what only keys are asked for; the refusal says what can."""
    await tenancy.add_user("default", "second", role="admin")
    with pytest.raises(Conflict, match="--require-keys"):
        await tenancy.change_user("default", LOCAL_USER, **change)
    assert (await tenancy.user("default", LOCAL_USER)).role == "admin"


async def test_every_change_is_told_inside_its_transaction(database: Database) -> None:
    """Whoever listens hears of each change, and can stop it from happening."""
    heard: list[TenancyChange] = []
    tenancy = Tenancy(database, note=lambda _, change: heard.append(change))
    tenant, user, key = await settle(tenancy, "acme")
    await tenancy.change_user(tenant.tenant_id, user.user_id, role="admin", by=await tenancy.authenticate(key))
    await tenancy.revoke_key(tenant.tenant_id, (await tenancy.keys(tenant.tenant_id))[0].key_id)
    told = ["tenant.created", "user.added", "api_key.issued", "user.changed", "api_key.revoked"]
    assert [change.event_type for change in heard] == told
    assert {change.tenant_id for change in heard} == {tenant.tenant_id}
    assert heard[3].by is not None
    assert heard[3].by.user_id == user.user_id

    def refuse(tx: Transaction, change: TenancyChange) -> None:
        raise StorageError("the listener cannot write")

    with pytest.raises(StorageError):
        await Tenancy(database, note=refuse).add_user(tenant.tenant_id, "nobody")
    assert len(await tenancy.users(tenant.tenant_id)) == 1


_UNKNOWN_ROLE: Any = "owner"
_WRONG: list[Callable[[Tenancy], Awaitable[object]]] = [
    lambda tenancy: tenancy.create_tenant("  "),
    lambda tenancy: tenancy.add_user("default", "x" * 201),
    lambda tenancy: tenancy.add_user("default", "name", role=_UNKNOWN_ROLE),
    lambda tenancy: tenancy.issue_key("default", "local", expires_in=timedelta()),
    lambda tenancy: tenancy.issue_key("default", "local", label="x" * 201),
]


@pytest.mark.parametrize("wrong", _WRONG)
async def test_bad_input_names_its_field(tenancy: Tenancy, wrong: Callable[[Tenancy], Awaitable[object]]) -> None:
    """What cannot be accepted is refused with the name of the field."""
    with pytest.raises(InvalidInput) as refusal:
        await wrong(tenancy)
    assert refusal.value.details["field"]


async def test_what_is_not_there_and_what_is_not_yours_are_one_answer(tenancy: Tenancy) -> None:
    """Another tenant's user and a user who does not exist cannot be told apart."""
    first, _, _ = await settle(tenancy, "first")
    _, stranger, _ = await settle(tenancy, "second")
    answers: list[str] = []
    for user_id in (stranger.user_id, "0" * 32):
        with pytest.raises(NotFound) as refusal:
            await tenancy.user(first.tenant_id, user_id)
        answers.append(refusal.value.message.replace(user_id, "ID"))
    assert answers[0] == answers[1]


async def test_no_method_of_the_store_crosses_tenants(tenancy: Tenancy, database: Database) -> None:
    """Every method, given another tenant's ids, sees nothing of it and changes nothing."""
    victim, user, key = await settle(tenancy, "victim")
    intruder, me, _ = await settle(tenancy, "intruder")
    own = (await tenancy.keys(victim.tenant_id))[0]
    store, mine = SqlTenancyStore(), intruder.tenant_id
    forged = ApiKey(victim.tenant_id, "forged", user.user_id, "tr_", "", from_micros(1))
    attempts: dict[str, Attempt] = {
        "add_tenant": lambda tx: store.add_tenant(tx, victim),
        "tenant": lambda tx: store.tenant(tx, mine),
        "add_user": lambda tx: store.add_user(tx, User(mine, me.user_id, "x", "admin", True, from_micros(1))),
        "user": lambda tx: store.user(tx, mine, user.user_id),
        "users": lambda tx: store.users(tx, mine),
        "change_user": lambda tx: store.change_user(tx, mine, user.user_id, role="member", active=False),
        "key": lambda tx: store.key(tx, mine, own.key_id),
        "keys": lambda tx: store.keys(tx, mine),
        "revoke_key": lambda tx: store.revoke_key(tx, mine, own.key_id, at=1),
        "note_use": lambda tx: store.note_use(tx, mine, own.key_id, at=1, unless_since=now_micros()),
    }
    on_postgres: dict[str, Attempt] = {
        "add_key": lambda tx: store.add_key(tx, forged, "0" * 64),
        "tenants": store.tenants,
        "find_key": lambda tx: store.find_key(tx, hash_key(key)),
        "user of the victim": lambda tx: store.user(tx, victim.tenant_id, user.user_id),
        "change of the victim": lambda tx: store.change_user(
            tx, victim.tenant_id, user.user_id, role="member", active=False
        ),
    }
    assert methods_of(TenancyStore) <= {*attempts, *on_postgres}
    if database.dialect == "postgres":
        attempts |= on_postgres
    marks = (victim.tenant_id, user.user_id, own.key_id, hash_key(key), "victim")
    await assert_fenced(database, attempts, intruder=mine, victim=victim.tenant_id, tables=_TABLES, marks=marks)


async def test_the_directory_lists_tenants_and_opens_nothing_else(postgres_database: Database) -> None:
    """Acting for the directory shows the tenants, none of their users or keys, and allows no change."""
    tenancy = Tenancy(postgres_database)
    await settle(tenancy, "acme")
    assert [tenant.name for tenant in await tenancy.tenants()] == ["default", "acme"]
    for table in ("users", "api_keys"):
        assert await postgres_database.read("*", lambda tx, of=table: tx.fetch_all(f"SELECT * FROM {of}")) == []
    assert await postgres_database.write("*", lambda tx: tx.execute("UPDATE tenants SET name = 'x'")) == 0
    assert await postgres_database.write("*", lambda tx: tx.execute("DELETE FROM tenants")) == 0


async def test_holding_a_key_hash_shows_that_key_alone(postgres_database: Database) -> None:
    """Before the tenant is known, exactly one row can be seen, and it cannot be changed."""
    tenancy = Tenancy(postgres_database)
    _, _, key = await settle(tenancy, "first")
    await settle(tenancy, "second")
    scope = f"key:{hash_key(key)}"
    rows = await postgres_database.read(scope, lambda tx: tx.fetch_all("SELECT key_hash FROM api_keys"))
    assert [row["key_hash"] for row in rows] == [hash_key(key)]
    assert await postgres_database.read(scope, lambda tx: tx.fetch_all("SELECT * FROM users")) == []
    assert await postgres_database.write(scope, lambda tx: tx.execute("UPDATE api_keys SET revoked_at = 1")) == 0
    assert await postgres_database.read("key:", lambda tx: tx.fetch_all("SELECT * FROM api_keys")) == []


async def test_keys_are_found_by_index(database: Database, tenancy: Tenancy) -> None:
    """Looking a key up does not read the whole table, however many keys there are."""
    _, _, key = await settle(tenancy, "acme")
    lookup = f"SELECT key_id FROM api_keys WHERE key_hash = '{hash_key(key)}'"

    def plan(tx: Transaction) -> list[Row]:
        if tx.dialect == "sqlite":
            return tx.fetch_all(f"EXPLAIN QUERY PLAN {lookup}")
        tx.execute("SET LOCAL enable_seqscan = off")
        return tx.fetch_all(f"EXPLAIN {lookup}")

    assert "api_keys_hash" in repr(await database.read(f"key:{hash_key(key)}", plan))


async def test_the_owner_of_the_schema_needs_no_more_than_that(empty_postgres_login: PostgresLogin) -> None:
    """The tables can be made by an owner whom row-level security binds, default tenant included."""
    with psycopg.connect(empty_postgres_login.admin_url, autocommit=True) as admin:
        admin.execute("CREATE ROLE plain_owner LOGIN CREATEROLE")
        name = admin.info.dbname
        admin.execute(sql.SQL("ALTER DATABASE {} OWNER TO plain_owner").format(sql.Identifier(name)))
        admin.execute("ALTER SCHEMA public OWNER TO plain_owner")
    owner_url = empty_postgres_login.admin_url.replace("postgresql://postgres@", "postgresql://plain_owner@")
    database = open_database(empty_postgres_login.url, admin_url=owner_url)
    try:
        database.migrate()
        tenancy = Tenancy(database)
        tenant, user, key = await settle(tenancy, "acme")
        assert (await tenancy.user("default", "local")).active
        assert await tenancy.authenticate(key) == Principal(
            tenant.tenant_id, user.user_id, "admin", (await tenancy.keys(tenant.tenant_id))[0].key_id
        )
    finally:
        database.close()
        with psycopg.connect(empty_postgres_login.admin_url, autocommit=True) as admin:
            admin.execute("REASSIGN OWNED BY plain_owner TO postgres")
            admin.execute("DROP OWNED BY plain_owner")
            admin.execute("DROP ROLE plain_owner")


async def test_a_key_ends_no_later_than_the_one_it_was_asked_for_with(tenancy: Tenancy) -> None:
    """What expires cannot be prolonged by copies, a member's or an administrator's; what does not, sets no end."""
    tenant, admin, key = await settle(tenancy, "acme")
    member = await tenancy.add_user(tenant.tenant_id, "mia")
    for user in (admin, member):
        lent = await tenancy.issue_key(tenant.tenant_id, user.user_id, expires_in=timedelta(days=2))
        who = await tenancy.authenticate(lent.clear)
        spans = (None, timedelta(days=9), timedelta(days=1))
        made = [await tenancy.issue_key(tenant.tenant_id, user.user_id, expires_in=span, by=who) for span in spans]
        end = lent.key.expires_at
        assert end is not None
        assert [each.key.expires_at for each in made] == [end, end, end - timedelta(days=1)]
        listed = {each.key_id: each.expires_at for each in await tenancy.keys(tenant.tenant_id)}
        assert [listed[each.key.key_id] for each in made] == [each.key.expires_at for each in made]
    endless = await tenancy.authenticate(key)
    assert (await tenancy.issue_key(tenant.tenant_id, member.user_id, by=endless)).key.expires_at is None
