"""Measures the system itself: calls, turns saved, times of runs, tokens and cost.

Calls are measured from the event log, from the arrival up to which they were measured before; a run is measured in the
transaction that ends it. So nothing is counted twice, and no call waits for a figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import partial
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
    from twinraven.muninn import MuninnEvent, ToolHour

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
    from twinraven.models import ASK_MODEL

    store = events(home)
    settled = await store.settled(tenant_id)
    if settled <= begin:
        return CollectedMeasurements((), begin)
    hours, up_to = await store.tool_hours(tenant_id, after=begin, through=settled, limit=_AT_ONCE)
    arrived = partial(store.arrived, tenant_id, after=begin, through=up_to, limit=_AT_ONCE)
    figures = [figure for each in hours for figure in _figures_of_hour(home, tenant_id, each)]
    figures += await _queue_times(home, tenant_id, await arrived(starts_with=_RUN))
    figures += await _model_figures(home, tenant_id, await arrived(tool_id=ASK_MODEL))
    return CollectedMeasurements(figures, up_to, is_all=up_to >= settled)


def _figures_of_hour(home: Home, tenant_id: str, added: ToolHour) -> list[SystemMeasurement]:
    values = {
        CALLS: added.calls,
        FAILED_CALLS: added.raised,
        CALL_MS: added.latency_ms,
        TURNS_SAVED: added.answered * _spared(home, tenant_id, added.tool_id),
    }
    at = added.hour * _HOUR
    return [SystemMeasurement(metric, added.tool_id, value, at) for metric, value in values.items() if value]


def _spared(home: Home, tenant_id: str, tool_id: str) -> int:
    """Return how many turns one call of a learned tool stands for, besides its own."""
    if learned(home).find(tenant_id, tool_id) is None:
        return 0
    return max(0, len(learned(home).definition(tenant_id, tool_id).steps) - 1)


async def _queue_times(home: Home, tenant_id: str, found: Iterable[MuninnEvent]) -> list[SystemMeasurement]:
    figures: list[SystemMeasurement] = []
    for event in found:
        if event.predecessor is None:
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
    asked = [event for event in found if event.output_hash is not None]
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
