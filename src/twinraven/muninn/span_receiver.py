"""Receives spans from OpenTelemetry exporters while the agents are at work, and stores their calls as events.

Exporters send spans when they end, in several requests: the inner ones come before the spans around them. Calls are
therefore held, trace by trace, until the trace's root has come, or nothing more has come for some seconds; then they
are read together, as an import of them would, and written. What is held is stored as it came (`held_sql`) before the
exporter is answered, so a crash loses nothing that was accepted: the next receiver takes it over.

One thread does all of that and owns its connection, so a request never blocks a loop; requests that wait together are
committed together. A span that comes twice is one event. What is held is bounded, and written when the home is closed.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from twinraven.foundation.errors import StorageBusy, StorageUnavailable, TwinRavenError
from twinraven.foundation.redaction import Redact, keep_everything
from twinraven.muninn.formats.otlp import spans_in
from twinraven.muninn.held_traces import HeldTraces
from twinraven.muninn.row import EncodingRules, RowEncoder
from twinraven.storage import Database

_logger = logging.getLogger("twinraven.muninn")

SETTLE_S: Final = 5.0
"""How long a trace may be quiet before its calls are written without its root."""
MOST_WAITING: Final = 64
_SHOWN: Final = 300

Decode = Callable[[], dict[str, Any]]
"""Gives a request's document; it is called on the receiver's thread."""


@dataclass(frozen=True, slots=True)
class ReceivedSpans:
    """The outcome of a request's spans."""

    spans: int
    calls: int
    rejected: int
    reason: str
    """Why the first of the rejected was rejected."""


@dataclass(frozen=True, slots=True)
class _Letter:
    tenant_id: str
    decode: Decode
    answer: Future[ReceivedSpans]


@dataclass(frozen=True, slots=True)
class _Recovery:
    """The wish to take over what receivers that are gone held for some tenants."""

    tenant_ids: tuple[str, ...]


class SpanReceiver:
    """Takes requests from any thread or loop; `close` writes what is held."""

    def __init__(
        self,
        database: Database,
        *,
        rules: EncodingRules | None = None,
        redact: Redact = keep_everything,
        redact_names: Redact | None = None,
        settle_s: float = SETTLE_S,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        encoder = RowEncoder(rules or EncodingRules(), redact, redact_names=redact_names)
        self._encoder = encoder
        self.held = HeldTraces(database, encoder, settle_s=settle_s, seconds=seconds)
        self._waiting: queue.Queue[_Letter | _Recovery | None] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, tenant_id: str, decode: Decode) -> Future[ReceivedSpans]:
        """Hand a request over; the answer says what became of it, or raises what was wrong with it."""
        answer: Future[ReceivedSpans] = Future()
        self._put(_Letter(tenant_id, decode, answer))
        return answer

    def recover(self, tenant_ids: Iterable[str]) -> None:
        """Take over, soon, what receivers that are gone had accepted for these tenants."""
        self._put(_Recovery(tuple(tenant_ids)))

    def close(self) -> None:
        """Write what is held, as far as the store takes it, and end."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            self._waiting.put(None)
            thread.join()

    def _put(self, wish: _Letter | _Recovery) -> None:
        with self._lock:
            if self._is_closed:
                raise StorageUnavailable("the server is ending; send the spans again")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="twinraven-spans", daemon=True)
                self._thread.start()
            try:
                self._waiting.put_nowait(wish)
            except queue.Full:
                raise StorageBusy("too many span requests are waiting; send this one again") from None

    def _work(self) -> None:
        is_open = True
        while is_open:
            wishes = self._next()
            is_open = None not in wishes
            for wish in wishes:
                if isinstance(wish, _Recovery):
                    self.held.look_for(wish.tenant_ids)
            self._answer([wish for wish in wishes if isinstance(wish, _Letter)])
            self._quietly(self.held.settle_due)
        self._quietly(self.held.settle_all)
        self.held.close()

    def _next(self) -> list[_Letter | _Recovery | None]:
        """Return all that waits; nothing where something held may be due first."""
        wishes: list[_Letter | _Recovery | None] = []
        try:
            wishes.append(self._waiting.get(timeout=self.held.patience_s))
            while len(wishes) < MOST_WAITING:
                wishes.append(self._waiting.get_nowait())
        except queue.Empty:
            pass
        return wishes

    def _answer(self, letters: list[_Letter]) -> None:
        """Read requests, store what they brought together, and answer each."""
        read: list[tuple[_Letter, ReceivedSpans]] = []
        for letter in letters:
            try:
                read.append((letter, self._receive(letter)))
            except Exception as error:  # noqa: BLE001 - the thread's edge: a surprise must reach the one who waits
                letter.answer.set_exception(error)
        failed: dict[str, Exception] = {}
        for tenant_id in {letter.tenant_id for letter, _ in read}:
            try:
                self.held.store(tenant_id)
            except Exception as error:  # noqa: BLE001 - the same
                failed[tenant_id] = error
        for letter, reception in read:
            error = failed.get(letter.tenant_id)
            if error is None:
                letter.answer.set_result(reception)
            else:
                letter.answer.set_exception(error)

    def _receive(self, letter: _Letter) -> ReceivedSpans:
        spans = calls = rejected = 0
        reason = ""
        for span in spans_in(letter.decode()):
            spans += 1
            try:
                calls += self.held.take(letter.tenant_id, span)
            except TwinRavenError as error:
                rejected += 1
                reason = reason or self._encoder.clean(letter.tenant_id, error.message)[:_SHOWN]
        return ReceivedSpans(spans, calls, rejected, reason)

    def _quietly(self, settle: Callable[[], None]) -> None:
        """Settle without a waiting caller; what the store does not take now is retried."""
        try:
            settle()
        except TwinRavenError as error:
            _logger.warning("spans are held until the store takes them: %s", error.code)
        except Exception:
            # The thread's edge: a surprise must not end the thread for everybody.
            _logger.exception("spans could not be stored")
