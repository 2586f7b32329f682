"""Translates messages that agent frameworks keep in a form of their own into the usual ones.

AutoGen, LlamaIndex, smolagents, Letta, CrewAI, Google's ADK and Gemini CLI, OpenCode, Cohere's first API, Mistral's
conversations, OpenAI's run steps and the steps of the AI SDK say what every conversation says, under other names: who
speaks, which call was asked for, what came back. One such record may be several messages. Blocks within a message that
only have other names are translated in `content_blocks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from twinraven.muninn.formats.trace import items_of, members_of

Message = dict[str, Any]
Translation = Callable[[Message], list[Message]]


def translation_of(message: Message) -> Translation | None:
    """Return what turns a framework's record into usual messages; None for what is no such record."""
    for key in ("type", "message_type", "object"):
        kind = message.get(key)
        if isinstance(kind, str) and (key, kind) in _BY_KIND:
            return _BY_KIND[key, kind]
    if "role" in message:
        return _by_content(message)
    for mark, also, translate in _BY_FIELDS:
        if mark in message and also <= message.keys():
            return translate
    is_sdk_step = "finishReason" in message and (isinstance(message.get("content"), list) or "toolCalls" in message)
    return _sdk_step if is_sdk_step else None


def usual_conversation(members: Message) -> list[Message] | None:
    """Return the messages of a run that is kept in one object, as DSPy's trajectories and lists of run steps are."""
    steps = members.get("trajectory")
    if isinstance(steps, dict) and "tool_name_0" in steps:
        return _trajectory(cast("Message", steps))
    listed = members.get("data")
    if members.get("object") == "list" and isinstance(listed, list):
        found = [cast("Message", each) for each in cast("list[Any]", listed) if isinstance(each, dict)]
        if found and all(each.get("object") == "thread.run.step" for each in found):
            # The service lists the newest first.
            return sorted(found, key=lambda step: step.get("created_at") or 0)
    return None


def _said(role: str, content: Any) -> Message:
    return {"role": role, "content": content if isinstance(content, (str, list)) else str(content)}


def _asked(call_id: Any, name: Any, given: Any) -> Message:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def _answered(call_id: Any, output: Any, *, is_error: bool = False) -> Message:
    return {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error}


def _step(call_id: Any, name: Any, given: Any, output: Any, *, is_error: bool = False) -> list[Message]:
    """Return a call and what came of it."""
    return [
        {"role": "assistant", "content": [_asked(call_id, name, given)]},
        {"role": "user", "content": [_answered(call_id, output, is_error=is_error)]},
    ]


def _nothing(_: Message) -> list[Message]:
    return []


def _autogen_requests(message: Message) -> list[Message]:
    content = message.get("content")
    if isinstance(content, str):
        return [_said("assistant", content)]
    calls = [members_of(call, "a tool call") for call in items_of(content, "content")]
    return [
        {
            "role": "assistant",
            "content": [_asked(call.get("id"), call.get("name"), call.get("arguments")) for call in calls],
        }
    ]


def _autogen_results(message: Message) -> list[Message]:
    results = [members_of(result, "a result") for result in items_of(message.get("content"), "content")]
    return [
        {
            "role": "user",
            "content": [
                _answered(each.get("call_id"), each.get("content"), is_error=each.get("is_error") is True)
                for each in results
            ],
        }
    ]


def _autogen_text(message: Message) -> list[Message]:
    return [_said("user" if message.get("source") in ("user", "user_proxy") else "assistant", message.get("content"))]


def _letta_call(message: Message) -> list[Message]:
    call = members_of(message.get("tool_call"), "tool_call")
    return [
        {"role": "assistant", "content": [_asked(call.get("tool_call_id"), call.get("name"), call.get("arguments"))]}
    ]


def _letta_return(message: Message) -> list[Message]:
    is_error = message.get("status") == "error"
    answer = _answered(message.get("tool_call_id"), message.get("tool_return"), is_error=is_error)
    return [{"role": "user", "content": [answer]}]


def _mistral_call(message: Message) -> list[Message]:
    # Items like those of the Responses API: several between two answers are one turn.
    return [
        {
            "type": "function_call",
            "call_id": message.get("tool_call_id"),
            "name": message.get("name"),
            "arguments": message.get("arguments"),
        }
    ]


def _mistral_result(message: Message) -> list[Message]:
    return [
        {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": message.get("result")},
    ]


def _run_step(message: Message) -> list[Message]:
    """Return the calls of one step of a run; all of them were asked for at once."""
    details = members_of(message.get("step_details"), "step_details")
    asked: list[Message] = []
    came: list[Message] = []
    for item in items_of(details.get("tool_calls"), "tool_calls"):
        call = members_of(item, "a tool call")
        if call.get("type") != "function":
            continue
        function = members_of(call.get("function"), "function")
        asked.append(_asked(call.get("id"), function.get("name"), function.get("arguments")))
        if function.get("output") is not None:
            came.append(_answered(call.get("id"), function["output"]))
    return [{"role": "assistant", "content": asked}, {"role": "user", "content": came}] if asked else []


def _crewai(message: Message) -> list[Message]:
    failed = message.get("error")
    output = message.get("output") if failed is None else failed
    return _step(None, message.get("tool_name"), message.get("tool_args"), output, is_error=failed is not None)


def _smolagents(message: Message) -> list[Message]:
    """Return one step of an agent; observations are what all of its calls gave together."""
    calls = [members_of(call, "a tool call") for call in items_of(message.get("tool_calls"), "tool_calls")]
    if not calls:
        return []
    failed = message.get("error")
    output = message.get("observations") if failed is None else failed
    asked = [{"role": "assistant", "content": "", "tool_calls": calls}]
    return [*asked, {"role": "user", "content": [_answered(calls[0].get("id"), output, is_error=failed is not None)]}]


def _gemini_cli(message: Message) -> list[Message]:
    blocks: list[Message] = []
    for item in items_of(message.get("toolCalls"), "toolCalls"):
        call = members_of(item, "a tool call")
        blocks.append(_asked(call.get("id"), call.get("name"), call.get("args")))
        for part in items_of(call.get("result"), "result"):
            response = members_of(part, "a result").get("functionResponse")
            given = cast("Message", response).get("response") if isinstance(response, dict) else part
            blocks.append(_answered(call.get("id"), given, is_error=call.get("status") == "error"))
    return [{"role": "assistant", "content": blocks or str(message.get("content", ""))}]


def _adk(message: Message) -> list[Message]:
    content = message.get("content")
    if not isinstance(content, dict):
        return []
    held = cast("Message", content)
    role = held.get("role") or ("user" if message.get("author") == "user" else "model")
    return [{"role": role, "parts": held.get("parts")}]


def _opencode(message: Message) -> list[Message]:
    role = members_of(message.get("info"), "info").get("role")
    blocks: list[Message] = []
    for item in items_of(message.get("parts"), "parts"):
        part = members_of(item, "a part")
        if part.get("type") == "text":
            blocks.append(part)
        if part.get("type") != "tool":
            continue
        state = members_of(part.get("state"), "state")
        blocks.append(_asked(part.get("callID"), part.get("tool"), state.get("input")))
        failed = state.get("error")
        if failed is not None or "output" in state:
            output = state.get("output") if failed is None else failed
            blocks.append(_answered(part.get("callID"), output, is_error=failed is not None))
    return [{"role": role, "content": blocks}]


def _cohere(message: Message) -> list[Message]:
    """Return a message of Cohere's first API, which knows calls by what they say."""
    role = message["role"]
    if role == "TOOL":
        results = [members_of(each, "a result") for each in items_of(message.get("tool_results"), "tool_results")]
        return [_cohere_answer(result) for result in results]
    if role == "USER":
        return [_said("user", message.get("message", ""))]
    calls = [members_of(call, "a tool call") for call in items_of(message.get("tool_calls"), "tool_calls")]
    listed = [{"name": call.get("name"), "args": call.get("parameters")} for call in calls]
    return [{"role": "assistant", "content": message.get("message") or "", "tool_calls": listed}]


def _cohere_answer(result: Message) -> Message:
    outputs = items_of(result.get("outputs"), "outputs")
    name = members_of(result.get("call"), "call").get("name")
    return {"role": "tool", "name": name, "content": outputs[0] if len(outputs) == 1 else {"outputs": outputs}}


def _sdk_step(message: Message) -> list[Message]:
    """Return one step of a run of the AI SDK, with its calls and their results."""
    content = message.get("content")
    if not isinstance(content, list):
        called = [members_of(call, "a tool call") for call in items_of(message.get("toolCalls"), "toolCalls")]
        came = [members_of(result, "a result") for result in items_of(message.get("toolResults"), "toolResults")]
        content = [
            *({**call, "type": "tool-call"} for call in called),
            *({**each, "type": "tool-result"} for each in came),
        ]
    return [{"role": "assistant", "content": content}] if content else []


def _trajectory(steps: Message) -> list[Message]:
    found: list[Message] = []
    for place in range(len(steps)):
        name = steps.get(f"tool_name_{place}")
        if name is None:
            break
        if name != "finish":
            found += _step(place, name, steps.get(f"tool_args_{place}"), steps.get(f"observation_{place}"))
    return found


def _by_content(message: Message) -> Translation | None:
    """Return what reads a message with a role whose content stands elsewhere, or that holds several messages."""
    role = message["role"]
    if role in ("CHATBOT", "USER", "TOOL") and "content" not in message:
        return _cohere
    if role == "tool" and isinstance(message.get("tool_responses"), list) and "tool_call_id" not in message:
        return _autogen_responses
    if role == "assistant" and len(_starts_of_steps(message)) > 1:
        return _by_steps
    has_other = "content" not in message and any(isinstance(message.get(name), list) for name in _CONTENTS)
    return _plain_message if has_other else None


def _autogen_responses(message: Message) -> list[Message]:
    return [members_of(answer, "an answer") for answer in items_of(message["tool_responses"], "tool_responses")]


def _plain_message(message: Message) -> list[Message]:
    role = message["role"]
    blocks = next(message[name] for name in _CONTENTS if isinstance(message.get(name), list))
    extra = message.get("additional_kwargs")
    stated = cast("Message", extra) if isinstance(extra, dict) else {}
    found = {
        "role": cast("Message", role).get("value") if isinstance(role, dict) else role,
        "content": blocks,
        "tool_calls": stated.get("tool_calls"),
        "tool_call_id": stated.get("tool_call_id"),
        "name": stated.get("name"),
    }
    return [{name: value for name, value in found.items() if value is not None}]


def _starts_of_steps(message: Message) -> list[int]:
    parts = message.get("parts")
    listed = cast("list[Any]", parts) if isinstance(parts, list) else []
    return [place for place, part in enumerate(listed) if isinstance(part, dict) and _kind(part) == "step-start"]  # pyright: ignore[reportUnknownArgumentType]


def _kind(part: Message) -> Any:
    return part.get("type")


def _by_steps(message: Message) -> list[Message]:
    """Return one message a step, each of which was a turn of the model; the AI SDK's interfaces keep them in one."""
    starts = _starts_of_steps(message)
    parts = message["parts"]
    return [{**message, "parts": parts[begin:end]} for begin, end in zip(starts, [*starts[1:], None], strict=True)]


_CONTENTS: Final = ("blocks", "items", "contents")
_BY_KIND: Final[dict[tuple[str, str], Translation]] = {
    ("type", "ToolCallRequestEvent"): _autogen_requests,
    ("type", "AssistantMessage"): _autogen_requests,
    ("type", "ToolCallExecutionEvent"): _autogen_results,
    ("type", "FunctionExecutionResultMessage"): _autogen_results,
    ("type", "TextMessage"): _autogen_text,
    ("type", "UserMessage"): lambda message: [_said("user", message.get("content"))],
    ("type", "ToolCallSummaryMessage"): _nothing,
    ("type", "SystemMessage"): _nothing,
    ("type", "function.call"): _mistral_call,
    ("type", "function.result"): _mistral_result,
    ("type", "message.input"): lambda message: [_said("user", message.get("content"))],
    ("type", "message.output"): lambda message: [_said("assistant", message.get("content"))],
    ("type", "tool_usage_started"): _nothing,
    ("type", "tool_usage_finished"): _crewai,
    ("type", "tool_usage_error"): _crewai,
    ("type", "gemini"): _gemini_cli,
    ("message_type", "user_message"): lambda message: [_said("user", message.get("content"))],
    ("message_type", "assistant_message"): lambda message: [_said("assistant", message.get("content"))],
    ("message_type", "reasoning_message"): _nothing,
    ("message_type", "hidden_reasoning_message"): _nothing,
    ("message_type", "system_message"): _nothing,
    ("message_type", "tool_call_message"): _letta_call,
    ("message_type", "approval_request_message"): _letta_call,
    ("message_type", "tool_return_message"): _letta_return,
    ("object", "thread.run.step"): _run_step,
}
_BY_FIELDS: Final[tuple[tuple[str, set[str], Translation], ...]] = (
    ("step_number", {"tool_calls", "observations"}, _smolagents),
    ("system_prompt", {"system_prompt"}, _nothing),
    ("task", {"task_images"}, lambda message: [_said("user", message["task"])]),
    ("author", {"invocationId", "content"}, _adk),
    ("author", {"invocation_id", "content"}, _adk),
    ("info", {"parts"}, _opencode),
)
"""What tells records that do not name their kind: a field, the others it comes with, and how they are read."""
