"""`swe-agent`: trajectories of SWE-agent and mini-swe-agent, one document a run.

Where the history has the model's tool calls, it is read as a conversation. Else each step of `trajectory` is a call:
the first word of its `action` names the tool, and the observation is its output. What the task said is outside input.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.errors import TwinRavenError
from twinraven.muninn.formats.conversation import (
    CallAnswered,
    CallRequested,
    ConversationCalls,
    ConversationFacts,
    ModelTurn,
    UserMessage,
)
from twinraven.muninn.formats.messages import is_message, moves_of
from twinraven.muninn.formats.records import Record, first_record, records_in, text_of
from twinraven.muninn.formats.trace import Heard, LineError, TraceCounts, items_of, members_of


def recognises(value: Any) -> bool:
    """Return whether this is a trajectory."""
    found = first_record(value)
    if found is None or not isinstance(found.get("trajectory"), list):
        return False
    steps = cast("list[Any]", found["trajectory"])
    return bool(steps) and isinstance(steps[0], dict) and "action" in steps[0] and "observation" in steps[0]


class SweAgentParser:
    """Reads one run a document."""

    keeps_ids = False

    def __init__(self, tenant_id: str) -> None:
        self._tenant_id = tenant_id
        self.seen = TraceCounts("trajectories", "has a step with an action")

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        for record in records_in(line):
            self.seen.count("with steps")
            run = _begun(record)
            history = [item for item in items_of(record.get("history"), "history") if is_message(item)]
            if any(cast("Record", item).get("tool_calls") for item in history):
                yield from _converse(run, history, number)
            else:
                _act(run, history, items_of(record.get("trajectory"), "trajectory"))
            for call in run.settled():
                try:
                    yield call.observed_for(self._tenant_id)
                except TwinRavenError as error:
                    yield LineError(number, f"{call.identity}: {error.message}")

    def finish(self) -> Iterator[Heard]:
        yield from ()


def _begun(record: Record) -> ConversationCalls:
    environment = record.get("environment")
    name = text_of(record, "instance_id", "session_id", "id")
    made = content_hash(canonical_json(record.get("trajectory")))[:16]
    task = name or (environment if isinstance(environment, str) else None)
    return ConversationCalls(f"swe-agent-{task or 'run'}-{made}", "swe-agent", ConversationFacts(task_id=name))


def _converse(run: ConversationCalls, history: list[Any], number: int) -> Iterator[Heard]:
    for place, message in enumerate(history):
        members = cast("Record", message)
        if members.get("is_demo") is True:
            continue
        try:
            run.hear(moves_of(members))
        except TwinRavenError as error:
            yield LineError(number, f"history[{place}]: {error.message}")


def _act(run: ConversationCalls, history: list[Any], steps: list[Any]) -> None:
    asked = [item for item in history if item.get("role") == "user" and item.get("is_demo") is not True][:1]
    for message in asked:
        run.hear(move for move in moves_of(cast("Record", message)) if isinstance(move, UserMessage))
    for item in steps:
        step = members_of(item, "a step")
        action = str(step.get("action") or "").strip()
        if not action:
            continue
        tool, _, rest = action.partition(" ")
        run.hear(
            [
                ModelTurn(str(step.get("thought") or "")),
                CallRequested(None, tool.splitlines()[0][:200], {"arguments": rest.strip()}),
                CallAnswered(None, None, step.get("observation")),
            ]
        )
