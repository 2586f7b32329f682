"""The list of tools: what can be called, and what can only be seen, with the reason."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Door
from tests.api_homes import ApiHome, Seeds, api_home, login_of, made
from tests.unit.catalog.town import inputs, service_body, tool_body
from twinraven.foundation.canonical import canonical_json

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


@pytest.mark.req("AD-04")
async def test_the_use_of_a_secret_may_state_a_scope(owner: Seeds) -> None:
    """What a secret is used for is kept with the binding, shown and audited; another binding has its own."""
    bound = made(await owner.door.get("/v1/tools/bound_tool/definition"))
    assert bound["secret_scope"] is None
    place = "/v1/tools/bound_tool/definition"
    changed = made(await owner.door.patch(place, {"secretScope": "orders:read"}, If_Match="*"))
    assert (changed["secret_scope"], changed["secret"]) == ("orders:read", bound["secret"])
    assert made(await owner.door.patch(place, {"name": "Bound"}, If_Match="*"))["secret_scope"] == "orders:read"
    scoped = {**tool_body(key="scoped", service="shop"), "secret": bound["secret"], "secret_scope": "orders:write"}
    assert made(await owner.door.post("/v1/tools", scoped))["secret_scope"] == "orders:write"
    told = canonical_json(made(await owner.door.get("/v1/audit"))).decode()
    assert '"secret_scope":"orders:read"' in told
    assert '"secret_scope":"orders:write"' in told
    secret = f"/v1/secrets/{bound['secret']}"
    before = made(await owner.door.get(secret))
    assert sorted(before["used_by"]) == ["tool 'bound_tool'", "tool 'scoped'"]
    assert (await owner.door.delete(secret)).status == 409
    renamed = made(await owner.door.patch(secret, {"name": "till key"}))
    rotated = made(await owner.door.put(f"{secret}/value", {"value": "yet-another-value-7"}))
    assert (renamed["name"], renamed["version"]) == ("till key", before["version"])
    assert rotated == {**renamed, "version": before["version"] + 1, "updated_at": rotated["updated_at"]}
    made(await owner.door.post("/v1/secrets", {"name": "other", "type": "api_key", "value": "another-value-9"}))
    assert made(await owner.door.patch(place, {"secret": "other"}, If_Match="*"))["secret_scope"] is None
    both = {"secret": None, "secret_scope": "orders:read"}
    refused = await owner.door.patch("/v1/tools/scoped/definition", both, If_Match="*")
    assert (refused.status, refused.json()["details"]["field"]) == (400, "secret_scope")
    assert made(await owner.door.patch("/v1/tools/scoped/definition", {"secret": None}, If_Match="*"))["secret"] is None


@pytest.mark.req("AD-05")
async def test_a_scope_needs_a_secret(owner: Seeds) -> None:
    """A tool whose inputs suit a service without secrets states no scope, neither when it is made nor later."""
    made(await owner.door.post("/v1/services", service_body(name="open", requiresSecret=False)))
    body = {**tool_body(key="plain", service="open"), "secretScope": "orders:read"}
    refused = await owner.door.post("/v1/tools", body)
    assert (refused.status, refused.json()["details"]["field"]) == (400, "secret_scope")
    made(await owner.door.post("/v1/tools", tool_body(key="plain", service="open")))
    refused = await owner.door.patch("/v1/tools/plain/definition", {"secret_scope": "orders:read"}, If_Match="*")
    assert (refused.status, refused.json()["details"]["field"]) == (400, "secret_scope")


@pytest.mark.req("AD-08")
async def test_nothing_is_made_of_an_archived_template(owner: Seeds) -> None:
    """Neither a service nor a tool; both templates are still found by their ids, and left out of lists."""
    drawn = {"name": "reader", "operation": {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"}}
    tool = made(await owner.door.post("/v1/tool-templates", {**drawn, "input_schema": inputs("orderId")}))["id"]
    service = made(await owner.door.post("/v1/service-templates", service_body(name="web shop")))["id"]
    placed = {"key": "late", "service": "shop", "connection_params": {"endpoint": "https://shop.example"}}
    for kind, template, body, of in (
        ("service", service, {"name": "late"}, "/v1/service-templates"),
        ("tool", tool, placed, "/v1/tool-templates"),
    ):
        made(await owner.door.patch(f"{of}/{template}", {"archived": True}, If_Match="*"))
        refused = await owner.door.post(f"{of}/{template}/{kind}s", body)
        assert (refused.status, refused.json()["code"]) == (409, "CONFLICT"), refused.body
        assert template not in [each["id"] for each in made(await owner.door.get(of))["items"]]
        assert made(await owner.door.get(f"{of}/{template}"))["archived"] is True


@pytest.mark.req("AD-01", "AD-05")
async def test_answers_are_spelt_in_camel_case_on_request(owner: Seeds) -> None:
    """`?case=camel` gives fields in camelCase, on one item and in lists, and leaves what users wrote as it is."""
    schema = {"type": "object", "properties": {"base_url": {"type": "string", "default_value": "x_y"}}}
    body = {"name": "camel", "type": "rest_api", "protocol": "http", "connectionSchema": schema}
    created = made(await owner.door.post("/v1/services?case=camel", body))
    assert created["connectionSchema"] == schema
    assert {"lastHealthCheck", "requiresSecret", "createdAt", "stateVersion"} <= created.keys()
    assert not any("_" in name for name in created)
    plain = made(await owner.door.get(f"/v1/services/{created['id']}"))
    assert (plain["connection_schema"], plain["schema_version"]) == (schema, 1)
    assert made(await owner.door.get(f"/v1/services/{created['id']}?case=snake")) == plain
    path, other = f"/v1/services/{created['id']}?case=camel", {"connectionSchema": {"type": "object"}}
    assert made(await owner.door.patch(path, other, If_Match="*"))["schemaVersion"] == 2
    first = made(await owner.door.get("/v1/services?limit=1&case=camel"))
    assert "connectionSchema" in first["items"][0]
    second = await owner.door.get(f"/v1/services?limit=1&case=camel&cursor={first['nextCursor']}")
    assert "connectionSchema" in made(second)["items"][0]
    refused = await owner.door.get("/v1/services?case=shouting")
    assert (refused.status, refused.json()["details"]["field"]) == (400, "case")


@pytest.mark.req("RG-02", "AD-05")
async def test_defaults_of_a_connection_schema_are_filled_in(owner: Seeds) -> None:
    """What a tool leaves out of its connection parameters is what the schema of its service says."""
    fields = {
        "endpoint": {"type": "string", "default": "http://127.0.0.1:9"},
        "region": {"type": "string", "default": "eu"},
    }
    schema = {"type": "object", "properties": fields, "required": ["endpoint", "region"]}
    body = {"name": "filled", "type": "rest_api", "protocol": "http", "connection_schema": schema}
    made(await owner.door.post("/v1/services", body))
    stated = {**tool_body(key="filled_tool", service="filled"), "connectionParams": {"region": "us"}}
    kept = made(await owner.door.post("/v1/tools", stated))["connection_params"]
    assert kept == {"endpoint": "http://127.0.0.1:9", "region": "us"}
    shown = made(await owner.door.get("/v1/tools/filled_tool/definition"))
    assert shown["connection_params"] == kept


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


@pytest.mark.req("AD-05")
async def test_a_step_of_a_process_keeps_its_tool(owner: Seeds) -> None:
    """As long as a process in force calls a tool, deleting the tool is refused with the name of the process."""
    look = {"id": "look", "tool": "own_tool", "inputs": {"orderId": "{step.q}"}, "output": {"variable": "found"}}
    other = {**look, "tool": "open_tool"}
    process = {"id": "look_up", "description": "Looks an order up", "initial_context": ["q"], "steps": [look]}
    made(await owner.door.post("/v1/processes", {"definition": process}))
    refused = await owner.door.delete("/v1/tools/own_tool/definition", If_Match="*")
    assert (refused.status, refused.json()["code"]) == (409, "CONFLICT")
    assert refused.json()["details"]["used_by"] == ["process 'look_up'"]
    assert (await owner.door.get("/v1/tools/own_tool")).status == 200
    made(await owner.door.post("/v1/processes", {"definition": {**process, "steps": [other]}}))
    assert (await owner.door.delete("/v1/tools/own_tool/definition", If_Match="*")).status == 204
    assert (await owner.door.delete("/v1/tools/open_tool/definition", If_Match="*")).status == 409
    assert (await owner.door.delete("/v1/processes/look_up")).status == 204
    assert (await owner.door.delete("/v1/tools/open_tool/definition", If_Match="*")).status == 204
