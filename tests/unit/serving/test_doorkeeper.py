"""Who is let in: by key, by address, and for how long a key is believed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from twinraven.foundation.clock import now_micros
from twinraven.serving import Doorkeeper, is_loopback
from twinraven.serving.doorkeeper import BELIEVED_S, is_at_home
from twinraven.storage import Database
from twinraven.tenancy import LOCAL, NotAuthenticated, Tenancy, User


class House:
    """A tenancy with one user and a door, under a clock that the test moves."""

    def __init__(self, database: Database) -> None:
        self.now = now_micros()
        self.tenancy = Tenancy(database, micros=lambda: self.now)
        self.door = Doorkeeper(self.tenancy, clock=lambda: self.now / 1_000_000)

    async def settle(self) -> User:
        tenant = await self.tenancy.create_tenant("other")
        return await self.tenancy.add_user(tenant.tenant_id, "ada")

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)


@pytest.fixture
def house(sqlite_database: Database) -> House:
    return House(sqlite_database)


async def test_a_key_is_read_from_either_header(house: House) -> None:
    """Bearer in any case, or X-Api-Key; another scheme is no key."""
    user = await house.settle()
    key = (await house.tenancy.issue_key(user.tenant_id, user.user_id)).clear
    for shown in ({"authorization": f"Bearer {key}"}, {"authorization": f"bearer  {key} "}, {"api_key": key}):
        assert (await house.door.admit(**shown)).user_id == user.user_id
    for shown in ({"authorization": f"Basic {key}"}, {"authorization": key}, {"authorization": "Bearer"}, {}):
        with pytest.raises(NotAuthenticated):
            await house.door.admit(**shown)


async def test_a_revoked_expired_or_disabled_key_opens_nothing_after_a_second(house: House) -> None:
    """What was believed is asked again within a second; what ended meanwhile opens nothing."""
    user = await house.settle()
    issue = house.tenancy.issue_key
    revoked = await issue(user.tenant_id, user.user_id)
    expiring = await issue(user.tenant_id, user.user_id, expires_in=timedelta(seconds=30))
    disabled = await issue(user.tenant_id, user.user_id)
    for issued in (revoked, expiring, disabled):
        await house.door.admit(api_key=issued.clear)
    await house.tenancy.revoke_key(user.tenant_id, revoked.key.key_id)
    house.wait(BELIEVED_S)
    await house.door.admit(api_key=disabled.clear)
    with pytest.raises(NotAuthenticated):
        await house.door.admit(api_key=revoked.clear)
    await house.tenancy.change_user(user.tenant_id, user.user_id, active=False)
    house.wait(BELIEVED_S)
    with pytest.raises(NotAuthenticated):
        await house.door.admit(api_key=disabled.clear)
    await house.tenancy.change_user(user.tenant_id, user.user_id, active=True)
    await house.door.admit(api_key=expiring.clear)
    house.wait(31)
    with pytest.raises(NotAuthenticated):
        await house.door.admit(api_key=expiring.clear)


async def test_a_wrong_key_is_not_the_same_as_none(house: House) -> None:
    """Where the key may be left out, a wrong one is still refused, and all wrong ones with the same words."""
    door = Doorkeeper(house.tenancy, without_key=LOCAL)
    assert await door.admit(host="localhost:8765") == LOCAL
    user = await house.settle()
    issued = await house.tenancy.issue_key(user.tenant_id, user.user_id)
    await house.tenancy.revoke_key(user.tenant_id, issued.key.key_id)
    said: set[str] = set()
    for wrong in ("x", "tr_", issued.clear, issued.clear[:-1], issued.clear + "a", "tr_" + "A" * 43, "é" * 40):
        with pytest.raises(NotAuthenticated) as refusal:
            await door.admit(api_key=wrong, host="localhost:8765")
        said.add(repr(refusal.value.as_json()))
    assert len(said) == 1


def test_at_home_is_this_machine_by_name_and_no_foreign_page() -> None:
    """A request without a key must be addressed to this machine and come from no other site."""
    for host in ("localhost", "localhost:8765", "127.0.0.1:8765", "127.9.9.9", "[::1]:8765", "[::1]"):
        assert is_at_home(host, None), host
        assert is_at_home(host, "http://localhost:3000"), host
    for host in ("", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "[", "@"):
        assert not is_at_home(host, None), host
    for origin in (
        "null",
        "",
        "http://evil.example",
        "https://localhost.evil.example",
        "http://127.0.0.1@evil.example",
    ):
        assert not is_at_home("localhost", origin), origin


def test_loopback_is_what_only_this_machine_reaches() -> None:
    """An address is loopback, or others can connect."""
    for host in ("localhost", "127.0.0.1", "::1", "[::1]", "127.255.255.254"):
        assert is_loopback(host), host
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.com", "", "localhost ", "LOCALHOST.example"):
        assert not is_loopback(host), host
