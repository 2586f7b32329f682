"""Models the result of a run step by step: calls with their arguments, skips, failures and fallbacks.

A composite answers with everything its steps gave, because the agent would have seen all of it had it made the calls
itself: `result` is the last step's output, `earlier` the others in order, and `incomplete` (only if there are any)
names the steps that did not do what they were there for.

`StepResult` is made for every step, so it is a tuple, which costs least to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from twinraven.flow.plan import PlannedStep
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import iso_micros
from twinraven.foundation.errors import ToolError, TwinRavenError

FlowStatus = Literal["success", "failed", "waiting"]
StepStatus = Literal["ran", "skipped", "failed", "fallback", "cancelled", "waiting", "not_run"]

_NO_ITEMS: list[Any] = []
_NO_ERRORS: Mapping[int, TwinRavenError] = {}


class StepResult(NamedTuple):
    """The result of one step. A for_each step has one input per element; any other has one or, if skipped, none."""

    step_index: int
    tool_id: str
    status: StepStatus
    attempts: int
    latency_ms: int
    inputs: tuple[JsonObject, ...]
    output: Any
    error: JsonObject | None

    def as_json(self) -> JsonObject:
        return {
            "step_index": self.step_index,
            "tool_id": self.tool_id,
            "status": self.status,
            "attempts": self.attempts,
            "latency_ms": self.latency_ms,
            "inputs": list(self.inputs),
            "output": self.output,
            "error": self.error,
        }


@dataclass
class FlowResult:
    """The result of a run; times are microseconds since the epoch."""

    status: FlowStatus
    output: Any
    progress: Sequence[StepProgress]
    error: TwinRavenError | None
    started: int
    finished: int
    until: int | None = None
    """Of a run that waits: the soonest moment at which it can go on by itself."""
    is_partial: bool = False
    """Whether it did not fail, but went on without some of its steps."""

    @cached_property
    def steps(self) -> tuple[StepResult, ...]:
        """The result of each step, which most callers do not look at."""
        return tuple([progress.result() for progress in self.progress])

    @property
    def latency_ms(self) -> int:
        return (self.finished - self.started) // 1000

    def as_json(self) -> JsonObject:
        return {
            "status": self.status,
            "output": self.output,
            "steps": [step.as_json() for step in self.steps],
            "error": None if self.error is None else self.error.as_json(),
            "started_at": iso_micros(self.started),
            "finished_at": iso_micros(self.finished),
            "latency_ms": self.latency_ms,
        }


class FlowFailed(ToolError):
    """A step failed and the composite stopped; it speaks with the code of that step's error."""

    def __init__(self, message: str, *, cause: TwinRavenError, **details: Any) -> None:
        super().__init__(message, **details)
        self.code = cause.code
        self.acts = cause.acts
        self.retryable = cause.retryable
        self.__cause__ = cause


class StepProgress:
    """A step while it runs. `seen` is what references see of it."""

    __slots__ = (
        "attempts",
        "begun",
        "ended",
        "errors",
        "inputs",
        "items",
        "lost",
        "next_item",
        "number",
        "open_items",
        "outputs",
        "rescued",
        "seen",
        "status",
        "step",
    )

    def __init__(self, step: PlannedStep, number: int) -> None:
        self.step = step
        self.number = number
        self.status: StepStatus = "not_run"
        self.begun: int | None = None
        self.ended = 0
        self.attempts = 0
        self.rescued = 0  # calls for which a fallback stood in
        self.lost = 0  # calls that nothing stood in for
        self.inputs: dict[int, JsonObject] = {}
        self.errors: Mapping[int, TwinRavenError] = _NO_ERRORS
        self.items: list[Any] = _NO_ITEMS  # of a for_each step: its list, what came of it, and how far it is
        self.outputs: list[Any] = _NO_ITEMS
        self.next_item = self.open_items = 0
        self.seen: JsonObject = {"input": None, "output": None, "status": "not_run", "error": None}

    def settle(self, status: StepStatus, output: Any) -> None:
        """Decide what came of it."""
        seen = self.seen
        self.status = seen["status"] = status
        seen["output"] = output
        seen["input"] = self.inputs.get(0) if self.step.for_each is None else self._inputs_in_order()

    def settle_calls(self, calls: int, output: Any) -> None:
        """Decide what came of it by what came of so many calls."""
        status = "failed" if self.lost and self.lost == calls else "fallback" if self.rescued else "ran"
        self.settle(status, output)

    def settle_once(self, status: StepStatus) -> None:
        """Decide it, without an output, unless that was done."""
        if not self.is_settled:
            self.settle(status, None)

    @property
    def is_settled(self) -> bool:
        return self.status != "not_run"

    def fail(self, item: int, error: TwinRavenError) -> None:
        """Remember that a call failed for good; the first element's failure is the step's."""
        self.errors = {**self.errors, item: error}
        self.seen["error"] = self.first_error
        self.seen["status"] = "failed"

    @property
    def first_error(self) -> JsonObject | None:
        return self.errors[min(self.errors)].as_json() if self.errors else None

    def result(self) -> StepResult:
        return StepResult(
            self.number,
            self.step.tool_id,
            self.status,
            self.attempts,
            0 if self.begun is None else max(0, self.ended - self.begun) // 1000,
            tuple(self.inputs.values() if self.step.for_each is None else self._inputs_in_order()),
            self.seen["output"],
            self.first_error if self.errors else None,
        )

    def _inputs_in_order(self) -> list[JsonObject]:
        return [self.inputs[item] for item in sorted(self.inputs)]


def incomplete_steps(steps: Iterable[StepProgress]) -> list[StepProgress]:
    """Return the steps that did not give what they were there for, without which a composite went on."""
    return [step for step in steps if step.status == "skipped" or (step.errors and step.status != "fallback")]


def whole_output(steps: Sequence[StepProgress], incomplete: Sequence[StepProgress]) -> JsonObject:
    """Return the answer of a composite that does not say itself what it answers."""
    *earlier, last = steps
    output: JsonObject = {
        "result": last.seen["output"],
        "earlier": [{"tool_id": each.step.tool_id, "output": each.seen["output"]} for each in earlier],
    }
    if incomplete:
        output["incomplete"] = [
            {"tool_id": each.step.tool_id, "status": each.status, "error": each.first_error} for each in incomplete
        ]
    return output
