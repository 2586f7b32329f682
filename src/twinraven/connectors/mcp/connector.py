"""Calls tools of upstream MCP servers, as a connector of the one call path.

The value of a server's answer becomes the call's output, which is recorded and which learned tools build on. The answer
itself, to the last content block, goes with it as `ToolAnswer.raw` for the door through which it goes back out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from twinraven.catalog import ToolAnswer, ToolEntry
from twinraven.connectors.mcp.backchannel import CallSide
from twinraven.connectors.mcp.content import Result, error_text, read_result, to_output
from twinraven.connectors.mcp.errors import UpstreamLost
from twinraven.connectors.mcp.model import PinnedTool
from twinraven.connectors.mcp.pool import UpstreamPool
from twinraven.connectors.mcp.tools import CONNECTOR
from twinraven.foundation.errors import EffectUnknown, InputRequired, InvalidOutput, ToolError

if TYPE_CHECKING:
    from twinraven.calls import CallFrame


async def accept_answer(asking: Awaitable[dict[str, Any]], entry: ToolEntry) -> Result:
    """Wait for a server's answer to a call; what failed there is raised, with the answer in its details."""
    try:
        answer = await asking
    except UpstreamLost as error:
        if entry.writes:
            raise EffectUnknown(f"{error.message}; whether it took effect is unknown", **error.details) from error
        raise
    if answer.get("resultType") == "input_required":
        raise InputRequired(f"{entry.tool_id!r} asks for input first", tool_id=entry.tool_id, result=answer)
    result = read_result(answer, entry.tool_id)
    if result.get("isError"):
        raise ToolError(error_text(result), tool_id=entry.tool_id, result=result)
    return result


class McpConnector:
    """Reaches the tools of upstream servers."""

    name = CONNECTOR

    def __init__(self, pool: Callable[[str], UpstreamPool]) -> None:
        """`pool` returns the servers of a tenant when a call needs them: unused servers are not even read."""
        self._pool = pool

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> ToolAnswer:
        """Call the tool where it lives; its output, or what went wrong."""
        tool = cast("PinnedTool", entry.target)
        asking = self._pool(call.tenant_id).call(
            call.tenant_id,
            tool.server,
            tool.name,
            params,
            writes=entry.writes,
            timeout_ms=entry.timeout_ms,
            side=CallSide(call.channel, call.keep_alive, needs_task=tool.needs_task),
        )
        result = await accept_answer(asking, entry)
        structured = result.get("structuredContent")
        if structured is None and entry.output_schema is not None:
            # Raised with the answer, like a failure that a server reports: a door passes on what was sent.
            raise InvalidOutput(
                f"{entry.tool_id!r} promises structured content and sent none", tool_id=entry.tool_id, result=result
            )
        return ToolAnswer(to_output(result), described=structured, raw=result)
