"""Finds out what a span tells of a tool call or of a model's turn, from the attributes of the usual instrumentations.

Understood are OpenTelemetry's GenAI conventions, OpenInference (Phoenix, Arize), Traceloop (OpenLLMetry), Langfuse,
LangSmith, MLflow and the AI SDK. Each has its own names for the same things: what a span is, what went in, what came
out, which conversation it belongs to. Model spans hold the messages of a request and its response, as JSON text, as
structured values or flattened into one attribute for each leaf.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import TwinRavenError
from twinraven.muninn.formats import genai
from twinraven.muninn.formats.chat import messages_in, messages_in_response
from twinraven.muninn.formats.messages import is_message, plain_output
from twinraven.muninn.formats.trace import decode_arguments, decode_text
from twinraven.muninn.model import maker_of

Kind = Literal["tool", "model", "other"]
Attributes = Mapping[str, Any]
"""The attributes of a span by name."""

USER: Final = "enduser.id"
_KINDS: Final = (
    "openinference.span.kind",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "mlflow.spanType",
    "langsmith.span.kind",
)
_LABELS: Final = (genai.OPERATION, *_KINDS)
_MODELS: Final = (
    "llm",
    "generation",
    "chat_model",
)
_MODEL_OPERATIONS: Final = (
    "chat",
    "generate_content",
    "text_completion",
)
_PROPERTIES: Final = ("traceloop.association.properties", "langsmith.metadata", "ai.telemetry.metadata")
"""How the names of attributes begin that an application chose itself."""
_SESSIONS: Final = (
    genai.CONVERSATION,
    "session.id",
    "langfuse.session.id",
    *(
        f"{place}.{name}"
        for place in _PROPERTIES
        for name in ("session_id", "thread_id", "conversation_id", "sessionId", "threadId", "chatId")
    ),
    "mlflow.trace.session",
)
_USERS: Final = (
    USER,
    "user.id",
    "langfuse.user.id",
    *(f"{place}.{name}" for place in _PROPERTIES for name in ("user_id", "userId")),
    "mlflow.trace.user",
)
_NAMES: Final = (genai.TOOL_NAME, "tool.name", "traceloop.entity.name", "ai.toolCall.name")
_INPUTS: Final = (
    genai.ARGUMENTS,
    "input.value",
    "traceloop.entity.input",
    "langfuse.observation.input",
    "mlflow.spanInputs",
    "ai.toolCall.args",
    "tool_arguments",
    "gen_ai.prompt",
)
_OUTPUTS: Final = (
    genai.RESULT,
    "output.value",
    "traceloop.entity.output",
    "langfuse.observation.output",
    "mlflow.spanOutputs",
    "ai.toolCall.result",
    "tool_response",
    "gen_ai.completion",
)
_CALL_IDS: Final = (genai.CALL_ID, "tool_call.id", "tool.call_id", "tool.id", "ai.toolCall.id")
_ASKED: Final = (
    ("gen_ai.input.messages", "gen_ai.output.messages"),
    ("pydantic_ai.all_messages", ""),
    ("ai.prompt.messages", ""),
    ("langfuse.observation.input", "langfuse.observation.output"),
    ("mlflow.spanInputs", "mlflow.spanOutputs"),
    ("input.value", "output.value"),
    ("gen_ai.prompt", "gen_ai.completion"),
)
_FLAT: Final = tuple(
    (f"{asked}{place}", asked, answered)
    for asked, answered in (("llm.input_messages.", "llm.output_messages."), ("gen_ai.prompt.", "gen_ai.completion."))
    for place in ("0.role", "0.message.role")
)
"""An attribute that shows that messages are flattened, and how the names of those that went in and came out begin."""
_PRINTED: Final = re.compile(
    r"content=(?P<content>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\") .*?tool_call_id='(?P<id>[^']*)'"
)
_LONGEST_LITERAL: Final = 200_000
_PLAIN: Final = frozenset(("output", "lc", "data", "tool_call_id"))
"""An output that has none of these is wrapped in nothing."""


_MOST_CACHED: Final = 40
"""Spans with more attributes have flattened messages in them, whose names are hardly ever the same twice."""


class AttributeNames(NamedTuple):
    """The names that matter among the attributes of a span: those of each kind that are there, the best first."""

    kinds: tuple[str, ...]
    sessions: tuple[str, ...]
    users: tuple[str, ...]
    tools: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    call_ids: tuple[str, ...]
    is_ours: bool
    """Whether there are any of those that only our own exports have."""


def names_in(attributes: Attributes) -> AttributeNames:
    """Return the names that matter; found once for all spans of the same making."""
    return _names_among(tuple(attributes)) if len(attributes) <= _MOST_CACHED else _chosen(attributes)


@lru_cache(1024)
def _names_among(present: tuple[str, ...]) -> AttributeNames:
    return _chosen(frozenset(present))


def _chosen(present: Iterable[str]) -> AttributeNames:
    groups = (_KINDS, _SESSIONS, _USERS, _NAMES, _INPUTS, _OUTPUTS, _CALL_IDS)
    chosen = [tuple(name for name in names if name in present) for names in groups]
    return AttributeNames(*chosen, is_ours=not genai.OWN.isdisjoint(present))


class SpanToolFacts(NamedTuple):
    """A tool call as its span tells it."""

    tool: str
    params: dict[str, Any]
    output: Any
    raised: bool
    call_id: str | None
    is_complete: bool
    """Whether the arguments have their names; LangChain gives OpenInference the bare value of an only argument."""


_make_facts: Final = maker_of(SpanToolFacts)


def kind_of(attributes: Attributes, names: AttributeNames, name: str) -> Kind:
    """Return whether a span is a tool call, a model's turn, or something else."""
    get = attributes.get
    operation = get(genai.OPERATION)
    if operation == genai.EXECUTE_TOOL:
        return "tool"
    stated = _first(attributes, names.kinds)
    if stated is not None:
        stated = str(stated).strip('"').lower()
    if stated == "tool" or get("ai.toolCall.name") is not None:
        return "tool"
    if operation in _MODEL_OPERATIONS or stated in _MODELS:
        return "model"
    is_ai_sdk = name.startswith(("ai.generateText.do", "ai.streamText.do")) and get("ai.prompt.messages") is not None
    return "model" if is_ai_sdk or get("gen_ai.prompt.0.role") is not None else "other"


def label_of(attributes: Attributes) -> str:
    """Return the label of a span, for messages."""
    for name in _LABELS:
        found = attributes.get(name)
        if found is not None:
            return f"{name}={str(found).strip(chr(34))}"
    return "without a known kind"


def session_of(attributes: Attributes, names: AttributeNames) -> str | None:
    """Return the conversation a span belongs to, as it states it."""
    return _stated(attributes, names.sessions)


def user_of(attributes: Attributes, names: AttributeNames) -> str | None:
    """Return the user for whom a span's work was done, as it states it."""
    return _stated(attributes, names.users)


def tool_facts(attributes: Attributes, names: AttributeNames, name: str) -> SpanToolFacts:
    """Read the facts of a tool call from its span."""
    tool = _first(attributes, names.tools) or name.removeprefix(genai.EXECUTE_TOOL).strip()
    given = _unwrapped_input(_first(attributes, names.inputs))
    params = decode_arguments(given)
    stated_id = _text(_first(attributes, names.call_ids))
    if names.is_ours and attributes.get(genai.RESULT_ENCODING) == "json":
        output: Any = parse_json(str(attributes.get(genai.RESULT)), field=genai.RESULT)
        return _make_facts((str(tool), params, output, False, stated_id, True))
    output, call_id, raised = unwrapped_output(_first(attributes, names.outputs))
    is_complete = given is None or isinstance(given, dict) or params.keys() != {"input"}
    return _make_facts((str(tool), params, output, raised, stated_id or call_id, is_complete))


def arguments_of(given: Any) -> dict[str, Any]:
    """Arguments as an object, out of what LangChain and its instrumentations wrap them in."""
    return decode_arguments(_unwrapped_input(given))


def _unwrapped_input(given: Any) -> Any:
    if isinstance(given, str):
        given = decode_text(given)
        if isinstance(given, str):
            given = _literal(given)
    if not isinstance(given, dict):
        return given
    members: dict[str, Any] = given  # pyright: ignore[reportUnknownVariableType]
    if "input_str" in members:
        inner = members.get("inputs")
        return cast("Any", inner) if isinstance(inner, dict) else _literal(members["input_str"])
    if len(members) == 1 and "input" in members and isinstance(members["input"], str):
        inner = _literal(decode_text(members["input"]))
        return cast("Any", inner) if isinstance(inner, dict) else members
    return members


def _literal(text: Any) -> Any:
    """Return a text that is a Python dictionary as one, which is how LangChain prints the arguments of a tool."""
    if not isinstance(text, str) or text[:1] != "{" or len(text) > _LONGEST_LITERAL:
        return text
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return cast("Any", found) if isinstance(found, dict) else text


def unwrapped_output(given: Any) -> tuple[Any, str | None, bool]:
    """Return an output, the id of its call and whether it failed, out of LangChain's tool message."""
    found = decode_text(given) if isinstance(given, str) else plain_output(given)
    if isinstance(found, dict) and _PLAIN.isdisjoint(found):  # pyright: ignore[reportUnknownArgumentType]
        return found, None, False  # pyright: ignore[reportUnknownVariableType]
    if isinstance(found, dict) and "output" in found and found.keys() <= {"output", "kwargs"}:
        found = plain_output(cast("dict[str, Any]", found)["output"])
    if isinstance(found, str):
        printed = _PRINTED.match(found)
        if printed is not None:
            return decode_text(str(ast.literal_eval(printed["content"]))), printed["id"], False
        return found, None, False
    if not isinstance(found, dict):
        return found, None, False
    members = cast("dict[str, Any]", found)
    inner = members.get("kwargs") if "lc" in members else members.get("data", members)
    if isinstance(inner, dict) and "tool_call_id" in inner and "content" in inner:
        message = cast("dict[str, Any]", inner)
        return plain_output(message["content"]), _text(message["tool_call_id"]), message.get("status") == "error"
    return members, None, False


def messages_of(attributes: Attributes) -> tuple[list[Any], list[Any]]:
    """Return the messages that went into a model and those that came out of it."""
    get = attributes.get
    for mark, asked, answered in _FLAT:
        if mark in attributes:
            return _nested(attributes, asked), _nested(attributes, answered)
    for asked, answered in _ASKED:
        found = messages_in_value(get(asked))
        if found:
            return found, messages_in_value(get(answered)) if answered else []
    return [], []


def messages_in_value(value: Any) -> list[Any]:
    """Return the messages in an input or output of a model, JSON text or not; none where there are none."""
    if isinstance(value, str):
        if value[:1] not in ("{", "["):
            return []
        try:
            value = parse_json(value)
        except TwinRavenError:
            return []
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if len(items) == 1 and isinstance(items[0], list):
            items = cast("list[Any]", items[0])
        return items if any(is_message(item) for item in items) else []
    if not isinstance(value, dict):
        return []
    members = cast("dict[str, Any]", value)
    if is_message(members):
        return [members]
    generations = members.get("generations")
    while isinstance(generations, list) and generations:
        generations = cast("list[Any]", generations)[0]
    if isinstance(generations, dict):
        return messages_in_value(cast("dict[str, Any]", generations).get("message"))
    return messages_in(members) or messages_in_response(members)


def request_and_response(asked: Any, answered: Any) -> tuple[list[Any], list[Any]]:
    """Return the messages of a model's input and output."""
    return messages_in_value(asked), messages_in_value(answered)


def _nested(attributes: Attributes, prefix: str) -> list[Any]:
    """Messages whose leaves are attributes of their own, such as `gen_ai.prompt.0.tool_calls.0.name`."""
    root: dict[str, Any] = {}
    for key, value in attributes.items():
        if not str(key).startswith(prefix):
            continue
        place = root
        *path, leaf = key[len(prefix) :].split(".")
        for part in path:
            if part not in ("message", "tool_call", "message_content"):
                below = place.setdefault(part, {})
                if not isinstance(below, dict):
                    break
                place = cast("dict[str, Any]", below)
        else:
            place[leaf] = value
    return [_listed(message) for _, message in sorted(root.items(), key=_number)]


def _listed(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    found = cast("dict[str, Any]", message)
    for name in ("tool_calls", "contents"):
        if isinstance(found.get(name), dict):
            parts = sorted(cast("dict[str, Any]", found[name]).items(), key=_number)
            found["content" if name == "contents" else name] = [part for _, part in parts]
    return found


def _number(pair: tuple[str, Any]) -> int:
    return int(pair[0]) if pair[0].isdigit() else 0


def _first(attributes: Attributes, names: tuple[str, ...]) -> Any:
    for name in names:
        found = attributes[name]
        if found is not None:
            return found
    return None


def _stated(attributes: Attributes, names: tuple[str, ...]) -> str | None:
    for name in names:
        found = attributes.get(name)
        if found is not None and found != "":
            return str(found)
    return None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
