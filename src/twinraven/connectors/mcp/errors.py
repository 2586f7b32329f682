"""Defines the errors of upstream tools."""

from __future__ import annotations

from twinraven.foundation.errors import NotFound, ToolUnavailable


class ToolQuarantined(NotFound):
    """The server describes the tool differently from what was accepted; nobody may call it until somebody looked."""

    code = "TOOL_QUARANTINED"
    acts = "operator"


class UpstreamLost(ToolUnavailable):
    """The connection ended while a call was under way: what became of the call cannot be known from here."""
