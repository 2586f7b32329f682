"""Browsers that are signed in: a key lets one in for a time, only a hash is kept, and it ends with its key."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.api_homes import ApiHome, api_home, login_of
from tests.homes import all_text
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import AppendOnly
from twinraven.tenancy import NotAuthenticated, SignIns


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request), needs_key=True) as home:
        yield home


def _note_nothing(*_: object) -> None:
    """Keep no audit log."""


async def test_key_becomes_a_sign_in(home: ApiHome) -> None:
    """A key is exchanged for a token that stands for its user, of which the store has only a hash."""
    ada = await home.tenant("ada")
    begun = await ada.door.post("/v1/sign-ins", {"label": "a browser"})
    assert begun.status == 201
    token = begun.json()["shown_once"]
    who = await home.raven.sign_ins.principal_of(token)
    assert (who.tenant_id, who.user_id, who.role) == (ada.tenant_id, ada.user_id, "admin")
    assert token not in all_text(home.raven)
    assert token.partition(".")[2] not in all_text(home.raven)
    shown = (await ada.door.get("/v1/sign-ins")).json()["items"]
    assert [(each["label"], each["ended_at"]) for each in shown] == [("a browser", None)]


async def test_sign_in_opens_nothing_under_v1(home: ApiHome) -> None:
    """What a browser holds is no key."""
    ada = await home.tenant("ada")
    token = (await ada.door.post("/v1/sign-ins", {})).json()["shown_once"]
    assert (await home.door.keyed(token).get("/v1/me")).status == 401
    assert (await home.door.get("/v1/me", Cookie=f"__Host-twinraven={token}; twinraven={token}")).status == 401


async def test_sign_ins_end(home: ApiHome) -> None:
    """A sign-in ends by signing out, with its key, with its user, and after twelve hours."""
    ada = await home.tenant("ada")
    member = await home.user(ada.tenant_id, "eve")
    first, second, third = [(await member.door.post("/v1/sign-ins", {})).json() for _ in range(3)]
    assert (await member.door.delete(f"/v1/sign-ins/{first['sign_in_id']}")).status == 204
    sign_ins = home.raven.sign_ins
    with pytest.raises(NotAuthenticated):
        await sign_ins.principal_of(first["shown_once"])
    later = SignIns(
        home.raven.database,
        home.raven.tenancy,
        note=_note_nothing,
        micros=lambda: now_micros() + 12 * 3600 * 1_000_000,
    )
    with pytest.raises(NotAuthenticated):
        await later.principal_of(second["shown_once"])
    assert await later.open(ada.tenant_id) == []
    await home.raven.tenancy.revoke_key(ada.tenant_id, third["key_id"])
    with pytest.raises(NotAuthenticated):
        await sign_ins.principal_of(third["shown_once"])
    kinds = {each["event_type"] for each in (await ada.door.get("/v1/audit?limit=100")).json()["items"]}
    assert {"sign_in.begun", "sign_in.ended"} <= kinds


async def test_sign_ins_of_others_are_not_there(home: ApiHome) -> None:
    """A member sees and ends their own browsers alone; an administrator everybody's of the tenant, nobody another's."""
    ada, bob = await home.tenant("ada"), await home.tenant("bob")
    member = await home.user(ada.tenant_id, "eve")
    of_admin = (await ada.door.post("/v1/sign-ins", {})).json()["sign_in_id"]
    of_member = (await member.door.post("/v1/sign-ins", {})).json()["sign_in_id"]
    assert [each["sign_in_id"] for each in (await member.door.get("/v1/sign-ins")).json()["items"]] == [of_member]
    assert len((await ada.door.get("/v1/sign-ins")).json()["items"]) == 2
    for stranger, target in ((member, of_admin), (bob, of_member)):
        refused = await stranger.door.delete(f"/v1/sign-ins/{target}")
        unknown = await stranger.door.delete(f"/v1/sign-ins/{'0' * 32}")
        assert (refused.status, unknown.status) == (404, 404)
    assert (await ada.door.delete(f"/v1/sign-ins/{of_member}")).status == 204


async def test_without_a_key_there_is_nothing_to_sign_in_with(tmp_path: Path) -> None:
    """On a machine that needs no key, signing in is refused with the reason."""
    async with api_home(tmp_path) as home:
        refused = await home.door.post("/v1/sign-ins", {})
        assert refused.status == 400
        assert "needs an API key" in refused.json()["detail"]


async def test_a_sign_in_never_changes_hands(home: ApiHome) -> None:
    """The database itself refuses to give a sign-in another user, key or end."""
    ada = await home.tenant("ada")
    await ada.door.post("/v1/sign-ins", {})
    for change in ("user_id = 'x'", "key_id = 'x'", "expires_at = 1", "token_hash = 'x'"):
        with pytest.raises(AppendOnly):
            await home.raven.database.write(
                ada.tenant_id, lambda tx, to=change: tx.execute(f"UPDATE sign_ins SET {to}")
            )
