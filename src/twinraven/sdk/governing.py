"""Asks for governed work: campaigns, goals, budgets, tasks, results and decisions.

Planners, workers and judges send envelopes, which carry a key of their own: sent again, each is answered the same.
Changes name the `state_version` that was seen.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.governing_model import (
    AttemptInfo,
    BudgetInfo,
    CampaignInfo,
    DecisionInfo,
    GoalInfo,
    ResultInfo,
    SpecInfo,
    TaskInfo,
    Verdict,
)
from twinraven.sdk.model import JsonObject
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, stated


class GovernanceOperations(ServerRequests):
    """Work that is planned, done, judged and allowed."""

    def campaigns(self) -> AsyncGenerator[CampaignInfo]:
        """Campaigns, the oldest first."""
        return self._list(CampaignInfo, "campaigns")

    async def campaign(self, campaign_id: str) -> CampaignInfo:
        """Return one campaign."""
        return read(CampaignInfo, await self._get("campaigns", campaign_id))

    async def add_campaign(self, name: str, *, persona_id: str | None = None) -> CampaignInfo:
        """Begin a campaign."""
        return await self._make(CampaignInfo, {"name": name, **stated({"persona_id": persona_id})}, "campaigns")

    async def change_campaign(
        self,
        campaign_id: str,
        *,
        state_version: int,
        name: str | None = None,
        persona_id: str | None = None,
        status: str | None = None,
    ) -> CampaignInfo:
        """Rename, pause, resume, complete or cancel a campaign that stands at `state_version`."""
        body = stated({"name": name, "persona_id": persona_id, "status": status})
        return await self._change(CampaignInfo, body, "campaigns", campaign_id, version=state_version)

    def goals(self, *, campaign_id: str | None = None, status: str | None = None) -> AsyncGenerator[GoalInfo]:
        """Goals, the oldest first."""
        return self._list(GoalInfo, "goals", campaign_id=campaign_id, status=status)

    async def goal(self, goal_id: str) -> GoalInfo:
        """Return one goal."""
        return read(GoalInfo, await self._get("goals", goal_id))

    async def add_goal(self, campaign_id: str, description: str) -> GoalInfo:
        """Give a campaign a goal."""
        return await self._make(GoalInfo, {"description": description}, "campaigns", campaign_id, "goals")

    async def cancel_goal(self, goal_id: str, *, state_version: int) -> GoalInfo:
        """Cancel a goal and its tasks that have not ended."""
        return await self._sent(GoalInfo, {"state_version": state_version}, "goals", goal_id, "cancel")

    async def plan_goal(
        self, goal_id: str, tasks: Sequence[JsonObject], *, key: str | None = None, state_version: int | None = None
    ) -> list[TaskInfo]:
        """Add the tasks of a plan to a goal, all or none; planning twice under one key is planning once."""
        body = {"tasks": list(tasks), **stated({"key": key, "state_version": state_version})}
        answer = await self._exchange.json(RequestSpec("POST", path_of("goals", goal_id, "tasks"), body=body))
        return [read(TaskInfo, each) for each in answer["items"]]

    async def propose_plan(self, goal_id: str, *, key: str | None = None) -> list[TaskInfo]:
        """Let the configured model plan a goal."""
        ask = RequestSpec("POST", path_of("goals", goal_id, "proposal"), body=stated({"key": key}))
        return [read(TaskInfo, each) for each in (await self._exchange.json(ask))["items"]]

    def budgets(self, *, campaign_id: str | None = None) -> AsyncGenerator[BudgetInfo]:
        """Budgets, the oldest first."""
        return self._list(BudgetInfo, "budgets", campaign_id=campaign_id)

    async def budget(self, budget_id: str) -> BudgetInfo:
        """Return one budget."""
        return read(BudgetInfo, await self._get("budgets", budget_id))

    async def add_budget(self, campaign_id: str, total: str, currency: str, *, name: str | None = None) -> BudgetInfo:
        """Give a campaign a budget; `total` is decimal text such as "120.00"."""
        body = {"total": total, "currency": currency, **stated({"name": name})}
        return await self._make(BudgetInfo, body, "campaigns", campaign_id, "budgets")

    async def change_budget(
        self, budget_id: str, *, state_version: int, total: str | None = None, status: str | None = None
    ) -> BudgetInfo:
        """Raise, lower, close or reopen a budget that stands at `state_version`."""
        body = stated({"total": total, "status": status})
        return await self._change(BudgetInfo, body, "budgets", budget_id, version=state_version)

    def tasks(
        self, *, goal_id: str | None = None, campaign_id: str | None = None, status: str | None = None
    ) -> AsyncGenerator[TaskInfo]:
        """Tasks, the oldest first."""
        return self._list(TaskInfo, "tasks", goal_id=goal_id, campaign_id=campaign_id, status=status)

    async def ready_tasks(self, *, limit: int = 50) -> list[TaskInfo]:
        """Tasks that a worker outside may take now, the most urgent first."""
        answer = await self._exchange.json(RequestSpec("GET", path_of("ready-tasks"), {"limit": limit}))
        return [read(TaskInfo, each) for each in answer["items"]]

    async def task(self, task_id: str) -> TaskInfo:
        """Return a task with its attempts, results and decisions."""
        return read(TaskInfo, await self._get("tasks", task_id))

    def task_specs(self, task_id: str) -> AsyncGenerator[SpecInfo]:
        """Return all versions of a task's spec, the newest first."""
        return self._list(SpecInfo, "tasks", task_id, "specs")

    async def plan_task(self, envelope: JsonObject) -> TaskInfo:
        """Plan a task by a planner.task envelope."""
        return await self._sent(TaskInfo, envelope, "tasks")

    async def revise_task(self, task_id: str, payload: JsonObject, *, state_version: int) -> TaskInfo:
        """Give a task that stands at `state_version` the next version of its spec."""
        body = {"payload": payload, "state_version": state_version}
        return await self._sent(TaskInfo, body, "tasks", task_id, "specs")

    async def cancel_task(self, task_id: str, *, state_version: int) -> TaskInfo:
        """End a task; an attempt that is under way begins nothing more."""
        return await self._sent(TaskInfo, {"state_version": state_version}, "tasks", task_id, "cancel")

    async def retry_task(self, task_id: str, *, state_version: int) -> TaskInfo:
        """Let a task that failed or was rejected be attempted once more."""
        return await self._sent(TaskInfo, {"state_version": state_version}, "tasks", task_id, "retry")

    async def claim_task(self, task_id: str, *, state_version: int | None = None) -> AttemptInfo:
        """Begin an attempt at a ready task, as a worker outside."""
        body = stated({"state_version": state_version})
        return await self._make(AttemptInfo, body, "tasks", task_id, "attempts")

    async def report_result(self, envelope: JsonObject) -> ResultInfo:
        """Report an attempt by a worker.result envelope."""
        return await self._sent(ResultInfo, envelope, "results")

    async def result(self, result_id: str) -> ResultInfo:
        """Return one result."""
        return read(ResultInfo, await self._get("results", result_id))

    async def evaluate_result(self, result_id: str) -> DecisionInfo:
        """Judge a result by the checks of the house, on the state as it is now."""
        return await self._make(DecisionInfo, {}, "results", result_id, "evaluate")

    async def decide_result(self, envelope: JsonObject) -> DecisionInfo:
        """Decide about a result by a judge.decision envelope."""
        return await self._sent(DecisionInfo, envelope, "decisions")

    def decisions(self, *, decision: Verdict | None = None, in_force: bool = False) -> AsyncGenerator[DecisionInfo]:
        """Decisions in the order in which they were made."""
        return self._list(DecisionInfo, "decisions", decision=decision, in_force=in_force)

    async def decision(self, decision_id: str) -> DecisionInfo:
        """Return one decision."""
        return read(DecisionInfo, await self._get("decisions", decision_id))

    async def resolve_decision(
        self,
        decision_id: str,
        decision: Verdict,
        reason: str,
        *,
        override: bool = False,
        required_actions: Sequence[JsonObject] = (),
    ) -> DecisionInfo:
        """Decide, as a person, what was escalated."""
        body: JsonObject = {"decision": decision, "reason": reason, "override": override}
        if required_actions:
            body["required_actions"] = list(required_actions)
        return await self._make(DecisionInfo, body, "decisions", decision_id, "resolve")

    async def envelope(self, envelope_id: str) -> JsonObject:
        """Return an envelope as it was sent."""
        found: Any = await self._get("envelopes", envelope_id)
        return found

    async def _sent(self, kind: type[Any], body: JsonObject, *parts: str) -> Any:
        return read(kind, await self._exchange.json(RequestSpec("POST", path_of(*parts), body=body)))
