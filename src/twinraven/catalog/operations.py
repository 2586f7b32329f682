"""Models operations: the request of a data-defined tool to its service, one form per type of service.

    {"type": "graph_query", "query": "MATCH (n) WHERE n.name = $name RETURN n"}
    {"type": "rest_call", "method": "GET", "path": "/orders/{{order_id}}", "query": {"expand": "{{expand}}"}}
    {"type": "llm_call", "system_prompt": "You are brief.", "prompt_template": "{{instruction}}\n\n{{content}}"}
    {"type": "mcp_call", "tool": "read_file", "arguments": {"path": "{{path}}"}}

Everything but Cypher names its variables in Handlebars; Cypher has parameters of its own, and a query that text is
pasted into is a hole. An operation knows its variables before it is ever called, and turns arguments into a request: a
connector sends that and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from twinraven.catalog.cypher import cypher_effect, cypher_parameters
from twinraven.catalog.documents import Document
from twinraven.catalog.json_templates import check_templates, fill_json, json_variables, parse_text
from twinraven.catalog.model import Effect
from twinraven.catalog.rest_request import RestRequest, check_header, check_path, fill_headers, fill_path, fill_query
from twinraven.catalog.service_model import ServiceType
from twinraven.foundation.errors import InvalidDefinition

LONGEST_TEXT: Final = 1_000_000


class OperationType(StrEnum):
    GRAPH_QUERY = "graph_query"
    REST_CALL = "rest_call"
    LLM_CALL = "llm_call"
    MCP_CALL = "mcp_call"


class HttpMethod(StrEnum):
    GET = "GET"
    HEAD = "HEAD"
    OPTIONS = "OPTIONS"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


_SAFE_METHODS: Final = (HttpMethod.GET, HttpMethod.HEAD, HttpMethod.OPTIONS)

OPERATIONS: Final[Mapping[ServiceType, OperationType]] = {
    ServiceType.NEO4J_GRAPH: OperationType.GRAPH_QUERY,
    ServiceType.REST_API: OperationType.REST_CALL,
    ServiceType.LLM_PROVIDER: OperationType.LLM_CALL,
    ServiceType.MCP_SERVER: OperationType.MCP_CALL,
}
"""The one type of operation that each type of service takes."""


@dataclass(frozen=True, slots=True)
class GraphRequest:
    query: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """A Cypher query with parameters."""

    query: str
    type: OperationType = field(default=OperationType.GRAPH_QUERY, init=False)

    @classmethod
    def of(cls, document: Document) -> GraphQuery:
        query = document.text("query", limit=LONGEST_TEXT)
        if "{{" in query:
            raise InvalidDefinition(
                "operation.query has {{…}} in it; Cypher takes its variables as parameters: write $name",
                field="operation.query",
            )
        return cls(query)

    @property
    def variables(self) -> tuple[str, ...]:
        return cypher_parameters(self.query)

    @property
    def effect(self) -> Effect:
        return cypher_effect(self.query)

    def request(self, params: Mapping[str, Any]) -> GraphRequest:
        return GraphRequest(self.query, {name: params.get(name) for name in self.variables})

    def as_json(self) -> dict[str, Any]:
        return {"type": self.type.value, "query": self.query}


@dataclass(frozen=True, slots=True)
class RestCall:
    """An HTTP request below the endpoint's address."""

    method: HttpMethod
    path: str
    query: dict[str, Any] = field(default_factory=dict[str, Any])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    type: OperationType = field(default=OperationType.REST_CALL, init=False)

    @classmethod
    def of(cls, document: Document) -> RestCall:
        method = document.choice("method", HttpMethod)
        path = document.text("path", limit=10_000)
        headers = document.optional_mapping("headers") or {}
        query = document.optional_mapping("query") or {}
        body = document.fields.get("body")
        check_path(parse_text(path, "operation.path"))
        for name, value in headers.items():
            check_header(name, value)
        check_templates(query, "operation.query")
        check_templates(body, "operation.body")
        if body is not None and method in _SAFE_METHODS:
            raise InvalidDefinition(f"operation.body: a {method} has none", field="operation.body")
        return cls(method, path, query, headers, body)

    @property
    def variables(self) -> tuple[str, ...]:
        return json_variables([self.path, self.query, self.headers, self.body])

    @property
    def effect(self) -> Effect:
        return Effect.READ if self.method in _SAFE_METHODS else Effect.WRITE

    def request(self, params: Mapping[str, Any]) -> RestRequest:
        return RestRequest(
            method=self.method.value,
            path=fill_path(self.path, params),
            query=fill_query(self.query, params),
            headers=fill_headers(self.headers, params),
            body=fill_json(self.body, params),
        )

    def as_json(self) -> dict[str, Any]:
        optional = {"query": self.query or None, "headers": self.headers or None, "body": self.body}
        said = {name: value for name, value in optional.items() if value is not None}
        return {"type": self.type.value, "method": self.method.value, "path": self.path, **said}


@dataclass(frozen=True, slots=True)
class PromptRequest:
    prompt: str
    system: str | None


@dataclass(frozen=True, slots=True)
class LlmCall:
    """A prompt for a model."""

    prompt_template: str
    system_prompt: str | None = None
    type: OperationType = field(default=OperationType.LLM_CALL, init=False)

    @classmethod
    def of(cls, document: Document) -> LlmCall:
        prompt = document.text("prompt_template", limit=LONGEST_TEXT)
        system = document.optional_text("system_prompt", limit=LONGEST_TEXT)
        parse_text(prompt, "operation.prompt_template")
        parse_text(system or "", "operation.system_prompt")
        return cls(prompt, system)

    @property
    def variables(self) -> tuple[str, ...]:
        return json_variables([self.system_prompt, self.prompt_template])

    @property
    def effect(self) -> Effect:
        return Effect.READ

    def request(self, params: Mapping[str, Any]) -> PromptRequest:
        system = None if self.system_prompt is None else parse_text(self.system_prompt, "system_prompt").render(params)
        return PromptRequest(parse_text(self.prompt_template, "prompt_template").render(params), system)

    def as_json(self) -> dict[str, Any]:
        said = {"type": self.type.value, "prompt_template": self.prompt_template}
        return said if self.system_prompt is None else {**said, "system_prompt": self.system_prompt}


@dataclass(frozen=True, slots=True)
class McpRequest:
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class McpCall:
    """A tool of an MCP server; without `arguments` it is given what the caller gives."""

    tool: str
    arguments: dict[str, Any] | None = None
    type: OperationType = field(default=OperationType.MCP_CALL, init=False)

    @classmethod
    def of(cls, document: Document) -> McpCall:
        arguments = document.optional_mapping("arguments")
        check_templates(arguments, "operation.arguments")
        return cls(document.text("tool"), arguments)

    @property
    def variables(self) -> tuple[str, ...] | None:
        """None: whatever the caller gives."""
        return None if self.arguments is None else json_variables(self.arguments)

    @property
    def effect(self) -> Effect:
        return Effect.UNKNOWN

    def request(self, params: Mapping[str, Any]) -> McpRequest:
        return McpRequest(self.tool, dict(params) if self.arguments is None else fill_json(self.arguments, params))

    def as_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"type": self.type.value, "tool": self.tool}
        return said if self.arguments is None else {**said, "arguments": self.arguments}


Operation = GraphQuery | RestCall | LlmCall | McpCall

_READERS: Final[Mapping[OperationType, tuple[Callable[[Document], Operation], tuple[str, ...]]]] = {
    OperationType.GRAPH_QUERY: (GraphQuery.of, ("query",)),
    OperationType.REST_CALL: (RestCall.of, ("method", "path", "query", "headers", "body")),
    OperationType.LLM_CALL: (LlmCall.of, ("system_prompt", "prompt_template")),
    OperationType.MCP_CALL: (McpCall.of, ("tool", "arguments")),
}


def read_operation(body: Mapping[str, Any]) -> Operation:
    """Read the operation that a JSON object describes; what is wrong in it is named."""
    stated = {"type": body.get("type")} if isinstance(body, dict) else body
    known = Document("operation", stated, known=("type",), where="operation.").choice("type", OperationType)
    reader, names = _READERS[known]
    return reader(Document(f"{known} operation", body, known=("type", *names), where="operation."))
