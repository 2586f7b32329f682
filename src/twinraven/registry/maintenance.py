"""Evaluates tools in service, on a schedule or by hand, and retires or only reports those not worth keeping.

Each check looks at what was recorded since the current version went into service, so that no version answers for the
one before it. Failing too often, not being used and, where so configured, drifting end a tool; failing more than its
parts, saving no turns and not being taken where it fits mark it for people. A mark goes away by itself when its reason
does. A quarantined tool is in people's hands already and is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import from_micros, iso, iso_micros, now_micros
from twinraven.foundation.errors import IllegalTransition
from twinraven.registry import evidence, sql, usage
from twinraven.registry.adoption import Adoption
from twinraven.registry.model import SYSTEM, RegisteredTool, RetirementReason, ToolRecord
from twinraven.registry.ports import AdoptionProbe, Support, SupportProbe
from twinraven.registry.registration import tools_of
from twinraven.registry.service import Registry
from twinraven.registry.settings import RegistrySettings
from twinraven.storage import Database, Transaction

FAILURE_WINDOW: Final = timedelta(days=7)
DRIFT_WINDOW: Final = timedelta(days=30)
PARTS_WINDOW: Final = timedelta(days=30)
TURNS_WINDOW: Final = timedelta(days=30)
ADOPTION_WINDOW: Final = timedelta(days=30)
LEAST_USES: Final = 5
"""Uses below which nothing is said of turns."""

DRIFT, FAILS_MORE, SAVES_NO_TURNS = "drift", "fails_more_than_its_parts", "saves_no_turns"
NOT_TAKEN: Final = "not_taken"

_PERIODS: Final = {
    "hourly": timedelta(hours=1),
    "daily": timedelta(days=1),
    "weekly": timedelta(weeks=1),
    "monthly": timedelta(days=30),
}

Verb = Literal["retire", "flag", "unflag"]

_logger = logging.getLogger("twinraven.registry")


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do about one tool, with the figures that speak for it."""

    tool_id: str
    verb: Verb
    name: str
    """The reason of a retirement, or the name of a flag."""
    why: str
    figures: JsonObject

    def as_json(self) -> JsonObject:
        return {
            "tool_id": self.tool_id,
            "verb": self.verb,
            "name": self.name,
            "why": self.why,
            "figures": self.figures,
        }


@dataclass(frozen=True, slots=True)
class Measures:
    """The measurements of one tool; None where something could not be measured."""

    record: ToolRecord
    failures: evidence.CallRate
    expected_failure_rate: float | None
    turns: evidence.TurnsSaved
    original: Support | None
    current: Support | None
    adoption: Adoption | None = None

    @property
    def drift_ratio(self) -> float | None:
        """The remaining share of the chain's support; None where nothing was recorded lately."""
        if self.original is None or self.current is None or not self.current.sessions or not self.original.support:
            return None
        return self.current.support / self.original.support

    def as_json(self) -> JsonObject:
        current = self.current
        return {
            "tool_id": self.record.tool_id,
            "calls": self.failures.calls,
            "raised": self.failures.raised,
            "expected_failure_rate": self.expected_failure_rate,
            "uses": self.turns.uses,
            "turns_saved": self.turns.turns,
            "support": None if current is None else current.support,
            "confidence": None if current is None else current.confidence,
            "drift_ratio": self.drift_ratio,
            "adoption": None if self.adoption is None else self.adoption.as_json(),
        }


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """The report of a maintenance run, or of a dry run."""

    tenant_id: str
    at: datetime
    rehearsed: bool
    measures: tuple[Measures, ...]
    actions: tuple[Action, ...]

    def as_json(self) -> JsonObject:
        return {
            "tenant_id": self.tenant_id,
            "at": iso(self.at),
            "dry_run": self.rehearsed,
            "tools": [measures.as_json() for measures in self.measures],
            "actions": [action.as_json() for action in self.actions],
        }


class Maintenance:
    """Checks the tools in service."""

    def __init__(
        self,
        registry: Registry,
        database: Database,
        settings: RegistrySettings,
        *,
        probe: SupportProbe | None = None,
        adoption_probe: AdoptionProbe | None = None,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._registry = registry
        self._database = database
        self._settings = settings
        self._probe = probe
        self._adoption_probe = adoption_probe
        self._micros = micros

    async def run(self, tenant_id: str, *, dry_run: bool = False, by: str = SYSTEM) -> MaintenanceReport:
        """Look at every tool in service and act, or only say what would be done."""
        now = from_micros(self._micros())
        measured: list[Measures] = []
        actions: list[Action] = []
        adoption = await self.adoption(tenant_id)
        for record in await self._registry.tools(tenant_id):
            if record.is_in_service:
                found = replace(await self._measure(tenant_id, record, now), adoption=adoption.get(record.tool_id))
                measured.append(found)
                actions.extend(self._judge(found, now))
        if not dry_run:
            self._warn_of_drift(measured)
            actions = [action for action in actions if await self._carry_out(tenant_id, action, by)]
            await self._database.write(tenant_id, lambda tx: usage.note_maintenance(tx, tenant_id, now=self._micros()))
        return MaintenanceReport(tenant_id, now, dry_run, tuple(measured), tuple(actions))

    async def run_if_due(self, tenant_id: str, *, by: str = SYSTEM) -> MaintenanceReport | None:
        """Run if the schedule says so; a tenant that was never looked at is due."""
        period = _PERIODS.get(self._settings.maintenance_schedule)
        if period is None:
            return None
        last = await self._database.read(tenant_id, lambda tx: usage.last_maintenance(tx, tenant_id))
        if last is not None and from_micros(self._micros()) - last < period:
            return None
        return await self.run(tenant_id, by=by)

    async def adoption(self, tenant_id: str, *, wait: bool = True) -> Mapping[str, Adoption]:
        """Measure the adoption of every tool in service: offered, fitted, taken, turns saved.

        Without `wait`, what would take long to count is counted afterwards, and the figures say how much it is.
        """
        if self._adoption_probe is None:
            return {}
        names = [record.tool_id for record in await self._registry.tools(tenant_id) if record.is_in_service]
        tools = [await self._registry.tool(tenant_id, name) for name in names]
        since = from_micros(self._micros()) - ADOPTION_WINDOW
        return await self._adoption_probe.measure(tenant_id, tools, since=since, wait=wait)

    async def stale(self, tenant_id: str, *, unused_since: datetime) -> list[ToolRecord]:
        """Return tools in service without a call since a time; one never called ages from its promotion."""
        records = await self._registry.tools(tenant_id)
        return [record for record in records if record.is_in_service and _idle_since(record) < unused_since]

    async def _measure(self, tenant_id: str, record: ToolRecord, now: datetime) -> Measures:
        tool = await self._registry.tool(tenant_id, record.tool_id)

        def look(tx: Transaction) -> tuple[evidence.CallRate, float | None, evidence.TurnsSaved, JsonObject | None]:
            definition = tool.current.definition
            parts = [
                evidence.direct_rate(tx, tenant_id, part, since=now - PARTS_WINDOW)
                for part in dict.fromkeys(tools_of(definition))
            ]
            return (
                evidence.call_rate(tx, tenant_id, record.tool_id, since=_since(record, now - FAILURE_WINDOW)),
                evidence.expected_rate(parts),
                evidence.turns_saved(tx, tenant_id, record.tool_id, since=_since(record, now - TURNS_WINDOW)),
                sql.chain(tx, tenant_id, definition.source_chain_id),
            )

        failures, expected, turns, chain = await self._database.read(tenant_id, look)
        original = None if chain is None else Support(chain["support"], chain["confidence"], sessions=0)
        current = await self._support(tenant_id, tool, chain, now)
        return Measures(record, failures, expected, turns, original, current)

    async def _support(
        self, tenant_id: str, tool: RegisteredTool, chain: JsonObject | None, now: datetime
    ) -> Support | None:
        if self._probe is None or chain is None:
            return None
        return await self._probe.measure(tenant_id, chain, tool_id=tool.record.tool_id, since=now - DRIFT_WINDOW)

    def _judge(self, found: Measures, now: datetime) -> Iterator[Action]:
        """Return what to do about a tool: one end if there is a reason for it, else what to mark."""
        end = self._end_of(found, now)
        if end is not None:
            yield end
            return
        marks = {
            DRIFT: self._drifted(found),
            FAILS_MORE: _fails_more(found),
            SAVES_NO_TURNS: _saves_no_turns(found),
            NOT_TAKEN: _not_taken(found),
        }
        for name, figures in marks.items():
            is_marked = name in found.record.flags
            if figures is not None and not is_marked:
                yield Action(found.record.tool_id, "flag", name, _WORDS[name], figures)
            elif figures is None and is_marked and self._is_measured(name, found):
                yield Action(found.record.tool_id, "unflag", name, "no longer so", {})

    def _end_of(self, found: Measures, now: datetime) -> Action | None:
        record, failures = found.record, found.failures
        idle_days = (now - _idle_since(record)).days
        if failures.calls and failures.rate > self._settings.failure_spike_threshold:
            figures = {"calls": failures.calls, "raised": failures.raised, "rate": round(failures.rate, 4)}
            why = f"{failures.raised} of {failures.calls} recent calls failed"
            return Action(record.tool_id, "retire", RetirementReason.FAILURE_SPIKE.value, why, figures)
        if now - _idle_since(record) > timedelta(days=self._settings.auto_retire_after_days):
            why = f"not called for {idle_days} days"
            return Action(record.tool_id, "retire", RetirementReason.AUTO_UNUSED.value, why, {"idle_days": idle_days})
        drift = self._drifted(found) if self._settings.auto_retire_on_drift else None
        if drift is not None:
            return Action(record.tool_id, "retire", RetirementReason.DRIFT.value, _WORDS[DRIFT], drift)
        return None

    def _warn_of_drift(self, measured: Iterable[Measures]) -> None:
        """Log each tool whose chain drifted, at every run for as long as it does."""
        for found in measured:
            figures = self._drifted(found)
            if figures is not None:
                _logger.warning(
                    "%r drifts: the support of its chain fell from %.4f to %.4f, over %d sessions",
                    found.record.tool_id,
                    figures["original_support"],
                    figures["support"],
                    figures["sessions"],
                )

    def _drifted(self, found: Measures) -> JsonObject | None:
        ratio, current, original = found.drift_ratio, found.current, found.original
        if ratio is None or current is None or original is None or ratio >= self._settings.drift_threshold:
            return None
        return {
            "ratio": round(ratio, 4),
            "support": current.support,
            "original_support": original.support,
            "confidence": current.confidence,
            "original_confidence": original.confidence,
            "sessions": current.sessions,
        }

    @staticmethod
    def _is_measured(name: str, found: Measures) -> bool:
        """Return whether the absence of a reason is known, and not only the absence of figures."""
        if name == DRIFT:
            return found.drift_ratio is not None
        if name == NOT_TAKEN:
            return found.adoption is not None and found.adoption.is_measured
        return found.expected_failure_rate is not None if name == FAILS_MORE else found.turns.uses >= LEAST_USES

    async def _carry_out(self, tenant_id: str, action: Action, by: str) -> bool:
        try:
            if action.verb == "retire":
                reason = RetirementReason(action.name)
                await self._registry.retire(tenant_id, action.tool_id, reason, by=by, note=action.why)
            else:
                detail = {"since": iso_micros(self._micros()), **action.figures}
                wanted = detail if action.verb == "flag" else None
                await self._registry.flag(tenant_id, action.tool_id, action.name, wanted, by=by)
        except IllegalTransition:
            # Somebody retired it while we were looking.
            return False
        return True


NOT_TAKEN_ADVICE: Final = (
    "agents do its steps by hand where it fits; `twinraven learn` proposes a version in other words, which `twinraven "
    "approve` shows; if that is passed over too, retire it (`twinraven retire`)"
)
"""What to do about a tool that is not taken; it is for a person to decide."""

_WORDS: Final = {
    DRIFT: "agents hardly make these calls in this order any more",
    FAILS_MORE: "it raises more often than its parts would lead one to expect",
    SAVES_NO_TURNS: "agents that use it take no fewer turns",
    NOT_TAKEN: NOT_TAKEN_ADVICE,
}


def _fails_more(found: Measures) -> JsonObject | None:
    if found.expected_failure_rate is None or found.failures.at_least <= found.expected_failure_rate:
        return None
    return {
        "rate": round(found.failures.rate, 4),
        "at_least": round(found.failures.at_least, 4),
        "expected": round(found.expected_failure_rate, 4),
        "calls": found.failures.calls,
    }


def _saves_no_turns(found: Measures) -> JsonObject | None:
    if found.turns.uses < LEAST_USES or found.turns.turns > 0:
        return None
    return {"uses": found.turns.uses, "turns_saved": found.turns.turns}


def _not_taken(found: Measures) -> JsonObject | None:
    adoption = found.adoption
    if adoption is None or not adoption.is_not_taken:
        return None
    return {
        "fitted": adoption.fitted,
        "taken": adoption.taken,
        "share_high": round(adoption.share_high, 4),
        "advice": NOT_TAKEN_ADVICE,
    }


def _idle_since(record: ToolRecord) -> datetime:
    moments = (record.last_used_at, record.in_service_since)
    return max((moment for moment in moments if moment is not None), default=record.registered_at)


def _since(record: ToolRecord, window: datetime) -> datetime:
    return window if record.in_service_since is None else max(window, record.in_service_since)
