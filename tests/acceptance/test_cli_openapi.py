"""OpenAPI descriptions into the catalogue, from a shell."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell, home_in
from tests.postgres import PostgresLogin
from tests.servers.http_server import Received, Reply, serving

_DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Web shop", "version": "1"},
    "servers": [{"url": "/v1"}],
    "paths": {
        "/orders/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "getOrder", "responses": {}},
            "head": {"operationId": "hasOrder", "responses": {}},
            "delete": {"operationId": "dropOrder", "responses": {}},
        },
        "/orders": {
            "post": {
                "operationId": "newOrder",
                "parameters": [{"name": "session", "in": "cookie", "schema": {"type": "string"}}],
                "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
                "responses": {},
            }
        },
        "/files": {
            "put": {
                "operationId": "upload",
                "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": {"type": "object"}}}},
                "responses": {},
            }
        },
    },
}
_AT = ("--endpoint", "https://shop.example/v1")


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    settings: dict[str, Any] = {"connectors": {"allow_private": ["127.0.0.0/8"]}}
    if request.param == "postgres":
        login: PostgresLogin = request.getfixturevalue("postgres_login")
        settings["storage"] = {"url": login.url, "admin_url": login.admin_url}
    (tmp_path / "twinraven.yaml").write_text(json.dumps(settings))
    (tmp_path / "shop.json").write_text(json.dumps(_DOCUMENT))
    return home_in(tmp_path)


def import_it(shell: Shell, *options: str, source: str = "shop.json") -> list[dict[str, Any]]:
    return shell.json("services", "import-openapi", source, *options)


@pytest.mark.req("AD-02")
def test_a_description_becomes_one_service_and_its_tools(shell: Shell) -> None:
    """A dry run says the same and makes nothing; reads and writes are told apart; what cannot be called is named."""
    tried = import_it(shell, *_AT, "--name", "shop", "--dry-run")
    assert shell.json("services", "list") == []
    assert import_it(shell, *_AT, "--name", "shop") == tried
    assert [(row["action"], row["kind"], row["name"], row["effect"]) for row in tried] == [
        ("created", "service", "shop", None),
        ("created", "tool", "getOrder", "read"),
        ("created", "tool", "hasOrder", "read"),
        ("created", "tool", "dropOrder", "write"),
        ("created", "tool", "newOrder", "write"),
        ("skipped", "tool", "PUT /files", None),
        ("left out", "part", "POST /orders", None),
    ]
    assert tried[-1]["detail"] == "session goes into the cookie, which a tool cannot fill"
    assert [service["name"] for service in shell.json("services", "list")] == ["shop"]
    assert shell.json("tools", "definition", "getOrder")["connection_params"]["endpoint"] == "https://shop.example/v1"
    created = [entry["event_type"] for entry in shell.json("audit", "show") if ".created" in entry["event_type"]]
    assert sorted(created) == ["service.created", *["tool.created"] * 4]


def test_names_that_are_taken_are_all_named_and_nothing_is_made(shell: Shell) -> None:
    """A second import is refused whole; another name and a prefix make room."""
    import_it(shell, *_AT, "--name", "shop")
    for name in ("shop", "other"):
        refused = shell.run("services", "import-openapi", "shop.json", *_AT, "--name", name)
        assert refused.code == 1
        assert ("service 'shop'" in refused.err) is (name == "shop")
        for key in ("getOrder", "hasOrder", "dropOrder", "newOrder"):
            assert f"tool {key!r}" in refused.err
    assert [service["name"] for service in shell.json("services", "list")] == ["shop"]
    import_it(shell, *_AT, "--name", "other", "--prefix", "other_")
    assert shell.json("tools", "definition", "other_getOrder")["name"] == "GET /orders/{id}"


def test_a_fault_in_one_tool_unmakes_all(shell: Shell) -> None:
    """All or nothing: a prefix that makes no key leaves no service behind."""
    refused = shell.run("services", "import-openapi", "shop.json", *_AT, "--prefix", "no good ")
    assert (refused.code, "tools[0]" in refused.err) == (2, True)
    assert shell.json("services", "list") == []


async def test_a_description_is_fetched_and_its_tools_called(tmp_path: Path) -> None:
    """An address without a host is relative to where the description was found, and the tools reach it."""

    def answer(request: Received) -> Reply:
        if request.target == "/docs/openapi.json":
            return Reply(200, _DOCUMENT)
        return Reply(200, {"target": request.target})

    def work(url: str) -> Any:
        (tmp_path / "twinraven.yaml").write_text('{"connectors": {"allow_private": ["127.0.0.1"]}}')
        shell = home_in(tmp_path)
        import_it(shell, "--name", "shop", source=f"{url}/docs/openapi.json")
        return shell.json("call", "getOrder", "--params", '{"id": "7"}')

    async with serving(answer) as server:
        assert await asyncio.to_thread(work, server.url) == {"target": "/v1/orders/7"}


async def test_an_address_inside_is_not_fetched(tmp_path: Path) -> None:
    """The address of a description is held to the same rules as that of a tool."""
    async with serving(lambda _: Reply(200, _DOCUMENT)) as server:
        shell = await asyncio.to_thread(home_in, tmp_path)
        arguments = ("services", "import-openapi", f"{server.url}/openapi.json", "--output", "json")
        ended = await asyncio.to_thread(shell.run, *arguments)
        assert json.loads(ended.err)["error"]["code"] == "POLICY_VIOLATION"
        assert server.received == []


def test_a_description_that_asks_for_credentials_needs_a_secret(tmp_path: Path) -> None:
    """Without one it is said what to do; with one every tool is bound to it."""
    shell = home_in(tmp_path)
    schemes = {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}}
    document: dict[str, Any] = {**_DOCUMENT, "components": schemes, "security": [{"key": []}]}
    (tmp_path / "shop.json").write_text(json.dumps(document))
    refused = shell.run("services", "import-openapi", "shop.json", *_AT)
    assert (refused.code, "twinraven secrets set" in refused.err) == (2, True)
    shell.succeed("secrets", "set", "shop-key", stdin=b"correct-horse-battery-staple")
    import_it(shell, *_AT, "--secret", "shop-key")
    assert shell.json("tools", "definition", "getOrder")["connection_params"]["auth"] == {
        "type": "header",
        "name": "X-Key",
    }


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{}", "only OpenAPI 3"),
        ("[", "neither JSON nor YAML"),
        ('{"openapi": "3.0.0", "paths": {}}', "state an endpoint"),
        ('{"openapi": "3.0.0", "servers": [{"url": "https://x.example"}]}', "no operation that can be called"),
    ],
)
def test_what_is_no_description_is_said(tmp_path: Path, document: str, said: str) -> None:
    """Bad input ends with 2 and a sentence."""
    shell = home_in(tmp_path)
    ended = shell.run("services", "import-openapi", "-", stdin=document.encode())
    assert (ended.code, said in ended.err) == (2, True), ended.err
