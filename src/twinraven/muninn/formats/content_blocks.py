"""Translates blocks of a message's content from Amazon Bedrock and the AI SDK into the usual ones.

Both say what others say, under names of their own: the Converse API of Bedrock keeps a call under `toolUse` and its
result under `toolResult`; messages of the AI SDK's user interfaces keep call and result in one part, whose type names
the tool. Any other block is the usual one already.
"""

from __future__ import annotations

from typing import Any, Final, cast

from twinraven.muninn.formats.trace import items_of, members_of

Block = dict[str, Any]

_SEPARATE: Final = ("tool-call", "tool-result")
"""Types of the AI SDK's model messages, where call and result are parts of their own."""


def usual_blocks(part: Any) -> list[Block]:
    """Return the blocks that say what a part of a message's content says, in the usual way."""
    if isinstance(part, str):
        return [{"type": "text", "text": part}]
    block = members_of(part, "a part of the content")
    if plain_text(block) is not None:
        return [block]
    if isinstance(block.get("toolUse"), dict):
        use = cast("Block", block["toolUse"])
        return [_request(use.get("toolUseId"), use.get("name"), use.get("input"))]
    if isinstance(block.get("toolResult"), dict):
        result = cast("Block", block["toolResult"])
        output = _plain(items_of(result.get("content"), "toolResult.content"))
        return [_answer(result.get("toolUseId"), output, is_error=result.get("status") == "error")]
    kind = str(block.get("type", ""))
    if kind == "tool-invocation" and isinstance(block.get("toolInvocation"), dict):
        call = cast("Block", block["toolInvocation"])
        return _call_and_answer(call, str(call.get("toolName")), call.get("args"), "result")
    if "toolCallId" in block and kind not in _SEPARATE:
        if kind == "dynamic-tool":
            return _call_and_answer(block, str(block.get("toolName")), block.get("input"), "output")
        if kind.startswith("tool-"):
            return _call_and_answer(block, kind.removeprefix("tool-"), block.get("input"), "output")
    return [block]


def plain_text(block: Block) -> str | None:
    """Return the text of a block that holds nothing else, as most blocks of users do; None of another block."""
    if len(block) != 2 or block.get("type") != "text":
        return None
    text = block.get("text", block.get("content"))
    return text if isinstance(text, str) else None


def _call_and_answer(part: Block, name: str, given: Any, came: str) -> list[Block]:
    blocks = [_request(part.get("toolCallId"), name, given)]
    if part.get("errorText") is not None:
        blocks.append(_answer(part.get("toolCallId"), part["errorText"], is_error=True))
    elif came in part:
        blocks.append(_answer(part.get("toolCallId"), part[came], is_error=False))
    return blocks


def _request(call_id: Any, name: Any, given: Any) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def _answer(call_id: Any, output: Any, *, is_error: bool) -> Block:
    return {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error}


def _plain(items: list[Any]) -> Any:
    """Return what a result of Bedrock's holds: an only JSON value as it is, texts as blocks of text."""
    found = [cast("Block", item) if isinstance(item, dict) else {"text": str(item)} for item in items]
    if len(found) == 1 and "json" in found[0]:
        return found[0]["json"]
    return [{"type": "text", "text": item["text"]} if "text" in item else item.get("json", item) for item in found]
