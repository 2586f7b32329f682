"""`openhands`: the events of an OpenHands run, as an array, as lines, or one file each.

Actions of the agent are calls, named by the function the model called where that is known and by the action else;
observations answer them by `cause`. In the newer form (`kind`: ActionEvent, ObservationEvent, MessageEvent) they are
matched by `tool_call_id`. Messages with source `user` are outside input. Actions that came from one response of the
model are one turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from twinraven.foundation.canonical import canonical_json, content_hash, parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.conversation import (
    CallAnswered,
    CallRequested,
    ConversationCalls,
    ModelTurn,
    Move,
    UserMessage,
)
from twinraven.muninn.formats.messages import plain_output
from twinraven.muninn.formats.records import Record, first_record, micros_of, records_of, text_of
from twinraven.muninn.formats.trace import Heard, LineError, TraceCounts, decode_arguments

_KINDS: Final = (
    "ActionEvent",
    "ObservationEvent",
    "MessageEvent",
    "SystemPromptEvent",
    "AgentErrorEvent",
)
_TALK: Final = (
    "message",
    "system",
    "recall",
    "change_agent_state",
    "null",
    "finish",
    "think",
)
_OWN_FIELDS: Final = ("thought", "hidden", "confirmation_state", "is_confirmed", "blocking", "security_risk")
_LISTS: Final = ("events", "history", "trajectory")
_IDS: Final = ("sid", "session_id", "conversation_id")


def recognises(value: Any) -> bool:
    """Return whether this is an event of OpenHands."""
    found = first_record(value, *_LISTS)
    if found is None:
        return False
    if found.get("kind") in _KINDS:
        return True
    return "source" in found and ("action" in found or "observation" in found)


class OpenHandsParser:
    """Follows the events of a run, one a line or a file; a line with a list of events is a run of its own."""

    keeps_ids = False

    def __init__(self, tenant_id: str) -> None:
        self._tenant_id = tenant_id
        self._run: ConversationCalls | None = None
        self._responses: str | None = None
        self.seen = TraceCounts("events", "is an action of the agent that was answered")

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        around = parse_json(line, field="the line")
        is_whole = isinstance(around, list) or first_record(around, *_LISTS) is not around
        if is_whole:
            yield from self.finish()
        yield from self._follow(around, number)
        if is_whole:
            yield from self.finish()

    def _follow(self, around: Any, number: int) -> Iterator[Heard]:
        for record in records_of(around, *_LISTS):
            if self._run is None:
                named = text_of(record, *_IDS)
                if named is None and isinstance(around, dict):
                    named = text_of(cast("Record", around), *_IDS, "instance_id")
                session = named or f"openhands-{content_hash(canonical_json(record))[:32]}"
                self._run = ConversationCalls(session, "openhands")
            self.seen.count(f"{record.get('kind') or record.get('action') or record.get('observation')}")
            try:
                self._run.hear(self._moves(record), micros_of(record, "timestamp"))
            except TwinRavenError as error:
                yield LineError(number, f"event {record.get('id')!r}: {error.message}")

    def finish(self) -> Iterator[Heard]:
        run, self._run, self._responses = self._run, None, None
        for call in run.settled() if run is not None else ():
            try:
                yield call.observed_for(self._tenant_id)
            except TwinRavenError as error:
                yield LineError(1, f"{call.identity}: {error.message}")

    def _moves(self, record: Record) -> Iterator[Move]:
        if record.get("kind") in _KINDS:
            yield from self._newer(record)
            return
        metadata = record.get("tool_call_metadata")
        called = cast("Record", metadata) if isinstance(metadata, dict) else {}
        action = record.get("action")
        if isinstance(action, str):
            stated = record.get("args")
            args = cast("Record", stated) if isinstance(stated, dict) else {}
            if record.get("source") == "user" and action == "message":
                yield UserMessage(str(args.get("content", "")))
            elif record.get("source") == "agent" and action not in _TALK:
                yield ModelTurn(joins=self._is_same(called.get("model_response")))
                tool = called.get("function_name") or action
                given = {name: value for name, value in args.items() if name not in _OWN_FIELDS}
                yield CallRequested(str(record.get("id")), str(tool), given)
        elif record.get("cause") is not None and record.get("observation") not in _TALK:
            raised = record.get("success") is False or record.get("observation") == "error"
            yield CallAnswered(str(record["cause"]), None, plain_output(record.get("content")), raised=raised)

    def _newer(self, record: Record) -> Iterator[Move]:
        kind, call_id = record["kind"], text_of(record, "tool_call_id", "action_id")
        if kind == "ActionEvent":
            yield ModelTurn(joins=self._is_same(record.get("llm_response_id")))
            tool = record.get("tool_name")
            if not isinstance(tool, str):
                raise InvalidInput("tool_name is missing", field="tool_name")
            asked = record.get("tool_call")
            stated = cast("Record", asked).get("arguments") if isinstance(asked, dict) else None
            yield CallRequested(call_id, tool, decode_arguments(stated if stated is not None else record.get("action")))
        elif kind in ("ObservationEvent", "AgentErrorEvent"):
            found = record.get("observation", record.get("error"))
            members = cast("Record", found) if isinstance(found, dict) else {"content": found}
            raised = kind == "AgentErrorEvent" or members.get("is_error") is True
            yield CallAnswered(call_id, None, plain_output(members.get("content", members)), raised=raised)
        elif kind == "MessageEvent" and record.get("source") == "user":
            message = record.get("llm_message")
            content = cast("Record", message).get("content") if isinstance(message, dict) else ""
            yield UserMessage(str(plain_output(content)))

    def _is_same(self, response: Any) -> bool:
        """Return whether an action came from the same response of the model as the one before it."""
        named = cast("Record", response).get("id") if isinstance(response, dict) else response
        is_same = named is not None and named == self._responses
        self._responses = cast("str | None", named)
        return is_same
