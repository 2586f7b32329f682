"""Opens governed work: campaigns and goals, the planner, attempts at tasks, and the judge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from twinraven.app.asking import models
from twinraven.app.calling import runs
from twinraven.app.catalogue import catalog, process_tools
from twinraven.app.foundations import audit, database, holds_secret, redactor
from twinraven.app.parts import Home, Part
from twinraven.app.planning import plans
from twinraven.foundation.canonical import JsonObject

if TYPE_CHECKING:
    from twinraven.engine import ProgramRequest
    from twinraven.governance import (
        Attempts,
        Campaigns,
        EnvelopeLog,
        Judge,
        Planner,
        PolicyChecks,
        TaskMoves,
        Tasks,
        TaskSpec,
        Verdicts,
    )


@Part
def policy_checks(home: Home) -> PolicyChecks:
    """Open the policy checks of results."""
    from twinraven.governance import CheckFunctions, PolicyChecks, read_check_rules

    policy = home.settings.policy
    functions = CheckFunctions(policy.functions, timeout_s=policy.check_timeout_s)
    return PolicyChecks(read_check_rules(policy.checks), functions)


@Part
def task_moves(home: Home) -> TaskMoves:
    from twinraven.governance import PlanStore, ResultStore, TaskMoves, WorkAuditTrail

    plans = PlanStore()
    return TaskMoves(
        plans,
        ResultStore(),
        WorkAuditTrail(audit(home), plans),
        runs=lambda: runs(home),
        catalog=lambda: catalog(home),
        program=partial(_program, home),
        micros=home.micros,
    )


@Part
def envelope_log(home: Home) -> EnvelopeLog:
    from twinraven.governance import EnvelopeLog

    return EnvelopeLog(task_moves(home).results)


@Part
def verdicts(home: Home) -> Verdicts:
    from twinraven.governance import Verdicts

    return Verdicts(task_moves(home), envelope_log(home), ttl_s=home.settings.policy.approval_ttl_s)


@Part
def attempts(home: Home) -> Attempts:
    """Attempts at tasks, by the engine's workers and by workers outside."""
    from twinraven.governance import Attempts, ResultRecorder

    return Attempts(
        database(home),
        ResultRecorder(task_moves(home), verdicts(home), envelope_log(home)),
        policy_checks(home),
        judges=home.settings.policy.judge == "house",
        redact=redactor(home).redact,
        holds_secret=partial(holds_secret, home),
        refresh=partial(_refresh, home),
    )


@Part
def judge(home: Home) -> Judge:
    """Decisions about results, and which of them are in force."""
    from twinraven.governance import Judge

    return Judge(
        database(home),
        task_moves(home),
        verdicts(home),
        policy_checks(home),
        envelope_log(home),
        holds_secret=partial(holds_secret, home),
    )


@Part
def tasks(home: Home) -> Tasks:
    """Tasks as they stand, and what people do to them."""
    from twinraven.governance import Tasks

    return Tasks(database(home), task_moves(home))


@Part
def planner(home: Home) -> Planner:
    """Tasks, from planners outside, from files and from a model."""
    from twinraven.governance import Planner, PlanProposer

    return Planner(
        database(home),
        tasks(home),
        envelope_log(home),
        policy_checks(home),
        catalog=lambda: catalog(home),
        holds_secret=partial(holds_secret, home),
        refresh=partial(_refresh, home),
        proposer=PlanProposer(lambda: models(home), lambda: catalog(home)),
    )


@Part
def campaigns(home: Home) -> Campaigns:
    """Campaigns with their goals and budgets."""
    from twinraven.governance import Campaigns

    return Campaigns(database(home), task_moves(home), micros=home.micros)


def _program(home: Home, spec: TaskSpec, actions: Sequence[JsonObject]) -> ProgramRequest:
    """Return the plan that a task is run as: the one in its inputs, else what `run.plan` asks a model for."""
    assert spec.work is not None
    given, whole = spec.inputs.get("plan"), plans(home)
    request = spec.work.name if given is None else None
    ttl, tools = spec.inputs.get("ttl"), spec.inputs.get("tools")
    wish = whole.wish(request=request, plan=given, ttl=ttl, tools=tools)
    return whole.program(wish._replace(required_actions=tuple(actions)))


async def _refresh(home: Home, tenant_id: str) -> None:
    """Learn which processes there are, so that a task that names one can be planned and run."""
    await process_tools(home).refresh(tenant_id)
