"""How each kind of service is spoken to; every connector satisfies the port that `calls` owns.

Names are resolved on first use: whoever calls a Python function does not load what speaks HTTP or Bolt.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.connectors.addresses import AddressGuard, AddressRules
    from twinraven.connectors.binding import Binding, BindingSource, Prober, RevealSecret
    from twinraven.connectors.breaker import CircuitBreaker
    from twinraven.connectors.connection_checks import check_connection
    from twinraven.connectors.delivery import HttpDelivery
    from twinraven.connectors.graph import GraphConnector, GraphLimits
    from twinraven.connectors.http_model import Credential, HttpLimits, HttpRequest, HttpResponse, NoAnswer, NotSent
    from twinraven.connectors.llm import LlmConnector
    from twinraven.connectors.llm_answers import find_json, without_thoughts
    from twinraven.connectors.llm_dialects import Completion, ModelToolCall, OfferedTool, Prompt, PromptTurn
    from twinraven.connectors.mcp import (
        ACCEPT_SUGGESTIONS,
        SERVERS_FILE,
        Abilities,
        AuditJournal,
        CallSide,
        Classification,
        ClientSide,
        Journal,
        LogJournal,
        McpConnector,
        PinnedTool,
        SecretSource,
        ServerConfig,
        ServerFault,
        Suggestion,
        ToolQuarantined,
        UpstreamEvent,
        UpstreamLimits,
        UpstreamLost,
        UpstreamNews,
        UpstreamPool,
        UpstreamPools,
        UpstreamStatus,
        UpstreamTools,
        VaultSecrets,
        definition_hash,
        find_block,
        is_result,
        legal_name,
        load_servers,
        read_servers,
        server_faults,
        to_output,
        to_result,
        upstream_tool_id,
    )
    from twinraven.connectors.mcp.lines import LineDispatcher
    from twinraven.connectors.mcp.programs import ProgramRules
    from twinraven.connectors.mcp.service_connector import McpServiceConnector
    from twinraven.connectors.mcp.service_servers import ServiceServers
    from twinraven.connectors.model_client import ModelClient
    from twinraven.connectors.openapi import OpenApiImport, read_openapi
    from twinraven.connectors.python import PythonConnector
    from twinraven.connectors.rest import RestConnector
    from twinraven.connectors.services import ServiceConnectors
    from twinraven.connectors.transport import HttpTransport
    from twinraven.connectors.urls import parse_url

__all__ = [
    "ACCEPT_SUGGESTIONS",
    "SERVERS_FILE",
    "Abilities",
    "AddressGuard",
    "AddressRules",
    "AuditJournal",
    "Binding",
    "BindingSource",
    "CallSide",
    "CircuitBreaker",
    "Classification",
    "ClientSide",
    "Completion",
    "Credential",
    "GraphConnector",
    "GraphLimits",
    "HttpDelivery",
    "HttpLimits",
    "HttpRequest",
    "HttpResponse",
    "HttpTransport",
    "Journal",
    "LineDispatcher",
    "LlmConnector",
    "LogJournal",
    "McpConnector",
    "McpServiceConnector",
    "ModelClient",
    "ModelToolCall",
    "NoAnswer",
    "NotSent",
    "OfferedTool",
    "OpenApiImport",
    "PinnedTool",
    "Prober",
    "ProgramRules",
    "Prompt",
    "PromptTurn",
    "PythonConnector",
    "RestConnector",
    "RevealSecret",
    "SecretSource",
    "ServerConfig",
    "ServerFault",
    "ServiceConnectors",
    "ServiceServers",
    "Suggestion",
    "ToolQuarantined",
    "UpstreamEvent",
    "UpstreamLimits",
    "UpstreamLost",
    "UpstreamNews",
    "UpstreamPool",
    "UpstreamPools",
    "UpstreamStatus",
    "UpstreamTools",
    "VaultSecrets",
    "check_connection",
    "definition_hash",
    "find_block",
    "find_json",
    "is_result",
    "legal_name",
    "load_servers",
    "parse_url",
    "read_openapi",
    "read_servers",
    "server_faults",
    "to_output",
    "to_result",
    "upstream_tool_id",
    "without_thoughts",
]

_HOMES = {
    "ACCEPT_SUGGESTIONS": "mcp",
    "SERVERS_FILE": "mcp",
    "Abilities": "mcp",
    "AddressGuard": "addresses",
    "AddressRules": "addresses",
    "AuditJournal": "mcp",
    "Binding": "binding",
    "BindingSource": "binding",
    "CallSide": "mcp",
    "CircuitBreaker": "breaker",
    "Classification": "mcp",
    "Completion": "llm_dialects",
    "ClientSide": "mcp",
    "Credential": "http_model",
    "GraphConnector": "graph",
    "GraphLimits": "graph",
    "HttpDelivery": "delivery",
    "HttpLimits": "http_model",
    "HttpRequest": "http_model",
    "HttpResponse": "http_model",
    "HttpTransport": "transport",
    "Journal": "mcp",
    "LineDispatcher": "mcp.lines",
    "LlmConnector": "llm",
    "LogJournal": "mcp",
    "McpConnector": "mcp",
    "McpServiceConnector": "mcp.service_connector",
    "ModelClient": "model_client",
    "ModelToolCall": "llm_dialects",
    "OfferedTool": "llm_dialects",
    "NoAnswer": "http_model",
    "NotSent": "http_model",
    "OpenApiImport": "openapi",
    "PinnedTool": "mcp",
    "Prober": "binding",
    "ProgramRules": "mcp.programs",
    "Prompt": "llm_dialects",
    "PromptTurn": "llm_dialects",
    "PythonConnector": "python",
    "RestConnector": "rest",
    "RevealSecret": "binding",
    "SecretSource": "mcp",
    "ServerConfig": "mcp",
    "ServerFault": "mcp",
    "ServiceConnectors": "services",
    "ServiceServers": "mcp.service_servers",
    "Suggestion": "mcp",
    "ToolQuarantined": "mcp",
    "UpstreamEvent": "mcp",
    "UpstreamLimits": "mcp",
    "UpstreamLost": "mcp",
    "UpstreamNews": "mcp",
    "UpstreamPool": "mcp",
    "UpstreamPools": "mcp",
    "UpstreamStatus": "mcp",
    "UpstreamTools": "mcp",
    "VaultSecrets": "mcp",
    "check_connection": "connection_checks",
    "definition_hash": "mcp",
    "find_block": "mcp",
    "find_json": "llm_answers",
    "is_result": "mcp",
    "legal_name": "mcp",
    "load_servers": "mcp",
    "parse_url": "urls",
    "read_openapi": "openapi",
    "read_servers": "mcp",
    "server_faults": "mcp",
    "to_output": "mcp",
    "to_result": "mcp",
    "upstream_tool_id": "mcp",
    "without_thoughts": "llm_answers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
