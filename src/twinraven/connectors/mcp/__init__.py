"""Manages upstream MCP servers: their configuration, life cycle and tools, and the connector that calls them.

Nothing here loads the MCP SDK until a server is really reached.
"""

from __future__ import annotations

from twinraven.connectors.mcp.backchannel import CallSide, ClientSide
from twinraven.connectors.mcp.connector import McpConnector
from twinraven.connectors.mcp.content import is_result, to_output, to_result
from twinraven.connectors.mcp.errors import ToolQuarantined, UpstreamLost
from twinraven.connectors.mcp.faults import ServerFault, server_faults
from twinraven.connectors.mcp.journal import AuditJournal, LogJournal
from twinraven.connectors.mcp.model import (
    Classification,
    PinnedTool,
    ToolChanges,
    UpstreamCapabilities,
    UpstreamChange,
    UpstreamEvent,
    UpstreamJournal,
    UpstreamStatus,
    definition_hash,
)
from twinraven.connectors.mcp.naming import legal_name, upstream_tool_id
from twinraven.connectors.mcp.placeholders import SecretSource, VaultSecrets
from twinraven.connectors.mcp.pool import UpstreamPool, UpstreamPools
from twinraven.connectors.mcp.servers import SERVERS_FILE, ServerConfig, find_block, load_servers, read_servers
from twinraven.connectors.mcp.suggestions import ACCEPT_SUGGESTIONS, Suggestion
from twinraven.connectors.mcp.tools import UpstreamTools
from twinraven.connectors.mcp.upstream import UpstreamLimits

__all__ = [
    "ACCEPT_SUGGESTIONS",
    "SERVERS_FILE",
    "AuditJournal",
    "CallSide",
    "Classification",
    "ClientSide",
    "LogJournal",
    "McpConnector",
    "PinnedTool",
    "SecretSource",
    "ServerConfig",
    "ServerFault",
    "Suggestion",
    "ToolChanges",
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
    "definition_hash",
    "find_block",
    "is_result",
    "legal_name",
    "load_servers",
    "read_servers",
    "server_faults",
    "to_output",
    "to_result",
    "upstream_tool_id",
]
