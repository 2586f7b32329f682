"""Collects calls as events: `Collector.observe(session_id)` returns an observer, and the observer records.

    with collector.observe("ticket-17") as session:
        await session.record("get_order", {"order_id": 7}, output=order, latency_ms=12)      # durable when it returns
        session.record("get_order", {"order_id": 8}, output=other, latency_ms=9)             # queued, not awaited
        session.record_failure("get_order", {"order_id": 9}, error=KeyError(9)).result()     # durable, without asyncio

Inside the block, functions decorated with `@observed` record into the same session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from math import isfinite
from typing import Any, cast
from uuid import UUID

import orjson

from twinraven.foundation.actors import Actor
from twinraven.foundation.canonical import NULL, canonical_json, to_json_value
from twinraven.foundation.clock import now_micros, to_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.foundation.ids import new_uuid
from twinraven.foundation.redaction import Redact, keep_everything
from twinraven.muninn.model import (
    MAX_TENANT,
    MuninnEvent,
    Observation,
    Outcome,
    check_latency,
    check_name,
    check_turn,
)
from twinraven.muninn.receipt import Receipt
from twinraven.muninn.row import Compress, EncodingRules, RowEncoder
from twinraven.muninn.transactional_events import TransactionalEvent
from twinraven.muninn.writer import QUEUE_SIZE, EventWriter
from twinraven.storage import DEFAULT_TENANT, Database

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_OUTCOMES = {outcome.value for outcome in Outcome}
_CUT_FROM = 1024
_FIRST, _LAST = to_micros(datetime.min.replace(tzinfo=UTC)), to_micros(datetime.max.replace(tzinfo=UTC))

current_observer: ContextVar[SessionObserver | None] = ContextVar("twinraven_observer", default=None)
_outer_observers: ContextVar[tuple[SessionObserver | None, ...]] = ContextVar("twinraven_outer_observers", default=())


class Collector:
    """Muninn's door for callers in this process; one per database."""

    def __init__(
        self,
        database: Database,
        *,
        rules: EncodingRules | None = None,
        redact: Redact = keep_everything,
        redact_names: Redact | None = None,
        compress: Compress | None = None,
        queue_size: int = QUEUE_SIZE,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        encoder = RowEncoder(rules or EncodingRules(), redact, redact_names=redact_names, compress=compress)
        self._writer = EventWriter(database, encoder, queue_size=queue_size)
        self._database = database
        self._micros = micros

    def observe(
        self,
        session_id: str,
        *,
        tenant_id: str = DEFAULT_TENANT,
        task_id: str | None = None,
        actor: Actor | None = None,
    ) -> SessionObserver:
        """Return an observer for one session; as a context manager it also catches `@observed` functions.

        `actor` is on whose behalf its calls run, unless a call says otherwise.
        """
        return SessionObserver(
            self,
            check_name(session_id, field="session_id"),
            check_name(tenant_id, field="tenant_id", limit=MAX_TENANT),
            None if task_id is None else check_name(task_id, field="task_id"),
            actor,
        )

    def submit(self, seen: Observation) -> Receipt:
        """Queue one observation as it is."""
        return self._writer.submit(seen)

    def carry(self, seen: Observation, database: Database) -> TransactionalEvent | None:
        """Return one observation for a transaction on `database`; None where it must be queued instead.

        On Postgres it always is: transactions there are serializable, and the equal outputs of two calls, which are
        stored once, would make their settlements conflict.
        """
        is_ours = database is self._database and database.dialect == "sqlite"
        return self._writer.carry(seen) if is_ours else None

    async def room(self) -> None:
        """Wait, without blocking the loop, until recording would not block."""
        if self._writer.is_full:
            await self._writer.room()

    @property
    def is_full(self) -> bool:
        """Whether recording should wait for room."""
        return self._writer.is_full

    @property
    def waiting(self) -> int:
        """The number of events that are queued and not yet being stored."""
        return self._writer.waiting

    def now(self) -> int:
        return self._micros()

    def flush(self) -> None:
        """Return when everything recorded so far is durable; raise if an event without a waiting caller was lost."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is queued; nothing can be recorded afterwards."""
        self._writer.close()


class SessionObserver:
    """Records the calls of one session."""

    __slots__ = ("_collector", "actor", "session_id", "task_id", "tenant_id")

    def __init__(
        self, collector: Collector, session_id: str, tenant_id: str, task_id: str | None, actor: Actor | None
    ) -> None:
        self._collector = collector
        self.session_id = session_id
        self.tenant_id = tenant_id
        self.task_id = task_id
        self.actor = actor

    def __enter__(self) -> SessionObserver:
        # One observer may be entered by several tasks at once; what it covers is each task's own affair.
        _outer_observers.set((*_outer_observers.get(), current_observer.get()))
        current_observer.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        *outer, previous = _outer_observers.get()
        _outer_observers.set(tuple(outer))
        current_observer.set(previous)

    async def room(self) -> None:
        """Wait, without blocking the loop, until recording would not block."""
        await self._collector.room()

    def record(  # noqa: PLR0913 - an event has that many facts, each optional and by name
        self,
        tool_id: str,
        params: dict[str, Any],
        *,
        output: Any = None,
        latency_ms: int = 0,
        outcome: Outcome | str = Outcome.PARTIAL,
        timestamp: datetime | int | None = None,
        tags: Sequence[str] = (),
        turn: int | None = None,
        outside_input: str | None = None,
        parent_event_id: UUID | None = None,
        event_id: UUID | None = None,
        correlation_id: str | None = None,
        actor: Actor | None = None,
        raised: bool = False,
        error_code: str | None = None,
        corrects: UUID | None = None,
        time_known: bool = True,
    ) -> Receipt:
        """Record one call; await the receipt for durability.

        `timestamp` is when the call began; by default it is now less the latency. `actor` is on whose behalf it ran.
        `corrects` is an event of this session that this one states anew; see `record_correction`. Without `time_known`
        the time serves the order alone, and no average counts the latency.
        """
        collector, actor = self._collector, actor or self.actor
        latency = latency_ms if type(latency_ms) is int and 0 <= latency_ms < 1_000_000 else check_latency(latency_ms)
        return collector.submit(
            Observation(
                tenant_id=self.tenant_id,
                event_id=new_uuid() if event_id is None else _checked_id(event_id, "event_id"),
                session_id=self.session_id,
                tool_id=check_name(tool_id, field="tool_id"),
                params=encode_params(params),
                output=None if output is None else encode_output(output),
                timestamp=collector.now() - latency * 1000 if timestamp is None else _micros(timestamp),
                latency_ms=latency,
                outcome=outcome if type(outcome) is Outcome else _checked_outcome(outcome),
                tags=check_tags(tags) if tags else (),
                parent_event_id=None if parent_event_id is None else _checked_id(parent_event_id, "parent_event_id"),
                raised=raised,
                error_code=None if error_code is None else clean_text(error_code),
                turn=None if turn is None else check_turn(turn),
                task_id=self.task_id,
                outside_input=None if outside_input is None else clean_text(outside_input),
                correlation_id=None if correlation_id is None else clean_text(correlation_id),
                actor_type=None if actor is None else actor.type,
                actor_id=None if actor is None or actor.id is None else check_name(actor.id, field="actor"),
                time_known=time_known,
                corrects=None if corrects is None else _checked_id(corrects, "corrects"),
            )
        )

    def record_correction(self, wrong: MuninnEvent, tool_id: str, params: dict[str, Any], **rest: Any) -> Receipt:
        """Record how a call of this session really was; its time and place are those of the wrong event by default."""
        if wrong.session_id != self.session_id or wrong.tenant_id != self.tenant_id:
            raise InvalidInput(f"corrects: event {wrong.event_id} is not of this session", field="corrects")
        return self.record(tool_id, params, **{**place_of(wrong), **rest}, corrects=wrong.event_id)

    def record_failure(
        self,
        tool_id: str,
        params: dict[str, Any],
        *,
        error: BaseException | str,
        outcome: Outcome | str = Outcome.FAILURE,
        **rest: Any,
    ) -> Receipt:
        """Record a call that raised: the error's words are its output, the error's code stays searchable."""
        code = error.code if isinstance(error, TwinRavenError) else type(error).__name__
        text = error if isinstance(error, str) else str(error) or type(error).__name__
        return self.record(
            tool_id,
            params,
            output={"error": text},
            outcome=outcome,
            raised=True,
            error_code="TOOL_FAILED" if isinstance(error, str) else code,
            **rest,
        )


def place_of(wrong: MuninnEvent) -> dict[str, Any]:
    """Return where an event stands in its session, which its correction takes over."""
    names = ("timestamp", "latency_ms", "time_known", "turn", "outside_input", "parent_event_id")
    return {name: getattr(wrong, name) for name in names}


def encode_params(params: dict[str, Any]) -> bytes:
    """Arguments as canonical JSON; anything but an object is refused."""
    if not isinstance(params, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"input_params must be an object, not {type(params).__name__}", field="input_params")
    try:
        return _fitted(canonical_json(params))
    except InvalidInput:
        return _encode_slowly(params, "input_params")


def encode_output(output: Any) -> bytes:
    """Return an output as JSON with sorted keys, so that equal outputs share one blob."""
    try:
        encoded = orjson.dumps(output, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):
        return _encode_slowly(output, "output")
    if encoded.find(NULL) >= 0 and has_odd_float(output):
        return _encode_slowly(output, "output")
    return _fitted(encoded)


def _fitted(encoded: bytes) -> bytes:
    """Copy a short text into as much memory as it needs: orjson cuts it from a kilobyte."""
    return b"%b" % encoded if len(encoded) < _CUT_FROM else encoded


def _encode_slowly(value: Any, field: str) -> bytes:
    try:
        return canonical_json(to_json_value(value))
    except InvalidInput as error:
        raise InvalidInput(f"{field} cannot be recorded: {error.message}", field=field) from error


def recordable_params(params: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, or where they cannot be recorded the reason why, for calls that happened all the same."""
    try:
        encode_params(params)
    except InvalidInput as error:
        return {"not_recordable": error.message}
    return params


def recordable_output(output: Any) -> Any:
    """Return the output, or where it cannot be recorded the reason why, for calls that happened all the same."""
    try:
        encode_output(output)
    except InvalidInput as error:
        return {"not_recordable": error.message}
    return output


def has_odd_float(value: Any) -> bool:
    """Return whether a NaN or an infinity may hide in a value (orjson would silently write null)."""
    if value is None or isinstance(value, (str, int)):
        return False
    if isinstance(value, float):
        return not isfinite(value)
    if isinstance(value, dict):
        return any(map(has_odd_float, cast("dict[Any, Any]", value).values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_odd_float, cast("list[Any]", value)))
    return True


def clean_text(text: str) -> str:
    """Free text that both stores can hold: NUL and lone surrogates become U+FFFD."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"expected a text, not {type(text).__name__}")
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def _micros(timestamp: datetime | int) -> int:
    if isinstance(timestamp, datetime):
        return to_micros(timestamp)
    if type(timestamp) is not int or not _FIRST <= timestamp <= _LAST:
        raise InvalidInput(
            f"timestamp must be a UTC datetime or microseconds since 1970, not {timestamp!r}", field="timestamp"
        )
    return timestamp


def _checked_id(value: UUID, field: str) -> UUID:
    if not isinstance(value, UUID):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{field} must be a UUID, not {type(value).__name__}", field=field)
    return value


def _checked_outcome(outcome: str) -> str:
    if outcome not in _OUTCOMES:
        raise InvalidInput(f"outcome must be success, failure or partial, not {outcome!r}", field="outcome")
    return str(outcome)


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags as they are kept: each once, in order."""
    if isinstance(tags, str):
        raise InvalidInput("tags must be a list of strings, not one string", field="tags")
    return tuple(dict.fromkeys(check_name(tag, field="tags") for tag in tags))
