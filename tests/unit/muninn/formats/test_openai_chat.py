"""Chat messages: how calls find their answers, and what happens to those that have none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import read_values


def asks(*calls: tuple[str, str, Any]) -> dict[str, Any]:
    """An assistant's message; each call is its id, its name and its arguments."""
    return {
        "role": "assistant",
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ],
    }


def answers(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def says(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def conversation(*messages: dict[str, Any], id: str = "c") -> dict[str, Any]:
    return {"id": id, "messages": list(messages)}


@pytest.mark.parametrize(
    ("arguments", "params"),
    [
        ('{"a": 1}', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        (json.dumps(json.dumps(json.dumps({"a": 1}))), {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        (None, {}),
        ("{}", {}),
        ("[1]", {"input": [1]}),
        ("lamp", {"input": "lamp"}),
        ('{"a": 1', {"input": '{"a": 1'}),
        ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
    ],
)
def test_arguments_become_an_object(arguments: Any, params: dict[str, Any]) -> None:
    """Arguments are decoded however often they were encoded; what is no object is kept as `input`."""
    calls, errors = read_values(conversation(asks(("1", "t", arguments)), answers("1", "ok")))
    assert (json.loads(calls[0].params), errors) == (params, [])


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ('{"a": 1}', {"a": 1}),
        (" [1, 2]", [1, 2]),
        ("17", "17"),
        ("true", "true"),
        ('"quoted"', '"quoted"'),
        ("{broken", "{broken"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ("", ""),
        (None, ""),
    ],
)
def test_an_answer_is_decoded_where_it_is_a_structure(content: Any, output: Any) -> None:
    """A JSON object or array becomes a value, any other text stays the text it was."""
    calls, _ = read_values(conversation(asks(("1", "t", "{}")), answers("1", content)))
    assert calls[0].output is not None
    assert json.loads(calls[0].output) == output


def test_an_id_that_is_used_again_means_the_call_that_waits() -> None:
    """Some programs count their ids anew each turn; an answer goes to the call of its own turn."""
    turns = [message for n in range(3) for message in (asks(("call_0", "t", {"n": n})), answers("call_0", str(n)))]
    calls, errors = read_values(conversation(*turns))
    assert [(json.loads(call.params)["n"], call.output, call.turn) for call in calls] == [
        (0, b'"0"', 1),
        (1, b'"1"', 2),
        (2, b'"2"', 3),
    ]
    assert errors == []


def test_the_last_call_waits_for_its_answer_and_an_earlier_one_was_given_up() -> None:
    """A call that may still be under way is left out; one that the conversation left behind is kept without output."""
    begun = [says("go"), asks(("1", "first", {}), ("2", "second", {})), answers("2", "done")]
    calls, _ = read_values(conversation(*begun))
    assert [call.tool_id for call in calls] == ["second"]
    calls, _ = read_values(conversation(*begun, says("well?")))
    assert [(call.tool_id, call.output) for call in calls] == [("first", None), ("second", b'"done"')]


def test_a_conversation_with_an_id_is_recognised_when_it_has_grown() -> None:
    """What was read before keeps its identity; without an id, the grown conversation is another one."""
    begun = [says("go"), asks(("1", "t", {})), answers("1", "ok")]
    grown = [*begun, asks(("2", "u", {})), answers("2", "ok")]
    before, after = (read_values(conversation(*messages))[0] for messages in (begun, grown))
    assert [call.source_key for call in after][:1] == [call.source_key for call in before]
    nameless, other = (read_values({"messages": messages})[0][0] for messages in (begun, grown))
    assert nameless.session_id != other.session_id


@pytest.mark.parametrize("name", ["session_id", "conversation_id", "thread_id", "id"])
def test_a_conversation_keeps_the_id_it_has(name: str) -> None:
    """Each of the usual names for a conversation's id is understood."""
    calls, _ = read_values({name: "mine", "messages": [asks(("1", "t", {})), answers("1", "ok")]})
    assert calls[0].session_id == "mine"


def test_an_array_may_hold_conversations() -> None:
    """A file that is one array of conversations gives a session for each."""
    calls, errors = read_values(
        [conversation(asks(("1", "t", {})), answers("1", "ok"), id=name) for name in ("a", "b")]
    )
    assert ([call.session_id for call in calls], errors) == (["a", "b"], [])


@pytest.mark.parametrize("value", [17, "text", [17], {"messages": 3}, {"no": "messages"}, [[]], None])
def test_a_line_that_is_no_conversation_is_reported(value: Any) -> None:
    """Whatever else a line may hold is one complaint with its number."""
    calls, errors = read_values(value, format="openai")
    assert (calls, [error.line for error in errors]) == ([], [1])


ROLES = st.sampled_from(["assistant", "user", "tool", "function", "system"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=3,
)
CALLS = st.fixed_dictionaries(
    {},
    optional={"id": st.sampled_from("abc"), "type": JSON, "function": st.fixed_dictionaries({"name": JSON}) | JSON},
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES | JSON},
    optional={
        "content": JSON,
        "tool_calls": st.lists(CALLS | JSON, max_size=3) | JSON,
        "tool_call_id": st.sampled_from("abc") | JSON,
        "function_call": JSON,
        "name": JSON,
    },
)


@given(st.lists(MESSAGES | JSON, max_size=6))
def test_no_conversation_breaks_the_reader(messages: list[Any]) -> None:
    """Whatever messages hold, each is understood or complained of."""
    read_values({"messages": messages}, format="openai")


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 9)), min_size=1, max_size=4), max_size=5),
    st.randoms(use_true_random=False),
)
def test_calls_keep_their_order_and_their_answers(turns: list[list[tuple[str, int]]], chance: Any) -> None:
    """Calls come in the order they were asked for, each with its own answer, whatever order those came in."""
    messages: list[dict[str, Any]] = []
    expected: list[tuple[str, int, str, int]] = []
    for turn, requests in enumerate(turns, start=1):
        ids = [f"{turn}-{place}" for place in range(len(requests))]
        named = list(zip(ids, requests, strict=True))
        messages.append(asks(*((call_id, tool, {"n": n}) for call_id, (tool, n) in named)))
        messages.extend(answers(call_id, f"answer {call_id}") for call_id in chance.sample(ids, len(ids)))
        expected.extend((tool, n, f"answer {call_id}", turn) for call_id, (tool, n) in named)
    calls, errors = read_values(conversation(*messages), format="openai")
    assert errors == []
    assert [
        (call.tool_id, json.loads(call.params)["n"], json.loads(call.output or b"null"), call.turn) for call in calls
    ] == expected


def _bedrock(content: Any, status: str) -> list[dict[str, Any]]:
    use = {"toolUseId": "1", "name": "get_order", "input": {"id": 7}}
    result = {"toolUseId": "1", "content": content, "status": status}
    return [
        {"role": "user", "content": [{"text": "Order 7?"}]},
        {"role": "assistant", "content": [{"text": "I look."}, {"toolUse": use}]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]


def _interface(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Order 7?"}]},
        {"id": "m2", "role": "assistant", "parts": [{"type": "step-start"}, part, {"type": "text", "text": "Done."}]},
    ]


_CALLED = {"toolCallId": "1", "input": {"id": 7}}


@pytest.mark.parametrize(
    ("messages", "output", "raised"),
    [
        (_bedrock([{"json": {"id": 7}}], "success"), {"id": 7}, False),
        (_bedrock([{"text": '{"id": 7}'}], "success"), {"id": 7}, False),
        (_bedrock([{"text": "no order 7"}], "error"), "no order 7", True),
        (
            _interface({"type": "tool-get_order", **_CALLED, "state": "output-available", "output": {"id": 7}}),
            {"id": 7},
            False,
        ),
        (_interface({"type": "dynamic-tool", "toolName": "get_order", **_CALLED, "output": [1]}), [1], False),
        (_interface({"type": "tool-get_order", **_CALLED, "state": "output-error", "errorText": "gone"}), "gone", True),
        (
            _interface(
                {
                    "type": "tool-invocation",
                    "toolInvocation": {"toolCallId": "1", "toolName": "get_order", "args": {"id": 7}, "result": "ok"},
                }
            ),
            "ok",
            False,
        ),
    ],
)
def test_calls_of_bedrock_and_of_user_interfaces_are_read(
    messages: list[dict[str, Any]], output: Any, raised: bool
) -> None:
    """A call that a message keeps under names of its own is read with arguments, result, failure and question."""
    calls, errors = read_values(conversation(*messages))
    (call,) = calls
    assert errors == []
    assert (call.tool_id, json.loads(call.params), call.outside_input) == ("get_order", {"id": 7}, "Order 7?")
    assert (json.loads(call.output or b"null"), call.raised) == (output, raised)
