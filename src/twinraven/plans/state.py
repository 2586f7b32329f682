"""Models the state of a plan: its run, the supervisor's actions, and a log entry for each cycle.

A state is what its log entries make of it, one after the other. Histories only grow, a status never goes back, and the
cycles that are left never fall below zero nor by more than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, cast, get_args

from twinraven.calls import ToolCall
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import AppendOnly, InvalidInput
from twinraven.plans.model import FINAL, Plan, PlanStep

ActionType = Literal["json_repair", "tool_call_repair", "plan_repair"]
RepairedBy = Literal["rule", "model"]

ACTION_TYPES: Final[tuple[ActionType, ...]] = get_args(ActionType)
MAX_ATTEMPTS: Final = 2


@dataclass(frozen=True, slots=True)
class SupervisorAction:
    """One attempt to repair what a model said: what it was, and what became of it."""

    action_type: ActionType
    original_output: JsonObject
    attempt_number: int
    timestamp: str
    repaired_output: JsonObject | None = None
    error: JsonObject | None = None
    by: RepairedBy = "model"
    """Whether a rule repaired it or the model was asked."""

    def __post_init__(self) -> None:
        if self.action_type not in ACTION_TYPES:
            raise InvalidInput(f"action_type must be one of {', '.join(ACTION_TYPES)}", field="action_type")
        if (self.repaired_output is None) == (self.error is None):
            raise InvalidInput("a repair has either a repaired_output or an error", field="repaired_output")
        if self.attempt_number not in range(1, MAX_ATTEMPTS + 1):
            raise InvalidInput(f"attempt_number is 1 to {MAX_ATTEMPTS}", field="attempt_number")
        parse_iso(self.timestamp)

    def as_json(self) -> JsonObject:
        return {
            "action_type": self.action_type,
            "original_output": self.original_output,
            "repaired_output": self.repaired_output,
            "error": self.error,
            "attempt_number": self.attempt_number,
            "timestamp": self.timestamp,
            "by": self.by,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> SupervisorAction:
        return cls(**{name: body.get(name) for name in cls.__slots__})  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One cycle: what the plan was when it began, what the model said, and what was done."""

    step_number: int
    plan_state: JsonObject
    llm_output: JsonObject
    supervisor_actions: tuple[SupervisorAction, ...]
    tool_calls: tuple[ToolCall, ...]
    ttl_remaining: int
    errors: tuple[JsonObject, ...]
    timestamp: str

    def __post_init__(self) -> None:
        if self.step_number < 1:
            raise InvalidInput("step_number counts from 1", field="step_number")
        if self.ttl_remaining < 0:
            raise InvalidInput("ttl_remaining is never below zero", field="ttl_remaining")
        parse_iso(self.timestamp)

    def as_json(self) -> JsonObject:
        return {
            "step_number": self.step_number,
            "plan_state": self.plan_state,
            "llm_output": self.llm_output,
            "supervisor_actions": [action.as_json() for action in self.supervisor_actions],
            "tool_calls": [call.as_json() for call in self.tool_calls],
            "ttl_remaining": self.ttl_remaining,
            "errors": list(self.errors),
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any], plan_state: JsonObject | None = None) -> LogEntry:
        """Read an entry; one that is kept beside its plan takes the plan's state from there."""
        calls = cast("list[dict[str, Any]]", body["tool_calls"])
        actions = cast("list[dict[str, Any]]", body["supervisor_actions"])
        return cls(
            step_number=body["step_number"],
            plan_state=body["plan_state"] if plan_state is None else plan_state,
            llm_output=body["llm_output"],
            supervisor_actions=tuple(SupervisorAction.from_json(action) for action in actions),
            tool_calls=tuple(ToolCall(**call) for call in calls),
            ttl_remaining=body["ttl_remaining"],
            errors=tuple(body["errors"]),
            timestamp=body["timestamp"],
        )


@dataclass(frozen=True, slots=True)
class Cycle:
    """A log entry, and what the plan was after it."""

    entry: LogEntry
    plan: Plan | None
    results: JsonObject = field(default_factory=dict[str, Any])
    """What steps that came to their end in this cycle gave, by their ids."""

    def as_json(self, before: Plan | None) -> JsonObject:
        """Return the cycle as it is kept: of a plan that was there before, only what has changed.

        A plan of a hundred steps would otherwise be kept two hundred times.
        """
        entry = self.entry.as_json()
        del entry["plan_state"]
        kept: JsonObject = {"entry": entry, "results": self.results}
        changed = None if before is None or self.plan is None else before.changes(self.plan)
        if changed is None:
            kept["plan"] = None if self.plan is None else self.plan.as_json()
        else:
            kept["changed"] = [step.as_json() for step in changed]
        return kept

    @classmethod
    def from_json(cls, body: Mapping[str, Any], before: Plan | None) -> Cycle:
        """Read a cycle that follows a state of the plan."""
        stated: Any = body["entry"]
        known = None if "plan_state" in stated else {} if before is None else before.as_json()
        return cls(LogEntry.from_json(stated, known), _plan_after(body, before), dict(body["results"]))


def _plan_after(body: Mapping[str, Any], before: Plan | None) -> Plan | None:
    if "changed" not in body:
        return None if body["plan"] is None else Plan.from_json(body["plan"])
    if before is None:
        raise AppendOnly("a cycle changes the steps of a plan that was never made")
    for number, step in enumerate(cast("list[Any]", body["changed"])):
        before = before.with_step(PlanStep.from_json(step, f"changed[{number}]"))
    return before


@dataclass(slots=True)
class OrchestrationState:
    """The state of a plan's run."""

    plan: Plan | None
    ttl_remaining: int
    current_step_id: str | None = None
    tool_history: tuple[ToolCall, ...] = ()
    llm_outputs: tuple[JsonObject, ...] = ()
    supervisor_actions: tuple[SupervisorAction, ...] = ()
    results: JsonObject = field(default_factory=dict[str, Any])
    log: tuple[LogEntry, ...] = ()
    grants: Mapping[int, int] = field(default_factory=dict[int, int])
    """Of a fork: after which cycle it was given how many more cycles."""

    def __post_init__(self) -> None:
        self.ttl_remaining += self.grants.get(0, 0)

    @property
    def cycles(self) -> int:
        """The number of cycles so far."""
        return len(self.log)

    def take(self, cycle: Cycle) -> None:
        """Go on to the state after a cycle; refuses one that would rewrite what was."""
        entry = cycle.entry
        if entry.step_number != self.cycles + 1:
            raise AppendOnly(f"cycle {entry.step_number} does not follow cycle {self.cycles}")
        if self.ttl_remaining - entry.ttl_remaining not in (0, 1):
            raise AppendOnly("the cycles that are left fall by one for each that asked the model, or stay")
        if self.plan is not None and cycle.plan is not None:
            _refuse_backwards(self.plan, cycle.plan)
        self.plan = cycle.plan
        self.ttl_remaining = entry.ttl_remaining + self.grants.get(entry.step_number, 0)
        self.tool_history += entry.tool_calls
        self.supervisor_actions += entry.supervisor_actions
        if entry.llm_output:
            self.llm_outputs += (entry.llm_output,)
        self.results = {**self.results, **cycle.results}
        self.log += (entry,)

    def as_json(self) -> JsonObject:
        return {
            "plan": None if self.plan is None else self.plan.as_json(),
            "current_step_id": self.current_step_id,
            "tool_history": [call.as_json() for call in self.tool_history],
            "llm_outputs": list(self.llm_outputs),
            "supervisor_actions": [action.as_json() for action in self.supervisor_actions],
            "ttl_remaining": self.ttl_remaining,
        }

    def cost(self) -> tuple[str, str] | None:
        """Return the money that the model took and its currency; None where no price is known."""
        paid = [cast("dict[str, str]", said["cost"]) for said in self.llm_outputs if said.get("cost")]
        if not paid:
            return None
        return f"{sum(Decimal(each['amount']) for each in paid):f}", str(paid[0]["currency"])

    def tokens(self) -> tuple[int, int]:
        """Return the tokens that questions and answers took."""
        used = [cast("dict[str, int]", said.get("usage") or {}) for said in self.llm_outputs]
        return sum(each.get("input_tokens", 0) for each in used), sum(each.get("output_tokens", 0) for each in used)


def _refuse_backwards(before: Plan, after: Plan) -> None:
    order = {"pending": 0, "running": 1, "complete": 2, "failed": 2}
    unchanged = set(map(id, before.steps))
    later = {step.step_id: step.status for step in after.steps if id(step) not in unchanged}
    for step in before.steps if later else ():
        now = later.get(step.step_id)
        if now is not None and (order[now] < order[step.status] or (step.status in FINAL and now != step.status)):
            raise AppendOnly(f"step {step.step_id!r} was {step.status} and cannot be {now}")


def take_all(state: OrchestrationState, outputs: Sequence[Mapping[str, Any]]) -> OrchestrationState:
    """Return the state after cycles, in their order."""
    for output in outputs:
        state.take(Cycle.from_json(output, state.plan))
    return state
