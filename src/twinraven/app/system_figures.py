"""Measures the system itself: calls, turns saved, times of runs, tokens and cost.

Calls are measured from the event log, from the arrival up to which they were measured before; a run is measured in the
transaction that ends it. So nothing is counted twice, and no call waits for a figure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from twinraven.app.calling import runs
from twinraven.app.catalogue import catalog, defined, learned
from twinraven.app.memory import events
from twinraven.app.parts import Home
from twinraven.app.running import processes
from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import NotFound
from twinraven.metrics import CollectedMeasurements, MetricRequest, Scope, SystemMeasurement
from twinraven.storage import Transaction
from twinraven.tenancy import Principal

if TYPE_CHECKING:
    from twinraven.conversations import Conversations
    from twinraven.engine import RunEnd
    from twinraven.muninn import MuninnEvent

CALLS: Final = MetricRequest("calls", "tool", "sum", "integer", "calls that were recorded")
FAILED_CALLS: Final = MetricRequest("failed_calls", "tool", "sum", "integer", "recorded calls that raised an error")
CALL_MS: Final = MetricRequest(
    "call_ms", "tool", "sum", "integer", "milliseconds spent in calls; over `calls` their mean"
)
TURNS_SAVED: Final = MetricRequest("turns_saved", "tool", "sum", "integer", "turns that calls of learned tools spared")
TOKENS: Final = MetricRequest("tokens", "tool", "sum", "integer", "tokens that models read and wrote")
COST: Final = MetricRequest("cost", "tool", "sum", "float", "what models cost, in the currency that `currency` names")
RUN_MS: Final = MetricRequest("run_ms", "process", "avg", "integer", "milliseconds from a run's start to its end")
QUEUE_MS: Final = MetricRequest("queue_ms", "process", "avg", "integer", "milliseconds until a run made its first call")
OWN: Final = (CALLS, FAILED_CALLS, CALL_MS, TURNS_SAVED, TOKENS, COST, RUN_MS, QUEUE_MS)
_BATCH: Final = 2_000
_AT_ONCE: Final = 20_000
"""How many calls are measured before their figures are stored."""
_HOUR: Final = 3_600_000_000
_RUN: Final = "run:"
_HOUSE: Final = "house:"


def run_figures(home: Home, tx: Transaction, ends: Sequence[RunEnd]) -> list[SystemMeasurement]:
    """Return how long runs of a tenant took."""
    now = home.micros()
    figures: list[SystemMeasurement] = []
    for end in ends:
        target, created = end.target, end.created_at
        if target is None or created is None:
            run = runs(home).find_in(tx, end.tenant_id, end.run_id)
            target, created = run.target, to_micros(run.created_at)
        if not target.startswith(_HOUSE) and end.state != "set_aside":
            figures.append(SystemMeasurement(RUN_MS, target, max(0, now - created) // 1_000, now, {"state": end.state}))
    return figures


class _TalkingHome(Protocol):
    """A home that has conversations."""

    @property
    def conversations(self) -> Conversations: ...


async def entity_exists(home: Home, tenant_id: str, scope: Scope, entity_id: str) -> bool:
    """Return whether there is what a metric's values would be about."""
    operator = Principal(tenant_id, "twinraven", "admin")
    try:
        if scope == "service":
            await defined(home).services.service(operator, entity_id)
        elif scope == "process":
            await processes(home).get(tenant_id, entity_id)
        elif scope == "conversation":
            await cast("_TalkingHome", home).conversations.get(entity_id, by=operator)
        else:
            catalog(home).find(tenant_id, entity_id)
    except NotFound:
        return False
    return True


async def measure_calls(home: Home, tenant_id: str, begin: int) -> CollectedMeasurements:
    """Return the figures of the calls that have arrived since, by tool and hour, up to a number of calls."""
    store = events(home)
    through = settled = await store.settled(tenant_id)
    counted = 0
    totals: dict[tuple[MetricRequest, str, int], int] = defaultdict(int)
    figures: list[SystemMeasurement] = []
    after = begin
    while after < through:
        found = await store.arrived(tenant_id, after=after, through=through, limit=_BATCH)
        if not found:
            break
        for event in found:
            _count(home, tenant_id, event, totals)
        figures += await _queue_times(home, tenant_id, found)
        figures += await _model_figures(home, tenant_id, found)
        after = found[-1].arrival
        counted += len(found)
        if counted >= _AT_ONCE:
            through = after
    figures += [
        SystemMeasurement(metric, tool_id, value, hour * _HOUR)
        for (metric, tool_id, hour), value in totals.items()
        if value
    ]
    return CollectedMeasurements(figures, max(begin, through), is_all=through >= settled)


def _count(home: Home, tenant_id: str, event: MuninnEvent, totals: dict[tuple[MetricRequest, str, int], int]) -> None:
    hour = to_micros(event.timestamp) // _HOUR
    totals[CALLS, event.tool_id, hour] += 1
    totals[FAILED_CALLS, event.tool_id, hour] += event.raised
    totals[CALL_MS, event.tool_id, hour] += event.latency_ms if event.time_known else 0
    if event.parent_event_id is None and not event.raised:
        totals[TURNS_SAVED, event.tool_id, hour] += _spared(home, tenant_id, event.tool_id)


def _spared(home: Home, tenant_id: str, tool_id: str) -> int:
    """Return how many turns one call of a learned tool stands for, besides its own."""
    if learned(home).find(tenant_id, tool_id) is None:
        return 0
    return max(0, len(learned(home).definition(tenant_id, tool_id).steps) - 1)


async def _queue_times(home: Home, tenant_id: str, found: Iterable[MuninnEvent]) -> list[SystemMeasurement]:
    figures: list[SystemMeasurement] = []
    for event in found:
        if event.predecessor is None and event.session_id.startswith(_RUN):
            run = await _run_of(home, tenant_id, event.session_id.removeprefix(_RUN))
            if run is not None:
                target, created_at = run
                waited = max(0, to_micros(event.timestamp) - to_micros(created_at)) // 1_000
                figures.append(SystemMeasurement(QUEUE_MS, target, waited, to_micros(event.timestamp)))
    return figures


async def _run_of(home: Home, tenant_id: str, run_id: str) -> tuple[str, datetime] | None:
    try:
        found = await runs(home).get(tenant_id, run_id)
    except NotFound:
        return None
    return None if found.run.target.startswith(_HOUSE) else (found.run.target, found.run.created_at)


async def _model_figures(home: Home, tenant_id: str, found: Sequence[MuninnEvent]) -> list[SystemMeasurement]:
    """Tokens and cost, as a model's answers state them."""
    from twinraven.models import ASK_MODEL

    asked = [event for event in found if event.tool_id == ASK_MODEL and event.output_hash is not None]
    outputs = await events(home).outputs(tenant_id, [str(event.output_hash) for event in asked]) if asked else {}
    figures: list[SystemMeasurement] = []
    for event in asked:
        said: Any = outputs.get(str(event.output_hash))
        if isinstance(said, dict):
            figures += _figures_of(event, cast("dict[str, Any]", said))
    return figures


def _figures_of(event: MuninnEvent, said: dict[str, Any]) -> list[SystemMeasurement]:
    at, by = to_micros(event.timestamp), {"model": str(said.get("model") or "unknown")}
    usage = cast("dict[str, Any]", said.get("usage") or {})
    figures = [
        SystemMeasurement(TOKENS, event.tool_id, usage[kind], at, {**by, "kind": kind.removesuffix("_tokens")})
        for kind in ("input_tokens", "output_tokens")
        if isinstance(usage.get(kind), int)
    ]
    cost = cast("dict[str, Any]", said.get("cost") or {})
    try:
        amount = float(Decimal(str(cost.get("amount"))))
    except InvalidOperation:
        return figures
    return [*figures, SystemMeasurement(COST, event.tool_id, amount, at, {**by, "currency": str(cost.get("currency"))})]
