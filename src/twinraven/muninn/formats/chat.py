"""`openai`, `anthropic`, `responses`, `gemini`, `langchain`: conversations as lists of messages, however they are kept.

A line may be a conversation (`{"messages": […]}` as in fine-tuning files, `traj` of tau-bench, `contents` of Gemini), a
request with its response, a bare list of messages, or a single message or item, of which all lines of the file then
make one conversation (Codex rollouts). A file may also be one array of any of these. The dialect shows in each message.

Most of these have no times, so calls get times by sequence. A conversation is its own session, under the id it has or
under a hash of what was said when it was first met; requests that repeat a conversation and go on with it are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from twinraven.foundation.canonical import canonical_json, content_hash, parse_json
from twinraven.foundation.clock import parse_iso, to_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.conversation import ConversationFacts, UserMessage
from twinraven.muninn.formats.conversation_merging import ConversationMerger, GrowingConversation, SpokenMessage
from twinraven.muninn.formats.frameworks import usual_conversation
from twinraven.muninn.formats.lines import LONGEST_DOCUMENT
from twinraven.muninn.formats.messages import dialect_of, is_message, moves_of
from twinraven.muninn.formats.trace import Heard, LineError, TraceCounts, members_of

_IDS: Final = ("session_id", "conversation_id", "thread_id", "sessionId", "conversationId", "threadId")
_LISTS: Final = (
    "messages",
    "traj",
    "contents",
    "conversations",
    "conversation",
    "history",
    "chat_history",
    "input",
    "query",
    "items",
    "entries",
    "events",
    "steps",
)
_REQUESTS: Final = ("request", "request_body", "requestBody", "body", "kwargs", "params", "values", "llm_context")
_RESPONSES: Final = ("response", "output", "response_body", "responseBody", "completion")
_ROLLOUT: Final = (
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "compacted",
    "message",
)
_NOT_SAID: Final = ("<environment_context>", "<user_instructions>", "<permissions instructions>", "# AGENTS.md")
"""How the texts begin that Codex puts into the user's mouth."""

Members = dict[str, Any]


def recognises(value: Any) -> bool:
    """Return whether this holds messages."""
    if isinstance(value, list):
        # An array of arrays is taken apart before: each of them is a conversation.
        return any(isinstance(item, dict) and recognises(item) for item in cast("list[Any]", value)[:5])
    if not isinstance(value, dict):
        return False
    members = cast("Members", value)
    return is_message(members) or _is_rollout(members) or messages_in(members) is not None


def dialect_in(value: Any) -> str:
    """Return the name of the format that a line's first conversation is written in."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if any(is_message(item) for item in items):
        return _format_name(items)
    first = next(cast("Members", item) for item in items if recognises(item))
    return _format_name(messages_in(first) or [first.get("payload")])


def _format_name(messages: list[Any]) -> str:
    found = [cast("Members", each) for each in messages if isinstance(each, dict)]
    if any("call_id" in each for each in found):
        return "responses"
    return "openai" if any("from" in each for each in found) else dialect_of(messages)


def messages_in(members: Members) -> list[Any] | None:
    """Return the messages of a conversation, or of a request and its response; None where there are none."""
    found = _listed(members)
    if found is None:
        found = usual_conversation(members)
    if found is None:
        inner = _request_in(members)
        found = None if inner is None else _listed(inner) or _listed(_request_in(inner) or {})
    said = members.get("input", members.get("prompt"))
    if found is None and isinstance(said, str):
        found = [{"role": "user", "content": said}]
        answered = _answered(members)
        return [*found, *answered] if answered else None
    return None if found is None else [*found, *_answered(members)]


def _request_in(members: Members) -> Members | None:
    """Return the request that a line holds; those of batches hold its body once more."""
    found = next((members[name] for name in _REQUESTS if isinstance(members.get(name), dict)), None)
    return None if found is None else cast("Members", found)


def _listed(members: Members) -> list[Any] | None:
    for name in _LISTS:
        found = members.get(name)
        if isinstance(found, list):
            items = cast("list[Any]", found)
            if len(items) == 1 and isinstance(items[0], list):
                items = cast("list[Any]", items[0])
            if any(is_message(item) for item in items[:10]) or (name == "messages" and not items):
                return items
    return None


def _answered(members: Members) -> list[Any]:
    """Return the messages of a response in any of the usual wrappings."""
    for name in _RESPONSES:
        found = members.get(name)
        if isinstance(found, str) and found[:1] in ("{", "["):
            found = parse_json(found, field=name)
        listed = messages_in_response(found)
        if listed:
            return listed
    return messages_in_response({name: members.get(name) for name in ("choices", "candidates") if name in members})


def messages_in_response(found: Any) -> list[Any]:
    """Return the messages of a response: a message, a list of them, or a choice or candidate that holds one."""
    if isinstance(found, list):
        items = cast("list[Any]", found)
        return items if any(is_message(item) for item in items[:10]) else []
    if not isinstance(found, dict):
        return []
    members = cast("Members", found)
    if is_message(members):
        return [members]
    for name, inner in (("choices", "message"), ("candidates", "content")):
        listed = members.get(name)
        if isinstance(listed, list) and listed and isinstance(listed[0], dict):
            message = cast("Members", listed[0]).get(inner)
            return [message] if is_message(message) else []
    return messages_in_response(members.get("output", members.get("body", members.get("messages"))))


class ChatParser:
    """Follows all conversations of a file."""

    keeps_ids = False

    def __init__(self, tenant_id: str) -> None:
        self._tenant_id = tenant_id
        self._growth = ConversationMerger()
        self._single: list[SpokenMessage] = []
        self._single_size = 0
        self._single_id: str | None = None
        self._single_line = 0
        self._first: list[Any] = []
        self.seen = TraceCounts("conversations", "asks for a tool call")

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        found = parse_json(line, field="the line")
        items = cast("list[Any]", found) if isinstance(found, list) else [found]
        if items and all(is_message(item) for item in items) and isinstance(found, list):
            yield from self._hear({"messages": items}, items, number, len(line))
            return
        for item in items:
            members = members_of(item, "an item of the line")
            if _is_rollout(members):
                yield from self._follow(members, number, len(line))
                continue
            messages = messages_in(members)
            if messages is None:
                raise InvalidInput("messages is missing: a conversation has a list of them", field="messages")
            yield from self._hear(members, messages, number, len(line) // len(items))

    def finish(self) -> Iterator[Heard]:
        yield from self._end_single()
        for chain in self._growth.finish():
            yield from chain.heard(self._tenant_id)

    def _hear(self, around: Members, messages: list[Any], number: int, size: int) -> Iterator[Heard]:
        self.seen.count("with messages")
        spoken: list[SpokenMessage] = []
        share = size // max(1, len(messages))
        for place, message in enumerate(messages):
            try:
                moves = moves_of(members_of(message, "the message"))
            except TwinRavenError as error:
                yield LineError(number, f"messages[{place}]: {error.message}")
            else:
                spoken.append(SpokenMessage(moves, None, share, place))
        stated, is_certain = _stated_id(around)
        session_id = stated or _made_id(messages)
        named = session_id if is_certain else ""
        chain = GrowingConversation(session_id, "openai", _facts(around), number, spoken, stated, named)
        for ready in self._growth.add(chain):
            yield from ready.heard(self._tenant_id)

    def _follow(self, members: Members, number: int, size: int) -> Iterator[Heard]:
        """Yield a line that is one message, or one entry of a Codex rollout."""
        kind, payload = members.get("type"), members.get("payload")
        if kind == "session_meta" and isinstance(payload, dict):
            yield from self._end_single()
            self._single_id, _ = _stated_id(cast("Members", payload))
            return
        if isinstance(payload, dict):
            if kind != "response_item":
                return
            message = cast("Members", payload)
        elif is_message(members):
            message = members
        else:
            return
        moves = [move for move in moves_of(message) if not _is_put_into_mouth(move)]
        if not self._single:
            self._single_line = number
        self._single.append(SpokenMessage(moves, _time(members), size, number))
        self._first.append(message)
        self._single_size += size
        if self._single_size > LONGEST_DOCUMENT:
            yield from self._end_single()

    def _end_single(self) -> Iterator[Heard]:
        if not self._single:
            return
        self.seen.count("with messages")
        session_id = self._single_id or _made_id(self._first)
        chain = GrowingConversation(
            session_id, "openai", ConversationFacts(), self._single_line, self._single, self._single_id
        )
        self._single, self._single_size, self._first = [], 0, []
        for ready in self._growth.add(chain):
            yield from ready.heard(self._tenant_id)


def _is_rollout(members: Members) -> bool:
    """Return whether this is one entry of a conversation that is written an entry a line."""
    if members.get("type") in _ROLLOUT and isinstance(members.get("payload"), dict):
        return True
    return is_message(members) and "messages" not in members and "session_id" not in members


def _is_put_into_mouth(move: Any) -> bool:
    return isinstance(move, UserMessage) and move.text.lstrip().startswith(_NOT_SAID)


def _made_id(messages: list[Any]) -> str:
    return f"{dialect_of(messages)}-{content_hash(canonical_json(messages))[:32]}"


def _stated_id(members: Members) -> tuple[str | None, bool]:
    """Return the id of a conversation, and whether it is certainly not the request's."""
    for place in (members, members.get("metadata"), members.get("request")):
        for name in (*_IDS, *(("id",) if place is members else ())):
            given = cast("Members", place).get(name) if isinstance(place, dict) else None
            if isinstance(given, (str, int)) and not isinstance(given, bool) and given != "":
                return str(given), name != "id"
    return None, False


def _facts(around: Members) -> ConversationFacts:
    """Return how the task went and which it was, where the file says so as tau-bench does."""
    judged = around.get("reward_info")
    reward = cast("Members", judged).get("reward") if isinstance(judged, dict) else around.get("reward")
    task = around.get("task_id")
    outcome = None
    if isinstance(reward, (int, float)) and not isinstance(reward, bool):
        outcome = "success" if reward >= 1 else "failure"
    stated = around.get("session_outcome")
    if stated in ("success", "failure", "partial"):
        outcome = stated
    return ConversationFacts(outcome, str(task) if isinstance(task, (str, int)) else None)


def _time(members: Members) -> int | None:
    stated = members.get("timestamp")
    try:
        return to_micros(parse_iso(stated)) if isinstance(stated, str) else None
    except TwinRavenError:
        return None
