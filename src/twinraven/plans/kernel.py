"""Runs a plan as a program of the engine: one step at a time, each in a cycle that leaves a log entry.

A cycle is one step of the loop: the first makes the plan where only a request was given, each further one carries out
one step. A cycle that asks the model costs one of the cycles that the plan may take. Every answer of the model
(`cycle:7:llm`), every repair (`cycle:7:json_repair:1`) and every call (`cycle:7:tool`) has a place in the journal, and
so has the cycle itself (`cycle:7`), so whoever takes the run up again goes on after the last cycle, and within a cycle
asks and calls nothing twice.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

from twinraven.calls import ToolCall
from twinraven.catalog import ToolEntry
from twinraven.engine import CallFraming, ProgramRun
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import iso_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError, error_from_json
from twinraven.foundation.json_schema import compile_schema
from twinraven.models import ASK_MODEL, ModelAnswer, ModelQuestion
from twinraven.plans.errors import PlanExpired, PlanFailed, PlanUnrecoverable
from twinraven.plans.mending import mend_arguments, mend_plan, near_name
from twinraven.plans.model import AGENT, FINAL, Plan, PlanStep
from twinraven.plans.questions import ACTIONS, FEW, ask_arguments, ask_plan, ask_reasoning, ask_tool
from twinraven.plans.state import Cycle, LogEntry, OrchestrationState
from twinraven.plans.supervisor import Supervisor
from twinraven.plans.tool_choice import offer_tools

MODEL_ATTEMPTS: Final = 3
"""How often the model is asked before its failure counts."""
MODEL_BACKOFF_S: Final = 0.5
RUN_PLAN: Final = "run_plan"
_MODEL_SESSION: Final = CallFraming(":model")
_WITHHELD: Final = frozenset({ASK_MODEL, RUN_PLAN})
"""What no step of a plan may call: the kernel asks the model, and a plan does not start another."""


class PlanRequest(NamedTuple):
    """A request for a plan, with its limits."""

    ttl: int
    request: str | None = None
    plan: JsonObject | None = None
    tools: tuple[str, ...] | None = None
    """The tools it may use; None: all that its caller may call."""
    grants: tuple[tuple[int, int], ...] = ()
    """Of a fork: after which cycle it was given how many more cycles."""
    required_actions: tuple[JsonObject, ...] = ()
    """What a judge asks of this attempt: the model is told, and so is every tool with such a parameter."""

    @property
    def cycles(self) -> int:
        """The maximum number of cycles."""
        return self.ttl + sum(more for _, more in self.grants)

    @classmethod
    def from_json(cls, body: JsonObject) -> PlanRequest:
        tools = cast("list[str] | None", body.get("tools"))
        grants = tuple((int(after), int(more)) for after, more in cast("list[list[int]]", body.get("grants") or []))
        named = None if tools is None else tuple(tools)
        asked = tuple(cast("list[JsonObject]", body.get(ACTIONS) or []))
        return cls(body["ttl"], body.get("request"), body.get("plan"), named, grants, asked)

    def as_json(self) -> JsonObject:
        asked = {ACTIONS: list(self.required_actions)} if self.required_actions else {}
        return asked | {
            "ttl": self.ttl,
            "request": self.request,
            "plan": self.plan,
            "tools": None if self.tools is None else list(self.tools),
            "grants": [list(grant) for grant in self.grants],
        }


class ModelGaveUp(Exception):
    """The model said nothing after all attempts; carries the error."""

    def __init__(self, error: TwinRavenError) -> None:
        super().__init__(error.message)
        self.error = error


async def run_plan(params: JsonObject, run: ProgramRun, *, extra: tuple[ToolEntry, ...] = ()) -> JsonObject:
    """Carry a plan out; what ends it badly is raised with its code."""
    return await Kernel(run, PlanRequest.from_json(params), extra).run()


class Kernel:
    """One plan on its way."""

    def __init__(self, run: ProgramRun, wish: PlanRequest, extra: tuple[ToolEntry, ...]) -> None:
        self._run = run
        self._wish = wish
        self._extra = extra
        self._state = OrchestrationState(None, wish.ttl, grants=dict(wish.grants))

    async def run(self) -> JsonObject:
        """Go on where the journal ends, until the plan has come to its end."""
        await self._begin()
        self._restore()
        while True:
            self._end_if_over()
            plan = self._state.plan
            if plan is not None and plan.next_step is None:
                return self._completed(plan)
            await self._cycle()

    async def _begin(self) -> None:
        """Take a plan that was given, with what the validator says of it."""
        if self._wish.plan is None:
            return
        known = self._run.known("plan")
        if known is None:
            await self._run.keep("plan", self._validated(Plan.from_json(self._wish.plan)).as_json())
            known = self._run.known("plan")
        assert known is not None
        self._state.plan = Plan.from_json(known.output)

    def _restore(self) -> None:
        while (known := self._run.known(f"cycle:{self._state.cycles + 1}")) is not None:
            self._state.take(Cycle.from_json(known.output, self._state.plan))

    def _end_if_over(self) -> None:
        """End a plan that failed in its last cycle, or has no cycle left."""
        state = self._state
        if state.log and state.log[-1].errors:
            last = state.log[-1].errors[-1]
            if last.get("ends_plan"):
                kind = PlanUnrecoverable if last["code"] == PlanUnrecoverable.code else PlanFailed
                raise kind(str(last["message"]), **cast("JsonObject", last["details"]))
        open_step = None if state.plan is None else state.plan.next_step
        if state.ttl_remaining == 0 and (state.plan is None or open_step is not None):
            step_id = None if open_step is None else open_step.step_id
            raise PlanExpired(
                f"TTL expired: the plan used up its {self._wish.cycles} cycles"
                + ("" if step_id is None else f" before step {step_id!r}"),
                step_id=step_id,
                ttl=self._wish.cycles,
            )

    def _completed(self, plan: Plan) -> JsonObject:
        tokens = self._state.tokens()
        return {
            "status": "completed",
            "goal": plan.goal,
            "steps": {step.step_id: step.status for step in plan.steps},
            "failed": [step.step_id for step in plan.steps if step.status == "failed"],
            "results": self._state.results,
            "cycles": self._state.cycles,
            "ttl_remaining": self._state.ttl_remaining,
            "usage": {"input_tokens": tokens[0], "output_tokens": tokens[1]},
        }

    async def _cycle(self) -> None:
        """Run one cycle, and store it as a whole when it is over."""
        work = CycleWork(self._run, self._state)
        plan = self._state.plan
        if plan is None:
            await self._make_plan(work)
        else:
            step = plan.next_step
            assert step is not None
            await self._carry_out(work, step)
        cycle = work.finished()
        self._state.take(cycle)
        await self._run.keep(f"cycle:{cycle.entry.step_number}", cycle.as_json(plan))

    async def _make_plan(self, work: CycleWork) -> None:
        request = str(self._wish.request)
        tools = offer_tools(request, self._tools())
        names = [tool.tool_id for tool in tools]
        asked = self._wish.required_actions
        question = ask_plan(request, tools, asked)
        try:
            answer = await work.ask("llm", question)
            value = await work.supervisor.read(answer, question, ask_plan(request, tools, asked, most=FEW))
            work.plan = await work.supervisor.check(
                "plan_repair",
                value,
                question,
                check=lambda stated: _fresh(self._without_near_misses(stated, names)),
                mend=lambda stated: mend_plan(stated, request, names),
            )
        except PlanUnrecoverable as error:
            work.errors.append({**error.as_json(), "ends_plan": True})
        except ModelGaveUp as gone:
            failed = PlanFailed(f"no plan could be made: {gone.error.message}", reason=gone.error.code)
            work.errors.append({**failed.as_json(), "ends_plan": True})
        else:
            work.plan = self._validated(work.plan)

    def _without_near_misses(self, stated: Any, names: list[str]) -> Any:
        """Refuse a plan for a tool's name that is only misspelt, so that a rule mends it."""
        steps = cast("Any", stated).get("steps") if isinstance(stated, dict) else None
        for number, step in enumerate(cast("list[Any]", steps) if isinstance(steps, list) else []):
            tool = cast("JsonObject", step).get("tool") if isinstance(step, dict) else None
            if isinstance(tool, str) and self._tool(tool) is None and near_name(tool, names) is not None:
                raise InvalidInput(f"steps[{number}].tool: no tool {tool!r}", field=f"steps[{number}].tool")
        return cast("Any", stated)

    async def _carry_out(self, work: CycleWork, step: PlanStep) -> None:
        """Take one step to its end; its failure ends the plan only where it is critical or cannot be repaired."""
        step = work.change(step.moved("running"))
        try:
            self._refuse_after_failure(step)
            step, tool = await self._target(work, step)
            if tool is None:
                result = await self._reason(work, step)
            else:
                result = await self._call(work, step, tool)
        except PlanUnrecoverable as error:
            work.change(step.moved("failed"))
            details = {**error.details, "step_id": step.step_id}
            work.errors.append({**error.as_json(), "details": details, "ends_plan": True})
        except ModelGaveUp as gone:
            self._fail(work, step, gone.error)
        except TwinRavenError as error:
            self._fail(work, step, error)
        else:
            work.results[step.step_id] = result
            work.change(step.moved("complete"))

    def _fail(self, work: CycleWork, step: PlanStep, error: TwinRavenError) -> None:
        work.change(step.moved("failed"))
        told = error.as_json()
        work.errors.append({**told, "details": {**told["details"], "step_id": step.step_id}})
        work.results[step.step_id] = {"error": {"code": error.code, "message": error.message[:500]}}
        if step.critical:
            failed = PlanFailed(
                f"the critical step {step.step_id!r} failed: {error.message}", step_id=step.step_id, reason=error.code
            )
            work.errors.append({**failed.as_json(), "ends_plan": True})

    def _refuse_after_failure(self, step: PlanStep) -> None:
        plan = self._state.plan
        assert plan is not None
        broken = [other for other in step.depends_on if plan.step(other).status != "complete"]
        if broken:
            raise PlanFailed(f"it needs step {broken[0]!r}, which failed", step_id=step.step_id)

    async def _target(self, work: CycleWork, step: PlanStep) -> tuple[PlanStep, ToolEntry | None]:
        """Return the tool that a step calls, its name repaired where need be; None where the step reasons."""
        tool = None if step.tool is None else self._tool(step.tool)
        if tool is not None:
            return step, tool
        if step.tool is None and step.agent == AGENT:
            return step, None
        tools = offer_tools(f"{work.goal} {step.description}", self._tools())
        step = work.change(replace(step, errors=(self._problem(step),)))
        question = ask_tool(work.goal, step, tools)
        try:
            repaired = await work.supervisor.check(
                "plan_repair",
                {"tool": step.tool, "agent": None},
                question,
                check=lambda stated: self._chosen(step, stated),
                mend=lambda stated: (
                    {"tool": near_name(str(step.tool or ""), [each.tool_id for each in tools])} if step.tool else stated
                ),
            )
        except (PlanUnrecoverable, ModelGaveUp):
            # What names no tool after two attempts can still be thought about.
            repaired = replace(step, tool=None, agent=AGENT, arguments=None)
        step = work.change(replace(repaired, errors=()))
        return step, None if step.tool is None else self._tool(step.tool)

    def _chosen(self, step: PlanStep, stated: Any) -> PlanStep:
        found = cast("JsonObject", stated) if isinstance(stated, dict) else {}
        tool, agent = found.get("tool"), found.get("agent")
        if isinstance(tool, str) and self._tool(tool) is not None:
            return replace(step, tool=tool, agent=None)
        if tool is None and agent == AGENT:
            return replace(step, tool=None, agent=AGENT, arguments=None)
        raise InvalidInput(
            f"tool: {self._problem(replace(step, tool=tool if isinstance(tool, str) and tool else None))}"
        )

    def _problem(self, step: PlanStep) -> str:
        if step.tool is None:
            return 'the step has neither a tool nor agent "llm"'
        if step.tool in _WITHHELD:
            return f"{step.tool!r} cannot be called by a plan"
        return f"there is no tool {step.tool!r} that this plan may call"

    async def _call(self, work: CycleWork, step: PlanStep, tool: ToolEntry) -> Any:
        schema, asked = compile_schema(tool.input_schema), self._wish.required_actions
        told = {ACTIONS: list(asked)} if asked and ACTIONS in tool.input_schema.get("properties", {}) else {}

        def check(stated: Any) -> JsonObject:
            if not isinstance(stated, dict):
                raise InvalidInput("arguments must be an object", field="arguments")
            filled = schema.fill({**cast("JsonObject", stated), **told})
            schema.check(filled, field="arguments")
            return filled

        question = ask_arguments(work.goal, step, tool, self._state.results, asked)
        value: Any = step.arguments
        if value is None:
            answer = await work.ask("llm", question)
            value = await work.supervisor.read(answer, question)
        arguments = await work.supervisor.check(
            "tool_call_repair",
            value,
            question,
            check=check,
            mend=lambda stated: mend_arguments(stated, tool.input_schema),
        )
        work.change(replace(work.step(step.step_id), arguments=arguments, errors=()))
        return await work.call(tool.tool_id, arguments, step.step_id)

    async def _reason(self, work: CycleWork, step: PlanStep) -> Any:
        answer = await work.ask("llm", ask_reasoning(work.goal, step, self._state.results, self._wish.required_actions))
        if not answer.text.strip():
            raise PlanFailed("the model said nothing", step_id=step.step_id)
        return answer.text.strip()

    def _validated(self, plan: Plan | None) -> Plan:
        """Return the plan with the validator's errors on steps whose tool is missing."""
        assert plan is not None
        for step in plan.steps:
            is_missing = self._tool(step.tool) is None if step.tool is not None else step.agent is None
            if step.status not in FINAL:
                plan = plan.with_step(replace(step, errors=(self._problem(step),) if is_missing else ()))
        return plan

    def _tool(self, tool_id: str) -> ToolEntry | None:
        if tool_id in _WITHHELD or (self._wish.tools is not None and tool_id not in self._wish.tools):
            return None
        return self._run.tool(tool_id)

    def _tools(self) -> list[ToolEntry]:
        named = {tool.tool_id: tool for tool in (*self._run.offered(), *self._extra)}
        return [tool for tool_id, tool in named.items() if self._tool(tool_id) is not None]


class CycleWork:
    """The work of one cycle, until it is stored."""

    def __init__(self, run: ProgramRun, state: OrchestrationState) -> None:
        self._run = run
        self._state = state
        self._number = state.cycles + 1
        self._before = state.plan
        self._said: ModelAnswer | None = None
        self._repaired: list[ModelAnswer] = []
        self._asked = False
        self._calls: list[ToolCall] = []
        self._time = run.now()
        self.supervisor = Supervisor(self.ask, lambda: iso_micros(self._time))
        self.plan = state.plan
        self.errors: list[JsonObject] = []
        self.results: JsonObject = {}

    @property
    def goal(self) -> str:
        return "" if self.plan is None else self.plan.goal

    def step(self, step_id: str) -> PlanStep:
        assert self.plan is not None
        return self.plan.step(step_id)

    def change(self, step: PlanStep) -> PlanStep:
        """Put a changed step into the plan; arguments that were found meanwhile stay."""
        assert self.plan is not None
        kept = self.plan.step(step.step_id)
        if step.status in FINAL:
            step = replace(step, arguments=kept.arguments, tool=kept.tool, agent=kept.agent)
        self.plan = self.plan.with_step(step)
        return step

    async def ask(self, what: str, question: ModelQuestion) -> ModelAnswer:
        """Ask the model at a place of this cycle; failures are retried with growing pauses before they count."""
        self._asked = True
        place = f"cycle:{self._number}:{what}"
        for attempt in range(1, MODEL_ATTEMPTS + 1):
            if attempt > 1:
                await self._run.pause(place, attempt, MODEL_BACKOFF_S * 2 ** (attempt - 2))
            outcome = await self._run.call(
                place, ASK_MODEL, question.as_json(), attempt=attempt, framing=_MODEL_SESSION, held=True
            )
            self._time = max(self._time, outcome.settled_at)
            if outcome.error is None:
                answer = ModelAnswer.from_json(outcome.output)
                if what == "llm":
                    self._said = answer
                else:
                    self._repaired.append(answer)
                return answer
            error = error_from_json(outcome.error)
            if not error.retryable or attempt == MODEL_ATTEMPTS:
                raise ModelGaveUp(error)
        raise AssertionError("the last attempt returns or raises")

    async def call(self, tool_id: str, arguments: JsonObject, step_id: str) -> Any:
        """Call a tool and record it; raises the call's error."""
        outcome = await self._run.call(
            f"cycle:{self._number}:tool", tool_id, arguments, framing=CallFraming(turn=self._number)
        )
        self._time = max(self._time, outcome.settled_at)
        self._calls.append(
            ToolCall(
                tool_name=tool_id,
                arguments=arguments,
                timestamp=iso_micros(outcome.settled_at),
                step_id=step_id,
                result=outcome.output,
                error=outcome.error,
            )
        )
        return outcome.value()

    def finished(self) -> Cycle:
        """Return the cycle as it is kept."""
        left = self._state.ttl_remaining - (1 if self._asked else 0)
        entry = LogEntry(
            step_number=self._number,
            plan_state={} if self._before is None else self._before.as_json(),
            llm_output=self._output(),
            supervisor_actions=tuple(self.supervisor.actions),
            tool_calls=tuple(self._calls),
            ttl_remaining=left,
            errors=tuple(self.errors),
            timestamp=iso_micros(self._time),
        )
        return Cycle(entry, self.plan, self.results)

    def _output(self) -> JsonObject:
        """Return what the model said, with what all askings of the cycle took."""
        said = [answer for answer in (self._said, *self._repaired) if answer is not None]
        if not said:
            return {}
        priced = [answer for answer in said if answer.amount is not None]
        total = replace(
            said[0],
            input_tokens=sum(answer.input_tokens for answer in said),
            output_tokens=sum(answer.output_tokens for answer in said),
            currency=priced[0].currency if priced else None,
            amount=f"{sum(Decimal(str(answer.amount)) for answer in priced):f}" if priced else None,
        )
        return total.as_json()


def _fresh(stated: Any) -> Plan:
    plan = Plan.from_json(stated)
    if not plan.is_fresh:
        raise InvalidInput("a new plan has only pending steps", field="steps[0].status")
    return plan
