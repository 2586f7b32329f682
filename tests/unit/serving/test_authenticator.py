"""Who is let in: by key, by address, and for how long a key is believed."""

from __future__ import annotations

import asyncio
import gc
from datetime import timedelta

import pytest

from twinraven.foundation.clock import now_micros
from twinraven.serving import Authenticator, is_loopback
from twinraven.serving.authenticator import BELIEVED_S, ENDING, is_at_home
from twinraven.storage import Database
from twinraven.tenancy import LOCAL, NotAuthenticated, Principal, Tenancy, User

_HERE = ("127.0.0.1", 40_000)


async def knock(door: Authenticator, **headers: str) -> Principal:
    """Show these headers, named as arguments are, from this machine."""
    return await knock_from(_HERE, door, **headers)


async def knock_from(client: tuple[str, int] | None, door: Authenticator, **headers: str) -> Principal:
    shown = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}
    return await door.admit(shown, client=client)


class House:
    """A tenancy with one user and a door, under a clock that the test moves."""

    def __init__(self, database: Database) -> None:
        self.now = now_micros()
        self.tenancy = Tenancy(database, micros=lambda: self.now)
        self.door = Authenticator(self.tenancy, clock=lambda: self.now / 1_000_000)

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
    for shown in ({"authorization": f"Bearer {key}"}, {"authorization": f"bearer  {key} "}, {"x_api_key": key}):
        assert (await knock(house.door, **shown)).user_id == user.user_id
    for shown in ({"authorization": f"Basic {key}"}, {"authorization": key}, {"authorization": "Bearer"}, {}):
        with pytest.raises(NotAuthenticated):
            await knock(house.door, **shown)


async def test_many_who_come_at_once_with_one_key_are_asked_about_once(house: House) -> None:
    """The store is asked once for all; one who leaves meanwhile takes nobody along, and a refusal is not kept."""
    user = await house.settle()
    key = (await house.tenancy.issue_key(user.tenant_id, user.user_id)).clear
    asked: list[str] = []
    authenticate = house.tenancy.authenticate

    async def count(clear: str) -> Principal:
        asked.append(clear)
        return await authenticate(clear)

    house.tenancy.authenticate = count
    coming = [asyncio.ensure_future(knock(house.door, x_api_key=key)) for _ in range(20)]
    await asyncio.sleep(0)
    coming[0].cancel()
    found = await asyncio.gather(*coming, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert {one.user_id for one in found[1:] if isinstance(one, Principal)} == {user.user_id}
    assert len(found[1:]) == 19
    assert asked == [key]
    bad = [knock(house.door, x_api_key="tr_nobody") for _ in range(5)]
    assert {type(one) for one in await asyncio.gather(*bad, return_exceptions=True)} == {NotAuthenticated}
    with pytest.raises(NotAuthenticated):
        await knock(house.door, x_api_key="tr_nobody")
    assert asked == [key, "tr_nobody", "tr_nobody"]


async def test_a_refusal_that_nobody_waits_for_any_more_troubles_nobody(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever leaves before the answer comes leaves nothing behind, not even a line in the log."""
    await house.settle()
    # One that could be a key, so that the store is asked and the answer takes a while.
    unknown = "tr_" + "n" * 43
    for _ in range(5):
        coming = asyncio.ensure_future(knock(house.door, x_api_key=unknown))
        await asyncio.sleep(0)
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await asyncio.sleep(0.05)
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_revoked_expired_or_disabled_key_opens_nothing_after_a_second(house: House) -> None:
    """What was believed is asked again within a second; what ended meanwhile opens nothing."""
    user = await house.settle()
    issue = house.tenancy.issue_key
    revoked = await issue(user.tenant_id, user.user_id)
    expiring = await issue(user.tenant_id, user.user_id, expires_in=timedelta(seconds=30))
    disabled = await issue(user.tenant_id, user.user_id)
    for issued in (revoked, expiring, disabled):
        await knock(house.door, x_api_key=issued.clear)
    await house.tenancy.revoke_key(user.tenant_id, revoked.key.key_id)
    house.wait(BELIEVED_S)
    await knock(house.door, x_api_key=disabled.clear)
    with pytest.raises(NotAuthenticated):
        await knock(house.door, x_api_key=revoked.clear)
    await house.tenancy.change_user(user.tenant_id, user.user_id, active=False)
    house.wait(BELIEVED_S)
    with pytest.raises(NotAuthenticated):
        await knock(house.door, x_api_key=disabled.clear)
    await house.tenancy.change_user(user.tenant_id, user.user_id, active=True)
    await knock(house.door, x_api_key=expiring.clear)
    house.wait(31)
    with pytest.raises(NotAuthenticated):
        await knock(house.door, x_api_key=expiring.clear)


async def test_a_wrong_key_is_not_the_same_as_none(house: House) -> None:
    """Where the key may be left out, a wrong one is still refused, and all wrong ones with the same words."""
    door = Authenticator(house.tenancy, without_key=LOCAL)
    assert await knock(door, host="localhost:8765") == LOCAL
    user = await house.settle()
    issued = await house.tenancy.issue_key(user.tenant_id, user.user_id)
    await house.tenancy.revoke_key(user.tenant_id, issued.key.key_id)
    said: set[str] = set()
    for wrong in ("x", "tr_", issued.clear, issued.clear[:-1], issued.clear + "a", "tr_" + "A" * 43, "é" * 40):
        with pytest.raises(NotAuthenticated) as refusal:
            await knock(door, x_api_key=wrong, host="localhost:8765")
        said.add(repr(refusal.value.as_json()))
    assert len(said) == 1


async def test_without_a_key_nothing_that_was_passed_on_is_served(house: House) -> None:
    """What a proxy adds, a peer elsewhere, or none that is known: not this machine's own user, who would be admin."""
    door = Authenticator(house.tenancy, without_key=LOCAL)
    assert await knock_from(("::1", 1), door, host="localhost", accept="*/*") == LOCAL
    for passed_on in (
        {"forwarded": "for=203.0.113.9"},
        {"via": "1.1 proxy"},
        {"x_real_ip": "203.0.113.9"},
        {"x_forwarded_for": "127.0.0.1"},
        {"x_forwarded_host": "api.example"},
        {"x_forwarded_proto": ""},
    ):
        with pytest.raises(NotAuthenticated):
            await knock(door, host="localhost", **passed_on)
    for client in (None, ("203.0.113.9", 1), ("10.0.0.1", 1), ("", 0)):
        with pytest.raises(NotAuthenticated):
            await knock_from(client, door, host="localhost")


async def test_a_proxy_passes_on_keys(house: House) -> None:
    """Whoever shows a key may come by any way and from anywhere."""
    door = Authenticator(house.tenancy, without_key=LOCAL)
    user = await house.settle()
    key = (await house.tenancy.issue_key(user.tenant_id, user.user_id)).clear
    found = await knock_from(None, door, authorization=f"Bearer {key}", via="1.1 proxy", host="api.example")
    assert found.user_id == user.user_id


@pytest.mark.parametrize(
    "shown", [{"authorization": shown} for shown in ("Basic abc", "Bearer", "Bearer ", "", "abc")] + [{"x_api_key": ""}]
)
async def test_credentials_that_are_no_key_are_not_none(house: House, shown: dict[str, str]) -> None:
    """Whoever shows something is not taken for somebody who needs nothing."""
    door = Authenticator(house.tenancy, without_key=LOCAL)
    with pytest.raises(NotAuthenticated):
        await knock(door, host="localhost", **shown)


async def test_a_stream_is_over_when_the_server_ends_or_the_key_does(house: House) -> None:
    """Neither waits for the other; a stream whose key is good goes on."""
    user = await house.settle()
    issued = await house.tenancy.issue_key(user.tenant_id, user.user_id)
    headers = {b"x-api-key": issued.clear.encode()}
    ending = asyncio.Event()
    kept = asyncio.ensure_future(house.door.over({ENDING: ending}, headers))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(kept), BELIEVED_S * 1.2)
    ending.set()
    await asyncio.wait_for(kept, 0.5)
    await house.tenancy.revoke_key(user.tenant_id, issued.key.key_id)
    house.wait(BELIEVED_S)
    await asyncio.wait_for(house.door.over({}, headers), BELIEVED_S + 1)


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
