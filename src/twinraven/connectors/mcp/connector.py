"""Calling tools of upstream servers, as a connector of the one call path.

What a server answers goes two ways: its value becomes the call's output, which is recorded and which learned tools
build on; the answer itself, to the last content block, is kept for the door through which it goes back out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, cast
from uuid import UUID

from twinraven.catalog import ToolEntry
from twinraven.connectors.mcp.content import Result, error_text, read_result, to_output
from twinraven.connectors.mcp.errors import UpstreamLost
from twinraven.connectors.mcp.model import PinnedTool
from twinraven.connectors.mcp.pool import UpstreamPool
from twinraven.connectors.mcp.tools import CONNECTOR, UpstreamTools
from twinraven.foundation.errors import (
    EffectUnknown,
    InvalidInput,
    InvalidOutput,
    ToolError,
    ToolUnavailable,
    TwinRavenError,
)
from twinraven.foundation.json_schema import Schema, compile_schema

_answers: ContextVar[dict[UUID, Result] | None] = ContextVar("twinraven_mcp_answers", default=None)


class Frame(Protocol):
    """What this connector needs to know of the call it serves."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def event_id(self) -> UUID: ...


@contextmanager
def keeping_answers() -> Generator[dict[UUID, Result]]:
    """Inside the block, the answers of upstream servers are kept as they came, by the event of their call."""
    kept: dict[UUID, Result] = {}
    token = _answers.set(kept)
    try:
        yield kept
    finally:
        _answers.reset(token)


async def accept_answer(asking: Awaitable[dict[str, Any]], entry: ToolEntry, event_id: UUID) -> Result:
    """What a server answers to a call, kept for the door it goes out by; what failed there is raised."""
    try:
        answer = await asking
    except UpstreamLost as error:
        if entry.writes:
            raise EffectUnknown(f"{error.message}; whether it took effect is unknown", **error.details) from error
        raise
    result = read_result(answer, entry.tool_id)
    kept = _answers.get()
    if kept is not None:
        kept[event_id] = result
    if result.get("isError"):
        raise ToolError(error_text(result), tool_id=entry.tool_id, result=result)
    return result


class McpConnector:
    """Reaches the tools of upstream servers."""

    name = CONNECTOR

    def __init__(self, pool: Callable[[], UpstreamPool], tools: UpstreamTools) -> None:
        """`pool` is asked for when the first call needs it, so that servers nobody calls are not even read."""
        self._pool = pool
        self._tools = tools
        self._schemas: dict[str, tuple[Any, Schema | None]] = {}

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: Frame) -> Any:
        """Call the tool where it lives; its output, or what went wrong."""
        tool = self._tools.pinned(call.tenant_id, entry.tool_id)
        if tool is None:
            raise ToolUnavailable(f"{entry.tool_id!r} is not known any more", tool_id=entry.tool_id)
        asking = self._pool().call(
            call.tenant_id, tool.server, tool.name, params, writes=entry.writes, timeout_ms=entry.timeout_ms
        )
        result = await accept_answer(asking, entry, call.event_id)
        self._check(tool, result)
        return to_output(result)

    def _check(self, tool: PinnedTool, result: Result) -> None:
        """Hold the structured content to the schema with which the tool was accepted."""
        schema = self._schema(tool)
        if schema is None:
            return
        if "structuredContent" not in result:
            raise InvalidOutput(f"{tool.tool_id!r} promises structured content and sent none", tool_id=tool.tool_id)
        try:
            schema.check(result["structuredContent"], field="output")
        except InvalidInput as error:
            raise InvalidOutput(
                f"{tool.tool_id!r} answered what its output schema forbids: {error.message}", tool_id=tool.tool_id
            ) from error

    def _schema(self, tool: PinnedTool) -> Schema | None:
        stated: Any = tool.definition.get("outputSchema")
        if not isinstance(stated, dict):
            return None
        known = self._schemas.get(tool.tool_id)
        if known is None or known[0] is not stated:
            known = (cast("Any", stated), _compiled(cast("dict[str, Any]", stated)))
            self._schemas[tool.tool_id] = known
        return known[1]


def _compiled(schema: dict[str, Any]) -> Schema | None:
    """A schema that can be checked, or nothing where the server's is beyond us."""
    try:
        return compile_schema(schema)
    except TwinRavenError:
        return None
