"""Offers the configured model to processes as two tools, which the built-in processes call.

They are found by name and not listed: agents at the gateway have a model of their own. Every home knows them, so this
module loads nothing that runs them.
"""

from __future__ import annotations

from typing import Any, Final

from twinraven.catalog import Effect, ToolEntry

REPLY: Final = "chat_reply"
REPLY_WITH_TOOLS: Final = "chat_reply_with_tools"
MODEL_TOOLS: Final = frozenset({REPLY, REPLY_WITH_TOOLS})
"""The tools that ask the configured model."""

CONNECTOR: Final = "chat"
_MESSAGE: Final = {
    "type": "object",
    "properties": {"role": {"enum": ["system", "user", "assistant", "tool"]}, "content": {"type": "string"}},
    "required": ["role", "content"],
}
_MESSAGES: Final = {"type": "array", "items": _MESSAGE, "minItems": 1}
_TOOLS: Final = {"type": "array", "items": {"type": "string"}, "description": "Only these; by default all."}
_RULES: Final = {"type": "array", "items": {"type": "object"}}


def chat_entries(timeout_ms: int) -> dict[str, ToolEntry]:
    """Return the catalogue entries of the two tools."""

    def entry(tool_id: str, description: str, effect: Effect, **properties: Any) -> ToolEntry:
        schema = {"type": "object", "properties": properties, "required": ["messages"], "additionalProperties": False}
        return ToolEntry(
            tool_id=tool_id,
            description=description,
            input_schema=schema,
            effect=effect,
            effect_origin="declared",
            connector=CONNECTOR,
            timeout_ms=timeout_ms,
            takes_key=True,
            definition=f"{tool_id}/1",
        )

    listed = (
        entry(REPLY, "Let the configured model answer messages.", Effect.READ, messages=_MESSAGES, tool_schemas=_RULES),
        entry(
            REPLY_WITH_TOOLS,
            "Let the configured model answer messages; it may call tools on the caller's behalf.",
            Effect.WRITE,
            messages=_MESSAGES,
            tools=_TOOLS,
        ),
    )
    return {each.tool_id: each for each in listed}


class ChatTools:
    """The source of the two tools."""

    def __init__(self, *, timeout_ms: int) -> None:
        self._entries = chat_entries(timeout_ms)

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return self._entries.get(tool_id)

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        """None: they are for processes."""
        del tenant_id
        return []
