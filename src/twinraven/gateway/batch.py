"""Offers `batch_reads`, the built-in tool that makes several reads in one call.

Whatever reads an agent wants together, of whatever tools, it asks for at once and saves the model turns between them.
Every inner call goes through the call path as if the agent had made it: checked, gated, recorded. A tool that can write
is refused before anything runs, so the batch itself is a read. One that fails does not keep the others from answering.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinraven.calls import CallContext, CallFrame, Calls, SkillInvocationRequest
from twinraven.catalog import BATCH_READS, Effect, Sensitivity, ToolAnswer, ToolEntry
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.gateway.tool_listings import ToolListings

CONNECTOR: Final = "batch"
MAX_CALLS: Final = 20
AT_ONCE: Final = 8
_TIMEOUT_MS: Final = 120_000

_ENTRY: Final = ToolEntry(
    tool_id=BATCH_READS,
    description=(
        "Makes several read-only tool calls at once and returns all answers in order. Use it whenever you need more "
        "than one read whose arguments you already know; it saves a turn for each."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "calls": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_CALLS,
                "items": {
                    "type": "object",
                    "properties": {
                        "tool": {"type": "string", "description": "The name of a tool that only reads."},
                        "arguments": {"type": "object", "default": {}},
                    },
                    "required": ["tool"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["calls"],
        "additionalProperties": False,
    },
    effect=Effect.READ,
    effect_origin="declared",
    sensitivity=Sensitivity.LOW,
    connector=CONNECTOR,
    timeout_ms=_TIMEOUT_MS,
)


class BatchTool:
    """The catalogue's entry for batches."""

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return _ENTRY if tool_id == BATCH_READS else None

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return [_ENTRY]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One call of a batch, found and known to read."""

    name: str
    entry: ToolEntry
    arguments: dict[str, Any]


class BatchConnector:
    """Runs batches, as a connector of the call path."""

    name = CONNECTOR

    def __init__(self, calls: Calls, offers: ToolListings, *, await_reads: bool = False) -> None:
        self._calls = calls
        self._offers = offers
        self._await_reads = await_reads

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> Any:
        """Make all calls, some at once, and give their answers in the order they were asked for."""
        del entry
        wanted = self._checked(params["calls"], call)
        places = asyncio.Semaphore(AT_ONCE)

        async def make(one: _Wanted) -> dict[str, Any]:
            async with places:
                return await self._make(one, call)

        results = await asyncio.gather(*(make(one) for one in wanted))
        failed = sum("error" in result for result in results)
        return ToolAnswer({"results": results, "failed": failed}, is_partial=failed > 0)

    def _checked(self, asked: Sequence[dict[str, Any]], call: CallFrame) -> list[_Wanted]:
        """Return the calls, or which of them cannot be made; nothing runs before all are known to read."""
        wanted: list[_Wanted] = []
        for number, item in enumerate(asked):
            where = f"calls[{number}].tool"
            name = item["tool"]
            try:
                entry = self._offers.find(call.tenant_id, call.caller, name)
            except NotFound as error:
                raise InvalidInput(f"{where}: {error.message}", field=where) from None
            if entry.tool_id == BATCH_READS:
                raise InvalidInput(f"{where}: a batch cannot hold another", field=where, fix="list its calls here")
            if entry.writes:
                raise InvalidInput(
                    f"{where}: {name!r} may write, and a batch only reads", field=where, fix="call it by itself"
                )
            wanted.append(_Wanted(name, entry, item.get("arguments") or {}))
        return wanted

    async def _make(self, one: _Wanted, outer: CallFrame) -> dict[str, Any]:
        request = SkillInvocationRequest(
            tool_name=one.entry.tool_id,
            payload=one.arguments,
            tenant_id=outer.tenant_id,
            correlation_id=outer.correlation_id,
            task_id=outer.task_id,
        )
        context = CallContext(
            session_id=outer.session_id,
            turn=outer.turn,
            parent_event_id=outer.event_id,
            durable=self._await_reads,
            caller=outer.caller,
            actor=outer.actor,
        )
        response = await self._calls.invoke(request, context, entry=one.entry)
        if response.error is not None:
            told = {name: response.error[name] for name in ("code", "message")}
            return {"tool": one.name, "error": told}
        return {"tool": one.name, "output": response.output}
