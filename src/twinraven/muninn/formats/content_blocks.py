"""Translates blocks of a message's content from Amazon Bedrock, the AI SDK and agent frameworks into the usual ones.

They say what others say, under names of their own: the Converse API of Bedrock keeps a call under `toolUse` and its
result under `toolResult`; messages of the AI SDK's user interfaces keep call and result in one part, whose type names
the tool; Haystack, Goose, LlamaIndex and Semantic Kernel have names for both, and Cohere puts results into documents.
Any other block is the usual one already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from twinraven.foundation.canonical import canonical_json
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
    known = _of_framework(block)
    if known is not None:
        return [known]
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


def _of_framework(block: Block) -> Block | None:
    """Return the call or result that a block is in the form of one framework; None of any other block."""
    if isinstance(block.get("toolUse"), dict):
        use = cast("Block", block["toolUse"])
        return _request(use.get("toolUseId"), use.get("name"), use.get("input"))
    if isinstance(block.get("toolResult"), dict) and "toolUseId" in block["toolResult"]:
        result = cast("Block", block["toolResult"])
        output = _plain(items_of(result.get("content"), "toolResult.content"))
        return _answer(result.get("toolUseId"), output, is_error=result.get("status") == "error")
    if block.get("block_type") == "tool_call":
        return _llama_call(block)
    named = _NAMED.get(str(block.get("type") or block.get("block_type", block.get("content_type", ""))))
    if named is not None:
        return named(block)
    for name, read in _WRAPPED.items():
        if isinstance(block.get(name), dict):
            return read(cast("Block", block[name]), block)
    return None


def plain_text(block: Block) -> str | None:
    """Return the text of a block that holds nothing else, as most blocks of users do; None of another block."""
    if len(block) != 2 or block.get("type") != "text":
        return None
    text = block.get("text", block.get("content"))
    return text if isinstance(text, str) else None


def _haystack_call(call: Block, _: Block) -> Block:
    return _request(call.get("id"), call.get("tool_name"), call.get("arguments"))


def _haystack_result(result: Block, _: Block) -> Block:
    origin = members_of(result.get("origin"), "origin")
    return _answer(origin.get("id"), result.get("result"), is_error=result.get("error") is True)


def _goose_call(call: Block, block: Block) -> Block:
    asked = members_of(call.get("value"), "toolCall.value")
    return _request(block.get("id"), asked.get("name"), asked.get("arguments"))


def _goose_result(result: Block, block: Block) -> Block:
    failed = result.get("error")
    output = result.get("value") if failed is None else failed
    return _answer(block.get("id"), output, is_error=failed is not None)


def _llama_call(block: Block) -> Block:
    return _request(block.get("tool_call_id"), block.get("tool_name"), block.get("tool_kwargs"))


def _kernel_call(block: Block) -> Block:
    return _request(block.get("call_id", block.get("id")), block.get("name"), block.get("arguments"))


def _kernel_result(block: Block) -> Block:
    failed = block.get("exception")
    output = block.get("result") if failed is None else failed
    return _answer(block.get("call_id", block.get("id")), output, is_error=failed is not None)


def _document(block: Block) -> Block:
    """Return the data of a document, in which Cohere takes a tool's result; an attached file stays what it is."""
    document = block.get("document")
    data = cast("Block", document).get("data") if isinstance(document, dict) else None
    if isinstance(data, dict):
        return {"type": "text", "text": canonical_json(data).decode()}
    return {"type": "text", "text": data} if isinstance(data, str) else block


_NAMED: Final[dict[str, Callable[[Block], Block]]] = {
    "function_call": _kernel_call,
    "function_result": _kernel_result,
    "document": _document,
}
_WRAPPED: Final[dict[str, Callable[[Block, Block], Block]]] = {
    "tool_call": _haystack_call,
    "tool_call_result": _haystack_result,
    "toolCall": _goose_call,
    "toolResult": _goose_result,
}


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
