"""Defines what all trace parsers share: the parser protocol, and a call as it was found in a trace.

A parser is fed one line at a time and says which calls it has understood by then; some are only complete lines later,
when their result turns up. What cannot be understood is a `LineError` for that part alone, or an exception for the
whole line, and never ends an import.

A call's identity is made of where it was found and what it says, so that reading a file twice adds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, Protocol, cast
from uuid import UUID

import xxhash

from twinraven.foundation.actors import Actor
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.foundation.ids import new_uuid
from twinraven.muninn.collector import check_tags, clean_text, encode_output, encode_params
from twinraven.muninn.model import Observation, Outcome, check_latency, check_name, make_observation, maker_of

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_LAYERS = 3
"""How often a text inside a text is unwrapped."""


@dataclass(frozen=True, slots=True)
class LineError:
    """A line, or a part of it, that could not be understood."""

    line: int
    reason: str


Heard = Observation | LineError


@dataclass(slots=True)
class TraceCounts:
    """Counts what a parser read, so that a trace without calls can say what it holds instead."""

    what: str
    """What the trace is made of, such as spans."""
    wanted: str
    """What none of them was, such as a tool call."""
    kinds: Counter[str] = field(default_factory=Counter[str])

    def count(self, kind: str) -> None:
        self.kinds[kind] += 1

    def __str__(self) -> str:
        total = sum(self.kinds.values())
        if not total:
            return f"no {self.what} were found"
        shown = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.most_common(8))
        return f"{total:,} {self.what} were read ({shown}), none {self.wanted}"


class TraceParser(Protocol):
    """Turns the lines of one file into calls."""

    keeps_ids: bool
    """Whether the trace names its calls itself, so that one may be in the log already under its id."""
    seen: TraceCounts
    """What was read so far."""

    def feed(self, line: bytes, number: int) -> Iterable[Heard]:
        """Return the calls that are complete with this line."""
        ...

    def finish(self) -> Iterable[Heard]:
        """Return the calls that are complete now that nothing follows."""
        ...


class ForeignCall(NamedTuple):
    """A call as a trace tells it.

    `identity` is where it was found, in words that both stores can hold; `timestamp` is in microseconds, or its place
    in the session where the trace has no times; `time_known` says whether when and how long are both known.
    """

    identity: str
    session_id: str
    tool_id: str
    params: dict[str, Any]
    timestamp: int
    time_known: bool
    output: Any = None
    latency_ms: int = 0
    raised: bool = False
    error_code: str | None = None
    outcome: str | None = None
    turn: int | None = None
    task_id: str | None = None
    outside_input: str | None = None
    tags: tuple[str, ...] = ()
    correlation_id: str | None = None
    event_id: UUID | None = None
    parent_event_id: UUID | None = None
    corrects: UUID | None = None
    actor: Actor | None = None
    """The actor of the call, where the trace states one; not the importer."""

    def observed_for(self, tenant_id: str) -> Observation:
        """Return the call as the log takes it in, or InvalidInput."""
        tool_id = check_name(self.tool_id, field="tool")
        params = encode_params(self.params)
        output = None if self.output is None else encode_output(self.output)
        content = xxhash.xxh64_hexdigest(b"\0".join((tool_id.encode(), params, output or b"")))
        # A trace that does not know how the task went says no more than whether the call failed.
        stated = self.outcome or ("failure" if self.raised else "partial")
        actor = self.actor
        facts = (
            tenant_id,
            self.event_id or new_uuid(),
            check_name(self.session_id, field="session_id"),
            tool_id,
            params,
            output,
            self.timestamp,
            check_latency(self.latency_ms) if self.latency_ms else 0,
            stated if stated in _OUTCOMES else _refuse_outcome(stated),
            check_tags(self.tags) if self.tags else (),
            self.parent_event_id,
            self.raised,
            clean_text(self.error_code or "TOOL_FAILED") if self.raised else None,
            self.turn,
            None if self.task_id is None else check_name(self.task_id, field="task_id"),
            None if self.outside_input is None else clean_text(self.outside_input),
            f"{self.identity}:{content}",
            self.time_known,
            None if self.correlation_id is None else clean_text(self.correlation_id),
            None if actor is None else actor.type,
            None if actor is None else actor.id,
            self.corrects,
        )
        return make_observation(facts)


make_call: Final = maker_of(ForeignCall)


def _refuse_outcome(stated: str) -> NoReturn:
    raise InvalidInput(f"outcome must be success, failure or partial, not {stated!r}", field="outcome")


def parse_object(line: bytes) -> dict[str, Any]:
    """Parse a line that must be a JSON object."""
    found = parse_json(line, field="the line")
    if not isinstance(found, dict):
        raise InvalidInput("the line is not a JSON object", field="line")
    return cast("dict[str, Any]", found)


def members_of(value: Any, field: str) -> dict[str, Any]:
    """Return a value that must be an object."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{field} is not an object", field=field)
    return cast("dict[str, Any]", value)


def items_of(value: Any, field: str) -> list[Any]:
    """Return a value that must be a list, or is left out."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput(f"{field} is not a list", field=field)
    return cast("list[Any]", value)


def decode_text(text: str) -> Any:
    """Return the value where a text is a JSON object or array; any other text, also "17" and "true", stays one.

    A number is not decoded because the same tool may answer "0017" the next time, and a value should keep its type.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return parse_json(text)
    except TwinRavenError:
        return text


def decode_arguments(value: Any) -> dict[str, Any]:
    """Arguments as an object, however often they were encoded as text; what is none becomes its `input`."""
    if isinstance(value, dict):
        return value  # pyright: ignore[reportUnknownVariableType]
    for _ in range(_LAYERS):
        if not isinstance(value, str):
            break
        value = _parsed(value)
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {} if value is None or value == "" else {"input": value}


def _parsed(text: str) -> Any:
    try:
        return parse_json(text)
    except TwinRavenError:
        return text
