"""What a caller is shown: what it may call, in words that its client understands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.owned_tools import OwnedTools
from twinraven.catalog import Catalog, FunctionTools, ToolEntry, tool
from twinraven.connectors import ToolQuarantined, UpstreamTools
from twinraven.foundation.errors import NotFound
from twinraven.gateway.tool_listings import ToolListings
from twinraven.storage import Database

OLDER, NEWER = "2025-06-18", "2026-07-28"


@tool(name="orders.get", effect="read")
def get_order(order_id: str) -> dict[str, Any]:
    """One order."""
    return {"order_id": order_id}


@tool(effect="write")
def count(upto: int) -> list[int]:
    """Counts."""
    return list(range(upto))


class OwnedUpstreams(OwnedTools):
    """Tools of servers, with owners."""

    source: UpstreamTools  # pyright: ignore[reportIncompatibleVariableOverride]

    def find_pinned(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        return self.source.find_pinned(tenant_id, tool_id)

    def refuse_quarantined(self, tenant_id: str, tool_id: str) -> None:
        self.source.refuse_quarantined(tenant_id, tool_id)


class House:
    """A catalogue of Python and upstream tools, and who may call what."""

    def __init__(self, database: Database) -> None:
        self.owners: dict[str, str] = {}
        self.tools = UpstreamTools(database)
        functions = OwnedTools(FunctionTools([get_order, count]), self.owners)
        self.offers = ToolListings(Catalog(functions, OwnedUpstreams(self.tools, self.owners)), self.tools)

    def listing(self, version: str, caller: str | None = "ada") -> dict[str, dict[str, Any]]:
        return {tool["name"]: tool for tool in self.offers.to("default", caller).listing(version)["tools"]}


async def test_definitions_fit_the_clients_revision(sqlite_database: Database) -> None:
    """Every tool is listed for both eras; what one of them cannot say of it is left out there."""
    house = House(sqlite_database)
    plain: dict[str, Any] = {"name": "a", "inputSchema": {"type": "object"}}
    odd: list[dict[str, Any]] = [
        {**plain, "name": "lists", "outputSchema": {"type": "array"}},
        {**plain, "name": "untyped", "inputSchema": {"properties": {}}},
        {**plain, "name": "sloppy", "title": 7, "description": "x", "icons": "none"},
    ]
    await house.tools.observe("default", "up", odd)
    older, newer = house.listing(OLDER), house.listing(NEWER)
    assert older.keys() == newer.keys()
    assert {"up__lists", "up__untyped", "up__sloppy", "count"} <= older.keys()
    assert "outputSchema" not in older["up__lists"]
    assert newer["up__lists"]["outputSchema"] == {"type": "array"}
    assert older["up__untyped"]["inputSchema"]["type"] == "object"
    assert older["up__sloppy"]["description"] == "x"
    assert "outputSchema" not in newer["count"]


async def test_a_name_that_clients_refuse_is_shown_as_one_they_take(sqlite_database: Database) -> None:
    """A tool called `orders.get` is listed under a legal name, and found under that name and under its own."""
    house = House(sqlite_database)
    (shown,) = [name for name in house.listing(NEWER) if name.startswith("orders")]
    assert "." not in shown
    assert house.offers.find("default", "ada", shown).tool_id == "orders.get"
    assert house.offers.find("default", "ada", "orders.get").tool_id == "orders.get"


async def test_what_a_caller_may_not_call_it_does_not_see(sqlite_database: Database) -> None:
    """Shown is callable: a tool that is denied to a caller is neither listed nor found, for that caller alone."""
    house = House(sqlite_database)
    house.owners["count"] = "ada"
    assert "count" in house.listing(NEWER)
    assert "count" not in house.listing(NEWER, "eve")
    with pytest.raises(NotFound):
        house.offers.find("default", "eve", "count")


async def test_a_denied_name_and_a_missing_one_are_answered_alike(sqlite_database: Database) -> None:
    """Both get the same words and the same suggestions, of which none is a tool that the caller may not call."""
    house = House(sqlite_database)
    plain: dict[str, Any] = {"inputSchema": {"type": "object"}}
    await house.tools.observe("default", "up", [{**plain, "name": name} for name in ("log_a", "log_b", "log_c")])

    def answer(name: str) -> str:
        with pytest.raises(NotFound) as refusal:
            house.offers.find("default", "eve", name)
        return refusal.value.message.replace(name, "NAME")

    house.owners |= {"up__log_a": "ada", "up__log_b": "ada"}
    denied, missing = answer("up__log_a"), answer("up__log_x")
    assert denied == missing == "no tool 'NAME'; did you mean up__log_c?"


async def test_the_list_follows_the_catalogue(sqlite_database: Database) -> None:
    """A list is made anew when a tool came, changed or went, and kept as long as none did."""
    house = House(sqlite_database)
    first = house.offers.to("default", "ada")
    assert house.offers.to("default", "ada") is first
    definition = {"name": "log", "description": "x", "inputSchema": {"type": "object"}}
    await house.tools.observe("default", "git", [definition])
    assert "git__log" in house.listing(NEWER)
    await house.tools.observe("default", "git", [{**definition, "description": "y"}])
    assert house.listing(NEWER)["git__log"]["description"] == "x"
    await house.tools.observe("default", "git", [{**definition, "inputSchema": {"type": "object", "required": ["q"]}}])
    assert "git__log" not in house.listing(NEWER)
    with pytest.raises(ToolQuarantined):
        house.offers.find("default", "ada", "git__log")
