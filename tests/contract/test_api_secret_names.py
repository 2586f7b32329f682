"""What something is called is no secret: it is not kept as one, and nobody keeps colleagues from using a name."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Door, Reply
from tests.api_homes import ApiHome, Seeds, api_home, login_of, made, seed
from tests.unit.catalog.town import service_body, tool_body
from twinraven.catalog import tool

_WORD = "correct-horse"


@tool(effect="read")
def look_up_order(order: str) -> dict[str, str]:
    """Find an order."""
    return {"order": order}


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        opened.raven.functions.add(look_up_order)
        yield opened


async def keep(door: Door, value: str) -> Reply:
    return await door.post("/v1/secrets", {"name": f"s{len(value)}", "type": "api_key", "value": value})


async def record(door: Door, tool_id: str, **facts: Any) -> Any:
    event: dict[str, Any] = {"session_id": "s", "tool_id": tool_id, "input_params": {}, **facts}
    return made(await door.post("/v1/events", {"events": [event]}, Idempotency_Key=f"k{len(facts)}"))["event_ids"][0]


async def test_a_name_that_everybody_reads_is_not_kept_as_a_secret(home: ApiHome) -> None:
    """A tool's id, a service's or a template's name, and parts of them are refused, new or as another value."""
    owner = await seed(home.raven, await home.tenant("ada"), name="ada_and_bob")
    kept = owner.ids["secrets", "secret_id"]
    names = ("look_up_order", "look_up_", "ada_and_bob-service", "bob-service", "ada_and_bob_tool", " bob_learned ")
    for value in (*names, "ada_and_bob-template", "ada_and_bob-tool-template"):
        for refused in (
            await keep(owner.door, value),
            await owner.door.put(f"/v1/secrets/{kept}/value", {"value": value}),
        ):
            assert (refused.status, refused.json()["details"]) == (400, {"field": "value"}), value
            assert "name of a" in refused.json()["detail"]
            assert value.strip() not in refused.body.decode()
    for value in ("look_up", "look_up_orders", _WORD):
        made(await keep(owner.door, value))


async def test_the_refusal_tells_nothing_of_what_a_colleague_keeps_to_herself(home: ApiHome) -> None:
    """A name that only its owner sees can be stored by others as if nothing were called so; shared, it is refused."""
    owner = await home.tenant("ada")
    service = made(await owner.door.post("/v1/services", service_body(name="acquisition")))
    made(await owner.door.post("/v1/tools", tool_body(key="buy_them_all", service="acquisition", enabled=False)))
    member = await home.user(owner.tenant_id, "mia")
    assert (await keep(member.door, "buy_them_all")).status == 201
    made(await owner.door.patch(f"/v1/services/{service['id']}", {"shared": True}, If_Match="*"))
    assert (await keep(member.door, "acquisition")).status == 400


async def test_the_tool_of_a_recorded_event_is_redacted_and_not_refused(home: ApiHome) -> None:
    """Nobody can keep colleagues from recording; sent again under its key, the event is the one that is there."""
    owner = await home.tenant("ada")
    member = await home.user(owner.tenant_id, "mia")
    made(await keep(member.door, _WORD))
    token = home.raven.redactor.token(owner.tenant_id, _WORD)
    own_id = "0f7f6d1c-8d63-4c5b-9d35-0a4a1f0f6b11"
    for facts in ({}, {"event_id": own_id}):
        first = await record(owner.door, f"shop.{_WORD}", **facts)
        assert await record(owner.door, f"shop.{_WORD}", **facts) == first
        shown = await owner.door.get(f"/v1/events/{first}")
        assert made(shown)["tool_id"] == f"shop.{token}"
        assert _WORD.encode() not in shown.body


async def test_a_name_that_grows_when_it_is_redacted_is_cut_and_recorded(home: ApiHome) -> None:
    """A long name that ends in a secret costs neither its own event nor those beside it."""
    owner = await home.tenant("ada")
    made(await keep(owner.door, _WORD))
    names = ("first", "x" * (512 - len(_WORD)) + _WORD, "third")
    events: list[dict[str, Any]] = [{"session_id": "s", "tool_id": name, "input_params": {}} for name in names]
    made(await owner.door.post("/v1/events", {"events": events}))
    seen = made(await owner.door.get("/v1/events?session_id=s"))["items"]
    assert [len(event["tool_id"]) for event in seen] == [5, 512, 5]
    assert _WORD not in str(seen)


async def test_a_tool_of_the_catalogue_keeps_its_name_in_memory(home: ApiHome, member_of_default: Seeds) -> None:
    """A value that was kept before a tool was called so takes its calls out of nobody's sight."""
    made(await keep(member_of_default.door, "find_parcel"))

    @tool(effect="read")
    def find_parcel(order: str) -> dict[str, str]:
        """Find a parcel."""
        return {"order": order}

    home.raven.functions.add(find_parcel)
    event_id = await record(home.door, "find_parcel")
    assert made(await home.door.get(f"/v1/events/{event_id}"))["tool_id"] == "find_parcel"


@pytest.fixture
async def member_of_default(home: ApiHome) -> Seeds:
    return await home.user("default", "mia")
