"""Connection parameters that no call could use, and those that one could."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers.certificates import Authority
from twinraven.catalog import ServiceStructure, ServiceType, WireProtocol
from twinraven.connectors import check_connection
from twinraven.foundation.errors import InvalidDefinition

_SHOP = {"endpoint": "http://shop.example"}
_MODEL = {"endpoint": "http://model.example", "model": "m"}
_GRAPH = {"endpoint": "bolt://graph.example:7687"}
_PRICE = {"input_per_million": "1", "output_per_million": "2"}


def check(type: str, protocol: str, params: dict[str, Any], *, has_secret: bool = False, is_whole: bool = True) -> None:
    structure = ServiceStructure(ServiceType(type), WireProtocol(protocol), {"type": "object"})
    check_connection(structure, params, has_secret=has_secret, is_whole=is_whole)


def refused(type: str, protocol: str, params: dict[str, Any], *, has_secret: bool = False) -> str:
    """The field that is named."""
    with pytest.raises(InvalidDefinition) as refusal:
        check(type, protocol, params, has_secret=has_secret)
    field = refusal.value.details["field"]
    assert field in refusal.value.message
    return str(field).removeprefix("connection_params.")


@pytest.mark.parametrize(
    "endpoint",
    [
        *(
            None,
            "",
            5,
            ["http://x"],
            "not a url",
            "http://",
            "http://a b",
            "http://x:99999",
            "http://x:0",
            "http://127.1",
        ),
        *("ftp://x", "https://shop.example", "http://me:pw@shop.example", f"http://{'a' * 70}.example", "http://[::1"),
        *("http://{{region}}.example", "http://x\n.example"),
    ],
)
@pytest.mark.parametrize("type", ["rest_api", "llm_provider"])
def test_an_address_that_is_none_is_named(type: str, endpoint: object) -> None:
    """Missing, of another kind, of another protocol, in a disguise: no request could be sent there."""
    assert refused(type, "http", {**_MODEL, "endpoint": endpoint}) == "endpoint"


@pytest.mark.parametrize(
    "auth",
    [
        *("banana", 5, [], {"type": "banana"}, {"type": None}, {"type": ["bearer"]}, {"type": "header"}),
        *({"type": "header", "name": "a b"}, {"type": "header", "name": "Host"}, {"type": "header", "name": "x\r\ny"}),
        *({"type": "query"}, {"type": "query", "name": 5}, {"type": "basic", "username": 5}),
        {"type": "basic", "username": "ada:pw"},
    ],
)
@pytest.mark.parametrize(("type", "params"), [("rest_api", _SHOP), ("llm_provider", _MODEL), ("mcp_server", _SHOP)])
def test_a_way_to_show_a_secret_that_is_none_is_named(type: str, params: dict[str, Any], auth: object) -> None:
    """Whether or not a secret is bound yet."""
    assert refused(type, "http", {**params, "auth": auth}) == "auth"


@pytest.mark.parametrize(
    "params",
    [
        *({"idempotency_header": name} for name in ("a b", "", 5, "Host", "host", "Content-Length", "x:y", "Ä")),
        *({"idempotency_header": name} for name in ("Authorization", "cookie", "Content-Type")),
        {"idempotencyHeader": "a b"},
        {"idempotency_header": "X-Key", "auth": {"type": "header", "name": "x-key"}},
    ],
)
def test_a_header_that_cannot_carry_a_key_is_named(params: dict[str, Any]) -> None:
    """Not a header's name, one of the connection's, or the one that shows who asks."""
    assert refused("rest_api", "http", {**_SHOP, **params}) == "idempotency_header"


@pytest.mark.parametrize("path", [5, ["a"], {}, "../x", "a/%2e%2e/b"])
def test_a_health_path_that_is_none_is_named(path: object) -> None:
    """It must be a path below the endpoint."""
    assert refused("rest_api", "http", {**_SHOP, "health_path": path}) == "health_path"


@pytest.mark.parametrize("pem", ["garbage", "", 5, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "ä"])
@pytest.mark.parametrize(
    ("type", "protocol", "params"),
    [
        ("rest_api", "http", _SHOP),
        ("llm_provider", "http", _MODEL),
        ("mcp_server", "http", _SHOP),
        ("neo4j_graph", "bolt", _GRAPH),
    ],
)
def test_a_certificate_that_is_none_is_named(type: str, protocol: str, params: dict[str, Any], pem: object) -> None:
    """Nobody could be trusted by it."""
    assert refused(type, protocol, {**params, "ca_certificate": pem}) == "ca_certificate"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"model": None}, "model"),
        ({"model": 5}, "model"),
        ({"model": " "}, "model"),
        ({"dialect": "latin"}, "dialect"),
        ({"options": []}, "options"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"maxTokens": "many"}, "max_tokens"),
        ({"pricing": "cheap"}, "pricing"),
        ({"pricing": {"input_per_million": "1"}}, "pricing"),
        ({"pricing": {**_PRICE, "input_per_million": "abc"}}, "pricing"),
        ({"pricing": {**_PRICE, "output_per_million": -1}}, "pricing"),
        ({"pricing": {**_PRICE, "output_per_million": "NaN"}}, "pricing"),
    ],
)
def test_a_model_that_cannot_be_asked_is_named(params: dict[str, Any], field: str) -> None:
    """Its name, how it is spoken to, and what it costs."""
    assert refused("llm_provider", "http", {**_MODEL, **params}) == field


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"endpoint": None}, "endpoint"),
        ({"endpoint": "neo4j://graph.example"}, "endpoint"),
        ({"endpoint": "bolt://graph.example:99999"}, "endpoint"),
        ({"endpoint": "bolt://graph.example:0"}, "endpoint"),
        ({"endpoint": "bolt://graph.example/db"}, "endpoint"),
        ({"endpoint": "bolt://2130706433:1"}, "endpoint"),
        ({"max_connection_pool_size": "a"}, "max_connection_pool_size"),
        ({"max_connection_pool_size": 0}, "max_connection_pool_size"),
        ({"max_connection_pool_size": True}, "max_connection_pool_size"),
        ({"database": 5}, "database"),
        ({"username": 5}, "username"),
        ({"auth": "banana"}, "auth"),
    ],
)
def test_a_graph_that_cannot_be_reached_is_named(params: dict[str, Any], field: str) -> None:
    """Where it is, who asks, and over how many connections."""
    assert refused("neo4j_graph", "bolt", {**_GRAPH, **params}) == field


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "command"),
        ({"command": ""}, "command"),
        ({"command": ["sh"]}, "command"),
        ({"command": "sh", "args": "x"}, "args"),
        ({"command": "sh", "args": [1]}, "args"),
        ({"command": "sh", "args": ["a\0b"]}, "args"),
        ({"command": "sh", "env": ["A"]}, "env"),
        ({"command": "sh", "env": {"A": 1}}, "env"),
        ({"command": "sh", "env": {"A=B": "1"}}, "env"),
        ({"command": "sh", "secret_env": ""}, "secret_env"),
    ],
)
def test_a_program_that_cannot_be_started_is_named(params: dict[str, Any], field: str) -> None:
    """The command, its words, its variables, and where its secret goes."""
    assert refused("mcp_server", "stdio", params, has_secret="secret_env" in params) == field


@pytest.mark.parametrize(
    ("type", "protocol", "params"),
    [
        ("rest_api", "http", _SHOP),
        ("rest_api", "https", {"endpoint": "https://[2001:db8::1]:8443/v1?a=b", "auth": "basic"}),
        ("rest_api", "http", {"endpoint": "http://127.0.0.1/{{region}}", "health_path": "/health"}),
        ("rest_api", "http", {**_SHOP, "auth": {"type": "header", "name": "Authorization"}, "health_path": ""}),
        ("rest_api", "http", {**_SHOP, "auth": {"type": "basic", "username": "é"}, "idempotencyHeader": "X_Key"}),
        ("rest_api", "http", {**_SHOP, "whatever": {"the": "schema", "wants": "{{x}}"}}),
        (
            "llm_provider",
            "http",
            {**_MODEL, "temperature": 0, "max_tokens": 1, "pricing": _PRICE},
        ),
        ("llm_provider", "http", {**_MODEL, "dialect": "anthropic", "options": {"top_p": 0.9}}),
        ("neo4j_graph", "bolt", {**_GRAPH, "database": "d", "username": "u", "auth": {"type": "bearer"}}),
        ("neo4j_graph", "bolt+s", {"endpoint": "bolt+s://graph.example", "max_connection_pool_size": 1}),
        ("mcp_server", "stdio", {"command": "npx", "args": ["-y", "{{package}}"], "env": {"A": "${B}"}}),
        ("mcp_server", "sse", {"endpoint": "https://mcp.example/sse", "auth": {"type": "query", "name": "key"}}),
    ],
)
def test_what_a_call_could_use_passes(type: str, protocol: str, params: dict[str, Any]) -> None:
    """A check refuses nothing that works, and knows nothing of addresses that are not allowed yet."""
    check(type, protocol, params)


def test_a_real_certificate_passes() -> None:
    """The authority that a tool names is one."""
    check("rest_api", "https", {"endpoint": "https://shop.example", "ca_certificate": Authority().pem})


@pytest.mark.parametrize(
    ("type", "protocol"),
    [("rest_api", "http"), ("llm_provider", "https"), ("neo4j_graph", "bolt+s"), ("mcp_server", "stdio")],
)
def test_what_tools_state_themselves_may_be_missing_before(type: str, protocol: str) -> None:
    """A service or a template states no address; what it does state is held to the same."""
    check(type, protocol, {}, is_whole=False)
    with pytest.raises(InvalidDefinition, match="connection_params"):
        check(type, protocol, {"endpoint": 5, "command": 5}, is_whole=False)
