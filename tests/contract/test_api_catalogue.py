"""The list of tools: what can be called, and what can only be seen, with the reason."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Door
from tests.api_homes import ApiHome, Seeds, api_home, login_of, made
from tests.unit.catalog.town import service_body, tool_body

_SECRET = {"name": "shop-key", "type": "api_key", "value": "a-value-that-nobody-guesses"}


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


@pytest.fixture
async def owner(home: ApiHome) -> Seeds:
    """An owner with three shared tools on a shared service, one bound to a secret, one disabled; and one unshared."""
    ada = await home.tenant("ada")
    made(await ada.door.post("/v1/secrets", _SECRET))
    made(await ada.door.post("/v1/services", service_body(name="shop", shared=True)))
    for key, more in (
        ("open_tool", {"shared": True}),
        ("bound_tool", {"shared": True, "secret": "shop-key"}),
        ("off_tool", {"shared": True, "enabled": False}),
        ("own_tool", {}),
    ):
        made(await ada.door.post("/v1/tools", tool_body(key=key, service="shop", **more)))
    return ada


async def listed(door: Door) -> dict[str, dict[str, Any]]:
    """Every tool by its id, read in pages of two."""
    found: dict[str, dict[str, Any]] = {}
    target = "/v1/tools?limit=2"
    while True:
        page = made(await door.get(target))
        found |= {each["tool_id"]: each for each in page["items"]}
        if page["next_cursor"] is None:
            return found
        target = f"/v1/tools?limit=2&cursor={page['next_cursor']}"


@pytest.mark.req("AD-04")
async def test_what_can_be_seen_and_not_called_is_listed_with_the_reason(home: ApiHome, owner: Seeds) -> None:
    """An owner finds what she disabled, a colleague what needs the owner's secret; what is not shared is not there."""
    mia = await home.user(owner.tenant_id, "mia")
    hers, theirs = await listed(owner.door), await listed(mia.door)
    assert {key: each["callable"] for key, each in hers.items() if key.endswith("_tool")} == {
        "open_tool": True,
        "bound_tool": True,
        "off_tool": False,
        "own_tool": True,
    }
    assert hers["off_tool"]["reason"] == "disabled"
    assert hers["search"]["callable"]
    assert {key: each["callable"] for key, each in theirs.items() if key.endswith("_tool")} == {
        "open_tool": True,
        "bound_tool": False,
        "off_tool": False,
    }
    assert "owner's secret" in theirs["bound_tool"]["reason"]
    for door, found in ((owner.door, hers), (mia.door, theirs)):
        for key, each in found.items():
            assert made(await door.get(f"/v1/tools/{key}")) == each
            assert (each["reason"] is None) == each["callable"]
    assert (await mia.door.get("/v1/tools/own_tool")).status == 404


@pytest.mark.req("AD-04")
async def test_a_secret_that_a_tool_uses_is_deleted_after_the_tool_alone(owner: Seeds) -> None:
    """The home's vault knows which tools use a secret, and refuses to delete it until none does."""
    (secret,) = made(await owner.door.get("/v1/secrets"))["items"]
    refused = await owner.door.delete(f"/v1/secrets/{secret['id']}", If_Match="*")
    assert (refused.status, refused.json()["code"]) == (409, "CONFLICT")
    assert "bound_tool" in refused.json()["detail"]
    assert (await owner.door.delete("/v1/tools/bound_tool/definition", If_Match="*")).status == 204
    assert (await owner.door.delete(f"/v1/secrets/{secret['id']}", If_Match="*")).status == 204


async def test_a_disabled_service_and_one_that_is_taken_back_are_reasons(home: ApiHome, owner: Seeds) -> None:
    """What stops a tool from beside it is said of the tool, and is gone when it is undone."""
    mia = await home.user(owner.tenant_id, "mia")
    made(await mia.door.post("/v1/tools", tool_body(key="mias_tool", service="shop")))
    service = made(await owner.door.get("/v1/services"))["items"][0]["id"]
    for change, why in (({"enabled": False}, "'shop' is disabled"), ({"enabled": True, "shared": False}, "not shared")):
        made(await owner.door.patch(f"/v1/services/{service}", change, If_Match="*"))
        shown = (await listed(mia.door))["mias_tool"]
        assert not shown["callable"]
        assert why in shown["reason"]
    made(await owner.door.patch(f"/v1/services/{service}", {"shared": True}, If_Match="*"))
    assert (await listed(mia.door))["mias_tool"]["callable"]


async def test_a_call_of_a_disabled_tool_is_not_worth_repeating(owner: Seeds) -> None:
    """The refusal says that it was disabled, and that sending it again does not help."""
    call = {"tool_name": "off_tool", "payload": {"orderId": "1"}, "session_id": "s"}
    error = made(await owner.door.post("/v1/calls", call))["error"]
    assert (error["code"], error["retryable"], error["details"]["reason"]) == ("TOOL_UNAVAILABLE", False, "disabled")
