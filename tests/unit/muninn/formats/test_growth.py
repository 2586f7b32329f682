"""Logs of requests: each repeats the conversation so far, and together they are one session."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.traces import read_values
from twinraven.muninn.formats.conversation import CallRequested, ConversationFacts, UserMessage
from twinraven.muninn.formats.conversation_merging import ConversationMerger, GrowingConversation, SpokenMessage


def asks(call_id: str, number: int) -> dict[str, Any]:
    function = {"name": "look", "arguments": json.dumps({"n": number})}
    return {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def conversation(name: str, calls: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    for number in range(calls):
        call_id = f"{name}-{number}"
        messages += [asks(call_id, number), {"role": "tool", "tool_call_id": call_id, "content": str(number)}]
    return messages


def requests(name: str, calls: int) -> list[dict[str, Any]]:
    """What a proxy logs of one conversation: a line a turn, each with all that was said before."""
    messages = conversation(name, calls)
    return [{"messages": messages[: end + 1]} for end in range(0, len(messages), 2)]


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), data=st.data())
def test_requests_of_several_conversations_are_as_many_sessions(sizes: list[int], data: st.DataObject) -> None:
    """However requests are mixed, each conversation is one session with each of its calls once."""
    logs = [requests(f"c{place}", size) for place, size in enumerate(sizes)]
    mixed: list[dict[str, Any]] = []
    while any(logs):
        mixed.append(data.draw(st.sampled_from([log for log in logs if log])).pop(0))
    calls, errors = read_values(*mixed)
    assert errors == []
    by_session: dict[str, list[int]] = {}
    for call in calls:
        by_session.setdefault(call.session_id, []).append(json.loads(call.params)["n"])
    assert sorted(map(len, by_session.values())) == sorted(sizes)
    assert all(numbers == list(range(len(numbers))) for numbers in by_session.values())


def test_a_request_that_is_sent_again_is_no_session() -> None:
    """A repeated request under another id, and one that comes late, add nothing."""
    first, *rest = requests("c", 3)
    resent = [{**first, "id": "r1"}, {**first, "id": "r2"}, *rest, rest[0], first]
    calls, _ = read_values(*resent)
    assert [(call.session_id, call.turn) for call in calls] == [("r1", 1), ("r1", 2), ("r1", 3)]


def test_equal_conversations_under_certain_ids_are_two() -> None:
    """Where each line names its conversation, lines that say the same stay apart."""
    messages = conversation("c", 1)
    calls, _ = read_values(*({"session_id": name, "messages": messages} for name in "ab"))
    assert [call.session_id for call in calls] == ["a", "b"]


def test_what_is_held_is_bounded_and_continued_under_the_same_name() -> None:
    """A conversation that was let go and goes on is given out again whole, under the session it had."""
    growth = ConversationMerger(held=1)

    def said(name: str, *texts: str) -> GrowingConversation:
        spoken = [SpokenMessage([UserMessage(text), CallRequested(None, "t", {})]) for text in texts]
        return GrowingConversation(name, "openai", ConversationFacts(), 1, spoken)

    gone = [*growth.add(said("a", "1")), *growth.add(said("b", "x")), *growth.add(said("c", "1", "2"))]
    assert [(chain.session_id, len(chain.spoken)) for chain in gone] == [("a", 1), ("b", 1)]
    assert [(chain.session_id, len(chain.spoken)) for chain in growth.finish()] == [("a", 2)]
