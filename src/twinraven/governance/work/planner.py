"""Plans goals: takes tasks from planners outside, from files and from a configured model, and revises them.

A plan is a list of task payloads that call each other by names of their own; it becomes tasks in one transaction, all
or none, and a plan that is sent again under its key is the same tasks. A spec never changes: a revision is its next
version, and an attempt that waited with the old one is taken off the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from twinraven.calls import Envelope
from twinraven.catalog import Catalog
from twinraven.foundation.canonical import JsonObject, canonical_json, content_hash
from twinraven.foundation.clock import from_micros
from twinraven.foundation.correlation import correlation_or_new
from twinraven.foundation.errors import (
    Conflict,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    StaleState,
)
from twinraven.foundation.ids import new_id
from twinraven.foundation.json_schema import compile_schema
from twinraven.governance.model import Campaign, Goal, Task, TaskSpec
from twinraven.governance.work.attempts import Refresh
from twinraven.governance.work.checks import PolicyChecks
from twinraven.governance.work.envelopes import EnvelopeLog, HoldsSecret, read_envelope
from twinraven.governance.work.graph import in_order, refuse_cycle
from twinraven.governance.work.plan_sql import stale
from twinraven.governance.work.proposing import PlanProposer
from twinraven.governance.work.specs import in_currency, lacks_currency, read_spec
from twinraven.governance.work.tasks import Tasks
from twinraven.models import ModelQuestion
from twinraven.muninn import check_name
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

MOST_TASKS: Final = 500
_PROPOSALS: Final = 4
"""How often a model is asked for a plan before none is made."""
_MOST_BUDGETS: Final = 1_000
_CLOSED: Final = ("complete", "cancelled")
_REVISABLE: Final = ("pending", "failed", "rejected")


class Planner:
    """Makes tasks of goals."""

    def __init__(
        self,
        database: Database,
        tasks: Tasks,
        envelopes: EnvelopeLog,
        checks: PolicyChecks,
        *,
        catalog: Callable[[], Catalog],
        holds_secret: HoldsSecret,
        refresh: Refresh,
        proposer: PlanProposer,
    ) -> None:
        self._database = database
        self._tasks = tasks
        self._moves = tasks.moves
        self._envelopes = envelopes
        self._checks = checks
        self._catalog = catalog
        self._holds_secret = holds_secret
        self._refresh = refresh
        self._proposer = proposer

    async def submit(self, body: Any, *, by: Principal) -> dict[str, Any]:
        """Take a planner.task envelope and answer the task; sent again, it answers the same."""
        envelope = await asyncio.to_thread(
            read_envelope, body, "planner.task", tenant_id=by.tenant_id, holds_secret=self._holds_secret
        )
        earlier = await self._database.read(by.tenant_id, lambda tx: self._envelopes.earlier(tx, envelope))
        if earlier is not None:
            return earlier  # what was planned stays so, whatever became of the tools that it names
        await self._refresh(by.tenant_id)
        (payload,) = await self._in_currency([_with_task_id(envelope)], by, goal_id=str(envelope.goal_id))
        spec = self._checked(payload, by)

        def work(tx: Transaction) -> dict[str, Any]:
            earlier = self._envelopes.earlier(tx, envelope)
            if earlier is not None:
                return earlier
            goal = self._goal(tx, by.tenant_id, str(envelope.goal_id), campaign_id=envelope.campaign_id)
            return self._add(tx, goal, spec, envelope, by).as_json()

        answer = await self._database.write(by.tenant_id, work)
        self._moves.runs().announce()
        return answer

    async def plan(
        self,
        goal_id: str,
        tasks: Sequence[JsonObject],
        *,
        by: Principal,
        key: str | None = None,
        state_version: int | None = None,
    ) -> tuple[Task, ...]:
        """Add the tasks of a plan; each may have a `name`, by which others of the plan depend on it.

        Without a key of its own a plan is known by what it says, so that planning the same twice is planning once.
        `state_version` is the goal's, as the planner saw it.
        """
        named = _named(await self._in_currency(tasks, by, goal_id=goal_id))
        order = in_order({name: payload.get("dependencies") or () for name, payload in named.items()})
        said = canonical_json([dict(payload) for payload in named.values()])
        if await asyncio.to_thread(self._holds_secret, by.tenant_id, said):
            raise InvalidInput("the plan holds a secret of the tenant; name the secret instead", field="tasks")
        await self._refresh(by.tenant_id)
        stem = check_name(key, field="key", limit=200) if key is not None else f"plan:{content_hash(said)}"
        ids = {name: str(named[name].get("task_id") or new_id()) for name in order}
        envelopes = [
            _envelope(by, goal_id, _payload(named[name], name, ids), f"{goal_id}:{stem}:{name}") for name in order
        ]
        specs = [self._checked(each.payload, by, where=f"tasks.{each.payload['name']}") for each in envelopes]

        def work(tx: Transaction) -> tuple[Task, ...]:
            earlier = self._planned(tx, envelopes)
            if earlier:
                return earlier
            goal = self._goal(tx, by.tenant_id, goal_id)
            if state_version is not None and state_version != goal.state_version:
                raise stale("goal", goal_id, state_version, goal.state_version)
            return tuple(
                self._add(tx, goal, spec, envelope, by) for spec, envelope in zip(specs, envelopes, strict=True)
            )

        planned = await self._database.write(by.tenant_id, work)
        self._moves.runs().announce()
        return planned

    async def propose(self, goal_id: str, *, by: Principal, key: str | None = None) -> tuple[Task, ...]:
        """Let the configured model plan a goal.

        A plan that is refused goes back to the model with what is wrong with it. Where the goal has moved meanwhile,
        the model is asked anew about the state as it is now.
        """
        question, seen = await self._question(goal_id, by)
        for left in range(_PROPOSALS - 1, -1, -1):
            text, tasks = await self._proposer.ask(question, seen, by=by)
            try:
                return await self.plan(goal_id, tasks, by=by, key=key, state_version=seen.state_version)
            except StaleState:
                if left == 0:
                    raise
                question, seen = await self._question(goal_id, by)
            except (InvalidInput, NotFound) as error:
                if left == 0:
                    raise
                question = question.continued(text, f"The plan is refused: {error.message}. Answer again, with JSON.")
        raise AssertionError("the last proposal returns or raises")

    async def _question(self, goal_id: str, by: Principal) -> tuple[ModelQuestion, Goal]:
        def work(tx: Transaction) -> tuple[Goal, Campaign, tuple[Task, ...]]:
            goal = self._goal(tx, by.tenant_id, goal_id)
            campaign = self._moves.plans.campaign(tx, by.tenant_id, goal.campaign_id)
            return goal, campaign, tuple(self._moves.plans.tasks(tx, by.tenant_id, limit=100, goal_id=goal_id))

        await self._refresh(by.tenant_id)
        goal, campaign, tasks = await self._database.read(by.tenant_id, work)
        return self._proposer.question(campaign, goal, tasks, by), goal

    def _planned(self, tx: Transaction, envelopes: Sequence[Envelope]) -> tuple[Task, ...]:
        """Return the tasks that the same plan became before; none for a new one."""
        found = [
            self._moves.plans.task_of_key(tx, str(each.tenant_id), str(each.idempotency_key)) for each in envelopes
        ]
        there = [each for each in found if each is not None]
        same = _meaning(self._first_spec(tx, each) for each in there) == _meaning(each.payload for each in envelopes)
        if there and not same:
            raise IdempotencyConflict(
                "the key was used for another plan; use a new key for a new plan",
                idempotency_key=there[0].idempotency_key,
            )
        return tuple(there)

    def _first_spec(self, tx: Transaction, task: Task) -> JsonObject:
        """Return the spec that a task was planned with, whatever revisions came after it."""
        return self._moves.plans.specs(tx, task.tenant_id, task.task_id)[-1].spec_json

    async def revise(self, task_id: str, payload: JsonObject, *, by: Principal, state_version: int) -> Task:
        """Give a task the next version of its spec; one that failed or was rejected is pending again."""
        if await asyncio.to_thread(self._holds_secret, by.tenant_id, canonical_json(payload)):
            raise InvalidInput("the spec holds a secret of the tenant; name the secret instead", field="payload")
        await self._refresh(by.tenant_id)
        (whole,) = await self._in_currency([{**payload, "task_id": task_id}], by, task_id=task_id)
        spec = self._checked(whole, by)

        def work(tx: Transaction) -> Task:
            task = self._tasks.changeable(tx, task_id, state_version, by)
            if task.status not in _REVISABLE:
                raise IllegalTransition(
                    f"task {task_id!r} is {task.status}; its spec is revised while it is {', '.join(_REVISABLE)}",
                    task_id=task_id,
                    status=task.status,
                )
            self._check_dependencies(tx, task.tenant_id, task_id, spec)
            self._moves.dequeue(tx, task)
            version = task.spec_version + 1
            self._add_spec(tx, task_id, spec, version=version, envelope_id=None, by=by)
            self._moves.move(
                tx,
                task,
                "pending",
                may_stay=True,
                spec_version=version,
                task_type=spec.task_type,
                priority=spec.priority,
            )
            revised = self._moves.plans.task(tx, task.tenant_id, task_id)
            self._tasks.note(tx, "task.revised", revised, by, spec_version=version)
            self._moves.enqueue(tx, revised)
            self._moves.refresh_goal(tx, revised)
            return revised

        return await self._tasks.written(by, task_id, work)

    async def _in_currency(
        self, payloads: Sequence[JsonObject], by: Principal, *, goal_id: str | None = None, task_id: str | None = None
    ) -> Sequence[JsonObject]:
        """Payloads whose max_budget says what it is in: where it does not, what the campaign's open budgets are in."""
        if not any(map(lacks_currency, payloads)):
            return payloads

        def work(tx: Transaction) -> set[str]:
            plans, tenant = self._moves.plans, by.tenant_id
            whole = plans.task(tx, tenant, task_id) if task_id is not None else plans.goal(tx, tenant, str(goal_id))
            budgets = plans.listing(tx, "budget", tenant, limit=_MOST_BUDGETS, campaign_id=whole.campaign_id)
            return {each.currency for each in budgets if each.status == "open"}

        found = await self._database.read(by.tenant_id, work)
        if len(found) != 1:
            return payloads  # which of them, if any, nobody can tell: the payload is refused for it
        return [in_currency(each, *found) if lacks_currency(each) else each for each in payloads]

    def _checked(self, payload: JsonObject, by: Principal, *, where: str = "payload") -> TaskSpec:
        """Return the spec of a payload whose tool is there and takes its inputs, and whose policies exist."""
        spec = read_spec(payload, where=where)
        self._checks.refuse_unknown(spec.constraints.safety_policies)
        work = spec.work
        if work is None:
            return spec
        field = f"{where}.run.{work.kind}"
        if work.kind == "plan":
            self._moves.check_program(spec)
            return spec
        try:
            entry = self._catalog().resolve(by.tenant_id, work.name, by.user_id)
        except NotFound as error:
            raise NotFound(f"{field}: {error.message}", field=field) from None
        if (work.kind == "process") != (entry.connector == "process"):
            raise InvalidInput(f"{field}: {work.name!r} is no {work.kind}", field=field)
        schema = compile_schema(entry.input_schema)
        schema.check(schema.fill(spec.inputs), field=f"{where}.inputs")
        if entry.writes and not spec.criteria:
            raise InvalidInput(
                f"{where}.acceptance_criteria must not be empty: {work.name!r} can change something",
                field=f"{where}.acceptance_criteria",
            )
        return spec

    def _goal(self, tx: Transaction, tenant_id: str, goal_id: str, *, campaign_id: str | None = None) -> Goal:
        goal = self._moves.plans.goal(tx, tenant_id, goal_id)
        if campaign_id is not None and campaign_id != goal.campaign_id:
            raise NotFound(f"goal {goal_id!r} is not of campaign {campaign_id!r}", field="campaign_id")
        if goal.status == "cancelled":
            raise IllegalTransition(f"goal {goal_id!r} is cancelled; it takes no tasks", goal_id=goal_id)
        campaign = self._moves.plans.campaign(tx, tenant_id, goal.campaign_id)
        if campaign.status in _CLOSED:
            raise IllegalTransition(
                f"campaign {campaign.campaign_id!r} is {campaign.status}; it takes no tasks",
                campaign_id=campaign.campaign_id,
            )
        return goal

    def _add(self, tx: Transaction, goal: Goal, spec: TaskSpec, envelope: Envelope, by: Principal) -> Task:
        now, task_id = self._moves.micros(), str(spec.raw.get("task_id") or new_id())
        if self._moves.plans.has_task(tx, by.tenant_id, task_id):
            raise Conflict(f"task {task_id!r} is there; a change of its spec is a new version of it", task_id=task_id)
        self._check_dependencies(tx, by.tenant_id, task_id, spec)
        task = Task(
            tenant_id=by.tenant_id,
            task_id=task_id,
            campaign_id=goal.campaign_id,
            goal_id=goal.goal_id,
            task_type=spec.task_type,
            priority=spec.priority,
            status="pending",
            spec_version=1,
            spec_json={**spec.raw, "task_id": task_id},
            idempotency_key=str(envelope.idempotency_key),
            attempts=0,
            spent=0,
            due_at=spec.constraints.starts_at,
            state_version=1,
            owner_id=by.user_id,
            created_by=str(by.actor),
            created_at=from_micros(now),
            updated_at=from_micros(now),
        )
        self._moves.plans.add_task(tx, task)
        self._envelopes.keep(tx, envelope, task.as_json(), lineage=task.lineage, sent_by=str(by.actor), now=now)
        self._add_spec(tx, task_id, spec, version=1, envelope_id=envelope.id, by=by)
        self._tasks.note(tx, "task.planned", task, by, envelope_id=envelope.id, priority=task.priority)
        self._moves.enqueue(tx, task)
        self._moves.refresh_goal(tx, task)
        return task

    def _add_spec(
        self, tx: Transaction, task_id: str, spec: TaskSpec, *, version: int, envelope_id: str | None, by: Principal
    ) -> None:
        text = canonical_json({**spec.raw, "task_id": task_id})
        row = {
            "task_id": task_id,
            "spec_version": version,
            "spec_json": text.decode(),
            "spec_hash": content_hash(text),
            "envelope_id": envelope_id,
            "created_by": str(by.actor),
            "created_at": self._moves.micros(),
        }
        self._moves.plans.add_spec(tx, by.tenant_id, row, spec.dependencies)

    def _check_dependencies(self, tx: Transaction, tenant_id: str, task_id: str, spec: TaskSpec) -> None:
        for number, other in enumerate(spec.dependencies):
            if other != task_id and not self._moves.plans.has_task(tx, tenant_id, other):
                field = f"payload.dependencies[{number}]"
                raise NotFound(f"{field}: there is no task {other!r}", field=field)
        refuse_cycle(task_id, spec.dependencies, lambda each: self._moves.plans.dependencies(tx, tenant_id, each))


def _named(tasks: Sequence[JsonObject]) -> dict[str, JsonObject]:
    """Return the tasks of a plan by their names; one without a name is called by its number."""
    if not 1 <= len(tasks) <= MOST_TASKS:
        raise InvalidInput(f"a plan has 1 to {MOST_TASKS} tasks", field="tasks")
    named: dict[str, JsonObject] = {}
    for number, payload in enumerate(tasks):
        if not isinstance(payload, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"tasks[{number}] must be an object", field=f"tasks[{number}]")
        name = check_name(payload.get("name", f"task-{number + 1}"), field=f"tasks[{number}].name", limit=200)
        if name in named:
            raise InvalidInput(f"two tasks of the plan are named {name!r}", field=f"tasks[{number}].name")
        named[name] = payload
    return named


def _meaning(payloads: Iterable[JsonObject]) -> list[JsonObject]:
    """Return what the tasks of a plan say, by their names and without the ids that are minted anew each time."""
    tasks = list(payloads)
    names = {each["task_id"]: each["name"] for each in tasks}
    return [
        {name: value for name, value in each.items() if name != "task_id"}
        | {"dependencies": [names.get(other, other) for other in each["dependencies"]]}
        for each in tasks
    ]


def _with_task_id(envelope: Envelope) -> JsonObject:
    """Return a planner's payload with the task's id: the envelope's, the payload's, or the same in both."""
    outer, inner = envelope.task_id, envelope.payload.get("task_id")
    if outer is not None and inner not in (None, outer):
        raise InvalidInput(f"task_id is {outer!r} and payload.task_id {inner!r}; state one", field="payload.task_id")
    return envelope.payload if outer is None else {**envelope.payload, "task_id": outer}


def _payload(payload: JsonObject, name: str, ids: Mapping[str, str]) -> JsonObject:
    """Return a task of a plan as a planner's payload: names of the plan become ids, others stay as they are."""
    stated: list[str] = payload.get("dependencies") or []
    return {
        **payload,
        "name": name,
        "task_id": ids[name],
        "dependencies": [ids.get(each, each) for each in stated],
    }


def _envelope(by: Principal, goal_id: str, payload: JsonObject, key: str) -> Envelope:
    return Envelope(
        role="planner",
        type="planner.task",
        status="pending",
        payload=payload,
        tenant_id=by.tenant_id,
        goal_id=goal_id,
        task_id=str(payload["task_id"]),
        correlation_id=correlation_or_new(),
        confidence_score=1.0,
        idempotency_key=key,
    )
