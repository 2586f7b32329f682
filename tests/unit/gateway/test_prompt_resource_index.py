"""Lists and places of prompts and resources: names, collisions, limits, and servers that do not answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from twinraven.connectors import UpstreamCapabilities, upstream_tool_id
from twinraven.foundation.errors import InvalidInput, NotFound, ToolUnavailable
from twinraven.gateway.callers import Caller
from twinraven.gateway.prompt_resource_index import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    ListKind,
    LocatedItem,
    PromptResourceIndex,
)
from twinraven.gateway.subscriptions import Subscriptions
from twinraven.tenancy import LOCAL

Definition = dict[str, Any]
BOTH = UpstreamCapabilities(prompts=True, resources=True, subscribe=True)


class Shelf:
    """Servers that list what they are told to, are down, or hang; and what they were asked and told."""

    tenant_id = "default"

    def __init__(self, **servers: dict[str, list[Definition]]) -> None:
        self.servers = servers
        self.down: set[str] = set()
        self.hanging: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.told: list[tuple[str, str, str]] = []
        self.denied: set[str] = set()

    def abilities(self) -> dict[str, UpstreamCapabilities]:
        return dict.fromkeys(self.servers, BOTH)

    async def listed(self, tenant_id: str, server: str, method: str, member: str, *, most: int) -> list[Definition]:
        del tenant_id, most
        self.asked.append((server, method))
        if server in self.down:
            raise ToolUnavailable(f"{server!r} is down", server=server)
        if server in self.hanging:
            await asyncio.sleep(3600)
        return self.servers[server].get(member, [])

    async def subscribe(self, tenant_id: str, server: str, uri: str) -> None:
        self.told.append((tenant_id, server, f"+{uri}"))

    async def unsubscribe(self, tenant_id: str, server: str, uri: str) -> None:
        self.told.append((tenant_id, server, f"-{uri}"))

    def may_use(self, tenant_id: str, caller: str | None, name: str) -> bool:
        del tenant_id, caller
        return name not in self.denied

    def library(self) -> PromptResourceIndex:
        async def ready() -> None:
            return

        return PromptResourceIndex(self, self.may_use, ready=ready, list_s=0.2)


def texts(*uris: str) -> list[Definition]:
    return [{"uri": uri, "name": "n"} for uri in uris]


def templates(*found: str) -> list[Definition]:
    return [{"uriTemplate": template, "name": "n"} for template in found]


def prompts(*names: str) -> list[Definition]:
    return [{"name": name} for name in names]


async def shown(library: PromptResourceIndex, kind: ListKind) -> list[str]:
    return [entry[kind.identity] for entry in await library.listing("default", "ada", kind)]


async def test_prompts_have_names_like_tools() -> None:
    """Names of two servers never meet, odd ones are made legal, and each leads back to its prompt."""
    odd = "what's new? " + "x" * 80
    shelf = Shelf(one={"prompts": prompts("greet", odd)}, two={"prompts": prompts("greet")})
    library = shelf.library()
    assert await shown(library, PROMPTS) == ["one__greet", upstream_tool_id("one", odd), "two__greet"]
    assert await library.find_prompt("default", "ada", "two__greet") == LocatedItem("two", "greet")
    assert await library.find_prompt("default", "ada", upstream_tool_id("one", odd)) == LocatedItem("one", odd)
    with pytest.raises(NotFound):
        await library.find_prompt("default", "ada", "greet")


async def test_addresses_stay_as_they_are_but_where_they_meet() -> None:
    """Only what two servers list is shown under their names, addresses and templates alike."""
    shelf = Shelf(
        one={"resources": texts("a://1", "a://both"), "resourceTemplates": templates("t://{x}", "one://{x}")},
        two={"resources": texts("a://2", "a://both"), "resourceTemplates": templates("t://{x}")},
    )
    library = shelf.library()
    assert await shown(library, RESOURCES) == ["a://1", "twinraven://one/a://both", "a://2", "twinraven://two/a://both"]
    assert await shown(library, TEMPLATES) == ["twinraven://one/t://{x}", "one://{x}", "twinraven://two/t://{x}"]
    for server in ("one", "two"):
        found = await library.find_resource("default", "ada", f"twinraven://{server}/a://both")
        assert found == LocatedItem(server, "a://both", is_qualified=True)
    for ambiguous in ("a://both", "t://1"):
        with pytest.raises(InvalidInput, match=f"twinraven://one/{ambiguous}, twinraven://two/{ambiguous}"):
            await library.find_resource("default", "ada", ambiguous)


async def test_no_server_takes_anothers_address_while_it_is_down() -> None:
    """What two servers listed stays told apart, however often one of them comes and goes."""
    shelf = Shelf(one={"resources": texts("a://both", "a://1")}, two={"resources": texts("a://both")})
    library = shelf.library()
    await shown(library, RESOURCES)
    shelf.down.add("one")
    library.forget("one", "resources")
    assert await shown(library, RESOURCES) == ["twinraven://two/a://both"]
    with pytest.raises(InvalidInput):
        await library.find_resource("default", "ada", "a://both")
    assert await library.find_resource("default", "ada", "a://1") == LocatedItem("one", "a://1")


async def test_no_server_can_give_out_the_gateways_addresses() -> None:
    """One that lists an address in the name of another is shown as the one whose it is."""
    shelf = Shelf(good={"resources": texts("a://1")}, bad={"resources": texts("twinraven://good/a://1")})
    library = shelf.library()
    assert await shown(library, RESOURCES) == ["a://1", "twinraven://bad/twinraven://good/a://1"]
    found = await library.find_resource("default", "ada", "twinraven://good/a://1")
    assert (found.server, found.identity) == ("good", "a://1")
    nested = await library.find_resource("default", "ada", "twinraven://bad/twinraven://good/a://1")
    assert (nested.server, nested.identity) == ("bad", "twinraven://good/a://1")


@pytest.mark.parametrize(
    ("uri", "server"),
    [
        ("a://one/listed", "one"),
        ("a://one/listed/", "one"),
        ("a://two/made", "two"),
        ("a://one/unlisted", "one"),
        ("only-two://unlisted", "two"),
        ("a://three/unlisted", None),
        ("elsewhere://x", None),
    ],
)
async def test_an_address_leads_to_one_server_or_to_none(uri: str, server: str | None) -> None:
    """A listed one, one that a template makes, one that begins as a server's do; no other server hears of it."""
    shelf = Shelf(
        one={"resources": texts("a://one/listed")},
        two={"resourceTemplates": templates("a://two/{x}", "only-two://x/{y}")},
    )
    finding = shelf.library().find_resource("default", "ada", uri)
    if server is None:
        with pytest.raises((NotFound, InvalidInput)):
            await finding
    else:
        assert (await finding).server == server


async def test_a_new_address_is_found_without_being_announced() -> None:
    """A server that adds a resource and says nothing is asked again before anybody is refused."""
    shelf = Shelf(one={"resources": texts("a://1")}, two={"resources": texts("b://1")})
    library = shelf.library()
    await library.find_resource("default", "ada", "a://1")
    shelf.servers["two"]["resources"] += texts("c://2")
    assert (await library.find_resource("default", "ada", "c://2")).server == "two"


@pytest.mark.parametrize("fault", ["down", "hanging"])
async def test_a_server_that_does_not_answer_costs_its_own_part(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    """The list goes out within a bounded time with all the others, and the log names the one that is missing."""
    shelf = Shelf(bad={"resources": texts("a://1")}, good={"resources": texts("b://1")})
    getattr(shelf, fault).add("bad")
    with caplog.at_level(logging.WARNING, "twinraven.gateway"):
        async with asyncio.timeout(2):
            assert await shown(shelf.library(), RESOURCES) == ["b://1"]
    assert "the resources of 'bad' are missing" in caplog.text


async def test_what_is_too_much_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Definitions without a name or of absurd length, and those beyond a number, are left out and the log says so."""
    long = {"name": "long", "description": "x" * 300_000}
    many = prompts(*(f"p{number}" for number in range(PROMPTS.most)))
    shelf = Shelf(one={"prompts": [{"title": "nameless"}, long, {"name": ""}, {"name": 7}, *many]})
    assert len(await shown(shelf.library(), PROMPTS)) == PROMPTS.most - 4
    assert "8 of the prompts of 'one' are left out" in caplog.text
    with pytest.raises(InvalidInput, match="longer than"):
        await shelf.library().find_resource("default", "ada", "a://" + "x" * 100_000)


async def test_other_tenants_and_callers_who_may_not_see_nothing() -> None:
    """A server belongs to one tenant; what a rule denies a caller is neither listed nor found."""
    shelf = Shelf(one={"prompts": prompts("a", "b"), "resources": texts("a://1", "a://2")}, two={})
    library = shelf.library()
    assert [await library.listing("other", "ada", kind) for kind in (PROMPTS, RESOURCES, TEMPLATES)] == [[], [], []]
    for finding in (
        library.find_prompt("other", "ada", "one__a"),
        library.find_resource("other", "ada", "a://1"),
        library.find_resource("other", "ada", "twinraven://one/a://1"),
        library.find_template("other", "ada", "a://1"),
    ):
        with pytest.raises(NotFound):
            await finding
    assert shelf.asked == []
    shelf.denied = {"one__a", "twinraven://one/a://1"}
    assert (await shown(library, PROMPTS), await shown(library, RESOURCES)) == (["one__b"], ["a://2"])
    for denied in ("a://1", "twinraven://one/a://1"):
        with pytest.raises(NotFound):
            await library.find_resource("default", "ada", denied)
    with pytest.raises(NotFound):
        await library.find_prompt("default", "ada", "one__a")


async def test_subscriptions_are_told_under_the_address_that_was_used() -> None:
    """A change, also of something inside, reaches whoever asked, and nobody after they left."""
    shelf = Shelf(one={"resources": texts("a://1")}, two={"resources": texts("b://1")})
    wishes, ada = Subscriptions(shelf, shelf.library()), Caller(LOCAL)
    await wishes.add(1, ada, "a://1")
    await wishes.add(1, ada, "a://1")
    async with wishes.held(2, ada, ["twinraven://one/a://1", "nowhere://x"]):
        both = {"a://1": {1}, "twinraven://one/a://1": {2}}
        assert wishes.wanting("one", "a://1") == wishes.wanting("one", "a://1/part") == both
        assert wishes.wanting("one", "a://12") == wishes.wanting("two", "a://1") == {}
    await wishes.leave(1)
    assert wishes.wanting("one", "a://1") == {}
    changes = [("default", "one", f"{sign}a://1") for sign in "++--"]
    assert shelf.told == changes


async def test_one_client_cannot_subscribe_without_end() -> None:
    """A client's wishes are bounded."""
    shelf = Shelf(one={})
    wishes = Subscriptions(shelf, shelf.library())
    for number in range(256):
        await wishes.add(1, Caller(LOCAL), f"a://{number}")
    with pytest.raises(InvalidInput, match="256"):
        await wishes.add(1, Caller(LOCAL), "a://one more")
