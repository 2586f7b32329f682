"""Operations: their variables, what they make of arguments, and what they refuse."""

from __future__ import annotations

import re
from time import process_time
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.catalog import (
    Effect,
    GraphQuery,
    GraphRequest,
    LlmCall,
    McpCall,
    McpRequest,
    PromptRequest,
    RestCall,
    RestRequest,
    read_operation,
)
from twinraven.catalog.cypher import cypher_effect, cypher_parameters
from twinraven.foundation.errors import InvalidDefinition, InvalidInput

_BODIES: list[dict[str, Any]] = [
    {"type": "graph_query", "query": "MATCH (n {name: $name}) RETURN n"},
    {"type": "rest_call", "method": "GET", "path": "/orders/{{order_id}}"},
    {
        "type": "rest_call",
        "method": "POST",
        "path": "/orders",
        "query": {"dry": "{{dry}}"},
        "headers": {"X-Trace": "{{trace}}"},
        "body": {"lines": "{{lines}}", "note": "for {{name}}"},
    },
    {"type": "llm_call", "prompt_template": "{{instruction}}\n\n{{content}}", "system_prompt": "Be {{mood}}."},
    {"type": "mcp_call", "tool": "read_file", "arguments": {"path": "{{path}}"}},
    {"type": "mcp_call", "tool": "read_file"},
]


@pytest.mark.parametrize("body", _BODIES, ids=lambda body: body["type"])
def test_an_operation_is_read_and_written_alike(body: dict[str, Any]) -> None:
    """What was read is what is written."""
    assert read_operation(body).as_json() == body


def test_the_seeds_spelling_is_understood() -> None:
    """Names in camel case mean the same."""
    seed = {"type": "llm_call", "systemPrompt": "You help.", "promptTemplate": "{{instruction}}\n\n{{content}}"}
    assert read_operation(seed) == LlmCall("{{instruction}}\n\n{{content}}", "You help.")


_VARIABLES = [
    ["name"],
    ["order_id"],
    ["dry", "trace", "lines", "name"],
    ["mood", "instruction", "content"],
    ["path"],
    [],
]


@pytest.mark.parametrize(("body", "variables"), list(zip(_BODIES, _VARIABLES, strict=True)))
def test_variables_are_known_beforehand(body: dict[str, Any], variables: list[str]) -> None:
    """Each once, wherever in the operation it stands."""
    assert list(read_operation(body).variables or ()) == variables


def test_a_tool_without_arguments_of_its_own_takes_what_it_is_given() -> None:
    """An MCP tool can be passed through whole."""
    operation = McpCall("read_file")
    assert operation.variables is None
    assert operation.request({"path": "/tmp", "n": 1}) == McpRequest("read_file", {"path": "/tmp", "n": 1})


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "operation.type is missing"),
        ({"type": "soap_call"}, "operation.type must be one of graph_query, rest_call, llm_call, mcp_call"),
        ({"type": "graph_query"}, "operation.query is missing"),
        ({"type": "graph_query", "query": "RETURN {{name}}"}, "write $name"),
        ({"type": "graph_query", "query": "RETURN 1", "path": "/"}, "path is not a field of a graph_query operation"),
        ({"type": "rest_call", "method": "GET"}, "operation.path is missing"),
        ({"type": "rest_call", "method": "BREW", "path": "/"}, "operation.method must be one of GET"),
        ({"type": "rest_call", "method": "GET", "path": "orders"}, "operation.path must begin with one /"),
        ({"type": "rest_call", "method": "GET", "path": "//evil"}, "operation.path must begin with one /"),
        ({"type": "rest_call", "method": "GET", "path": "/a?b={{c}}"}, "put parameters into query"),
        ({"type": "rest_call", "method": "GET", "path": "/{{#if a}}"}, "operation.path: template has no {{/if}}"),
        ({"type": "rest_call", "method": "GET", "path": "/", "body": {}}, "operation.body: a GET has none"),
        ({"type": "rest_call", "method": "POST", "path": "/", "body": {"a": ["{{"]}}, "operation.body.a[0]: template"),
        ({"type": "rest_call", "method": "POST", "path": "/", "headers": {"Authorization": "x"}}, "tool's secret"),
        ({"type": "rest_call", "method": "POST", "path": "/", "headers": {"a b": "x"}}, "not the name of a header"),
        ({"type": "rest_call", "method": "POST", "path": "/", "headers": {"A": "x\ny"}}, "a text in one line"),
        ({"type": "llm_call", "promptTemplate": "{{upper x}}"}, "operation.prompt_template: template has 'upper x'"),
        (
            {"type": "llm_call", "prompt": "x"},
            "prompt is not a field of a llm_call operation; did you mean system_prompt?",
        ),
        ({"type": "mcp_call", "arguments": {}}, "operation.tool is missing"),
        ({"type": "mcp_call", "tool": "t", "arguments": []}, "operation.arguments must be an object"),
        ("text", "operation must be an object"),
    ],
)
def test_what_is_wrong_is_named(body: Any, told: str) -> None:
    """The message says which field, and what could stand there."""
    with pytest.raises(InvalidDefinition) as refusal:
        read_operation(body)
    assert told in refusal.value.message


def test_a_rest_call_becomes_a_request() -> None:
    """Single variables keep their type, others become text, and what was not given is left out."""
    operation = read_operation(
        {
            "type": "rest_call",
            "method": "PUT",
            "path": "/orders/{{id}}/lines",
            "query": {"tag": "{{tags}}", "page": "{{page}}", "mode": "full", "none": "{{nothing}}"},
            "headers": {"X-Trace": "t-{{id}}", "X-Page": "{{page}}", "X-None": "{{nothing}}"},
            "body": {"lines": "{{lines}}", "note": "for {{id}}", "gift": "{{gift}}", "opt": ["{{nothing}}", 1]},
        }
    )
    request = operation.request({"id": "a/b", "tags": ["x", True], "page": 2, "lines": [{"n": 1}], "gift": None})
    assert request == RestRequest(
        method="PUT",
        path="/orders/a%2Fb/lines",
        query=(("tag", "x"), ("tag", "true"), ("page", "2"), ("mode", "full")),
        headers={"X-Trace": "t-a/b", "X-Page": "2"},
        body={"lines": [{"n": 1}], "note": "for a/b", "gift": None, "opt": [1]},
    )


_ASTRAY = ["..", ".", "", "../x", "x/../y", "x/.", "..\\x", "%2e%2e", "..%2fx", "%252e%252e%252fx", None]


@pytest.mark.parametrize("value", _ASTRAY)
def test_a_value_cannot_lead_the_path_elsewhere(value: str | None) -> None:
    """Neither up, nor to a whole collection, however it is written; the parameter is named."""
    call = read_operation({"type": "rest_call", "method": "DELETE", "path": "/shops/{{shop}}/orders/{{id}}"})
    with pytest.raises(InvalidInput, match=r"params\.id") as refused:
        call.request({"shop": "a.b", "id": value})
    assert refused.value.details["field"] == "params.id"


def test_values_that_lead_elsewhere_only_together_are_refused_together() -> None:
    """Two dots from two parameters are as good as two from one."""
    call = read_operation({"type": "rest_call", "method": "GET", "path": "/a/{{x}}{{y}}"})
    with pytest.raises(InvalidInput, match="params: a value would lead out") as refused:
        call.request({"x": "%2e", "y": "%2e"})
    assert refused.value.details["field"] == "params"


@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=30))
def test_a_value_in_a_path_stays_one_segment(value: str) -> None:
    """Whatever it holds, it comes out as it went in, and nothing of it is read as address."""
    call = read_operation({"type": "rest_call", "method": "GET", "path": "/a/{{id}}/z"})
    assert isinstance(call, RestCall)
    try:
        path = call.request({"id": value}).path
    except InvalidInput:
        assert not {".", ".."}.isdisjoint(re.split(r"[/\\]", unquote(unquote(unquote(value)))))
        return
    assert path.isascii()
    assert path.count("/") == 3
    assert not set(path) & set("?#\\ \r\n")
    assert unquote(path.split("/")[2]) == value.encode("utf-8", "replace").decode()


def test_a_value_cannot_begin_another_header() -> None:
    """Line breaks are refused before anything is sent."""
    call = read_operation({"type": "rest_call", "method": "GET", "path": "/", "headers": {"X-Name": "{{name}}"}})
    with pytest.raises(InvalidInput, match="X-Name"):
        call.request({"name": "a\r\nHost: evil"})


def test_prompts_and_queries_become_requests() -> None:
    """A prompt is rendered; a query goes as it is, with its parameters beside it."""
    prompt = LlmCall("Sum up:\n{{#each rows}}- {{this}}\n{{/each}}", "Be {{mood}}.")
    assert prompt.request({"rows": ["a", "b"], "mood": "kind"}) == PromptRequest("Sum up:\n- a\n- b\n", "Be kind.")
    query = GraphQuery("MATCH (n) WHERE n.name = $name AND n.age > $age RETURN n")
    asked = query.request({"name": "x' OR 1=1", "other": 1})
    assert asked == GraphRequest(query.query, {"name": "x' OR 1=1", "age": None})


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("RETURN $a, $b_2, $a", ("a", "b_2")),
        ("RETURN '$no', \"$no\", `$no`, $yes", ("yes",)),
        ("RETURN 'it\\'s $no' + $yes", ("yes",)),
        ("// $no\nRETURN $yes /* $no\n$no */", ("yes",)),
        ("RETURN $`odd name`, $`tick``s`, $0", ("odd name", "tick`s", "0")),
        ("RETURN 'https://x' + $yes", ("yes",)),
        ("RETURN $été", ("été",)),
    ],
)
def test_parameters_of_cypher_are_found(query: str, parameters: tuple[str, ...]) -> None:
    """In code, and not in texts, comments or quoted names."""
    assert cypher_parameters(query) == parameters


@pytest.mark.parametrize("piece", ["\\'", "'\\", '"\\', "/*'", "$`", "$```x", "`` `", "$`a``"])
def test_reading_cypher_is_linear(piece: str) -> None:
    """A query of quotes, escapes and comments that are never closed takes no more than its length in work."""
    before = process_time()
    cypher_parameters(f"RETURN {piece * 50_000}")
    assert process_time() - before < 10, "a quadratic reading takes minutes"


@pytest.mark.parametrize("query", ["RETURN 'x", 'RETURN "x', "RETURN 1 /* x", "RETURN 'x\\"])
def test_a_text_that_is_never_closed_hides_no_write(query: str) -> None:
    """What an unclosed text or comment holds is not known, so neither is the effect of the query."""
    assert cypher_effect(f"{query} DELETE n") is Effect.UNKNOWN


@given(st.text("$`'\"\\/*ab \n", max_size=40))
def test_any_text_can_be_asked_for_parameters(query: str) -> None:
    """Reading a query ends, whatever it is."""
    assert all(name for name in cypher_parameters(query))


@pytest.mark.parametrize(
    ("body", "effect"),
    [
        ({"type": "rest_call", "method": "GET", "path": "/"}, Effect.READ),
        ({"type": "rest_call", "method": "POST", "path": "/"}, Effect.WRITE),
        ({"type": "rest_call", "method": "DELETE", "path": "/"}, Effect.WRITE),
        ({"type": "llm_call", "promptTemplate": "x"}, Effect.READ),
        ({"type": "mcp_call", "tool": "get_thing"}, Effect.UNKNOWN),
        ({"type": "graph_query", "query": "match (n) return n"}, Effect.READ),
        ({"type": "graph_query", "query": "MATCH (n) SET n.x = 1 RETURN n"}, Effect.WRITE),
        ({"type": "graph_query", "query": "MATCH (n) detach delete n"}, Effect.WRITE),
        ({"type": "graph_query", "query": "CALL db.labels() YIELD label RETURN label"}, Effect.UNKNOWN),
        ({"type": "graph_query", "query": "MATCH (n) WHERE n.name = 'DELETE' RETURN n // SET"}, Effect.READ),
        ({"type": "graph_query", "query": "LOAD CSV FROM $u AS r RETURN r"}, Effect.UNKNOWN),
        ({"type": "graph_query", "query": "SHOW INDEXES"}, Effect.UNKNOWN),
    ],
)
def test_an_operation_shows_what_it_could_do(body: dict[str, Any], effect: Effect) -> None:
    """Reading is believed only where nothing else is possible; what cannot be known is unknown."""
    assert read_operation(body).effect is effect
    if body["type"] == "graph_query":
        assert cypher_effect(body["query"]) is effect
