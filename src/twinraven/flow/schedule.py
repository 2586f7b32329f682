"""Schedules one run of a plan: a pure state machine that says what to do next after each event.

It has no clock and makes no call, so the same events give the same actions whoever drives it. Outcomes may come in any
order: a run that is started anew and told what is known, call by call, comes to where it was.

What a step's failure leads to, in this order: its retries; the abort conditions; its fallback, whose last output stands
in for the step's; with its output known, the abort conditions once more; then either the run goes on without it or it
stops. A condition that asks for an output is not asked before that output is known, or a step that is yet to run would
look like one that gave nothing.

A write is tried again only if its error says that nothing happened. When a run stops, reads under way are cancelled,
but a write under way is let finish, because an interrupted write is one that nobody knows the end of. The elements of a
for_each step that writes are worked on one by one, in their order, so one that waits holds back those after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

from twinraven.flow.plan import CONCURRENCY, FlowPlan, PlannedStep
from twinraven.flow.protocol import (
    Action,
    Answered,
    CancelCall,
    Deferred,
    Event,
    Failed,
    Finish,
    Halted,
    MakeCall,
    Pause,
    Rested,
    TimedOut,
)
from twinraven.flow.results import (
    FlowFailed,
    FlowResult,
    FlowStatus,
    StepProgress,
    StepStatus,
    incomplete_steps,
    whole_output,
)
from twinraven.flow.step_run import StepRun
from twinraven.foundation.canonical import JsonObject, to_json_value
from twinraven.foundation.errors import EffectUnknown, InvalidInput, InvalidOutput, ToolTimeout, TwinRavenError

FINAL_CODES: Final = frozenset(
    {
        "VALIDATION_FAILED",
        "SCHEMA_INVALID",
        "DEFINITION_INVALID",
        "NOT_FOUND",
        "POLICY_VIOLATION",
        "APPROVAL_PENDING",
        "APPROVAL_DENIED",
        "IDEMPOTENCY_CONFLICT",
        "EFFECT_UNKNOWN",
    }
)
"""Trying these again unchanged gives the same answer, or does what must not be done twice."""


class _Unit:
    """One call of a step with all its attempts: the whole of a plain step, one element of a for_each step."""

    __slots__ = (
        "attempt",
        "error",
        "is_resting",
        "is_write",
        "item",
        "output",
        "params",
        "position",
        "progress",
        "results",
        "scope",
        "tool_id",
    )

    # Set when a call is made, which is as soon as there is a unit.
    is_resting: bool
    is_write: bool
    tool_id: str

    def __init__(self, progress: StepProgress, scope: JsonObject, item: int | None) -> None:
        self.progress = progress
        self.scope = scope
        self.item = item
        self.attempt = 1
        self.params: JsonObject = progress.step.inputs.resolve(scope)
        progress.inputs[item or 0] = self.params
        self.position = -1  # in the fallback sequence
        self.results: list[JsonObject] | None = None  # of the fallback, once it was begun
        self.output: Any = None
        self.error: TwinRavenError | None = None

    @property
    def place(self) -> int:
        return self.item or 0

    def run(self) -> StepRun:
        """Return the current attempt."""
        step = self.progress.step.definition
        if self.results is None:
            return StepRun(step.step_index, self.item, self.attempt, None, step.id)
        return StepRun(step.step_index, self.item, 1, self.position, step.id)


class Schedule:
    """Holds the state of one run; `start` and `advance` change it and give what to do next."""

    def __init__(self, plan: FlowPlan, parameters: JsonObject, writes: Callable[[str], bool]) -> None:
        self._plan = plan
        self._writes = writes
        self._progress = [StepProgress(step, number) for number, step in enumerate(plan.steps)]
        self._wiring: dict[str, JsonObject] = {wired.key: {} for wired in plan.wiring}
        seen: JsonObject = {name: each.seen for each in self._progress for name in each.step.names}
        self._scope: JsonObject = {"parameters": parameters, "steps": seen, "internal_wiring": self._wiring}
        self._blockers = list(plan.graph.blockers)
        self._ready = deque(plan.graph.first)
        self._flights: dict[StepRun, _Unit] = {}
        self._waits: list[int | None] = []
        self._changed: set[int] = set()  # the steps that may have changed something, for the error report
        self._stopped: TwinRavenError | None = None
        self._actions: list[Action] = []
        self._started = self._now = 0

    def start(self, now: int) -> list[Action]:
        """Begin the run; `now` is in microseconds."""
        self._started = self._now = now
        for wired in self._plan.wired_first:
            self._wiring[wired.key][wired.name] = wired.value.resolve(self._scope)
        return self._next_actions()

    def advance(self, event: Event, now: int) -> list[Action]:
        """Take in what happened, and give what to do next; what is told of a call that was given up is ignored."""
        if isinstance(event, Answered):  # first, because nearly every event is one
            return self.answer(event.run, event.output, now)
        self._now = now
        if isinstance(event, Halted):
            self._stop(event.error)
        elif isinstance(event, TimedOut):
            self._time_out(event.what)
        elif (unit := self._flights.pop(event.run, None)) is not None:
            self._take(unit, event)
        return self._next_actions()

    def answer(self, run: StepRun, output: Any, now: int) -> list[Action]:
        """Take in that a call `Answered`, as `advance` does, for drivers that need no event to carry its output."""
        self._now = now
        unit = self._flights.pop(run, None)
        if unit is not None:
            self._take_output(unit, output)
        return self._next_actions()

    def _take_output(self, unit: _Unit, output: Any) -> None:
        progress = unit.progress
        if unit.is_write:
            self._changed.add(progress.number)
        try:
            output = to_json_value(output)
        except InvalidInput as error:
            self._fail(unit, InvalidOutput(f"{unit.tool_id!r} answered what is not JSON: {error.message}"))
            return
        if unit.results is not None:
            unit.output = output
            unit.results.append({"output": output})
            self._fall_back(unit, unit.results)
        elif unit.item is None:
            # Nothing of a plain step has failed for good where its own call answers.
            progress.settle("ran", output)
            self._end(progress)
        else:
            self._complete(unit, output)

    def _take(self, unit: _Unit, event: Failed | Rested | Deferred) -> None:
        if isinstance(event, Failed):
            self._fail(unit, event.error)
        elif isinstance(event, Rested):
            self._call(unit, unit.progress.step, unit.params)
        else:
            self._put_aside(unit, event.until)

    def _next_actions(self) -> list[Action]:
        while self._ready and self._stopped is None:
            self._begin(self._progress[self._ready.popleft()])
        actions, self._actions = self._actions, []
        if not self._flights:
            actions.append(Finish(self._result()))
        return actions

    def _begin(self, progress: StepProgress) -> None:
        step = progress.step
        progress.begun = self._now
        if step.condition is not None and not step.condition.evaluate(self._scope):
            progress.settle("skipped", None)
            self._end(progress)
        elif step.for_each is None:
            unit = _Unit(progress, self._scope, None)
            self._call(unit, step, unit.params, step.first)
        else:
            self._begin_each(progress)

    def _begin_each(self, progress: StepProgress) -> None:
        step = progress.step
        try:
            progress.items = self._items(step)
        except InvalidInput as error:
            progress.fail(0, error)
            if self._aborts(progress):
                return
            if not step.skips:
                self._stop_at(progress, error)
                return
            progress.settle("failed", None)
            self._end(progress)
            return
        progress.outputs = [None] * len(progress.items)
        if not progress.items:
            progress.settle_calls(0, progress.outputs)
            self._end(progress)
            return
        for _ in range(1 if self._writes(step.tool_id) else CONCURRENCY):
            self._begin_item(progress)

    def _items(self, step: PlannedStep) -> list[Any]:
        found = None if step.for_each is None else step.for_each.resolve(self._scope)
        if found is None:
            return []
        where = f"steps[{step.definition.step_index}].for_each"
        if not isinstance(found, list):
            raise InvalidInput(f"{where}: {step.definition.for_each} is not a list", field=where)
        items = cast("list[Any]", found)
        if len(items) > step.definition.max_items:
            raise InvalidInput(
                f"{where}: the list has {len(items)} items, and this step takes {step.definition.max_items} at most",
                field=where,
            )
        return items

    def _begin_item(self, progress: StepProgress) -> None:
        number = progress.next_item
        if number < len(progress.items) and self._stopped is None:
            progress.next_item += 1
            progress.open_items += 1
            unit = _Unit(progress, {**self._scope, "item": progress.items[number]}, number)
            self._call(unit, progress.step, unit.params)

    def _call(self, unit: _Unit, step: PlannedStep, params: JsonObject, run: StepRun | None = None) -> None:
        """One attempt; the tool gets copies, so that it cannot change what other steps see."""
        tool_id = step.tool_id
        if run is None:
            run = unit.run()
        unit.progress.attempts += 1
        unit.is_write = is_write = self._writes(tool_id)
        unit.is_resting, unit.tool_id = False, tool_id
        self._flights[run] = unit
        copied: JsonObject = to_json_value(params)
        self._actions.append(MakeCall(run, tool_id, copied, step.timeout_ms, is_write))

    def _fail(self, unit: _Unit, error: TwinRavenError) -> None:
        if unit.results is not None:
            self._lose(unit, unit.error or error, f"; its fallback failed too: {error.message}")
            return
        step = unit.progress.step
        retries = step.retry.max_retries if self._stopped is None else 0
        if unit.attempt > retries or not self._may_repeat(step, error):
            self._give_up(unit, error)
            return
        wait = step.retry.delay_ms(unit.attempt)
        unit.attempt += 1
        unit.is_resting = True
        run = unit.run()
        self._flights[run] = unit
        self._actions.append(Pause(run, wait))

    def _may_repeat(self, step: PlannedStep, error: TwinRavenError) -> bool:
        return error.retryable or (error.code not in FINAL_CODES and not self._writes(step.tool_id))

    def _give_up(self, unit: _Unit, error: TwinRavenError) -> None:
        """Look for what stands in for the output of a call that failed for good."""
        progress = unit.progress
        progress.fail(unit.place, error)
        if self._aborts(progress):
            return
        if not progress.step.fallback:
            self._lose(unit, error)
            return
        unit.error, unit.results = error, []
        # Its own failure, not that of whichever element failed before: the order of completion decides nothing.
        own = {**progress.seen, "error": error.as_json()}
        steps = {**self._scope["steps"], str(progress.number): own, progress.step.definition.step_id: own}
        unit.scope = {**unit.scope, "steps": steps, "fallback": unit.results}
        self._fall_back(unit, unit.results)

    def _fall_back(self, unit: _Unit, results: list[JsonObject]) -> None:
        """Make the next call of the fallback; after the last, its output stands in for the step's."""
        sequence = unit.progress.step.fallback
        for position in range(unit.position + 1, len(sequence)):
            step = sequence[position]
            if step.condition is not None and not step.condition.evaluate(unit.scope):
                results.append({"output": None})
                continue
            if self._stopped is None:
                unit.position = position
                self._call(unit, step, step.inputs.resolve(unit.scope))
            return
        unit.progress.rescued += 1
        self._complete(unit, unit.output)

    def _lose(self, unit: _Unit, error: TwinRavenError, addition: str = "") -> None:
        progress = unit.progress
        if progress.step.skips:
            progress.lost += 1
            self._complete(unit, None)
        else:
            self._stop_at(progress, error, addition=addition, item=unit.item)

    def _put_aside(self, unit: _Unit, until: int | None) -> None:
        """Go on without a call that waits; its step does not end in this run."""
        progress = unit.progress
        self._waits.append(until)
        if progress.items and not self._writes(progress.step.tool_id):
            self._begin_item(progress)

    def _complete(self, unit: _Unit, output: Any) -> None:
        """Take the output of a call, or what stands in for it."""
        progress = unit.progress
        if unit.item is None:
            if progress.errors:
                progress.settle_calls(1, output)
            else:
                progress.settle("ran", output)
            self._end(progress)
            return
        progress.outputs[unit.item] = output
        progress.open_items -= 1
        if progress.next_item < len(progress.items):
            self._begin_item(progress)
        elif not progress.open_items:
            progress.settle_calls(len(progress.items), progress.outputs)
            self._end(progress)

    def _end(self, progress: StepProgress) -> None:
        progress.ended = self._now
        plan, blockers = self._plan, self._blockers
        for wired in plan.wired_after[progress.number]:
            self._wiring[wired.key][wired.name] = wired.value.resolve(self._scope)
        if progress.errors and self._aborts(progress):
            return
        for number in plan.graph.unlocks[progress.number]:
            blockers[number] = left = blockers[number] - 1
            if not left:
                self._ready.append(number)

    def _aborts(self, progress: StepProgress) -> bool:
        """Stop if an abort condition holds."""
        for condition in self._plan.aborts:
            known = all(self._progress[index].is_settled for index in condition.asks_output_of)
            if known and condition.predicate.evaluate(self._scope):
                error = progress.errors[min(progress.errors)]
                progress.settle_once("failed")
                self._stop(self._failure(progress.step, error, condition=condition.predicate.text))
                return True
        return False

    def _stop_at(
        self, progress: StepProgress, error: TwinRavenError, *, addition: str = "", item: int | None = None
    ) -> None:
        """Stop because of a step; a condition that now holds is named as the reason."""
        progress.settle("failed", None)
        progress.ended = self._now
        if not self._aborts(progress):
            self._stop(self._failure(progress.step, error, addition=addition, item=item))

    def _stop(self, error: TwinRavenError) -> None:
        """Make no further call: give up pauses and reads, and let writes finish."""
        if self._stopped is None:
            self._stopped = error
            self._cancel(lambda unit: unit.is_resting or not unit.is_write)

    def _time_out(self, what: str) -> None:
        """Give up everything, writes too."""
        flights = self._flights.values()
        interrupted = {unit.progress.number: unit.tool_id for unit in flights if unit.is_write and not unit.is_resting}
        self._cancel(lambda _: True)
        name = self._plan.definition.tool_id
        if interrupted:
            first = interrupted[min(interrupted)]
            self._stopped = late_call(first, f"was interrupted, because {name!r} {what}", is_write=True)
        else:
            self._stopped = ToolTimeout(f"{name!r} {what}", tool_id=name, changed=sorted(self._changed))

    def _cancel(self, chosen: Callable[[_Unit], bool]) -> None:
        for run, unit in [*self._flights.items()]:
            if chosen(unit):
                del self._flights[run]
                self._actions.append(CancelCall(run))

    def _failure(
        self, step: PlannedStep, error: TwinRavenError, *, addition: str = "", **details: Any
    ) -> TwinRavenError:
        own = step.definition
        message = f"step {own.step_id} ({step.tool_id}) failed: {error.message}{addition}"
        if "condition" in details:
            message = f"aborted, because {details['condition']}: {message}"
        known = {name: value for name, value in details.items() if value is not None}
        known |= {"step_index": own.step_index, "tool_id": step.tool_id, "changed": sorted(self._changed)}
        known |= {} if own.id is None else {"step_id": own.id}
        if error.code == EffectUnknown.code:
            # The key under which a person can look, and say what happened.
            key = error.details.get("idempotency_key")
            return EffectUnknown(message, **known, **({} if key is None else {"idempotency_key": key}))
        return FlowFailed(message, cause=error, **known)

    def _result(self) -> FlowResult:
        status: FlowStatus = "failed" if self._stopped is not None else "waiting" if self._waits else "success"
        incomplete = incomplete_steps(self._progress) if self._stopped is None else []
        output = until = None
        if status == "success":
            mapping = self._plan.output
            output = whole_output(self._progress, incomplete) if mapping is None else mapping.resolve(self._scope)
        else:
            self._settle_unfinished("waiting" if status == "waiting" else "cancelled")
        if status == "waiting":
            until = min((moment for moment in self._waits if moment is not None), default=None)
        return FlowResult(
            status, output, self._progress, self._stopped, self._started, self._now, until, is_partial=bool(incomplete)
        )

    def _settle_unfinished(self, status: StepStatus) -> None:
        for progress in self._progress:
            if progress.status == "not_run" and progress.begun is not None:
                progress.ended = self._now
                progress.settle(status, None)


def late_call(tool_id: str, what: str, *, is_write: bool) -> TwinRavenError:
    """Return the error of a call that was cut off: a write may have taken effect."""
    if is_write:
        return EffectUnknown(f"{tool_id!r} {what}; whether it took effect is unknown", tool_id=tool_id)
    return ToolTimeout(f"{tool_id!r} {what}", tool_id=tool_id)
