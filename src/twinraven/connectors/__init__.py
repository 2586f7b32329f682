"""Connects to services, one connector per protocol; every connector satisfies the port that `calls` owns.

Names are resolved on first use: whoever calls a Python function does not load what speaks HTTP or Bolt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

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
        AuditJournal,
        CallSide,
        Classification,
        ClientSide,
        LogJournal,
        McpConnector,
        PinnedTool,
        SecretSource,
        ServerConfig,
        ServerFault,
        Suggestion,
        ToolQuarantined,
        UpstreamCapabilities,
        UpstreamChange,
        UpstreamEvent,
        UpstreamJournal,
        UpstreamLimits,
        UpstreamLost,
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
    from twinraven.connectors.mcp.messages import MessageDispatcher, MessageOrigin
    from twinraven.connectors.mcp.programs import ProgramRules
    from twinraven.connectors.mcp.service_connector import McpServiceConnector
    from twinraven.connectors.mcp.service_servers import ServiceServers
    from twinraven.connectors.mcp.wire import MessageContext, encode_message, notification_message
    from twinraven.connectors.model_client import ModelClient
    from twinraven.connectors.openapi import OpenApiImport, read_openapi
    from twinraven.connectors.python import PythonConnector
    from twinraven.connectors.rest import RestConnector
    from twinraven.connectors.services import ServiceConnectors
    from twinraven.connectors.settings import ConnectorsSettings
    from twinraven.connectors.transport import HttpTransport
    from twinraven.connectors.urls import parse_url

__all__ = [
    "ACCEPT_SUGGESTIONS",
    "SERVERS_FILE",
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
    "ConnectorsSettings",
    "Credential",
    "GraphConnector",
    "GraphLimits",
    "HttpDelivery",
    "HttpLimits",
    "HttpRequest",
    "HttpResponse",
    "HttpTransport",
    "LineDispatcher",
    "LlmConnector",
    "LogJournal",
    "McpConnector",
    "McpServiceConnector",
    "MessageContext",
    "MessageDispatcher",
    "MessageOrigin",
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
    "UpstreamCapabilities",
    "UpstreamChange",
    "UpstreamEvent",
    "UpstreamJournal",
    "UpstreamLimits",
    "UpstreamLost",
    "UpstreamPool",
    "UpstreamPools",
    "UpstreamStatus",
    "UpstreamTools",
    "VaultSecrets",
    "check_connection",
    "definition_hash",
    "encode_message",
    "find_block",
    "find_json",
    "is_result",
    "legal_name",
    "load_servers",
    "notification_message",
    "parse_url",
    "read_openapi",
    "read_servers",
    "server_faults",
    "to_output",
    "to_result",
    "upstream_tool_id",
    "without_thoughts",
]


__getattr__ = lazy_names(__name__)
