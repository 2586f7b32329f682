"""Authentication over HTTP: which requests are served, for whom, and what the others are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.api_client import Door
from tests.api_homes import ApiHome, api_home, login_of, made
from twinraven.api import all_routes
from twinraven.serving.metrics import HttpMetrics


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    """A home that others can reach: nobody is served without a key."""
    async with api_home(tmp_path, postgres=login_of(request), needs_key=True) as opened:
        yield opened


async def test_only_what_machines_ask_of_the_server_is_open(home: ApiHome) -> None:
    """Every other route answers 401 without a key, before it looks at anything else in the request."""
    for route in all_routes(HttpMetrics()):
        path = route.path.replace("{", "").replace("}", "")
        reply = await home.door.ask(route.method, path, body=b"\xff not json")
        if route.is_open:
            assert reply.status == 400, route.name
            assert (await home.door.get(path)).status == 200
        else:
            assert (reply.status, reply.json()["code"]) == (401, "NOT_AUTHENTICATED"), route.name
            assert reply.headers["www-authenticate"] == "Bearer"


async def test_a_key_opens_by_either_header_and_says_whose_it_is(home: ApiHome) -> None:
    """Bearer and X-Api-Key open the same door; who comes in is whom the key stands for."""
    ada = await home.tenant("ada")
    for headers in ({"authorization": f"Bearer {ada.key}"}, {"x-api-key": ada.key}):
        who = made(await Door(home.door.app, headers).get("/v1/me"))
        assert (who["tenant_id"], who["user_id"], who["role"]) == (ada.tenant_id, ada.user_id, "admin")
    assert (await home.door.get(f"/v1/me?api_key={ada.key}")).status == 401


async def test_all_bad_keys_are_told_the_same(home: ApiHome) -> None:
    """Unknown, revoked, of a disabled user, malformed: one answer, byte for byte, so that nothing can be probed."""
    ada = await home.tenant("ada")
    revoked = made(await ada.door.post("/v1/keys", {}))
    assert (await ada.door.delete(f"/v1/keys/{revoked['key_id']}")).status == 204
    locked = await home.user(ada.tenant_id, "leo")
    made(await ada.door.patch(f"/v1/users/{locked.user_id}", {"active": False}, If_Match="*"))
    keys = (revoked["shown_once"], locked.key, "tr_unknown", ada.key[:-1] + "é", "x", "a" * 10_000, "\x01")
    replies = [await home.door.keyed(key).get("/v1/me") for key in keys]
    assert {reply.status for reply in replies} == {401}
    assert len({reply.body for reply in replies}) == 1


async def test_a_revoked_key_is_refused_within_about_a_second(home: ApiHome) -> None:
    """A key in use, revoked through the door, stops opening it; so does one whose user was locked out."""
    ada = await home.tenant("ada")
    agent = await home.user(ada.tenant_id, "agent")
    issued = made(await agent.door.post("/v1/keys", {"label": "second", "expires_in_days": 1}))
    second = home.door.keyed(issued["shown_once"])
    assert issued["expires_at"] is not None
    for door in (agent.door, second):
        assert (await door.get("/v1/me")).status == 200
    assert (await agent.door.delete(f"/v1/keys/{issued['key_id']}")).status == 204
    await asyncio.sleep(1.1)
    assert (await second.get("/v1/me")).status == 401
    assert (await agent.door.get("/v1/me")).status == 200
    made(await ada.door.patch(f"/v1/users/{agent.user_id}", {"active": False}, If_Match="*"))
    await asyncio.sleep(1.1)
    assert (await agent.door.get("/v1/me")).status == 401


async def test_a_member_manages_their_own_keys_alone(home: ApiHome) -> None:
    """A member lists, makes and revokes their own keys; those of others are refused or not shown."""
    ada = await home.tenant("ada")
    mia = await home.user(ada.tenant_id, "mia")
    own = made(await mia.door.post("/v1/keys", {"label": "own"}))
    listed = made(await mia.door.get("/v1/keys"))["items"]
    assert {key["user_id"] for key in listed} == {mia.user_id}
    assert len(made(await ada.door.get("/v1/keys"))["items"]) == 3
    refused = await mia.door.post("/v1/keys", {"user_id": ada.user_id})
    assert (refused.status, refused.json()["code"], refused.json()["retryable"]) == (403, "POLICY_VIOLATION", False)
    assert (await mia.door.delete(f"/v1/keys/{own['key_id']}")).status == 204


async def test_without_a_key_only_this_machine_by_its_own_name_is_served(tmp_path: Path) -> None:
    """On loopback the home's own user needs no key; another host's name or another site's page does not get in."""
    async with api_home(tmp_path / "local") as local:
        assert (await local.door.get("/v1/me")).json()["user_id"] == "local"
        assert (await local.door.get("/v1/me", Origin="http://localhost:3000")).status == 200
        for foreign in ({"host": "evil.example"}, {"origin": "http://evil.example"}, {"origin": "null"}):
            refused = await local.door.ask("GET", "/v1/me", headers=foreign)
            assert (refused.status, refused.json()["code"]) == (401, "NOT_AUTHENTICATED"), foreign
        ada = await local.tenant("ada")
        assert (await ada.door.ask("GET", "/v1/me", headers={"host": "api.example"})).status == 200


async def test_nobody_is_left_in_charge_of_nothing(home: ApiHome) -> None:
    """The last active administrator and the home's own user cannot be demoted or locked out: 409, and why."""
    ada = await home.tenant("ada")
    local = await home.raven.tenancy.issue_key("default", "local")
    for door, user_id, why in ((ada.door, ada.user_id, "last active"), (home.door.keyed(local.clear), "local", "key")):
        for change in ({"role": "member"}, {"active": False}):
            refused = await door.patch(f"/v1/users/{user_id}", change, If_Match="*")
            assert (refused.status, refused.json()["code"]) == (409, "CONFLICT")
            assert why in refused.json()["detail"]
        assert made(await door.get("/v1/me"))["role"] == "admin"
