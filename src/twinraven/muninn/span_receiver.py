"""Receives spans from OpenTelemetry exporters while the agents are at work, and stores their calls as events.

Exporters send spans when they end, in several requests: the inner ones come before the spans around them. Calls are
therefore held, trace by trace, until the trace's root has come, or nothing more has come for some seconds; then they
are read together, as an import of them would, and written. One thread does all of that and owns its connection, so a
request never blocks a loop. A span that comes twice is one event. What is held is bounded, and written when the home
is closed.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from twinraven.foundation.errors import InvalidInput, StorageBusy, StorageUnavailable, TwinRavenError
from twinraven.foundation.redaction import Redact, keep_everything
from twinraven.muninn.batch import Encoded
from twinraven.muninn.exchange import write_new
from twinraven.muninn.formats.otlp import OtlpParser, spans_in, trace_of
from twinraven.muninn.formats.spans import Contexts, ModelSpan, ToolSpan
from twinraven.muninn.formats.trace import LineError
from twinraven.muninn.model import MAX_NAME, check_name
from twinraven.muninn.row import EncodingRules, RowEncoder
from twinraven.storage import Connection, Database

_logger = logging.getLogger("twinraven.muninn")

SETTLE_S: Final = 5.0
"""How long a trace may be quiet before its calls are written without its root."""
MOST_HELD: Final = 20_000
MOST_WAITING: Final = 64
_TENANTS: Final = 500
_SHOWN: Final = 300

Decode = Callable[[], dict[str, Any]]
"""Gives a request's document; it is called on the receiver's thread."""


@dataclass(frozen=True, slots=True)
class Reception:
    """What became of a request's spans."""

    spans: int
    calls: int
    rejected: int
    reason: str
    """Why the first of the rejected was rejected."""


@dataclass(slots=True)
class _Trace:
    """The spans of one trace that wait for the rest of it."""

    heard_at: float
    spans: dict[tuple[str, str], ToolSpan | ModelSpan] = field(
        default_factory=dict[tuple[str, str], "ToolSpan | ModelSpan"]
    )


@dataclass(slots=True)
class _Tenant:
    parser: OtlpParser
    ready: list[Encoded] = field(default_factory=list[Encoded])
    """Calls that are read and could not be written yet."""


@dataclass(frozen=True, slots=True)
class _Letter:
    tenant_id: str
    decode: Decode
    answer: Future[Reception]


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
        self._database = database
        self._encoder = RowEncoder(rules or EncodingRules(), redact, redact_names=redact_names)
        self._settle_s = settle_s
        self._seconds = seconds
        self._letters: queue.Queue[_Letter | None] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()
        self._traces: OrderedDict[tuple[str, str], _Trace] = OrderedDict()
        self._connection: Connection | None = None

    def submit(self, tenant_id: str, decode: Decode) -> Future[Reception]:
        """Hand a request over; the answer says what became of it, or raises what was wrong with it."""
        answer: Future[Reception] = Future()
        with self._lock:
            if self._is_closed:
                raise StorageUnavailable("the server is ending; send the spans again")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="twinraven-spans", daemon=True)
                self._thread.start()
            try:
                self._letters.put_nowait(_Letter(tenant_id, decode, answer))
            except queue.Full:
                raise StorageBusy("too many span requests are waiting; send this one again") from None
        return answer

    def close(self) -> None:
        """Write what is held, as far as the store takes it, and end."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            self._letters.put(None)
            thread.join()

    def _work(self) -> None:
        while True:
            try:
                letter = self._letters.get(timeout=self._settle_s / 4 if self._traces or self._unwritten() else None)
            except queue.Empty:
                self._settle_quietly(self._due())
                continue
            if letter is None:
                break
            self._answer(letter)
            self._settle_quietly(self._due())
        self._settle_quietly(list(self._traces))
        if self._connection is not None:
            self._connection.close()

    def _answer(self, letter: _Letter) -> None:
        try:
            answer = self._receive(letter.tenant_id, letter.decode())
        except Exception as error:  # noqa: BLE001 - the thread's edge: a surprise must reach the one who waits
            letter.answer.set_exception(error)
        else:
            letter.answer.set_result(answer)

    def _receive(self, tenant_id: str, document: dict[str, Any]) -> Reception:
        tenant = self._tenant(tenant_id)
        spans = calls = rejected = 0
        reason = ""
        whole: dict[tuple[str, str], None] = {}
        for span in spans_in(document):
            spans += 1
            try:
                found = self._take(tenant_id, tenant.parser, span)
            except TwinRavenError as error:
                rejected += 1
                reason = reason or self._encoder.clean(tenant_id, error.message)[:_SHOWN]
                continue
            calls += isinstance(found, ToolSpan)
            if _is_root(span):
                whole[tenant_id, trace_of(span)] = None
        # What has its root is on disk before the exporter is told that it was accepted.
        self._settle([name for name in whole if name in self._traces])
        return Reception(spans, calls, rejected, reason)

    def _take(self, tenant_id: str, parser: OtlpParser, span: Any) -> ToolSpan | ModelSpan | None:
        if not isinstance(span, dict):
            raise InvalidInput("a span is not an object", field="spans")
        found = parser.read(span, 0)  # pyright: ignore[reportUnknownArgumentType]
        if found is None or parser.has_met(found.key):
            return found
        if isinstance(found, ToolSpan):
            named = self._encoder.clean(tenant_id, check_name(found.call.tool_id, field="tool"))[:MAX_NAME]
            found = found._replace(call=found.call._replace(tool_id=named))
        trace = self._traces.setdefault((tenant_id, found.key[0]), _Trace(self._seconds()))
        trace.heard_at = self._seconds()
        trace.spans[found.key] = found
        self._traces.move_to_end((tenant_id, found.key[0]))
        return found

    def _tenant(self, tenant_id: str) -> _Tenant:
        found = self._tenants.get(tenant_id)
        if found is None:
            contexts = Contexts(turn_of=lambda session: self._last_turn(tenant_id, session))
            found = self._tenants[tenant_id] = _Tenant(OtlpParser(tenant_id, contexts=contexts))
            held = {tenant for tenant, _ in self._traces}
            for name in list(self._tenants)[: max(0, len(self._tenants) - _TENANTS)]:
                if name not in held and not self._tenants[name].ready:
                    del self._tenants[name]
        self._tenants.move_to_end(tenant_id)
        return found

    def _due(self) -> list[tuple[str, str]]:
        """The traces that have been quiet long enough, and those for which there is no room."""
        now = self._seconds()
        due = [name for name, trace in self._traces.items() if now - trace.heard_at >= self._settle_s]
        held = sum(len(trace.spans) for trace in self._traces.values())
        for name, trace in self._traces.items():
            if held <= MOST_HELD:
                break
            held -= len(trace.spans)
            if name not in due:
                due.append(name)
        return due

    def _settle_quietly(self, names: list[tuple[str, str]]) -> None:
        """Settle without anybody waiting; what the store does not take now is tried again."""
        try:
            self._settle(names)
        except TwinRavenError as error:
            _logger.warning("spans are held until the store takes them: %s", error.code)
        except Exception:
            # The thread's edge: a surprise must not end the thread for everybody.
            _logger.exception("spans could not be stored")

    def _settle(self, names: list[tuple[str, str]]) -> None:
        for name in names:
            tenant = self._tenant(name[0])
            trace = self._traces.pop(name)
            tenant.ready += self._encoded(tenant.parser, trace)
        for tenant_id, tenant in self._tenants.items():
            if tenant.ready:
                self._write(tenant_id, tenant.ready)
                tenant.ready = []

    def _encoded(self, parser: OtlpParser, trace: _Trace) -> Iterator[Encoded]:
        for heard in parser.join(trace.spans.values()):
            if not isinstance(heard, LineError):
                yield self._encoder.encode(heard)

    def _unwritten(self) -> bool:
        return any(tenant.ready for tenant in self._tenants.values())

    def _write(self, tenant_id: str, rows: list[Encoded]) -> None:
        try:
            with self._connected().transaction(tenant_id, write=True) as tx:
                write_new(tx, tenant_id, rows, keeps_ids=True)
        except TwinRavenError:
            self._disconnect()
            raise

    def _last_turn(self, tenant_id: str, session_id: str) -> int:
        """The last turn of a conversation that is in the log from before."""
        try:
            with self._connected().transaction(tenant_id, write=False) as tx:
                row = tx.fetch_one(
                    "SELECT max(turn) AS last FROM muninn_event_log "
                    "WHERE tenant_id = :tenant AND session_id = :session",
                    tenant=tenant_id,
                    session=session_id,
                )
        except TwinRavenError:
            self._disconnect()
            return 0
        return 0 if row is None or row["last"] is None else row["last"]

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _is_root(span: dict[str, Any]) -> bool:
    """Whether nothing of the same process is around a span: it has no parent, or one elsewhere."""
    flags = span.get("flags")
    is_remote = isinstance(flags, int) and flags & 0x300 == 0x300
    return is_remote or not span.get("parentSpanId")
