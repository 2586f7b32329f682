"""OpenAPI descriptions as tools."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.bindings import Bindings, entry, frame
from tests.servers.http_server import Reply, serving
from twinraven.catalog.operations import read_operation
from twinraven.catalog.service_model import ServiceSpec
from twinraven.catalog.tool_checks import check_structure
from twinraven.catalog.tool_model import ToolSpec
from twinraven.connectors import AddressGuard, AddressRules, Binding, HttpDelivery, HttpTransport, RestConnector
from twinraven.connectors.openapi import OpenApiImport, read_openapi
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.json_schema import compile_schema

SHOP: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://{region}.shop.example/v1", "variables": {"region": {"default": "eu"}}}],
    "security": [{"key": []}],
    "paths": {
        "/orders/{order-id}": {
            "parameters": [{"name": "order-id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": "get order",
                "summary": "One order.",
                "parameters": [
                    {"name": "expand", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "fields", "in": "query", "explode": False, "schema": {"type": "array", "items": {}}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                    {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                    {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}},
                ],
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
                    "404": {"description": "not there"},
                },
            },
            "delete": {"responses": {"204": {"description": "gone"}}},
        },
        "/orders": {
            "post": {
                "operationId": "create_order",
                "requestBody": {"$ref": "#/components/requestBodies/NewOrder"},
                "responses": {
                    "201": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
                    "202": {"description": "later"},
                },
            },
            "patch": {
                "operationId": "create_order",
                "requestBody": {
                    "content": {"application/merge-patch+json": {"schema": {"type": "object"}}},
                    "required": True,
                },
                "responses": {},
            },
        },
        "/login": {
            "post": {
                "operationId": "login",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {"type": "object", "properties": {"user": {"type": "string"}}}
                        }
                    },
                },
                "responses": {"200": {"content": {"text/plain": {}}}},
            }
        },
        "/files": {
            "post": {
                "operationId": "upload",
                "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": {}}}},
                "responses": {},
            }
        },
        "/remote": {
            "get": {
                "operationId": "remote",
                "parameters": [{"$ref": "https://elsewhere.example/parameters.json#/x"}],
                "responses": {},
            }
        },
    },
    "components": {
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}},
        "requestBodies": {
            "NewOrder": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}},
            }
        },
        "schemas": {
            "Order": {
                "type": "object",
                "required": ["id", "total", "secret"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "secret": {"type": "string", "writeOnly": True},
                    "total": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                    "note": {"type": "string", "nullable": True, "example": "x"},
                    "parent": {"$ref": "#/components/schemas/Order"},
                    "state": {"nullable": True, "enum": ["open", "done"]},
                },
            }
        },
    },
}


@pytest.fixture(scope="module")
def shop() -> OpenApiImport:
    return read_openapi(SHOP)


def tool(imported: OpenApiImport, key: str) -> dict[str, Any]:
    return next(each for each in imported.tools if each["key"] == key)


def test_operations_become_tools(shop: OpenApiImport) -> None:
    """Each operation that data can call is a tool; each other is named with its reason."""
    assert [each["key"] for each in shop.tools] == [
        "get_order",
        "delete_orders_order_id",
        "create_order",
        "create_order_2",
        "login",
    ]
    assert [(skipped.operation, skipped.reason) for skipped in shop.skipped] == [
        ("POST /files", "the body is multipart/form-data, which is not JSON, form or text"),
        ("GET /remote", "'https://elsewhere.example/parameters.json#/x' points outside the document"),
    ]


def test_the_service_is_described(shop: OpenApiImport) -> None:
    """Address, protocol and how the secret is shown come from the description, and the catalogue takes them."""
    assert shop.connection_params == {
        "endpoint": "https://eu.shop.example/v1",
        "auth": {"type": "header", "name": "X-Api-Key"},
    }
    spec = ServiceSpec.from_json(shop.service)
    spec.structure.check()
    assert (spec.name, spec.structure.protocol, spec.structure.requires_secret) == ("Shop", "https", True)
    compile_schema(spec.structure.connection_schema).check(shop.connection_params)


def test_the_catalogue_takes_every_tool(shop: OpenApiImport) -> None:
    """A definition is complete: its inputs are exactly the variables of its operation."""
    for each in shop.tools:
        check_structure(ToolSpec.from_json({**each, "service": "shop"}).structure)


def test_parameters_go_where_they_belong(shop: OpenApiImport) -> None:
    """Path, query and header are filled from variables; what is optional and cannot be said is left out."""
    found = tool(shop, "get_order")
    assert found["operation"] == {
        "type": "rest_call",
        "method": "GET",
        "path": "/orders/{{order-id}}",
        "query": {"expand": "{{expand}}", "fields": "{{fields}}"},
        "headers": {"X-Trace": "{{X-Trace}}"},
    }
    assert found["input_schema"]["required"] == ["order-id"]
    assert found["input_schema"]["properties"]["fields"]["type"] == "string"
    assert found["description"] == "One order."


def test_bodies_are_typed(shop: OpenApiImport) -> None:
    """JSON is the rule, another type of body is said in a header."""
    assert tool(shop, "create_order")["operation"]["body"] == "{{body}}"
    assert "headers" not in tool(shop, "create_order")["operation"]
    assert tool(shop, "create_order_2")["operation"]["headers"] == {"Content-Type": "application/merge-patch+json"}
    assert tool(shop, "login")["operation"]["headers"] == {"Content-Type": "application/x-www-form-urlencoded"}


def test_schemas_stand_alone(shop: OpenApiImport) -> None:
    """References come along, 3.0's own words are translated, and each direction has its own required members."""
    sent = compile_schema(tool(shop, "create_order")["input_schema"])
    sent.check(
        {"body": {"total": 1, "secret": "x", "note": None, "state": None, "parent": {"total": 2, "secret": "y"}}}
    )
    for wrong in ({"total": 0, "secret": "x"}, {"total": 1}, {"total": 1, "secret": "x", "state": "lost"}):
        with pytest.raises(InvalidInput):
            sent.check({"body": wrong})
    came = compile_schema(tool(shop, "get_order")["output_schema"])
    came.check({"id": 7, "total": 1})
    with pytest.raises(InvalidInput):
        came.check({"total": 1, "secret": "x"})


def test_answers_are_described_where_all_of_them_are(shop: OpenApiImport) -> None:
    """Several good answers are alternatives, one of them empty; what is not JSON is not promised."""
    compile_schema(tool(shop, "create_order")["output_schema"]).check(None)
    assert "output_schema" not in tool(shop, "login")
    assert "output_schema" not in tool(shop, "delete_orders_order_id")
    assert all("output_schema" not in each for each in read_openapi(SHOP, outputs=False).tools)


def test_yaml_json_and_objects_are_one(shop: OpenApiImport) -> None:
    """The form of a description makes no difference."""
    assert read_openapi(json.dumps(SHOP)) == read_openapi(yaml.safe_dump(SHOP, sort_keys=False)) == shop


def test_an_endpoint_can_be_stated() -> None:
    """A description without an address is usable with one, and useless without."""
    bare: dict[str, Any] = {"openapi": "3.1.0", "paths": {"/": {"get": {"responses": {}}}}, "servers": [{"url": "/v1"}]}
    with pytest.raises(InvalidInput, match="state an endpoint"):
        read_openapi(bare)
    imported = read_openapi(bare, endpoint="http://shop.example")
    assert imported.service["protocol"] == "http"
    assert [each["key"] for each in imported.tools] == ["get"]


BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}, *{before}, *{before}]\n"
    for before, name in itertools.pairwise("abcdefghijkl")
)


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "a: [",
        "{",
        "\x00",
        '{"swagger": "2.0"}',
        '{"openapi": 3}',
        "a: &a [*a]\nopenapi: 3.0.0",
        "\n".join(["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60))]),
        BOMB,
        "x" * 20_000_001,
    ],
)
def test_what_is_no_description_is_refused(document: str) -> None:
    """Junk, older versions, rings and bombs of YAML end in one clear error."""
    with pytest.raises(InvalidInput):
        read_openapi(document)


def test_one_bad_operation_spoils_no_other() -> None:
    """References in a circle, to nothing, and schemas without a bottom cost their operation alone."""
    deep: Any = {"type": "object"}
    for _ in range(900):
        deep = {"type": "object", "properties": {"a": deep}}

    def posting(schema: Any) -> dict[str, Any]:
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        return {"post": {"requestBody": body, "responses": {}}}

    document: dict[str, Any] = {
        "openapi": "3.0.0",
        "servers": [{"url": "https://a.example"}],
        "paths": {
            "/ring": {"get": {"parameters": [{"$ref": "#/components/parameters/a"}], "responses": {}}},
            "/nothing": posting({"$ref": "#/components/schemas/missing"}),
            "/deep": posting(deep),
            "/odd": posting({"type": "klingon"}),
            "/unnamed/{x}": {"get": {"responses": {}}},
            "/fine": posting({"$ref": "#/components/schemas/self"}),
        },
        "components": {
            "parameters": {"a": {"$ref": "#/components/parameters/b"}, "b": {"$ref": "#/components/parameters/a"}},
            "schemas": {"self": {"type": "object", "properties": {"self": {"$ref": "#/components/schemas/self"}}}},
        },
    }
    imported = read_openapi(document)
    assert [each["key"] for each in imported.tools] == ["post_fine"]
    assert len(imported.skipped) == 5


def described(paths: dict[str, Any], **root: Any) -> OpenApiImport:
    return read_openapi({"openapi": "3.0.3", "servers": [{"url": "https://a.example"}], "paths": paths, **root})


def test_every_part_that_is_left_out_is_listed() -> None:
    """What callers cannot give is not there, and the import says of each what and why."""
    parameters: list[dict[str, Any]] = [
        {"name": "q", "in": "query", "schema": {"type": "string"}},
        {"name": "session", "in": "cookie", "schema": {"type": "string"}},
        {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
        {"name": "tags", "in": "query", "style": "pipeDelimited", "schema": {"type": "array"}},
        {"name": "Cookie", "in": "header", "required": True, "schema": {"type": "string"}},
    ]
    body: dict[str, Any] = {"content": {"application/json": {"schema": {}}}}
    answer = {"200": {"description": "x", "content": {"application/json": {"schema": {"$ref": "other.json"}}}}}
    own = [{"url": "https://b.example"}]
    get: dict[str, Any] = {"parameters": parameters, "requestBody": body, "responses": answer, "servers": own}
    imported = described({"/a": {"get": get}}, security=[{"key": []}])
    assert imported.skipped == ()
    assert list(imported.tools[0]["input_schema"]["properties"]) == ["q"]
    assert "body" not in imported.tools[0]["operation"]
    assert [(part.operation, part.part) for part in imported.left_out] == [
        ("every operation", "security scheme 'key'"),
        *(("GET /a", part) for part in ("session", "filter", "tags", "Cookie", "body", "servers")),
        ("GET /a", "the schema of its answers"),
    ]
    reasons = " ".join(part.reason for part in imported.left_out)
    for why in ("cookie", "'deepObject'", "'pipeDelimited'", "connector sets", "with a GET", "outside the document"):
        assert why in reasons


@pytest.mark.parametrize("required", [True, False])
def test_an_operation_that_takes_files_alone_is_skipped(required: bool) -> None:
    """Without its body it would be another operation, whether or not the description insists on it."""
    body = {"required": required, "content": {"multipart/form-data": {"schema": {"type": "object"}}}}
    imported = described({"/up": {"post": {"requestBody": body, "responses": {}}}})
    assert imported.tools == ()
    assert imported.skipped[0].operation == "POST /up"
    assert "multipart/form-data" in imported.skipped[0].reason


def test_a_path_in_another_document_costs_no_other() -> None:
    """It is listed as a whole, like a method that tools have not."""
    fine: dict[str, Any] = {"get": {"operationId": "fine", "responses": {}}, "trace": {"responses": {}}}
    imported = described({"/a": {"$ref": "other.yaml"}, "/b": {"$ref": "#/nowhere"}, "/c": fine})
    assert [each["key"] for each in imported.tools] == ["fine"]
    assert [(one.operation, one.reason) for one in imported.skipped] == [
        ("every operation of /a", "'other.yaml' points outside the document"),
        ("every operation of /b", "'#/nowhere' points at nothing"),
        ("TRACE /c", "tools have no such method"),
    ]


def test_an_import_of_nothing_says_why() -> None:
    """The first reasons stand in the message, all of them in its details."""
    imported = described({f"/{number}": {"$ref": "other.yaml"} for number in range(7)})
    with pytest.raises(InvalidInput, match=r"of /0: 'other.yaml' points outside.*; and 2 more$") as refused:
        imported.as_file()
    assert len(refused.value.details["skipped"]) == 7
    with pytest.raises(InvalidInput, match="it describes none"):
        described({}).as_file()


WORDS = [
    *("get", "post", "parameters", "name", "in", "schema", "$ref", "requestBody", "content", "application/json"),
    *("responses", "200", "type", "items", "properties", "/x/{y}", "components", "required", "style"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["get", "query", "path", "{x}", "#/paths", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(["/a/{x}", "/b", "c", "/{x}/{y}"]), JSON, max_size=3), JSON, JSON)
def test_any_description_is_read_or_refused(paths: Any, components: Any, security: Any) -> None:
    """Whatever stands in a description, the result is tools that the catalogue takes, or a refusal."""
    document = {
        "openapi": "3.1.0",
        "servers": [{"url": "https://a.example"}],
        "paths": paths,
        "components": components,
        "security": security,
    }
    try:
        imported = read_openapi(document)
    except InvalidInput:
        return
    for each in imported.tools:
        check_structure(ToolSpec.from_json({**each, "service": "s"}).structure)


async def test_an_imported_tool_can_be_called() -> None:
    """From description to answer: the request is what the description says."""
    bindings = Bindings()
    transport = HttpTransport(AddressGuard(AddressRules.of(["127.0.0.1"])))
    connector = RestConnector(bindings, HttpDelivery(transport))
    async with serving(lambda _: Reply(200, {"id": 7})) as server:
        imported = read_openapi(SHOP, endpoint=f"{server.url}/v1")
        operation = read_operation(tool(imported, "get_order")["operation"])
        bindings.hold(Binding("tool", "http", imported.connection_params, operation))
        answer = await connector.invoke(entry(), {"order-id": "a b", "expand": ["x", "y"]}, call=frame())
    await connector.aclose()
    assert answer == {"id": 7}
    assert server.received[0].target == "/v1/orders/a%20b?expand=x&expand=y"
