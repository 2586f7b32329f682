"""Reads the user's words from a request's `_meta`, where a client or an adapter sends them with a call.

MCP carries no user words. A client that knows them may send them as a text or as chat messages; they become the outside
input of the call's event, redacted as all recorded text is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput

USER_INPUT: Final = "twinraven/user_input"
"""The documented name; the others are what clients and instrumentation use of their own."""

_TEXTS: Final = (
    USER_INPUT,
    "user_input",
    "userInput",
    "user_prompt",
    "userPrompt",
    "user_message",
    "userMessage",
    "user_query",
    "userQuery",
)
_MESSAGES: Final = ("gen_ai.input.messages", "messages")
_LONGEST: Final = 10_000


def user_words(meta: Mapping[str, Any]) -> str | None:
    """Return what the user said before this call, if the client sends it."""
    for name in _TEXTS:
        value = meta.get(name)
        if isinstance(value, str) and value.strip():
            return value[:_LONGEST]
    for name in _MESSAGES:
        said = _last_said(_as_messages(meta.get(name)))
        if said:
            return said[:_LONGEST]
    return None


def _as_messages(value: object) -> list[Mapping[str, Any]]:
    """Chat messages, as a list or as the JSON text in which instrumentation sends it."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except InvalidInput:
            return []
    if not isinstance(value, list):
        return []
    return [cast("Mapping[str, Any]", one) for one in cast("list[object]", value) if isinstance(one, Mapping)]


def _last_said(messages: list[Mapping[str, Any]]) -> str:
    """Return what the user said since the model last spoke, or last of all before its calls began."""
    said: list[str] = []
    for message in reversed(messages):
        if message.get("role") == "user":
            said.append(_text(message.get("content", message.get("parts"))))
        elif said:
            break
    return "\n".join(text for text in reversed(said) if text)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    pieces = cast("list[object]", content) if isinstance(content, list) else []
    texts = (_piece(piece) for piece in pieces)
    return "\n".join(text for text in texts if text)


def _piece(piece: object) -> str:
    if isinstance(piece, str):
        return piece
    members: Mapping[str, Any] = cast("Mapping[str, Any]", piece) if isinstance(piece, Mapping) else {}
    text = members.get("text", members.get("content"))
    return text if isinstance(text, str) else ""
