"""Connections to services end with whoever opened them: a command, a loop, a home."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from asyncio import StreamWriter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.acceptance.cli import Ended, Shell, home_in
from tests.homes import opened_home
from tests.servers.bolt_server import BoltServer, serving_bolt
from tests.servers.certificates import Authority
from tests.servers.graph_desk import ONE, always
from tests.servers.http_server import HttpServer, Received, Reply, Write, serving
from twinraven.app import TwinRaven
from twinraven.calls import CallContext, SkillInvocationRequest
from twinraven.catalog import read_file
from twinraven.tenancy import LOCAL

_FILE = """
services:
  - {name: shop, type: rest_api, protocol: http, connectionSchema: {type: object}}
  - {name: graph, type: neo4j_graph, protocol: bolt, connectionSchema: {type: object}}
tools:
  - key: get_order
    service: shop
    connectionParams: {endpoint: HTTP}
    operation: {type: rest_call, method: GET, path: "/orders/{{id}}"}
    inputSchema: {type: object, required: [id], properties: {id: {type: string}}}
  - key: find_node
    service: graph
    connectionParams: {endpoint: BOLT}
    operation: {type: graph_query, query: "MATCH (n) WHERE n.id = $id RETURN n"}
    inputSchema: {type: object, required: [id], properties: {id: {type: string}}}
"""
_ARCHIVE = "services:\n  - {name: archive, type: rest_api, protocol: https, connectionSchema: {type: object}}"
_DOCUMENT = """
  - key: get_document
    service: archive
    connectionParams: {{endpoint: "https://localhost:{}", ca_certificate: {}}}
    operation: {{type: rest_call, method: GET, path: "/documents/{{{{id}}}}"}}
    inputSchema: {{type: object, required: [id], properties: {{id: {{type: string}}}}}}
"""
_ALLOWED: dict[str, Any] = {"connectors": {"allow_private": ["127.0.0.0/8", "::1"]}}


def answer(request: Received) -> Reply:
    return Reply(200, {"target": request.target})


@pytest.fixture
async def shop() -> AsyncGenerator[HttpServer]:
    async with serving(answer) as server:
        yield server


@pytest.fixture
async def graph() -> AsyncGenerator[BoltServer]:
    async with serving_bolt(always(ONE)) as server:
        yield server


def catalogue(shop: HttpServer, graph: BoltServer) -> str:
    return _FILE.replace("HTTP", shop.url).replace("BOLT", f"bolt://127.0.0.1:{graph.port}")


async def call(raven: TwinRaven, tool: str) -> Any:
    request = SkillInvocationRequest(tool_name=tool, payload={"id": "7"})
    return await raven.calls.invoke(request, CallContext("session"))


async def test_a_command_leaves_no_connection_open(tmp_path: Path, shop: HttpServer, graph: BoltServer) -> None:
    """Python's development mode tells of everything left open, and has nothing to tell of commands."""
    shell = Shell(tmp_path, {"PYTHONDEVMODE": "1"})
    (tmp_path / "twinraven.yaml").write_text(json.dumps(_ALLOWED))
    (tmp_path / "catalogue.yaml").write_text(catalogue(shop, graph))

    def commands() -> list[Ended]:
        home_in(tmp_path)
        shell.succeed("services", "apply", "catalogue.yaml")
        return [
            shell.succeed("call", "get_order", "--params", '{"id": "7"}'),
            shell.succeed("call", "find_node", "--params", '{"id": "7"}'),
            shell.succeed("services", "check"),
        ]

    for ended in await asyncio.to_thread(commands):
        assert "Warning" not in ended.err
        assert "Error" not in ended.err


@pytest.mark.req("AD-02")
async def test_a_home_serves_one_loop_after_another(tmp_path: Path, shop: HttpServer, graph: BoltServer) -> None:
    """Each loop opens connections of its own and takes them along; the home is closed from outside all of them."""
    done: list[str] = []

    def work() -> None:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ResourceWarning)
            with opened_home(tmp_path, **_ALLOWED) as raven:
                asyncio.run(raven.defined.files.apply_file(LOCAL, read_file(catalogue(shop, graph))))
                for _ in range(2):
                    done.extend(asyncio.run(call(raven, tool)).status for tool in ("get_order", "find_node"))
            gc.collect()
        assert [str(one.message) for one in told] == []

    await asyncio.to_thread(work)
    assert done == ["success"] * 4
    assert shop.connections == 2


@pytest.mark.req("AD-02")
async def test_services_are_called_on_the_loop_that_servers_run_on(
    tmp_path: Path, shop: HttpServer, graph: BoltServer
) -> None:
    """uvloop's connections are no asyncio ones by class, and carry plain text, TLS and long answers all the same."""
    authority, long = Authority(), "x" * 2_000_000
    context = authority.server_context(tmp_path, "localhost")
    async with serving(lambda _: Reply(200, {"text": long}), context=context) as vault:
        tools = ["get_order", "get_document", "find_node"]
        stated = catalogue(shop, graph).replace("services:", _ARCHIVE)
        stated += _DOCUMENT.format(vault.port, json.dumps(authority.pem))

        def work() -> list[Any]:
            with opened_home(tmp_path, **_ALLOWED) as raven, asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
                loop.run(raven.defined.files.apply_file(LOCAL, read_file(stated)))
                answers = [loop.run(call(raven, tool)) for tool in tools]
                loop.run(raven.aclose())
                return answers

        answers = await asyncio.to_thread(work)
    assert [answer.status for answer in answers] == ["success"] * 3
    assert [answers[0].payload, answers[1].payload] == [{"target": "/orders/7"}, {"text": long}]


async def test_a_home_can_be_closed_inside_a_loop_that_goes_on(
    tmp_path: Path, shop: HttpServer, graph: BoltServer
) -> None:
    """After `aclose` the server sees its connection closed, and closing again does no harm."""
    with opened_home(tmp_path, **_ALLOWED) as raven:
        await raven.defined.files.apply_file(LOCAL, read_file(catalogue(shop, graph)))
        assert (await call(raven, "get_order")).status == "success"
        assert shop.open_connections == 1
        await raven.aclose()
        async with asyncio.timeout(5):
            await shop.left()


def silent(request: Received) -> Reply | Write:
    """Answers who asks whether anybody is there, and nothing else."""

    async def wait(writer: StreamWriter) -> None:
        await asyncio.sleep(120)

    return wait if request.target.startswith("/orders") else Reply(200)


async def test_the_settings_time_is_the_connectors_time(tmp_path: Path, graph: BoltServer) -> None:
    """A tool without a time of its own is given up by its connector within the time that the settings name."""
    async with serving(silent) as slow:
        with opened_home(tmp_path, calls={"default_timeout_ms": 2_000}, **_ALLOWED) as raven:
            await raven.defined.files.apply_file(LOCAL, read_file(catalogue(slow, graph)))
            response = await call(raven, "get_order")
            assert response.error["code"] == "TOOL_TIMEOUT"
            assert "the service did not answer within" in response.error["message"]
            await raven.aclose()
