"""How calls become memory: `Collector.observe(session_id)` gives an observer, and the observer records.

    with collector.observe("ticket-17") as session:
        await session.record("get_order", {"order_id": 7}, output=order, latency_ms=12)      # durable when it returns
        session.record("get_order", {"order_id": 8}, output=other, latency_ms=9)             # queued, not awaited
        session.record_failure("get_order", {"order_id": 9}, error=KeyError(9)).result()     # durable, without asyncio

Inside the block, functions decorated with `@observed` record into the same session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from twinraven.foundation.canonical import canonical_json, to_json_value
from twinraven.foundation.clock import now_micros, to_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.foundation.ids import new_uuid
from twinraven.muninn.model import Outcome, check_latency, check_name
from twinraven.muninn.row import EncodingRules, Observation, Redact, RowEncoder, keep_everything
from twinraven.muninn.writer import QUEUE_SIZE, EventWriter, Receipt
from twinraven.storage import DEFAULT_TENANT, Database

_OUTCOMES = {outcome.value for outcome in Outcome}
_OUTPUT_OPTIONS = orjson.OPT_SORT_KEYS

current_observer: ContextVar[SessionObserver | None] = ContextVar("twinraven_observer", default=None)


class Collector:
    """Muninn's door for callers in this process; one per database."""

    def __init__(
        self,
        database: Database,
        *,
        rules: EncodingRules | None = None,
        redact: Redact = keep_everything,
        queue_size: int = QUEUE_SIZE,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._writer = EventWriter(database, RowEncoder(rules or EncodingRules(), redact), queue_size=queue_size)
        self._micros = micros

    def observe(self, session_id: str, *, tenant_id: str = DEFAULT_TENANT, task_id: str | None = None) -> SessionObserver:
        """An observer for one session; as a context manager it also catches `@observed` functions."""
        return SessionObserver(self, check_name(session_id, field="session_id"), tenant_id, task_id)

    def submit(self, seen: Observation) -> Receipt:
        """Queue one observation as it is."""
        return self._writer.submit(seen)

    async def room(self) -> None:
        """Wait, without blocking the loop, until recording would not block."""
        if self._writer.full:
            await self._writer.room()

    def now(self) -> int:
        return self._micros()

    def flush(self) -> None:
        """Return when everything recorded so far is durable."""
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class SessionObserver:
    """Records the calls of one session."""

    __slots__ = ("_collector", "_tokens", "session_id", "task_id", "tenant_id")

    def __init__(self, collector: Collector, session_id: str, tenant_id: str, task_id: str | None) -> None:
        self._collector = collector
        self.session_id = session_id
        self.tenant_id = tenant_id
        self.task_id = None if task_id is None else check_name(task_id, field="task_id")
        self._tokens: list[Token[SessionObserver | None]] = []

    def __enter__(self) -> SessionObserver:
        self._tokens.append(current_observer.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        current_observer.reset(self._tokens.pop())

    def record(
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
        raised: bool = False,
        error_code: str | None = None,
    ) -> Receipt:
        """Record one call; await the receipt for durability.

        `timestamp` is when the call began; by default it is now less the latency.
        """
        collector = self._collector
        latency = latency_ms if type(latency_ms) is int and latency_ms >= 0 else check_latency(latency_ms)
        return collector.submit(
            Observation(
                self.tenant_id,
                event_id or new_uuid(),
                self.session_id,
                tool_id if tool_id.isidentifier() and len(tool_id) < 256 else check_name(tool_id, field="tool_id"),
                encode_params(params),
                None if output is None else encode_output(output),
                collector.now() - latency * 1000 if timestamp is None else _micros(timestamp),
                latency,
                outcome if type(outcome) is Outcome else _checked_outcome(outcome),
                tuple(tags) if not tags else _checked_tags(tags),
                parent_event_id,
                raised,
                error_code,
                turn,
                self.task_id,
                None if outside_input is None else clean_text(outside_input),
                None,
                True,
                correlation_id,
            )
        )

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


def encode_params(params: dict[str, Any]) -> bytes:
    """Arguments as canonical JSON; anything but an object is refused."""
    if not isinstance(params, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"input_params must be an object, not {type(params).__name__}", field="input_params")
    try:
        return canonical_json(params)
    except InvalidInput:
        return canonical_json(to_json_value(params))


def encode_output(output: Any) -> bytes:
    """An output as JSON with sorted keys, so that equal outputs share one blob."""
    try:
        encoded = orjson.dumps(output, option=_OUTPUT_OPTIONS)
    except TypeError:
        return canonical_json(to_json_value(output))
    return canonical_json(to_json_value(output)) if b"null" in encoded and _has_odd_float(output) else encoded


def _has_odd_float(value: Any) -> bool:
    """Whether a NaN or an infinity hides in a value (orjson would silently write null)."""
    if isinstance(value, float):
        return value != value or value in (float("inf"), float("-inf"))
    if isinstance(value, dict):
        return any(_has_odd_float(member) for member in value.values())  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return any(_has_odd_float(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return False


def clean_text(text: str) -> str:
    """Free text that both stores can hold: NUL and lone surrogates become U+FFFD."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _micros(timestamp: datetime | int) -> int:
    return timestamp if isinstance(timestamp, int) else to_micros(timestamp)


def _checked_outcome(outcome: str) -> str:
    if outcome not in _OUTCOMES:
        raise InvalidInput(f"outcome must be success, failure or partial, not {outcome!r}", field="outcome")
    return str(outcome)


def _checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise InvalidInput("tags must be a list of strings, not one string", field="tags")
    return tuple(check_name(tag, field="tags") for tag in tags)
