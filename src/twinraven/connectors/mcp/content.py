"""Converts between a tool's answer on the wire and the output that is recorded; each can be made from the other.

On the wire an answer is a list of content blocks, perhaps with structured content beside it. What agents reuse is the
value inside: the structured content, or the JSON or text of a single block. That value is the call's output wherever
the answer can be made from it again; an answer that says more (pictures, sounds, resources, several blocks) is itself
the output.
"""

from __future__ import annotations

from typing import Any, Final, cast

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput, InvalidOutput
from twinraven.foundation.predicates import json_equal

Result = dict[str, Any]

_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
_WIRE_FIELDS: Final = frozenset({"content", "structuredContent", "_meta", "isError", "resultType"})
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}
"""The fields, all texts, without which a block of a kind says nothing."""


def read_result(answer: Result, tool_id: str) -> Result:
    """Read an upstream's answer, checked and without what only concerns the hop it came by."""
    content = answer.get("content", [])
    if not isinstance(content, list):
        raise InvalidOutput(f"{tool_id!r} answered without a list of content", tool_id=tool_id)
    blocks = [_read_block(block, tool_id) for block in cast("list[Any]", content)]
    result: Result = {name: answer[name] for name in answer if name not in ("resultType", "_meta")}
    meta = answer.get("_meta")
    if isinstance(meta, dict):
        kept = {name: value for name, value in cast("Result", meta).items() if name != _SERVER_INFO}
        result |= {"_meta": kept} if kept else {}
    return {**result, "content": blocks}


def _read_block(block: Any, tool_id: str) -> Result:
    members = cast("Result", block) if isinstance(block, dict) else {}
    kind = members.get("type")
    if not isinstance(kind, str):
        raise InvalidOutput(f"{tool_id!r} answered a content block without a type", tool_id=tool_id)
    holder, needed = members, _NEEDED.get(kind)
    if kind == "resource":
        inner = members.get("resource")
        holder = cast("Result", inner) if isinstance(inner, dict) else {}
        needed = ("uri", "text") if "text" in holder else ("uri", "blob")
    if needed is None:
        # A kind from a later revision: shown as the text it came as, so that nothing of it is lost.
        return {"type": "text", "text": canonical_json(members).decode()}
    missing = [name for name in needed if not isinstance(holder.get(name), str)]
    if missing:
        raise InvalidOutput(f"{tool_id!r} answered {kind} content without {missing[0]}", tool_id=tool_id)
    return members


def to_output(result: Result) -> Any:
    """Return the output of a call, from a checked answer."""
    structured, content = result.get("structuredContent"), cast("list[Result]", result["content"])
    text = _only_text(result, content)
    if structured is not None:
        return structured if text is not None and _says_the_same(text, structured) else result
    if text is None:
        return result
    value = _as_json(text)
    return text if value is None or is_result(value) else value


def to_result(output: Any) -> Result:
    """Return the answer that says this output."""
    if is_result(output):
        return cast("Result", output)
    if output is None:
        return {"content": []}
    text = output if isinstance(output, str) else canonical_json(output).decode()
    result: Result = {"content": [{"type": "text", "text": text}]}
    return {**result, "structuredContent": output} if isinstance(output, dict) else result


def is_result(value: Any) -> bool:
    """Return whether a value is an answer as it stands on the wire."""
    if not isinstance(value, dict) or not _WIRE_FIELDS.issuperset(cast("Result", value)):
        return False
    content = cast("Result", value).get("content")
    return isinstance(content, list) and all(_is_block(block) for block in cast("list[Any]", content))


def _is_block(block: Any) -> bool:
    kind = cast("Result", block).get("type") if isinstance(block, dict) else None
    return kind in _NEEDED or kind == "resource"


def error_text(result: Result) -> str:
    """Return the error text of a result that reports a failure."""
    texts = [str(block["text"]) for block in cast("list[Result]", result["content"]) if block["type"] == "text"]
    return "\n".join(texts).strip() or "the tool reported an error and did not say which"


def _only_text(result: Result, content: list[Result]) -> str | None:
    """Return the text of an answer that consists of one plain text and nothing else worth keeping."""
    if result.keys() - {"content", "structuredContent", "isError"} or result.get("isError"):
        return None
    if len(content) == 1 and content[0].keys() == {"type", "text"} and content[0]["type"] == "text":
        return content[0]["text"]
    return None


def _says_the_same(text: str, structured: Any) -> bool:
    """Return whether the text beside structured content is only its older form."""
    try:
        value = parse_json(text, field="text")
    except InvalidInput:
        value = text
    return json_equal(value, structured) or json_equal({"result": value}, structured)


def _as_json(text: str) -> Any:
    """Return the object or list that a text spells out, if it does.

    A text that merely looks like a number stays a text.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return parse_json(text, field="text")
    except InvalidInput:
        return None
