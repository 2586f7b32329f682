"""`claude-code`: the transcripts Claude Code keeps of its sessions, and stream-json, one JSON object a line.

Lines of type `assistant` hold what the model said, lines of type `user` what it got back: tool results, matched by
`tool_use_id`, and what the person said. One answer of the model is written over several lines, a block each, that share
`message.id`: together they are one turn. A call began when its block was written and ended when its result was.

A subagent is an agent of its own: its lines (`isSidechain`) form a session of their own, so that calls of two agents
that work at once are not taken for one sequence. Lines that are neither (summaries, snapshots, progress) are passed
over, and so is what the program put into a person's mouth (`isMeta`, summaries after compaction).

What `--output-format stream-json` prints has `session_id` for `sessionId`, `parent_tool_use_id` for a subagent, and no
times: calls then have times by sequence.

Cursor's stream-json has lines of type `tool_call` for calls that started and completed, with both sides in them.

An id of a call is never used twice, so it is the call's identity also where a resumed session repeats its past under a
new session id. A call without a result was given up if the model went on; the last one may still be under way and is
left for a later import.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from twinraven.foundation.clock import parse_iso, to_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.messages import plain_output
from twinraven.muninn.formats.trace import (
    ForeignCall,
    Heard,
    LineError,
    TraceCounts,
    decode_arguments,
    items_of,
    members_of,
    parse_object,
)
from twinraven.muninn.model import check_name

_ANSWERED_BY_PEOPLE = (
    "AskUserQuestion",
    "ExitPlanMode",
)
"""Tools whose result is what a person decided."""

_REMEMBERED = 50_000

Block = dict[str, Any]


@dataclass(slots=True)
class _Asked:
    id: str
    tool: str
    params: dict[str, Any]
    turn: int
    line: int
    began: int
    is_timed: bool
    outside_input: str | None
    ended: int | None = None
    output: Any = None
    raised: bool = False
    is_settled: bool = False


@dataclass(slots=True)
class _Agent:
    """What is known of one agent's session so far."""

    session_id: str
    turn: int = 0
    message_id: str | None = None
    said: list[str] = field(default_factory=list[str])
    asked: list[_Asked] = field(default_factory=list[_Asked])
    count: int = 0

    def begin_turn(self, message_id: str | None) -> None:
        """Begin an answer of the model: calls without a result by now get none."""
        if message_id is None or message_id != self.message_id:
            self.turn += 1
            self.message_id = message_id
            for asked in self.asked:
                asked.is_settled = True

    def ask(self, block: Block, began: int | None, line: int) -> None:
        call_id, tool = block.get("id"), block.get("name")
        if not isinstance(call_id, str) or not isinstance(tool, str):
            raise InvalidInput("a tool_use block must have an id and a name", field="tool_use")
        check_name(call_id, field="id")
        if any(asked.id == call_id for asked in self.asked):
            return
        heard = "\n".join(self.said) if self.said else None
        self.said.clear()
        params = decode_arguments(block.get("input"))
        place = self.count if began is None else began
        self.asked.append(_Asked(call_id, tool, params, self.turn, line, place, began is not None, heard))
        self.count += 1

    def answer(self, block: Block, ended: int | None) -> None:
        call_id = block.get("tool_use_id")
        asked = next((asked for asked in self.asked if asked.id == call_id and not asked.is_settled), None)
        if asked is None:
            raise InvalidInput(f"tool_result {call_id!r} answers no call that waits for one", field="tool_use_id")
        asked.ended = ended
        asked.output = plain_output(block.get("content"))
        asked.raised = block.get("is_error") is True
        asked.is_settled = True
        if asked.tool in _ANSWERED_BY_PEOPLE:
            self.said.append(asked.output if isinstance(asked.output, str) else f"[answer to {asked.tool}]")

    def release(self) -> Iterator[_Asked]:
        """Yield the calls that are settled, in the order they were asked for."""
        while self.asked and self.asked[0].is_settled:
            yield self.asked.pop(0)

    def call(self, asked: _Asked) -> ForeignCall:
        took = None if asked.ended is None or not asked.is_timed else asked.ended - asked.began
        return ForeignCall(
            identity=f"claude-code:{asked.id}",
            session_id=self.session_id,
            tool_id=asked.tool,
            params=asked.params,
            timestamp=asked.began,
            time_known=took is not None and took >= 0,
            output=asked.output,
            latency_ms=max(took or 0, 0) // 1000,
            raised=asked.raised,
            turn=asked.turn,
            outside_input=asked.outside_input,
        )


def recognises(value: Any) -> bool:
    """Return whether this is a line of a transcript or of stream-json."""
    if not isinstance(value, dict):
        return False
    line = cast("dict[str, Any]", value)
    if not isinstance(line.get("type"), str):
        return False
    return "sessionId" in line or isinstance(line.get("message"), dict) or _is_streamed(line)


def _is_streamed(line: dict[str, Any]) -> bool:
    return "session_id" in line and line["type"] in ("system", "assistant", "user", "result", "stream_event")


class ClaudeCodeParser:
    """Follows the agents of one file, or of several files read as one."""

    keeps_ids = False

    def __init__(self, tenant_id: str) -> None:
        self.seen = TraceCounts("lines", "has a tool call that was answered")
        self._tenant_id = tenant_id
        self._agents: dict[str, _Agent] = {}
        self._session_id: str | None = None
        self._roots: OrderedDict[str, str] = OrderedDict()

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        entry = parse_object(line)
        kind = entry.get("type")
        self.seen.count("without a type" if kind is None else f"of type {kind}")
        if kind not in ("assistant", "user", "attachment", "tool_call"):
            return
        agent = self._agent(entry)
        if kind == "tool_call":
            yield from self._follow(agent, entry, number)
            return
        if kind == "assistant":
            agent.begin_turn(_message(entry).get("id"))
        for block in _blocks(entry):
            try:
                _hear(agent, entry, block, number)
            except TwinRavenError as error:
                yield LineError(number, error.message)
        yield from self._released(agent)

    def _follow(self, agent: _Agent, entry: dict[str, Any], number: int) -> Iterator[Heard]:
        """Follow a call of Cursor's, which has no `message`; calls that start while others run are of one turn."""
        called = members_of(entry.get("tool_call"), "tool_call")
        name = next((name for name, each in called.items() if isinstance(each, dict)), "")
        call = members_of(called.get(name), "tool_call")
        call_id = entry.get("call_id")
        try:
            if entry.get("subtype") == "started":
                if all(asked.is_settled for asked in agent.asked):
                    agent.begin_turn(None)
                tool, given = name.removesuffix("ToolCall"), call.get("args")
                if name == "function":
                    tool, given = call.get("name"), call.get("arguments")
                agent.ask({"id": call_id, "name": tool, "input": given}, None, number)
            elif entry.get("subtype") == "completed":
                agent.answer(_cursor_result(call_id, call.get("result", called.get("result"))), None)
        except TwinRavenError as error:
            yield LineError(number, error.message)
        yield from self._released(agent)

    def finish(self) -> Iterator[Heard]:
        for agent in self._agents.values():
            # An unanswered call holds back the ones after it; those that have their result are complete all the same.
            agent.asked = [asked for asked in agent.asked if asked.is_settled]
            yield from self._released(agent)

    def _released(self, agent: _Agent) -> Iterator[Heard]:
        for asked in agent.release():
            try:
                yield agent.call(asked).observed_for(self._tenant_id)
            except TwinRavenError as error:
                yield LineError(asked.line, f"{asked.id}: {error.message}")

    def _agent(self, entry: dict[str, Any]) -> _Agent:
        stated = entry.get("sessionId", entry.get("session_id"))
        if isinstance(stated, str) and stated:
            self._session_id = stated
        if self._session_id is None:
            raise InvalidInput("sessionId is missing", field="sessionId")
        name = self._session_id
        if entry.get("isSidechain") is True:
            name = f"{name}/{entry.get('agentId') or self._root(entry)}"
        elif isinstance(entry.get("parent_tool_use_id"), str):
            name = f"{name}/{entry['parent_tool_use_id']}"
        return self._agents.setdefault(name, _Agent(name))

    def _root(self, entry: dict[str, Any]) -> str:
        """Return the first line of a side chain, which names it where the subagent has no id (in older transcripts)."""
        own, parent = str(entry.get("uuid")), str(entry.get("parentUuid"))
        root = self._roots[own] = self._roots.get(parent, own)
        if len(self._roots) > _REMEMBERED:
            self._roots.popitem(last=False)
        return root


def _hear(agent: _Agent, entry: dict[str, Any], block: Block, number: int) -> None:
    kind = str(block.get("type"))
    # Tools that run at the model's side have blocks of their own kinds, which end alike.
    if kind.endswith("tool_use"):
        agent.ask(block, _time(entry), number)
    elif kind.endswith("tool_result"):
        agent.answer(block, _time(entry))
    elif entry.get("type") != "assistant" and not entry.get("isMeta") and not entry.get("isCompactSummary"):
        agent.said.append(_text(block))


def _cursor_result(call_id: Any, result: Any) -> Block:
    """Return a result that says by its only field how the call went."""
    told: Block = cast("Block", result) if isinstance(result, dict) else {"success": result}
    outcome = next((name for name in ("success", "error", "failure", "rejected") if name in told), None)
    content: Any = told if outcome is None else told[outcome]
    return {"tool_use_id": call_id, "content": content, "is_error": outcome not in (None, "success")}


def _message(entry: dict[str, Any]) -> dict[str, Any]:
    message = entry.get("message")
    return cast("dict[str, Any]", message) if isinstance(message, dict) else entry


def _blocks(entry: dict[str, Any]) -> list[Block]:
    content = _message(entry).get("content")
    if entry.get("type") == "attachment":
        content = _queued(entry)
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [members_of(block, "a block of the content") for block in items_of(content, "content")]


def _queued(entry: dict[str, Any]) -> Any:
    """Return what a person typed while the model was at work is kept as an attachment, with its origin."""
    attachment = members_of(entry.get("attachment") or {}, "attachment")
    is_said = attachment.get("type") == "queued_command" and attachment.get("origin") is not None
    return attachment.get("prompt") if is_said else None


def _text(block: Block) -> str:
    return str(block.get("text", f"[{block.get('type')}]"))


def _time(entry: dict[str, Any]) -> int | None:
    stated = entry.get("timestamp")
    if stated is None and "session_id" in entry and "sessionId" not in entry:
        return None
    if not isinstance(stated, str):
        raise InvalidInput("timestamp is missing", field="timestamp")
    return to_micros(parse_iso(stated))
