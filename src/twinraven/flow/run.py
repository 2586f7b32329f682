"""One run of a plan: starts each step when those before it have ended, and applies the error strategy.

What a step's failure leads to, in this order: its retries; the abort conditions; its fallback, whose last output stands
in for the step's; with its output known, the abort conditions once more; then either the composite goes on without it
(`skip`, for steps that nothing else covers) or it stops. A condition that asks for an output is not asked before that
output is known, or a step that is yet to run would look like one that gave nothing.

A write is tried again only if its error says that nothing happened. When the composite stops, reads under way are
cancelled, but a write under way is let finish, because an interrupted write is one that nobody knows the end of; only
the caller's own cancellation and the end of time interrupt everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, cast

from twinraven.flow.plan import CONCURRENCY, FlowPlan, PlannedStep, WiredField
from twinraven.flow.results import FlowFailed, FlowResult, StepProgress, StepRun, StepStatus, whole_output
from twinraven.foundation.canonical import JsonObject, to_json_value
from twinraven.foundation.errors import (
    EffectUnknown,
    InvalidInput,
    InvalidOutput,
    ToolTimeout,
    TwinRavenError,
)

Sleep = Callable[[float], Awaitable[object]]

# Trying these again unchanged gives the same answer, or does what must not be done twice.
_FINAL_CODES = frozenset(
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


class StepInvoker(Protocol):
    """Makes the calls of a run; it raises a TwinRavenError for a call that failed."""

    async def __call__(self, tool_id: str, params: JsonObject, *, step: StepRun, timeout_ms: int | None) -> Any:
        """Call a tool. The run itself ends a call that outlives `timeout_ms`."""
        ...


class _Stopped(Exception):
    """The composite ends here, with this error."""

    def __init__(self, error: TwinRavenError) -> None:
        super().__init__(error.message)
        self.error = error


class _Halted(Exception):
    """Another step stopped the composite before this call was made."""


@dataclass(slots=True)
class _Unit:
    """One call of a step with all its attempts: the whole of a plain step, one element of a for_each step."""

    step: PlannedStep
    progress: StepProgress
    scope: JsonObject
    item: int | None = None

    @property
    def place(self) -> int:
        return self.item or 0


class FlowRun:
    """Runs one plan once."""

    def __init__(
        self,
        plan: FlowPlan,
        parameters: JsonObject,
        invoke: StepInvoker,
        *,
        writes: Callable[[str], bool],
        sleep: Sleep,
        micros: Callable[[], int],
    ) -> None:
        self._plan = plan
        self._invoke = invoke
        self._writes = writes
        self._sleep = sleep
        self._micros = micros
        self._stopped: _Stopped | None = None
        self._progress = [StepProgress(step) for step in plan.steps]
        self._wiring: dict[str, JsonObject] = {wired.key: {} for wired in plan.wiring}
        self._scope: JsonObject = {
            "parameters": parameters,
            "steps": [progress.seen for progress in self._progress],
            "internal_wiring": self._wiring,
        }
        self._wire([wired for wired in plan.wiring if not wired.needs])

    async def finish(self) -> FlowResult:
        """Run to the end; what fails is in the result, and only cancellation and foreign errors are raised."""
        started = self._micros()
        error: TwinRavenError | None = None
        limit = asyncio.timeout(self._plan.budget_ms / 1000)
        try:
            async with limit:
                await (self._run_in_order() if self._plan.graph.is_sequential else self._run_graph())
        except _Stopped as stopped:
            error = stopped.error
        except TimeoutError:
            if not limit.expired():
                raise
            error = self._out_of_time()
        steps = tuple(progress.result() for progress in self._progress)
        output = None
        if error is None:
            mapping = self._plan.output
            output = whole_output(steps) if mapping is None else mapping.resolve(self._scope)
        status = "success" if error is None else "failed"
        return FlowResult(status, output, steps, error, started, self._micros())

    async def _run_in_order(self) -> None:
        for number in range(len(self._progress)):
            await self._run_step(number)

    async def _run_graph(self) -> None:
        after = self._plan.graph.after
        waiting = list(range(len(after)))
        ended: set[int] = set()
        running: dict[asyncio.Task[None], int] = {}
        try:
            while waiting or running:
                ready = [number for number in waiting if after[number] <= ended]
                waiting = [number for number in waiting if number not in ready]
                if len(ready) == 1 and not running:
                    await self._run_step(ready[0])
                    ended.add(ready[0])
                    continue
                running |= {asyncio.create_task(self._run_step(number)): number for number in ready}
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=running.__getitem__):
                    await task
                    ended.add(running.pop(task))
        except (_Stopped, _Halted) as error:
            await self._let_writes_finish(running)
            raise self._stopped or error from None
        finally:
            await _cancel(running)

    async def _let_writes_finish(self, running: dict[asyncio.Task[None], int]) -> None:
        for task, number in running.items():
            if not self._progress[number].writing:
                task.cancel()
        if running:
            await asyncio.wait(running)

    async def _run_step(self, number: int) -> None:
        step, progress = self._plan.steps[number], self._progress[number]
        progress.begun = self._micros()
        try:
            if step.condition is not None and not step.condition.evaluate(self._scope):
                progress.settle("skipped", None)
            elif step.for_each is None:
                output = await self._perform(_Unit(step, progress, self._scope))
                progress.settle(_status_of(progress, units=1), output)
            else:
                await self._run_each(step, progress)
            self._wire(self._plan.wired_after[number])
            if progress.errors:
                self._check_aborts(step, progress)
        except _Stopped as stopped:
            # Said at once, so that no step beside this one makes another call.
            self._stopped = self._stopped or stopped
            progress.settle_once("failed")
            raise
        except (asyncio.CancelledError, _Halted):
            progress.settle_once("cancelled")
            raise
        finally:
            progress.ended = self._micros()

    async def _run_each(self, step: PlannedStep, progress: StepProgress) -> None:
        try:
            items = self._items(step)
        except InvalidInput as error:
            await self._recover(_Unit(step, progress, self._scope), error, can_fall_back=False)
            progress.settle("failed", None)
            return
        outputs: list[Any] = [None] * len(items)
        queue = iter(enumerate(items))

        async def work() -> None:
            for number, item in queue:
                outputs[number] = await self._perform(_Unit(step, progress, {**self._scope, "item": item}, item=number))

        # Effects keep their order; only reads overlap.
        workers = 1 if self._writes(step.tool_id) else min(CONCURRENCY, len(items))
        await _together(work, workers)
        progress.settle(_status_of(progress, units=len(items)), outputs)

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

    async def _perform(self, unit: _Unit) -> Any:
        """The output of one call, or what stands in for it."""
        step, policy = unit.step, unit.step.retry
        params = unit.progress.inputs[unit.place] = step.inputs.resolve(unit.scope)
        attempt = 1
        while True:
            try:
                return await self._call(unit, step, params, StepRun(step.definition.step_index, unit.item, attempt))
            except TwinRavenError as error:
                failure = error
            if attempt > policy.max_retries or self._stopped or not self._may_repeat(step, failure):
                return await self._recover(unit, failure)
            await self._sleep(policy.delay_ms(attempt) / 1000)
            attempt += 1

    def _may_repeat(self, step: PlannedStep, error: TwinRavenError) -> bool:
        return error.retryable or (error.code not in _FINAL_CODES and not self._writes(step.tool_id))

    async def _call(self, unit: _Unit, step: PlannedStep, params: JsonObject, run: StepRun) -> Any:
        """One attempt, in its time; the tool gets copies, so that it cannot change what other steps see."""
        if self._stopped is not None:
            raise _Halted
        own_ms = step.definition.timeout_ms
        progress, is_write = unit.progress, self._writes(step.tool_id)
        progress.attempts += 1
        progress.writing += is_write
        call = self._invoke(
            step.tool_id, to_json_value(params), step=run, timeout_ms=own_ms or self._plan.definition.timeout_ms
        )
        try:
            # A step that inherits the time of the whole ends with the whole; a second clock would only race with it.
            output = await (call if own_ms is None else self._in_time(call, step.tool_id, own_ms))
        except asyncio.CancelledError:
            progress.interrupted = step.tool_id if is_write else progress.interrupted
            raise
        finally:
            progress.writing -= is_write
        progress.changed |= is_write
        try:
            return to_json_value(output)
        except InvalidInput as error:
            raise InvalidOutput(f"{step.tool_id!r} answered what is not JSON: {error.message}") from None

    async def _in_time(self, call: Awaitable[Any], tool_id: str, timeout_ms: int) -> Any:
        limit = asyncio.timeout(timeout_ms / 1000)
        try:
            async with limit:
                return await call
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._timed_out(tool_id, f"did not answer within {timeout_ms} ms") from None

    async def _recover(self, unit: _Unit, error: TwinRavenError, *, can_fall_back: bool = True) -> Any:
        """What stands in for the output of a call that failed for good; stops the composite if nothing may."""
        step, progress = unit.step, unit.progress
        progress.fail(unit.place, error)
        self._check_aborts(step, progress)
        if step.fallback and can_fall_back:
            try:
                output = await self._fall_back(unit)
                progress.rescued += 1
                return output
            except TwinRavenError as second:
                self._stop(unit, error, f"; its fallback failed too: {second.message}")
        if not step.skips:
            self._stop(unit, error)
        progress.lost += 1
        return None

    async def _fall_back(self, unit: _Unit) -> Any:
        results: list[JsonObject] = []
        scope = {**unit.scope, "fallback": results}
        output: Any = None
        index = unit.step.definition.step_index
        for position, step in enumerate(unit.step.fallback):
            if step.condition is not None and not step.condition.evaluate(scope):
                results.append({"output": None})
                continue
            params = step.inputs.resolve(scope)
            output = await self._call(unit, step, params, StepRun(index, unit.item, fallback=position))
            results.append({"output": output})
        return output

    def _check_aborts(self, step: PlannedStep, progress: StepProgress) -> None:
        """Stop if a condition holds."""
        for condition in self._plan.aborts:
            known = all(self._progress[index].is_settled for index in condition.asks_output_of)
            if known and condition.predicate.evaluate(self._scope):
                error = progress.errors[min(progress.errors)]
                raise _Stopped(self._failure(step, error, condition=condition.predicate.text))

    def _stop(self, unit: _Unit, error: TwinRavenError, addition: str = "") -> NoReturn:
        """End the composite; a condition that now holds is named as the reason."""
        unit.progress.settle("failed", None)
        self._check_aborts(unit.step, unit.progress)
        raise _Stopped(self._failure(unit.step, error, addition=addition, item=unit.item))

    def _failure(
        self, step: PlannedStep, error: TwinRavenError, *, addition: str = "", **details: Any
    ) -> TwinRavenError:
        index = step.definition.step_index
        message = f"step {index} ({step.tool_id}) failed: {error.message}{addition}"
        if "condition" in details:
            message = f"aborted, because {details['condition']}: {message}"
        known = {name: value for name, value in details.items() if value is not None}
        known |= {"step_index": index, "tool_id": step.tool_id, "changed": self._changed()}
        if error.code == EffectUnknown.code:
            return EffectUnknown(message, **known)
        return FlowFailed(message, cause=error, **known)

    def _changed(self) -> list[int]:
        """The steps that may have changed something already: whoever looks into a failure must know."""
        return [number for number, progress in enumerate(self._progress) if progress.changed]

    def _out_of_time(self) -> TwinRavenError:
        tool_id = self._plan.definition.tool_id
        what = f"did not finish within {self._plan.budget_ms} ms"
        for progress in self._progress:
            if progress.interrupted is not None:
                return self._timed_out(progress.interrupted, f"was interrupted, because {tool_id!r} {what}")
        return ToolTimeout(f"{tool_id!r} {what}", tool_id=tool_id, changed=self._changed())

    def _timed_out(self, tool_id: str, what: str) -> TwinRavenError:
        if self._writes(tool_id):
            return EffectUnknown(f"{tool_id!r} {what}; whether it took effect is unknown", tool_id=tool_id)
        return ToolTimeout(f"{tool_id!r} {what}", tool_id=tool_id)

    def _wire(self, fields: Iterable[WiredField]) -> None:
        """Bring named values up to date."""
        for wired in fields:
            self._wiring[wired.key][wired.name] = wired.value.resolve(self._scope)


def _status_of(progress: StepProgress, *, units: int) -> StepStatus:
    if progress.lost and progress.lost == units:
        return "failed"
    return "fallback" if progress.rescued else "ran"


async def _together(work: Callable[[], Coroutine[Any, Any, None]], workers: int) -> None:
    """Run a worker several times at once; the first failure cancels the others and is raised as it was."""
    if workers <= 1:
        await work()
        return
    tasks = {asyncio.create_task(work()): number for number in range(workers)}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in sorted(done, key=tasks.__getitem__):
            await task
    finally:
        await _cancel(tasks)


async def _cancel(tasks: dict[asyncio.Task[None], int]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
