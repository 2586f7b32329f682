"""Prompts and resources through the gateway: real processes, clients and servers of old and new revisions."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.acceptance.cli import Shell
from tests.gateways import (
    NEW,
    OLD,
    Watched,
    home_with,
    http_gateway,
    http_server,
    new_server,
    open_client,
    stdio_gateway,
    until,
)
from twinraven.app import TwinRaven, open_home

MODES = ("auto", "legacy")
WAYS = ("stdio", "http")
TOOLS_ONLY: dict[str, Any] = {**OLD, "args": [*OLD["args"], "--tools-only"]}
HALF_DUMB: dict[str, Any] = {**OLD, "args": [*OLD["args"], "--dumb", "resources/list"]}
URIS = {
    "note://old/today",
    "picture://old/logo",
    "twinraven://old/note://shared",
    "note://new/today",
    "picture://new/logo",
    "twinraven://new/note://shared",
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home with an old and a new server, which have one address in common."""
    return home_with(tmp_path, {"old": OLD, "new": new_server()})


@pytest.fixture
def raven(shell: Shell) -> Generator[TwinRaven]:
    """The same home, seen from this process."""
    with open_home(shell.folder / ".twinraven") as opened:
        yield opened


@asynccontextmanager
async def entering(shell: Shell, way: str, mode: str, *uris: str) -> AsyncGenerator[Watched]:
    """A client of a gateway of its own, which it starts or calls."""
    if way == "stdio":
        async with open_client(stdio_gateway(shell), mode=mode, uris=uris) as seen:
            yield seen
        return
    with http_gateway(shell) as address:
        async with open_client(f"{address}/mcp", mode=mode, uris=uris) as seen:
            yield seen


async def uris_of(client: Client) -> set[str]:
    return {resource.uri for resource in (await client.list_resources(cache_mode="bypass")).resources}


async def read(client: Client, uri: str) -> str:
    (part,) = (await client.read_resource(uri, cache_mode="bypass")).contents
    return part.text if isinstance(part, types.TextResourceContents) else part.blob


async def said(client: Client, prompt: str, **arguments: str) -> list[types.ContentBlock]:
    return [message.content for message in (await client.get_prompt(prompt, arguments)).messages]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
async def test_every_prompt_and_resource_is_there(shell: Shell, way: str, mode: str) -> None:
    """Clients of both eras, on both ways in, list and read all that an old and a new server have."""
    async with entering(shell, way, mode) as seen:
        client = seen.client
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert prompts.keys() == {"old__greet", "new__greet"}
        assert [argument.name for argument in prompts["old__greet"].arguments or []] == ["name"]
        assert prompts["new__greet"].title == "Greeting"
        words, picture = await said(client, "old__greet", name="Ada")
        assert isinstance(words, types.TextContent)
        assert words.text == "Say hello to Ada, as greet would."
        assert isinstance(picture, types.EmbeddedResource)
        assert picture.resource.uri == "picture://old/logo"
        (words,) = await said(client, "new__greet", name="Ada")
        assert isinstance(words, types.TextContent)
        assert words.text == "Say hello to Ada."
        assert await uris_of(client) == URIS
        templates = {found.uri_template for found in (await client.list_resource_templates()).resource_templates}
        assert templates == {"order://old/{order_id}", "order://new/{order_id}"}
        assert await read(client, "note://old/today") == "old: nothing much"
        assert await read(client, "note://new/today") == "new: nothing much"
        assert await read(client, "picture://old/logo") == "iVBO"
        assert await read(client, "order://new/W1") == "new: order W1"
        assert await read(client, "order://old/W1") == "old: order W1"


@pytest.mark.parametrize("mode", MODES)
async def test_an_address_of_two_servers_loses_neither(shell: Shell, mode: str) -> None:
    """Each is read under its server's name, also where there is no need; the bare one is refused and says why."""
    async with entering(shell, "stdio", mode) as seen:
        for uri, text in (
            ("twinraven://old/note://shared", "old: shared"),
            ("twinraven://new/note://shared", "new: shared"),
            ("twinraven://new/note://new/today", "new: nothing much"),
        ):
            (part,) = (await seen.client.read_resource(uri)).contents
            assert isinstance(part, types.TextResourceContents)
            assert (part.uri, part.text) == (uri, text)
        with pytest.raises(MCPError, match="twinraven://old/note://shared, twinraven://new/note://shared"):
            await seen.client.read_resource("note://shared")


@pytest.mark.parametrize(("mode", "code"), [("auto", -32602), ("legacy", -32002)])
async def test_what_is_not_there_is_refused_in_the_clients_words(shell: Shell, mode: str, code: int) -> None:
    """A prompt, an address or a server that nobody has is an error of the protocol, with the code of the era."""
    async with entering(shell, "stdio", mode) as seen:
        for uri in ("elsewhere://x", "note://old/missing", "twinraven://nobody/note://x", "twinraven://old"):
            with pytest.raises(MCPError) as refused:
                await seen.client.read_resource(uri)
            assert refused.value.code in (code, -32602), uri
        with pytest.raises(MCPError, match="no prompt 'old__nothing'") as refused:
            await seen.client.get_prompt("old__nothing")
        assert refused.value.code == -32602


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
async def test_changes_are_passed_on(shell: Shell, way: str, mode: str) -> None:
    """Other lists reach every client; a changed resource those who subscribed, under the address they used."""
    uris = ("note://old/today", "twinraven://new/note://new/today")
    async with entering(shell, way, mode, *uris) as seen:

        async def all_there() -> bool:
            return await uris_of(seen.client) >= URIS

        # A gateway may have told of its servers before this client listened.
        await until(all_there)
        for server, uri in zip(("old", "new"), uris, strict=True):
            seen.heard.clear()
            await seen.call(f"{server}__change_note")
            await until(lambda wanted=uri: {"prompts", "resources", wanted} <= set(seen.heard))
            assert not set(uris) - {uri} & set(seen.heard)


async def test_who_left_is_not_told_and_the_server_knows(shell: Shell) -> None:
    """The last subscriber's leaving ends the subscription upstream, in both eras."""
    with http_gateway(shell) as address:
        async with open_client(f"{address}/mcp", mode="legacy") as staying:
            for mode in MODES:
                async with open_client(f"{address}/mcp", mode=mode, uris=("note://old/today",)) as leaving:
                    assert await leaving.text("old__change_note") == '["note://old/today"]'

                async def forgotten() -> bool:
                    return await staying.text("old__change_note") == "[]"

                await until(forgotten)
            assert "note://old/today" not in staying.heard


@pytest.mark.parametrize("mode", MODES)
async def test_arguments_are_completed(shell: Shell, mode: str) -> None:
    """Completion is asked of the server that has the prompt or the template; one that has none completes nothing."""
    async with entering(shell, "stdio", mode) as seen:
        for ref, value, completed in (
            (types.PromptReference(name="new__greet"), "Al", ["Alan"]),
            (types.ResourceTemplateReference(uri="order://new/{order_id}"), "W", ["W1", "W2"]),
            (types.ResourceTemplateReference(uri="twinraven://new/order://new/{order_id}"), "X", ["X1"]),
            (types.PromptReference(name="old__greet"), "Al", []),
        ):
            answer = await seen.client.complete(ref, {"name": "name", "value": value})
            assert answer.completion.values == completed


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
async def test_only_what_there_is_is_declared(tmp_path: Path, way: str, mode: str) -> None:
    """Without a server that has prompts or resources, the gateway does not say that it has them."""
    async with entering(home_with(tmp_path, {"plain": TOOLS_ONLY}), way, mode) as seen:
        found = seen.client.server_capabilities
        assert (found.prompts, found.resources, found.completions) == (None, None, None)
        assert found.tools is not None


@pytest.mark.parametrize("mode", MODES)
async def test_what_there_is_is_declared_with_its_news(shell: Shell, mode: str) -> None:
    """With such servers it says so, and that changes are announced."""
    async with entering(shell, "stdio", mode) as seen:
        found = seen.client.server_capabilities
        assert found.prompts is not None
        assert found.prompts.list_changed
        assert found.resources is not None
        assert (found.resources.list_changed, found.resources.subscribe) == (True, True)
        assert found.completions is not None


async def test_a_server_without_tools_stands_behind_it_too(tmp_path: Path) -> None:
    """One that has prompts and resources only, and does not even know of tools, loses nothing."""
    shell = home_with(tmp_path, {"books": {**OLD, "args": [*OLD["args"], "--no-tools"]}})
    async with entering(shell, "stdio", "auto") as seen:
        assert await seen.names() == {"batch_reads"}
        assert await read(seen.client, "note://old/today") == "old: nothing much"
        assert await read(seen.client, "note://shared") == "old: shared"
        assert [prompt.name for prompt in (await seen.client.list_prompts()).prompts] == ["books__greet"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_dies_or_sends_too_much_costs_its_own_part(shell: Shell, mode: str) -> None:
    """The reader learns of it, the other server's list stays, the list says that it changed, and soon all is back."""
    async with entering(shell, "stdio", mode) as seen:
        for fatal in ("order://old/die", "order://old/flood"):
            assert await uris_of(seen.client) == URIS
            seen.heard.clear()
            with pytest.raises(MCPError, match="'old'"):
                await seen.client.read_resource(fatal)
            assert "twinraven://new/note://shared" in await uris_of(seen.client)
            await until(lambda: {"prompts", "resources"} <= set(seen.heard))

            async def complete() -> bool:
                return await uris_of(seen.client) == URIS

            await until(complete)


@pytest.mark.parametrize("mode", MODES)
async def test_a_subscription_outlives_the_server(shell: Shell, mode: str) -> None:
    """One that dies is asked again when it is back, and its subscribers hear that they may have missed something."""
    async with entering(shell, "stdio", mode, "note://old/today") as seen:
        with pytest.raises(MCPError):
            await seen.client.read_resource("order://old/die")
        await until(lambda: "note://old/today" in seen.heard)
        assert await seen.text("old__change_note") == '["note://old/today"]'


async def test_a_server_is_told_nothing_of_the_client(shell: Shell) -> None:
    """It gets the address and a token of the gateway's own for progress: no key, no header, nothing said beside it."""
    with http_gateway(shell) as address:
        signed = httpx2.AsyncClient(headers={"X-Trace": "hidden"}, timeout=90)
        way = streamable_http_client(f"{address}/mcp", http_client=signed)
        async with signed, open_client(way, mode="legacy") as seen:
            read = await seen.client.read_resource("order://old/asked", meta={"conversation_id": "hidden"})  # pyright: ignore[reportArgumentType]
            assert isinstance(read.contents[0], types.TextResourceContents)
            told = json.loads(read.contents[0].text)
            assert told.pop("_meta").keys() == {"progressToken"}
            assert told == {"uri": "order://old/asked"}


async def test_a_server_that_hangs_does_not_spoil_the_list(tmp_path: Path) -> None:
    """A list waits a bounded time for it, then goes out without its part; the other lists are whole."""
    shell = home_with(tmp_path, {"dumb": HALF_DUMB, "new": new_server()})
    async with entering(shell, "stdio", "auto") as seen:
        begun = time.monotonic()
        assert await uris_of(seen.client) == {uri.replace("twinraven://new/", "") for uri in URIS if "new" in uri}
        assert time.monotonic() - begun < 90
        assert len((await seen.client.list_prompts()).prompts) == 2


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_does_not_even_greet_keeps_nobody_waiting(tmp_path: Path, mode: str) -> None:
    """A client is let in after one bounded wait; that server may have everything yet, so all of it is declared."""
    mute = {**OLD, "args": [*OLD["args"], "--dumb", "initialize"]}
    shell = home_with(tmp_path, {"mute": mute, "plain": TOOLS_ONLY}, gateway={"start_s": 2})
    async with entering(shell, "stdio", mode) as seen:
        assert seen.client.server_capabilities.resources is not None
        assert await uris_of(seen.client) == set()
        assert (await seen.client.list_prompts()).prompts == []


async def test_who_read_what_is_on_the_chain(shell: Shell, raven: TwinRaven) -> None:
    """Each reading leaves who asked which server for what, also where it failed, and no event of a call."""
    async with entering(shell, "stdio", "auto") as seen:
        await read(seen.client, "note://old/today")
        await said(seen.client, "new__greet", name="Ada")
        with pytest.raises(MCPError):
            await read(seen.client, "note://old/missing")
        with pytest.raises(MCPError, match="no resource"):
            await read(seen.client, "elsewhere://x")
    entries = [entry for entry in await raven.audit.entries("default") if entry.event_type.endswith("_read")]
    found = [
        (e.event_type, e.subject_id, e.actor_id, e.code, (await raven.audit.entry("default", e.id)).body)
        for e in entries
    ]
    assert found == [
        ("upstream.resource_read", "old", "local", None, {"resource": "note://old/today"}),
        ("upstream.prompt_read", "new", "local", None, {"prompt": "greet", "arguments": ["name"]}),
        ("upstream.resource_read", "old", "local", "TOOL_FAILED", {"resource": "note://old/missing"}),
    ]
    assert await raven.events.sessions("default", limit=5) == []


async def test_another_tenant_sees_nothing_of_it(shell: Shell, raven: TwinRaven) -> None:
    """The servers of a home are one tenant's: a stranger's key lists none of it, and reads and gets nothing."""
    tenant = await raven.tenancy.create_tenant("other")
    user = await raven.tenancy.add_user(tenant.tenant_id, "stranger")
    issued = await raven.tenancy.issue_key(tenant.tenant_id, user.user_id, label="agent")
    with http_gateway(shell) as address:
        keyed = httpx2.AsyncClient(headers={"Authorization": f"Bearer {issued.clear}"}, timeout=90)
        way = streamable_http_client(f"{address}/mcp", http_client=keyed)
        async with keyed, open_client(way, mode="legacy") as stranger:
            assert await uris_of(stranger.client) == set()
            assert (await stranger.client.list_prompts()).prompts == []
            for uri in ("note://old/today", "twinraven://old/note://old/today"):
                with pytest.raises(MCPError, match="no resource"):
                    await stranger.client.read_resource(uri)
            with pytest.raises(MCPError, match="no prompt"):
                await stranger.client.get_prompt("old__greet", {"name": "Ada"})


@pytest.mark.parametrize("way", ["http", "sse"])
async def test_servers_on_http_keep_theirs(tmp_path: Path, way: str) -> None:
    """Prompts, resources and news of a server that is an address come through to clients of both eras and of SSE."""
    with http_server(way) as port:
        path = "mcp" if way == "http" else "sse"
        shell = home_with(tmp_path, {"new": {"type": way, "url": f"http://127.0.0.1:{port}/{path}"}})
        with http_gateway(shell) as address:
            for entrance, mode in ((f"{address}/mcp", "auto"), (sse_client(f"{address}/sse"), "legacy")):
                async with open_client(entrance, mode=mode) as seen:
                    assert await read(seen.client, "note://new/today") == "new: nothing much"
                    assert [prompt.name for prompt in (await seen.client.list_prompts()).prompts] == ["new__greet"]
                    if way == "http":
                        seen.heard.clear()
                        await seen.call("new__change_note")
                        await until(lambda heard=seen.heard: {"prompts", "resources"} <= set(heard))


async def test_definitions_are_the_servers_own(shell: Shell) -> None:
    """Apart from names and shared addresses, a definition has every word that the server gave it."""
    way = StdioServerParameters(command=NEW["command"], args=NEW["args"])
    async with Client(way, mode="legacy") as alone, open_client(stdio_gateway(shell), mode="legacy") as seen:
        direct = {found.uri: found for found in (await alone.list_resources()).resources}
        through = {found.uri: found for found in (await seen.client.list_resources()).resources}
        for uri, words in direct.items():
            shown = uri if uri in through else f"twinraven://new/{uri}"
            assert through[shown] == words.model_copy(update={"uri": shown})
