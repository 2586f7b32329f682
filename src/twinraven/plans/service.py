"""Starts plans, shows what they have come to, and forks them; a plan is a durable run of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from twinraven.engine import ProgramFork, ProgramRequest, Run, RunDetail, Runs, RunState, Wait
from twinraven.foundation.actors import Actor
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import InvalidInput, NotFound, ToolUnavailable
from twinraven.plans.kernel import PlanRequest
from twinraven.plans.model import MAX_TEXT, Plan
from twinraven.plans.state import LogEntry, OrchestrationState, take_all
from twinraven.tenancy import Principal

if TYPE_CHECKING:
    from twinraven.catalog import Catalog
    from twinraven.models import Models

PROGRAM: Final = "plan"
MAX_TTL: Final = 1_000
_MAX_TOOLS: Final = 500


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A plan on its way or at its end."""

    run: Run
    wish: PlanRequest
    state: OrchestrationState
    output: Any
    error: JsonObject | None
    waits: tuple[Wait, ...]

    @property
    def status(self) -> str:
        """`planning`, `executing`, `waiting`, `completed`, `failed`, `expired`, or what was decided about the run."""
        if self.run.state == "succeeded":
            return "completed"
        if self.run.state == "failed":
            return "expired" if self.run.error_code == "PLAN_TTL_EXPIRED" else "failed"
        if self.run.state in ("waiting", "cancelled", "set_aside"):
            return self.run.state
        return "planning" if self.state.plan is None else "executing"

    def as_json(self) -> JsonObject:
        tokens = self.state.tokens()
        return {
            "run_id": self.run.run_id,
            "status": self.status,
            "request": self.wish.request,
            "ttl": self.wish.cycles,
            "state": self.state.as_json(),
            "results": self.state.results,
            "cycles": self.state.cycles,
            "usage": {"input_tokens": tokens[0], "output_tokens": tokens[1]},
            "error": self.error,
            "waits": [wait.as_json() for wait in self.waits if wait.answered_at is None],
            "run": self.run.as_json(),
        }


class Plans:
    """The plans of all tenants."""

    def __init__(
        self, runs: Callable[[], Runs], models: Callable[[], Models], catalog: Callable[[], Catalog], *, ttl: int
    ) -> None:
        self._runs = runs
        self._models = models
        self._catalog = catalog
        self._ttl = ttl

    @property
    def runs(self) -> Runs:
        """The durable runs that plans are."""
        return self._runs()

    def wish(
        self,
        *,
        request: Any = None,
        plan: Any = None,
        ttl: Any = None,
        tools: Any = None,
    ) -> PlanRequest:
        """Check what a plan is to be made of; errors name the field."""
        if (request is None) == (plan is None):
            raise InvalidInput("a plan is made of a request or given as JSON: state one of the two", field="request")
        if request is not None and (not isinstance(request, str) or not request.strip()):
            raise InvalidInput("request must be a text that is not empty", field="request")
        if request is not None and len(request) > MAX_TEXT:
            raise InvalidInput(f"request has more than {MAX_TEXT} characters", field="request")
        left = self._ttl if ttl is None else ttl
        if isinstance(left, bool) or not isinstance(left, int) or not 1 <= left <= MAX_TTL:
            raise InvalidInput(f"ttl must be a whole number from 1 to {MAX_TTL}", field="ttl")
        return PlanRequest(left, request, _given_plan(plan), _tool_names(tools))

    async def start(
        self, wish: PlanRequest, *, by: Principal, run_id: str | None = None, timeout_s: float | None = None
    ) -> Run:
        """Start a plan, or find the one of this id that was started with the same words."""
        return await self.start_for(
            wish, tenant_id=by.tenant_id, caller=by.user_id, actor=by.actor, run_id=run_id, timeout_s=timeout_s
        )

    async def start_for(
        self,
        wish: PlanRequest,
        *,
        tenant_id: str,
        caller: str | None,
        actor: Actor,
        run_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Run:
        """Start a plan for a caller who may be anonymous, and so acts for the whole tenant."""
        for number, name in enumerate(wish.tools or ()):
            self._check_tool(tenant_id, caller, name, f"tools[{number}]")
        started = self.program(wish)._replace(run_id=run_id, timeout_s=timeout_s)
        return await self._runs().start_program(started, tenant_id=tenant_id, caller=caller, actor=actor)

    def program(self, wish: PlanRequest) -> ProgramRequest:
        """Return the program of a plan, to be run as a part of something else."""
        if wish.request is not None:
            self._models().require()
        goal = wish.request or str(cast("JsonObject", wish.plan)["goal"])
        return ProgramRequest(PROGRAM, wish.as_json(), f"Plan: {goal[:200]}")

    def _check_tool(self, tenant_id: str, caller: str | None, name: str, field: str) -> None:
        """Refuse a tool that is not there for the caller; one that is held back may be there in time."""
        try:
            with suppress(ToolUnavailable):
                self._catalog().resolve(tenant_id, name, caller)
        except NotFound as error:
            raise InvalidInput(f"{field}: {error.message}", field=field) from None

    async def get(self, tenant_id: str, run_id: str, *, caller: str | None = None) -> PlanRun:
        """Return a plan with its state, or NotFound; values are shown without the tenant's secrets."""
        detail = await self._runs().get(tenant_id, run_id, caller=caller)
        if detail.run.target != PROGRAM:
            raise NotFound(f"no plan {run_id!r}; it is a run of {detail.run.target!r}", run_id=run_id)
        return _plan_run(detail)

    async def list(
        self,
        tenant_id: str,
        *,
        state: RunState | None = None,
        caller: str | None = None,
        limit: int = 100,
        older_than: str | None = None,
    ) -> tuple[Run, ...]:
        """List the runs of plans, the newest first."""
        return await self._runs().list(
            tenant_id, state=state, caller=caller, limit=limit, older_than=older_than, target=PROGRAM
        )

    async def log(self, tenant_id: str, run_id: str, *, caller: str | None = None) -> tuple[LogEntry, ...]:
        """Return the log of a plan: one entry for each cycle, numbered from 1 without gaps."""
        return (await self.get(tenant_id, run_id, caller=caller)).state.log

    async def fork(self, run_id: str, step_id: str, *, by: Principal, ttl: int | None = None) -> Run:
        """Start a new run with what came before a step, which is done anew; `ttl` gives it other cycles to use."""
        found = await self.get(by.tenant_id, run_id, caller=None if by.role == "admin" else by.user_id)
        plan = found.state.plan
        if plan is None or step_id not in [step.step_id for step in plan.steps]:
            known = [] if plan is None else [step.step_id for step in plan.steps]
            raise NotFound(
                f"the plan has no step {step_id!r}; there are {', '.join(known[:20])}", field="step", step_id=step_id
            )
        first, before = _first_cycle(found.state, step_id), found.wish.cycles
        spent = _spent(found.state, found.wish, first)
        wanted = before if ttl is None else ttl
        if isinstance(wanted, bool) or not spent < wanted <= MAX_TTL:
            raise InvalidInput(
                f"ttl must be above {spent}, which is what came before that step took, and at most {MAX_TTL}",
                field="ttl",
            )
        kept = [grant for grant in found.wish.grants if grant[0] < first - 1]
        already = found.wish.ttl + sum(more for _, more in kept)
        grants = [*kept, (first - 1, wanted - already)] if wanted != already else kept
        fork = ProgramFork(partial(_is_before, first), {"grants": [list(grant) for grant in grants]})
        return await self._runs().fork(run_id, step_id, by=by, program=fork)


def _plan_run(detail: RunDetail) -> PlanRun:
    wish = PlanRequest.from_json(detail.parameters)
    kept = {step.place: step.output for step in detail.steps if step.error is None}
    given = kept.get("plan") or wish.plan
    cycles: list[Mapping[str, Any]] = []
    while (output := kept.get(f"cycle:{len(cycles) + 1}")) is not None:
        cycles.append(output)
    plan = None if given is None else Plan.from_json(given)
    state = take_all(OrchestrationState(plan, wish.ttl, grants=dict(wish.grants)), cycles)
    if detail.run.finished_at is None and state.plan is not None and state.plan.next_step is not None:
        step = state.plan.next_step
        state.current_step_id = step.step_id
        if step.status == "pending" and detail.run.state in ("running", "waiting"):
            state.plan = state.plan.with_step(replace(step.moved("running")))
    return PlanRun(detail.run, wish, state, detail.output, detail.error, detail.waits)


def _first_cycle(state: OrchestrationState, step_id: str) -> int:
    """Return the cycle in which a step was carried out, or would be next."""
    for entry in state.log:
        if entry.plan_state:
            step = Plan.from_json(entry.plan_state).next_step
            if step is not None and step.step_id == step_id:
                return entry.step_number
    return state.cycles + 1


def _spent(state: OrchestrationState, wish: PlanRequest, cycle: int) -> int:
    """Return how many cycles that asked the model came before a cycle."""
    left, spent, grants = wish.ttl + dict(wish.grants).get(0, 0), 0, dict(wish.grants)
    for entry in state.log[: cycle - 1]:
        spent += left - entry.ttl_remaining
        left = entry.ttl_remaining + grants.get(entry.step_number, 0)
    return spent


def _is_before(cycle: int, place: str) -> bool:
    """Return whether a place of the journal belongs to what came before a cycle."""
    head, _, rest = place.partition(":")
    if head != "cycle":
        return head == "plan"
    number = rest.partition(":")[0].partition("#")[0]
    return number.isdecimal() and int(number) < cycle


def _given_plan(stated: Any) -> JsonObject | None:
    if stated is None:
        return None
    plan = Plan.from_json(stated)
    for number, step in enumerate(plan.steps):
        if step.status != "pending":
            raise InvalidInput(
                f"steps[{number}].status is {step.status}; every step of a new plan is pending",
                field=f"steps[{number}].status",
            )
    return plan.as_json()


def _tool_names(stated: Any) -> tuple[str, ...] | None:
    if stated is None:
        return None
    items = list(cast("list[Any]", stated)) if isinstance(stated, (list, tuple)) else None
    if items is None or len(items) > _MAX_TOOLS or not all(isinstance(item, str) and item for item in items):
        raise InvalidInput(f"tools must be a list of at most {_MAX_TOOLS} names", field="tools")
    return tuple(cast("list[str]", items))
