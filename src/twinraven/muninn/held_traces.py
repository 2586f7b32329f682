"""Holds received spans trace by trace and writes their calls; used by the thread of the span receiver alone.

A trace waits in memory, and its spans in the table `held_spans`, until its root has come or it has been quiet for long
enough. Its calls are written in the transaction in which its spans leave the table. Traces that receivers of other
processes left behind are taken over when nobody has heard of them for several times as long, or when they go on here.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.muninn.batch import Encoded
from twinraven.muninn.exchange import write_new
from twinraven.muninn.formats.otlp import OtlpParser, place_of, trace_of
from twinraven.muninn.formats.spans import Contexts, ModelSpan, SpanKey, ToolSpan
from twinraven.muninn.formats.trace import LineError
from twinraven.muninn.held_sql import HeldPart, drop_parts, held_parts, keep_parts, parts_of
from twinraven.muninn.model import MAX_NAME, check_name
from twinraven.muninn.row import RowEncoder
from twinraven.storage import Connection, Database

_logger = logging.getLogger("twinraven.muninn")

MOST_HELD: Final = 20_000
_TENANTS: Final = 500
_ABANDONED: Final = 6
"""A trace that was quiet for so many times as long as a receiver waits has none that waits for it."""
_TAKEN_OVER: Final = 200
"""How many traces of a tenant are taken over at a time."""
_PLACE: Final = ("traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano")

Span = dict[str, Any]
TraceName = tuple[str, str]
"""Tenant and trace."""


@dataclass(slots=True)
class _Trace:
    """The spans of one trace that wait for the rest of it."""

    heard_at: float
    spans: dict[SpanKey, ToolSpan | ModelSpan] = field(default_factory=dict[SpanKey, "ToolSpan | ModelSpan"])
    parts: list[str] = field(default_factory=list[str])
    """The rows of the table that hold them."""


@dataclass(slots=True)
class _Tenant:
    parser: OtlpParser
    unkept: dict[str, list[Span]] = field(default_factory=dict[str, "list[Span]"])
    """By trace, the spans as they came that are held and not in the table yet."""
    ready: list[Encoded] = field(default_factory=list[Encoded])
    """Calls that are read and not written yet."""
    spent: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The parts that leave the table with them."""

    @property
    def is_busy(self) -> bool:
        return bool(self.unkept or self.ready or self.spent)


class HeldTraces:
    """All traces of one receiver."""

    def __init__(
        self, database: Database, encoder: RowEncoder, *, settle_s: float, seconds: Callable[[], float]
    ) -> None:
        self.settle_s = settle_s
        self._database = database
        self._encoder = encoder
        self._seconds = seconds
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()
        self._traces: OrderedDict[TraceName, _Trace] = OrderedDict()
        """Those that have been quiet longest come first."""
        self._spans = 0
        """How many spans they have together."""
        self._whole: set[TraceName] = set()
        """The traces whose root has come since they were settled last."""
        self._left_behind: dict[str, dict[str, int] | None] = {}
        """By tenant, the traces of which others hold or held parts, and when the last of them came; None where nobody
        has looked yet."""
        self._look_at = 0.0
        self._connection: Connection | None = None

    @property
    def patience_s(self) -> float | None:
        """How long to wait for requests before something held may be due; None where nothing is held."""
        waits = self._traces or self._left_behind or any(tenant.is_busy for tenant in self._tenants.values())
        return self.settle_s / 4 if waits else None

    def look_for(self, tenant_ids: Iterable[str]) -> None:
        """Take over what others left behind for these tenants, when it is due."""
        for tenant_id in tenant_ids:
            self._left_behind.setdefault(tenant_id, None)
        self._look_at = 0.0

    def take(self, tenant_id: str, span: Any) -> bool:
        """Hold a span; says whether it is a call. InvalidInput where it cannot be understood."""
        if not isinstance(span, dict):
            raise InvalidInput("a span is not an object", field="spans")
        members = cast("Span", span)
        found = self._hold(tenant_id, members)
        name = (tenant_id, trace_of(members))
        if _is_root(members):
            self._whole.add(name)
        elif found is None and name in self._traces:
            # A span around calls comes after them; of any other nothing is needed.
            self._tenant(tenant_id).unkept.setdefault(name[1], []).append(place_of(members))
        return isinstance(found, ToolSpan)

    def store(self, tenant_id: str) -> None:
        """Write the tenant's traces that are whole, and keep what the others brought; durable when it returns."""
        self._settle([name for name in self._whole if name[0] == tenant_id])
        self._commit(tenant_id)

    def settle_due(self) -> None:
        """Write the traces that have been quiet long enough, and those for which there is no room."""
        if self._left_behind and self._seconds() >= self._look_at:
            self._take_over()
        self._settle([*self._whole, *self._due()])
        self._commit_all()

    def settle_all(self) -> None:
        """Write all that is held."""
        self._settle(list(self._traces))
        self._commit_all()

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _hold(self, tenant_id: str, span: Span, *, is_kept: bool = False) -> ToolSpan | ModelSpan | None:
        tenant = self._tenant(tenant_id)
        found = tenant.parser.read(span, 0)
        if found is None or tenant.parser.has_met(found.key):
            return found
        if isinstance(found, ToolSpan):
            named = self._encoder.clean(tenant_id, check_name(found.call.tool_id, field="tool"))[:MAX_NAME]
            found = found._replace(call=found.call._replace(tool_id=named))
        name = (tenant_id, found.key[0])
        trace = self._traces.setdefault(name, _Trace(0.0))
        trace.heard_at = self._seconds()
        self._traces.move_to_end(name)
        if found.key not in trace.spans:
            self._spans += 1
            if not is_kept:
                tenant.unkept.setdefault(name[1], []).append(span)
        trace.spans[found.key] = found
        return found

    def _tenant(self, tenant_id: str) -> _Tenant:
        found = self._tenants.get(tenant_id)
        if found is None:
            contexts = Contexts(turn_of=lambda session: self._last_turn(tenant_id, session))
            found = self._tenants[tenant_id] = _Tenant(OtlpParser(tenant_id, contexts=contexts))
            self.look_for([tenant_id])
            held = {tenant for tenant, _ in self._traces}
            for name in list(self._tenants)[: max(0, len(self._tenants) - _TENANTS)]:
                if name not in held and not self._tenants[name].is_busy:
                    del self._tenants[name]
        self._tenants.move_to_end(tenant_id)
        return found

    def _due(self) -> list[TraceName]:
        now, surplus = self._seconds(), self._spans - MOST_HELD
        due: list[TraceName] = []
        for name, trace in self._traces.items():
            if surplus <= 0 and now - trace.heard_at < self.settle_s:
                break
            surplus -= len(trace.spans)
            due.append(name)
        return due

    def _settle(self, names: Iterable[TraceName]) -> None:
        """Read traces as they are now; their calls are ready to be written."""
        for name in names:
            self._whole.discard(name)
            tenant_id, trace_id = name
            if tenant_id in self._left_behind and trace_id in self._others(tenant_id):
                self._join(name)
            trace = self._traces.pop(name, None)
            if trace is None:
                continue
            tenant = self._tenant(tenant_id)
            self._spans -= len(trace.spans)
            for heard in tenant.parser.join(trace.spans.values()):
                if not isinstance(heard, LineError):
                    tenant.ready.append(self._encoder.encode(heard))
            tenant.spent += [(trace_id, part) for part in trace.parts]
            tenant.unkept.pop(trace_id, None)

    def _commit_all(self) -> None:
        for tenant_id in list(self._tenants):
            self._commit(tenant_id)

    def _commit(self, tenant_id: str) -> None:
        """Write what is ready and keep what is not, in one transaction."""
        tenant = self._tenant(tenant_id)
        if not tenant.is_busy:
            return
        now = now_micros()
        parts = [
            HeldPart(trace_id, new_id(), now, self._body(tenant_id, tenant.unkept[trace_id]))
            for trace_id in tenant.unkept
        ]
        try:
            with self._connected().transaction(tenant_id, write=True) as tx:
                if tenant.ready:
                    write_new(tx, tenant_id, tenant.ready, keeps_ids=True)
                drop_parts(tx, tenant_id, tenant.spent)
                keep_parts(tx, tenant_id, parts)
        except TwinRavenError:
            self.close()
            raise
        tenant.unkept, tenant.ready, tenant.spent = {}, [], []
        for part in parts:
            self._traces[tenant_id, part.trace_id].parts.append(part.part_id)

    def _body(self, tenant_id: str, spans: list[Span]) -> bytes:
        """Spans for the table. Ids and times stay as they are, which redaction may take for secrets."""
        texts: list[str] = []
        for span in spans:
            place = {name: span[name] for name in _PLACE if name in span}
            told = {name: value for name, value in span.items() if name not in place}
            try:
                text = self._encoder.clean(tenant_id, canonical_json(told).decode())
            except InvalidInput:
                # Nested so deeply that it cannot become an event either.
                continue
            texts.append(f"[{canonical_json(place).decode()},{text}]")
        return f"[{','.join(texts)}]".encode()

    def _take_over(self) -> None:
        """Take over traces that dead processes left behind."""
        self._look_at = self._seconds() + self.settle_s
        abandoned_at = now_micros() - int(_ABANDONED * self.settle_s * 1_000_000)
        for tenant_id in list(self._left_behind):
            self._left_behind[tenant_id] = None
            others = self._others(tenant_id)
            if not others:
                del self._left_behind[tenant_id]
            for trace_id in [each for each, last_at in others.items() if last_at <= abandoned_at][:_TAKEN_OVER]:
                self._join((tenant_id, trace_id))
                self._look_at = 0.0

    def _others(self, tenant_id: str) -> dict[str, int]:
        """Return the traces of which others hold or held parts, as it was when they were looked for last."""
        found = self._left_behind[tenant_id]
        if found is None:
            with self._connected().transaction(tenant_id, write=False) as tx:
                listed = held_parts(tx, tenant_id)
            own = {part for trace in self._traces.values() for part in trace.parts}
            found = {part.trace_id: part.received_at for part in listed if part.part_id not in own}
            self._left_behind[tenant_id] = found
        return found

    def _join(self, name: TraceName) -> None:
        """Hold the parts of a trace that others left behind; it is due at once."""
        tenant_id, trace_id = name
        with self._connected().transaction(tenant_id, write=False) as tx:
            parts = parts_of(tx, tenant_id, trace_id)
        trace = self._traces.setdefault(name, _Trace(0.0))
        for part in parts:
            if part.part_id not in trace.parts:
                trace.parts.append(part.part_id)
                self._hold_part(tenant_id, part)
        trace.heard_at = self._seconds() - self.settle_s
        self._traces.move_to_end(name, last=False)

    def _hold_part(self, tenant_id: str, part: HeldPart) -> None:
        for place, told in parse_json(part.body):
            try:
                self._hold(tenant_id, {**told, **place}, is_kept=True)
            except TwinRavenError as error:
                _logger.warning("a span that was held cannot be read: %s", error.code)

    def _last_turn(self, tenant_id: str, session_id: str) -> int:
        """Return the last turn of a conversation that is in the log from before."""
        try:
            with self._connected().transaction(tenant_id, write=False) as tx:
                row = tx.fetch_one(
                    "SELECT max(turn) AS last FROM muninn_event_log "
                    "WHERE tenant_id = :tenant AND session_id = :session",
                    tenant=tenant_id,
                    session=session_id,
                )
        except TwinRavenError:
            self.close()
            return 0
        return 0 if row is None or row["last"] is None else row["last"]

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.connect()
        return self._connection


def _is_root(span: Span) -> bool:
    """Return whether nothing of the same process is around a span: it has no parent, or one elsewhere."""
    flags = span.get("flags")
    is_remote = isinstance(flags, int) and flags & 0x300 == 0x300
    return is_remote or not span.get("parentSpanId")
