"""Reads one message of a conversation in any of the usual dialects, as moves of the conversation.

Which dialect it is shows in the message itself, so that messages are understood wherever they stand: in files of
conversations, in logs of requests, in the attributes of a model's span. Understood are OpenAI chat completions, items
of the Responses API, Anthropic messages, Gemini contents, the GenAI conventions of OpenTelemetry, LangChain's three
dumps, pydantic-ai, the AI SDK and ShareGPT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Literal, cast

from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.content_blocks import plain_text, usual_blocks
from twinraven.muninn.formats.conversation import (
    CallAnswered,
    CallRequested,
    ModelTurn,
    Move,
    UnreadablePart,
    UserMessage,
)
from twinraven.muninn.formats.frameworks import translation_of
from twinraven.muninn.formats.trace import decode_arguments, decode_text, items_of, members_of

Message = dict[str, Any]

_ROLES: Final = {
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "gpt": "assistant",
    "AIMessageChunk": "assistant",
    "user": "user",
    "human": "user",
    "HumanMessageChunk": "user",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "tool",
    "observation": "tool",
    "ipython": "tool",
    "system": "system",
    "developer": "system",
    "function_call": "call",
}
_LANGCHAIN: Final = {
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "HumanMessage": "human",
    "HumanMessageChunk": "human",
    "ToolMessage": "tool",
    "ToolMessageChunk": "tool",
    "SystemMessage": "system",
    "FunctionMessage": "function",
    "ChatMessage": "user",
}
_ITEM_CALLS: Final = {
    "function_call": ("name", "arguments"),
    "custom_tool_call": ("name", "input"),
    "local_shell_call": (None, "action"),
    "computer_call": (None, "action"),
    "mcp_call": ("name", "arguments"),
    "shell_call": (None, "action"),
    "apply_patch_call": (None, "operation"),
}
_ITEM_SILENT: Final = (
    "reasoning",
    "web_search_call",
    "file_search_call",
    "image_generation_call",
    "code_interpreter_call",
    "mcp_list_tools",
    "item_reference",
    "compaction",
)
_GEMINI: Final = {
    "call": ("function_call", "functionCall"),
    "response": ("function_response", "functionResponse"),
}
_BLOCK_SILENT: Final = (
    "thinking",
    "redacted_thinking",
    "reasoning",
    "reasoning_content",
    "step-start",
    "signature",
    "non_standard",
)


_SPEAKING: Final = frozenset(("content", "parts", "tool_calls", "function_call", "tool_call_id"))
"""What a message with a role has at least one of."""


def is_message(value: Any) -> bool:
    """Return whether this is a message of a dialect that is known here."""
    if not isinstance(value, dict):
        return False
    message = cast("Message", value)
    kind = message.get("type")
    if isinstance(message.get("role"), str) and not _SPEAKING.isdisjoint(message):
        return True
    if translation_of(message) is not None:
        return True
    if isinstance(message.get("role"), str):
        return False
    if isinstance(kind, str):
        if kind in _ITEM_CALLS or kind in _ITEM_SILENT or kind.endswith("_call_output"):
            return "payload" not in message
        if kind in _ROLES:
            return isinstance(message.get("data"), dict) or "content" in message
        return kind == "constructor" and "lc" in message
    if message.get("kind") in ("request", "response"):
        return isinstance(message.get("parts"), list)
    return isinstance(message.get("from"), str) and "value" in message


def dialect_of(messages: list[Any]) -> str:
    """Return the name of the dialect that a conversation is written in."""
    for message in messages:
        if not isinstance(message, dict):
            continue
        found = cast("Message", message)
        if translation_of(found) is not None:
            return "chat"
        if "parts" in found:
            return "pydantic-ai" if "kind" in found else "gemini"
        if "role" not in found:
            kind = str(found.get("type"))
            return "langchain" if kind in _ROLES or kind == "constructor" else "responses"
        blocks = found.get("content")
        if isinstance(blocks, list) and any(str(_kind_of(block)).endswith("tool_use") for block in blocks):  # pyright: ignore[reportUnknownVariableType]
            return "anthropic"
        if found.get("tool_calls") or found.get("type") == "message":
            return "openai" if found.get("tool_calls") else "responses"
    return "openai"


def _kind_of(block: Any) -> Any:
    return cast("Message", block).get("type") if isinstance(block, dict) else None


def moves_of(message: Message) -> list[Move]:
    """Return the moves that the message makes in its conversation; raise InvalidInput where it cannot be read."""
    message = _unwrapped(message)
    translate = translation_of(message)
    if translate is not None:
        return [move for usual in translate(message) for move in moves_of(usual)]
    kind = message.get("type")
    if "role" not in message and isinstance(kind, str):
        if kind in _ITEM_CALLS or kind in _ITEM_SILENT or kind.endswith("_call_output"):
            return list(_item(message, kind))
        message = {**message, "role": kind}
    if message.get("kind") in ("request", "response"):
        return list(_pydantic_ai(message))
    if "from" in message and "role" not in message:
        return list(_share_gpt(message))
    return list(_by_role(message))


def _unwrapped(message: Message) -> Message:
    """Return the message inside LangChain's wrappers."""
    if "lc" in message and isinstance(message.get("kwargs"), dict):
        named = items_of(message.get("id"), "id")
        return {"type": _LANGCHAIN.get(str(named[-1]) if named else "", "system"), **message["kwargs"]}
    if isinstance(message.get("data"), dict) and str(message.get("type")) in _ROLES:
        return {"type": message["type"], **message["data"]}
    return message


def _by_role(message: Message) -> Iterator[Move]:
    stated = message.get("role")
    role = _ROLES.get(stated) if isinstance(stated, str) else None
    if role is None:
        raise InvalidInput(f"role {stated!r} is none of system, developer, user, assistant, tool, function")
    if role == "system":
        return
    blocks = _blocks(message)
    if role == "assistant":
        # The items of the Responses API have a type also where they are messages: a turn may have several.
        yield ModelTurn(_joined(blocks), joins=message.get("type") == "message")
        yield from _requests(message, blocks)
    elif role == "tool" and not any(_is_answer(block) for block in blocks):
        yield _answer(message)
    else:
        yield from _heard(blocks)


def _heard(blocks: list[Message]) -> Iterator[Move]:
    """Results and words of a user's message; results first, because they answer the turn before."""
    texts = [plain_text(block) for block in blocks]
    if texts and None not in texts:
        yield UserMessage("\n".join(cast("list[str]", texts)))
        return
    yield from (_result(block) for block in blocks if _is_answer(block))
    words = [block for block in blocks if not _is_answer(block)]
    if words or not blocks:
        yield UserMessage(_joined(words))


def _requests(message: Message, blocks: list[Message]) -> Iterator[Move]:
    """Yield every call that can be understood, and a complaint of each that cannot."""
    listed = items_of(message.get("tool_calls"), "tool_calls")
    if not listed:
        extra = message.get("additional_kwargs")
        listed = items_of(cast("Message", extra).get("tool_calls"), "tool_calls") if isinstance(extra, dict) else []
    read: list[Callable[[], CallRequested]] = [partial(_chat_call, item) for item in listed]
    named = {_id_of(item) for item in listed}
    # LangChain repeats the calls of Anthropic's models in the content.
    read += [partial(_request, block) for block in blocks if _is_request(block, without=named)]
    if message.get("function_call") is not None:
        read.append(lambda: _function(None, members_of(message["function_call"], "function_call")))
    for each in read:
        try:
            yield each()
        except TwinRavenError as error:
            yield UnreadablePart(error.message)
    yield from (_result(block) for block in blocks if _is_answer(block))


def _chat_call(item: Any) -> CallRequested:
    call = members_of(item, "a tool call")
    if call.get("type") == "custom":
        custom = members_of(call.get("custom"), "custom")
        return CallRequested(_id_of(call), _name(custom), {"input": custom.get("input")})
    if "function" not in call and "name" in call:
        return CallRequested(_id_of(call), _name(call), decode_arguments(call.get("args", call.get("arguments"))))
    if isinstance(call.get("function"), str):
        return CallRequested(_id_of(call), call["function"], decode_arguments(call.get("arguments")))
    return _function(_id_of(call), members_of(call.get("function"), "function"))


def _function(call_id: str | None, function: Message) -> CallRequested:
    return CallRequested(call_id, _name(function), decode_arguments(function.get("arguments")))


def _answer(message: Message) -> CallAnswered:
    name = message.get("name")
    content = message.get("content")
    output: Any = decode_text(_text(content)) if not isinstance(content, dict) else cast("Message", content)
    call_id = message.get("tool_call_id")
    return CallAnswered(
        None if call_id is None else str(call_id),
        name if isinstance(name, str) else None,
        output,
        raised=message.get("status") == "error" or message.get("is_error") is True,
    )


def _blocks(message: Message) -> list[Message]:
    content = message.get("content", message.get("parts"))
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, dict):
        return [cast("Message", content)]
    return [block for part in items_of(content, "content") for block in usual_blocks(part)]


def _is_request(block: Message, *, without: set[str | None]) -> bool:
    kind = str(block.get("type", ""))
    is_call = kind.endswith("tool_use") or kind in ("tool_call", "tool-call") or _gemini(block, "call") is not None
    return is_call and (_id_of(block) is None or _id_of(block) not in without)


def _is_answer(block: Message) -> bool:
    kind = str(block.get("type", ""))
    is_result = kind.endswith("tool_result") or kind in ("tool_call_response", "tool-result")
    return is_result or _gemini(block, "response") is not None


def _request(block: Message) -> CallRequested:
    part = _gemini(block, "call")
    if part is not None:
        return CallRequested(_id_of(part), _name(part), decode_arguments(part.get("args")))
    given = next((block[name] for name in ("input", "arguments", "args") if name in block), None)
    return CallRequested(_id_of(block), _name(block), decode_arguments(given))


def _result(block: Message) -> CallAnswered:
    part = _gemini(block, "response")
    if part is not None:
        given = part.get("response")
        is_error = isinstance(given, dict) and set(cast("Message", given)) == {"error"}
        return CallAnswered(_id_of(part), _name(part), plain_output(given), raised=is_error)
    call_id = next((block[name] for name in ("tool_use_id", "toolCallId", "id") if block.get(name) is not None), None)
    given = next((block[name] for name in ("content", "response", "result", "output") if name in block), None)
    is_error = block.get("is_error") is True or block.get("isError") is True
    return CallAnswered(None if call_id is None else str(call_id), None, plain_output(given), raised=is_error)


def _gemini(block: Message, kind: Literal["call", "response"]) -> Message | None:
    """Return a part of Gemini's, in either spelling."""
    for name in _GEMINI[kind]:
        if isinstance(block.get(name), dict):
            return cast("Message", block[name])
    return None


def _item(item: Message, kind: str) -> Iterator[Move]:
    """Yield an item of the Responses API; the items between two answers are one turn of the model."""
    if kind.endswith("_call_output"):
        yield _item_output(item)
        return
    yield ModelTurn(joins=True)
    if kind not in _ITEM_CALLS:
        return
    name, given = _ITEM_CALLS[kind]
    call_id = item.get("call_id") or item.get("id")
    tool = kind.removesuffix("_call") if name is None else _name(item)
    params = item.get(given)
    yield CallRequested(
        None if call_id is None else str(call_id),
        tool,
        {"input": params} if kind == "custom_tool_call" else decode_arguments(params),
    )
    if kind == "mcp_call" and ("output" in item or "error" in item):
        failed = item.get("error")
        yield CallAnswered(
            None if call_id is None else str(call_id),
            None,
            plain_output(failed or item.get("output")),
            raised=bool(failed),
        )


def _item_output(item: Message) -> CallAnswered:
    output = item.get("output")
    raised = False
    if isinstance(output, dict) and "content" in output:
        raised = cast("Message", output).get("success") is False
        output = cast("Message", output)["content"]
    call_id = item.get("call_id") or item.get("id")
    return CallAnswered(None if call_id is None else str(call_id), None, plain_output(output), raised=raised)


def _pydantic_ai(message: Message) -> Iterator[Move]:
    if message["kind"] == "response":
        yield ModelTurn()
    for part in _blocks({"parts": message.get("parts")}):
        kind = part.get("part_kind")
        call_id = part.get("tool_call_id")
        if kind == "tool-call":
            yield CallRequested(call_id, _name({"name": part.get("tool_name")}), decode_arguments(part.get("args")))
        elif kind in ("tool-return", "retry-prompt") and part.get("tool_name"):
            yield CallAnswered(
                call_id, part["tool_name"], plain_output(part.get("content")), raised=kind == "retry-prompt"
            )
        elif kind == "user-prompt":
            yield UserMessage(_text(part.get("content")))


def _share_gpt(message: Message) -> Iterator[Move]:
    role, words = _ROLES.get(str(message["from"])), str(message.get("value"))
    if role == "call":
        called = decode_arguments(words)
        yield ModelTurn(words)
        yield CallRequested(None, _name(called), decode_arguments(called.get("arguments")))
    elif role == "tool":
        yield CallAnswered(None, None, decode_text(words))
    elif role == "assistant":
        yield ModelTurn(words)
    elif role == "user":
        yield UserMessage(words)
    elif role is None:
        raise InvalidInput(f"from {message['from']!r} is none of system, human, gpt, function_call, observation")


def plain_output(content: Any) -> Any:
    """Return a result as the model saw it; structures in texts are decoded, pictures are named and not kept."""
    if isinstance(content, str):
        return decode_text(content)
    if isinstance(content, dict) and set(cast("Message", content)) == {"type", "value"}:
        return cast("Message", content)["value"]
    if not isinstance(content, list):
        return cast("Any", content)
    parts = cast("list[Any]", content)
    if not parts or not all(isinstance(_kind_of(part), str) for part in parts):
        return parts
    blocks = cast("list[Message]", parts)
    if all(block["type"] in ("text", "input_text", "output_text") for block in blocks):
        return decode_text("\n".join(map(_words, blocks)))
    return [{"type": "image"} if block["type"] == "image" else block for block in blocks]


def _joined(blocks: list[Message]) -> str:
    shown = [_words(block) for block in blocks if not _is_silent(block)]
    return "\n".join(shown)


def _is_silent(block: Message) -> bool:
    is_call = _is_request(block, without=set()) or _is_answer(block)
    return is_call or block.get("type") in _BLOCK_SILENT or block.get("thought") is True


def _words(block: Message) -> str:
    for name in ("text", "content"):
        if isinstance(block.get(name), str):
            return block[name]
    return f"[{block.get('type') or next(iter(block), 'nothing')}]"


def _text(content: Any) -> str:
    """Return the text of a message; parts that are no text are named by their type."""
    return _joined(_blocks({"content": content}))


def _name(function: Message) -> str:
    name = function.get("name", function.get("toolName"))
    if not isinstance(name, str):
        raise InvalidInput("the call names no function", field="name")
    return name


def _id_of(call: Any) -> str | None:
    if not isinstance(call, dict):
        return None
    found = cast("Message", call).get("id", cast("Message", call).get("toolCallId"))
    return None if found is None else str(found)
