"""Offers the configured model as the built-in tool `twinraven.ask_model`, for the call path.

A question is a call like every other: its arguments are the messages, its output is the answer with tokens and cost.
The tool can be called by its name and is in no list: agents have a model of their own and need not be offered another.
Secrets of the tenant are taken out of a question before it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from twinraven.catalog import Effect, ToolAnswer, ToolEntry
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.models.errors import ModelNotConfigured
from twinraven.models.model import ModelAnswer, ModelQuestion

if TYPE_CHECKING:
    from twinraven.calls import CallFrame
    from twinraven.connectors import ModelClient

ASK_MODEL: Final = "twinraven.ask_model"
CONNECTOR: Final = "model"

Redact = Callable[[str, bytes], bytes]
"""A tenant's JSON text without its secrets; may read the vault, so it is called off the loop."""

RedactNow = Callable[[str, bytes], bytes | None]
"""The same without reading anything; None where it cannot be done so."""

listening: ContextVar[Callable[[str], None] | None] = ContextVar("listening", default=None)
"""Who hears the text of the answer while the model still speaks, if the asker wants it so."""

_TEXT: Final = {"type": "string"}
_CALL: Final = {
    "type": "object",
    "properties": {"id": _TEXT, "name": _TEXT, "arguments": _TEXT},
    "required": ["id", "name", "arguments"],
}
_MESSAGE: Final = {
    "type": "object",
    "properties": {
        "role": {"enum": ["user", "assistant", "tool"]},
        "content": _TEXT,
        "tool_calls": {"type": "array", "items": _CALL},
        "tool_call_id": _TEXT,
    },
    "required": ["role", "content"],
    "additionalProperties": False,
}
_OFFER: Final = {
    "type": "object",
    "properties": {"name": _TEXT, "description": _TEXT, "parameters": {"type": "object"}},
    "required": ["name"],
}
INPUT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "messages": {"type": "array", "items": _MESSAGE, "minItems": 1},
        "system": _TEXT,
        "schema": {"type": "object", "description": "JSON Schema that the answer must fit."},
        "tools": {"type": "array", "items": _OFFER, "description": "Tools that the model may ask for."},
    },
    "required": ["messages"],
    "additionalProperties": False,
}


class ModelTool:
    """The tool, where it comes from and what runs it."""

    name = CONNECTOR

    def __init__(self, client: ModelClient | None, redact: Redact, redact_now: RedactNow, *, timeout_ms: int) -> None:
        self._client = client
        self._redact = redact
        self._redact_now = redact_now
        self._entry = ToolEntry(
            tool_id=ASK_MODEL,
            description="Ask the configured language model; text or JSON comes back, with what it took.",
            input_schema=INPUT_SCHEMA,
            output_schema={"type": "object", "required": ["model", "text", "stop", "usage"]},
            effect=Effect.READ,
            effect_origin="declared",
            connector=CONNECTOR,
            timeout_ms=timeout_ms,
            definition="" if client is None else client.name,
        )

    @property
    def model(self) -> str | None:
        """The name of the configured model."""
        return None if self._client is None else self._client.name

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return self._entry if tool_id == ASK_MODEL else None

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return []

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> ToolAnswer:
        """Ask the model; the output is a ModelAnswer as JSON."""
        if self._client is None:
            raise ModelNotConfigured(tool_id=entry.tool_id)
        asked = canonical_json(params)
        clean = self._redact_now(call.tenant_id, asked)
        if clean is None:
            clean = await asyncio.to_thread(self._redact, call.tenant_id, asked)
        question = ModelQuestion.from_json(params if clean is asked else parse_json(clean, field="question"))
        said = await self._client.ask(call.tenant_id, entry.tool_id, question.prompt, hear=listening.get())
        price = self._client.price
        answer = ModelAnswer.of(
            said,
            self._client.name,
            currency=None if price is None else price.currency,
            amount=None if price is None else price.amount(said.input_tokens, said.output_tokens),
        )
        return ToolAnswer(
            answer.as_json(),
            tokens=said.input_tokens + said.output_tokens,
            currency=answer.currency,
            amount=answer.amount,
            risk_tags=("truncated",) if said.stop == "length" else (),
        )

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        if self._client is not None:
            await self._client.aclose()
