"""Homes with governed work: tools that answer what a test says, a REST door, and plans in a few words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.api_client import Door
from tests.homes import opened_home
from tests.postgres import PostgresLogin
from tests.working import FAST
from twinraven.api import api_app
from twinraven.app import TwinRaven
from twinraven.catalog import ToolAnswer, tool
from twinraven.foundation.ids import new_id
from twinraven.governance import Goal, Task, TaskDetail
from twinraven.serving import Authenticator
from twinraven.tenancy import LOCAL, Principal

CRITERION = {"id": "url", "description": "has a URL", "check": "exists($.output.url)"}
AGENT = Principal("default", "scribe", "member", kind="agent")
MEMBER = Principal("default", "member", "member")


@dataclass
class Studio:
    """Tools of a small studio, and what they were asked."""

    asked: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    answers: list[Any] = field(default_factory=list[Any])
    by_topic: dict[str, Any] = field(default_factory=dict[str, Any])
    failures: list[Exception] = field(default_factory=list[Exception])
    failures_later: dict[int, Exception] = field(default_factory=dict[int, Exception])
    """What is raised by the call of this number, the first one being 0."""

    @tool(effect="read")
    async def draft(self, topic: str, required_actions: list[Any] | None = None) -> Any:
        """Write a draft."""
        self.asked.append((topic, required_actions))
        late = self.failures_later.pop(len(self.asked) - 1, None)
        if late is not None:
            raise late
        if self.failures:
            raise self.failures.pop(0)
        if topic in self.by_topic:
            return self.by_topic[topic]
        return self.answers.pop(0) if self.answers else {"url": f"https://x/{topic}", "text": f"about {topic}"}

    @tool(effect="write")
    async def send(self, topic: str) -> dict[str, str]:
        """Send something."""
        self.asked.append((topic, None))
        return {"url": f"https://sent/{topic}"}

    @property
    def tools(self) -> list[Any]:
        return [self.draft, self.send]


@dataclass
class Governed:
    """A home with a studio, a campaign and a goal."""

    raven: TwinRaven
    door: Door
    studio: Studio
    goal: Goal

    async def plan(self, *tasks: dict[str, Any], **more: Any) -> tuple[Task, ...]:
        return await self.raven.planner.plan(self.goal.goal_id, tasks, by=LOCAL, **more)

    async def work(self) -> None:
        """Work until nothing moves."""
        async with self.raven.working(), asyncio.timeout(60):
            while await self.raven.tasks.are_moving("default"):  # noqa: ASYNC110 - what it asks sets no event
                await asyncio.sleep(0.01)

    async def task(self, task: Task | str) -> TaskDetail:
        return await self.raven.tasks.get("default", task if isinstance(task, str) else task.task_id)

    async def entries(self, event: str) -> list[Any]:
        return [each for each in await self.raven.audit.entries("default") if each.event_type == event]


def draft(name: str = "spring", **more: Any) -> dict[str, Any]:
    """A task of a plan that drafts something."""
    return {
        "name": name,
        "task_type": "content_generation",
        "description": f"Draft {name}",
        "inputs": {"topic": name},
        "run": {"tool": "draft"},
        "acceptance_criteria": [CRITERION],
        **more,
    }


def outside(name: str = "spring", **more: Any) -> dict[str, Any]:
    """A task for a worker outside."""
    body = draft(name, **more)
    return {**body, "run": None, "acceptance_criteria": more.get("acceptance_criteria", [])} | {
        "task_type": "trend_research"
    }


def envelope(kind: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An envelope as somebody outside would write it."""
    role = kind.partition(".")[0]
    status = {"planner": "pending", "worker": "complete", "judge": "approved"}[role]
    body: dict[str, Any] = {
        "id": new_id(),
        "tenant_id": "default",
        "role": role,
        "type": kind,
        "status": status,
        "risk_tags": [],
        "idempotency_key": new_id(),
        "payload": payload,
    }
    if role == "worker":
        body["confidence_score"] = 0.9
    return {**body, **more}


def result(task: Task | str, attempt: int = 1, **payload: Any) -> dict[str, Any]:
    """A worker.result envelope about an attempt."""
    task_id = task if isinstance(task, str) else task.task_id
    said: dict[str, Any] = {"attempt_number": attempt, "outputs": {"artifacts": []}, **payload}
    return envelope("worker.result", said, task_id=task_id)


def decision(detail: TaskDetail, verdict: str = "approve", **payload: Any) -> dict[str, Any]:
    """A judge.decision envelope about the last result of a task."""
    words = {"approve": "approved", "reject": "rejected", "escalate": "escalated"}
    said = {
        "result_id": detail.results[-1].result_id,
        "decision": verdict,
        "reason_summary": "looked at it",
        "state_version": detail.task.state_version,
        **payload,
    }
    return envelope("judge.decision", said, task_id=detail.task.task_id, status=words[verdict])


@asynccontextmanager
async def governed(
    folder: Path, *, postgres: PostgresLogin | None = None, engine: dict[str, Any] | None = None, **sections: Any
) -> AsyncGenerator[Governed]:
    studio, quick = Studio(), {**FAST, **(engine or {})}
    with opened_home(folder, studio.tools, postgres=postgres, engine=quick, **sections) as raven:
        campaign = await raven.campaigns.create("Spring", by=LOCAL, persona_id="ann")
        goal = await raven.campaigns.add_goal(campaign.campaign_id, "Announce it", by=LOCAL)
        door = Door(api_app(raven, Authenticator(raven.tenancy, without_key=LOCAL)))
        yield Governed(raven, door, studio, goal)


def costly(amount: str, currency: str = "EUR", **more: Any) -> ToolAnswer:
    """An answer that cost something."""
    return ToolAnswer({"url": "https://x"}, currency=currency, amount=amount, **more)
