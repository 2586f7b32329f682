"""How each kind of service is spoken to; every connector satisfies the port that `calls` owns.

Names are resolved on first use: whoever calls a Python function does not load what speaks HTTP or Bolt.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.connectors.addresses import AddressGuard, AddressRules
    from twinraven.connectors.binding import Binding, BindingSource, Frame, Health, Operation, Prober, RevealSecret
    from twinraven.connectors.breaker import CircuitBreaker
    from twinraven.connectors.delivery import HttpDelivery
    from twinraven.connectors.graph import GraphConnector, GraphLimits
    from twinraven.connectors.http_model import HttpLimits
    from twinraven.connectors.llm import LlmConnector
    from twinraven.connectors.mcp import (
        Classification,
        Journal,
        McpConnector,
        PinnedTool,
        SecretSource,
        ServerConfig,
        Suggestion,
        ToolQuarantined,
        UpstreamEvent,
        UpstreamLimits,
        UpstreamLost,
        UpstreamPool,
        UpstreamStatus,
        UpstreamTools,
        find_block,
        is_result,
        keeping_answers,
        legal_name,
        read_servers,
        to_result,
        upstream_tool_id,
    )
    from twinraven.connectors.python import PythonConnector
    from twinraven.connectors.rest import RestConnector
    from twinraven.connectors.transport import HttpTransport

__all__ = [
    "AddressGuard",
    "AddressRules",
    "Binding",
    "BindingSource",
    "CircuitBreaker",
    "Classification",
    "Frame",
    "GraphConnector",
    "GraphLimits",
    "Health",
    "HttpDelivery",
    "HttpLimits",
    "HttpTransport",
    "Journal",
    "LlmConnector",
    "McpConnector",
    "Operation",
    "PinnedTool",
    "Prober",
    "PythonConnector",
    "RestConnector",
    "RevealSecret",
    "SecretSource",
    "ServerConfig",
    "Suggestion",
    "ToolQuarantined",
    "UpstreamEvent",
    "UpstreamLimits",
    "UpstreamLost",
    "UpstreamPool",
    "UpstreamStatus",
    "UpstreamTools",
    "find_block",
    "is_result",
    "keeping_answers",
    "legal_name",
    "read_servers",
    "to_result",
    "upstream_tool_id",
]

_HOMES = {
    "AddressGuard": "addresses",
    "AddressRules": "addresses",
    "Binding": "binding",
    "BindingSource": "binding",
    "CircuitBreaker": "breaker",
    "Classification": "mcp",
    "Frame": "binding",
    "GraphConnector": "graph",
    "GraphLimits": "graph",
    "Health": "binding",
    "HttpDelivery": "delivery",
    "HttpLimits": "http_model",
    "HttpTransport": "transport",
    "Journal": "mcp",
    "LlmConnector": "llm",
    "McpConnector": "mcp",
    "Operation": "binding",
    "PinnedTool": "mcp",
    "Prober": "binding",
    "PythonConnector": "python",
    "RestConnector": "rest",
    "RevealSecret": "binding",
    "SecretSource": "mcp",
    "ServerConfig": "mcp",
    "Suggestion": "mcp",
    "ToolQuarantined": "mcp",
    "UpstreamEvent": "mcp",
    "UpstreamLimits": "mcp",
    "UpstreamLost": "mcp",
    "UpstreamPool": "mcp",
    "UpstreamStatus": "mcp",
    "UpstreamTools": "mcp",
    "find_block": "mcp",
    "is_result": "mcp",
    "keeping_answers": "mcp",
    "legal_name": "mcp",
    "read_servers": "mcp",
    "to_result": "mcp",
    "upstream_tool_id": "mcp",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
