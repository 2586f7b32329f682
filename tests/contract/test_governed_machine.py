"""Whatever planners, workers, judges and people do in any order, the house agrees with a simple model of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.governing import AGENT, Governed, decision, governed, outside, result
from tests.postgres import PostgresServer
from twinraven.foundation.errors import TwinRavenError
from twinraven.tenancy import LOCAL

MOST_ATTEMPTS = 3
LOOK_EVERY = 5


@dataclass
class Known:
    """A task as the model has it."""

    status: str = "pending"
    attempts: int = 0
    results: int = 0
    decisions: int = 0
    version: int = 1
    running: bool = False
    needs: str | None = None
    """The task that must be complete before an attempt at this one begins."""

    def moved(self, status: str) -> None:
        self.status, self.version = status, self.version + 1


class GovernedMachine(RuleBasedStateMachine):
    """Does things to tasks for workers outside, judged from outside, and expects what the model says."""

    server: PostgresServer | None = None
    done: Counter[str]
    """How many steps all histories had, so that a long run is known to be one."""

    def __init__(self) -> None:
        super().__init__()
        self.runner, self.stack = asyncio.Runner(), AsyncExitStack()
        folder = Path(self.stack.enter_context(TemporaryDirectory()))
        login = None if self.server is None else self.stack.enter_context(self.server.fresh_database())
        opening = governed(folder, postgres=login, policy={"judge": "outside"})
        self.house: Governed = self.run(self.stack.enter_async_context(opening))
        self.tasks: dict[str, Known] = {}
        self.paused, self.campaign_version, self.steps = False, 1, 0

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def attempted(self, work: Any, *, succeeds: bool) -> Any:
        """Do something that the model expects to succeed, or to be refused without a change."""
        try:
            done = self.run(work)
        except TwinRavenError as error:
            assert not succeeds, error
            return None
        assert succeeds
        return done

    def pick(self, number: int) -> tuple[str, Known]:
        return list(self.tasks.items())[number % len(self.tasks)]

    def is_ready(self, known: Known) -> bool:
        is_free = known.needs is None or self.tasks[known.needs].status == "complete"
        return known.status == "pending" and not self.paused and is_free

    @rule(number=st.integers(0, 99), depends=st.booleans())
    def plan(self, number: int, depends: bool) -> None:
        if len(self.tasks) < 12:
            needs = self.pick(number)[0] if depends and self.tasks else None
            wanted = outside(f"t{len(self.tasks)}", dependencies=[] if needs is None else [needs])
            (task,) = self.run(self.house.plan(wanted))
            self.tasks[task.task_id] = Known(needs=needs)

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 99), seen=st.booleans())
    def claim(self, number: int, seen: bool) -> None:
        task_id, known = self.pick(number)
        version = known.version if seen else known.version + 1
        claiming = self.house.raven.attempts.claim(task_id, by=AGENT, state_version=version)
        if self.attempted(claiming, succeeds=seen and self.is_ready(known)):
            known.attempts, known.running = known.attempts + 1, True
            known.moved("in_progress")

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 99), fails=st.booleans(), retryable=st.booleans())
    def report(self, number: int, fails: bool, retryable: bool) -> None:
        task_id, known = self.pick(number)
        told = result(task_id, known.attempts if known.running else known.attempts + 1)
        if fails:
            error: dict[str, Any] = {"code": "X", "message": "m", "retryable": retryable, "details": {}}
            told = {**told, "status": "failed", "confidence_score": 0, "error": error}
        may = known.running or self.is_ready(known)
        reported = self.attempted(self.house.raven.attempts.submit(told, by=AGENT), succeeds=may)
        if reported:
            if not known.running:
                known.attempts += 1
                known.moved("in_progress")
            known.running, known.results = False, known.results + 1
            again = retryable and known.attempts < MOST_ATTEMPTS
            known.moved("review" if not fails else "pending" if again else "failed")
            assert self.run(self.house.raven.attempts.submit(told, by=AGENT)) == reported

    @precondition(lambda self: any(known.results for known in self.tasks.values()))
    @rule(number=st.integers(0, 99), verdict=st.sampled_from(["approve", "reject", "escalate"]), late=st.booleans())
    def decide(self, number: int, verdict: str, late: bool) -> None:
        judged = [(task_id, known) for task_id, known in self.tasks.items() if known.results]
        task_id, known = judged[number % len(judged)]
        said = decision(self.run(self.house.task(task_id)), verdict)
        said["payload"]["state_version"] = known.version - 1 if late else known.version
        may = not late and known.status in ("review", "escalated", "complete", "rejected")
        if self.attempted(self.house.raven.judge.decide(said, by=LOCAL), succeeds=may and known.version > 0):
            known.decisions += 1
            back = "pending" if known.attempts < MOST_ATTEMPTS else "rejected"
            known.moved({"approve": "complete", "reject": back, "escalate": "escalated"}[verdict])

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 99))
    def cancel(self, number: int) -> None:
        task_id, known = self.pick(number)
        may = known.status not in ("complete", "cancelled")
        cancelling = self.house.raven.tasks.cancel(task_id, by=LOCAL, state_version=known.version)
        if self.attempted(cancelling, succeeds=may):
            known.running = False
            known.moved("cancelled")

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 99))
    def retry(self, number: int) -> None:
        task_id, known = self.pick(number)
        may = known.status in ("failed", "rejected", "in_progress")
        retrying = self.house.raven.tasks.retry(task_id, by=LOCAL, state_version=known.version)
        if self.attempted(retrying, succeeds=may):
            known.running = False
            known.moved("pending")

    @rule()
    def pause_or_resume(self) -> None:
        status = "active" if self.paused else "paused"
        campaign_id, version = self.house.goal.campaign_id, self.campaign_version
        self.run(self.house.raven.campaigns.change(campaign_id, by=LOCAL, state_version=version, status=status))
        self.paused, self.campaign_version = not self.paused, version + 1

    @invariant()
    def agrees_now_and_then(self) -> None:
        """Look at everything after some of the steps, and at the end: most of what a history costs is looking."""
        self.steps, self.done["steps"] = self.steps + 1, self.done["steps"] + 1
        if self.steps % LOOK_EVERY == 0:
            self.agrees()

    def agrees(self) -> None:
        """Every task stands where the model has it, and effects pass the gate only where a result is approved."""
        for task_id, known in self.tasks.items():
            found = self.run(self.house.task(task_id))
            seen = (found.task.status, found.task.attempts, len(found.results), len(found.decisions))
            assert seen == (known.status, known.attempts, known.results, known.decisions)
            assert found.task.state_version == known.version
            if known.status == "complete":
                assert found.decisions[-1].decision == "approve"

    def teardown(self) -> None:
        self.agrees()
        report = self.run(self.house.raven.audit.verify("default"))
        assert report.ok
        self.run(self.stack.aclose())
        self.runner.close()


_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
_SHORT = settings(
    max_examples=3,
    stateful_step_count=20,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=_SLOW,
)


def _machine(store: str, request: pytest.FixtureRequest) -> type[GovernedMachine]:
    server = request.getfixturevalue("postgres_server") if store == "postgres" else None
    return type("GovernedMachineHere", (GovernedMachine,), {"server": server, "done": Counter[str]()})


def test_the_house_agrees_with_the_model(request: pytest.FixtureRequest) -> None:
    """A few short histories."""
    run_state_machine_as_test(_machine("sqlite", request), settings=_SHORT)


@pytest.mark.soak
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_house_agrees_with_the_model_for_long(store: str, request: pytest.FixtureRequest) -> None:
    """A hundred thousand steps on both stores together, new ones each time."""
    machine = _machine(store, request)
    examples = 400 if store == "sqlite" else 100
    many = settings(max_examples=examples, stateful_step_count=200, deadline=None, suppress_health_check=_SLOW)
    run_state_machine_as_test(machine, settings=many)
    assert machine.done["steps"] >= 150 * examples, machine.done
