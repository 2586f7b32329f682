"""Shows goals and tasks: a board by state with budgets, and a task with its attempts, evidence and decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from twinraven.console.asking import ApiRefused
from twinraven.console.drawing.columns import meter
from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.visits import PageTable, Redirect, Shown, Visit

PAGES: Final = PageTable()
_MOST: Final = 500
_SHOWN: Final = 30
_WORDS: Final = frozenset({"cancel", "retry", "pause", "resume", "start"})


@PAGES.shows("/goals", "goals", live="events approvals", needs="goals")
async def board(visit: Visit) -> Shown:
    campaign = visit.query.get("campaign_id")
    goals, tasks, campaigns, budgets = await asyncio.gather(
        visit.api.get("goals", campaign_id=campaign, limit=_MOST),
        visit.api.get("tasks", campaign_id=campaign, limit=_MOST),
        visit.api.get("campaigns", limit=_MOST),
        visit.api.get("budgets", campaign_id=campaign, limit=_MOST),
    )
    columns: dict[str, list[Mapping[str, Any]]] = {}
    for task in tasks["items"]:
        columns.setdefault(task["status"], []).append(task)
    values = {
        "campaigns": campaigns["items"],
        "campaign": campaign or "",
        "goals": goals["items"],
        "goal_names": {each["goal_id"]: each["description"] for each in goals["items"]},
        "columns": [(name, len(found), found[:_SHOWN]) for name, found in columns.items()],
        "budgets": [(each, _spent(each)) for each in budgets["items"]],
    }
    return Shown("goals.html", "Goals and tasks", values, command="twinraven goals list")


def _spent(budget: Mapping[str, Any]) -> Any:
    total = max(int(budget.get("total") or 0), 1)
    return meter(min(int(budget.get("spent") or 0) / total, 1.0), "wait")


@PAGES.shows("/tasks/{task_id}", "goals", live="events approvals", needs="tasks")
async def show_task(visit: Visit) -> Shown:
    return await _page(visit, refusal=None)


@PAGES.takes("/tasks/{task_id}/{word}", "goals", needs="tasks")
async def act_on_task(visit: Visit) -> Shown | Redirect:
    """Move a task on, on the state that was shown."""
    task_id, word = visit.path["task_id"], visit.path["word"]
    if word not in _WORDS:
        raise ApiRefused(404, {"title": "Not Found", "detail": "There is no such act.", "code": "NOT_FOUND"}, "")
    try:
        await visit.api.post("tasks", task_id, word, if_match=visit.form.get("seen", ""))
    except ApiRefused as refusal:
        if refusal.status not in (400, 404, 409, 412):
            raise
        return await _page(visit, refusal=refusal)
    return Redirect(f"/console/tasks/{quote(task_id, safe='')}")


async def _page(visit: Visit, *, refusal: ApiRefused | None) -> Shown:
    task_id = visit.path["task_id"]
    found = await visit.api.show("tasks", task_id)
    task = found.body
    goal, siblings = await asyncio.gather(
        visit.api.find("goals", task["goal_id"]), visit.api.get("tasks", goal_id=task["goal_id"], limit=_MOST)
    )
    in_force = max(task["decisions"], key=lambda each: (each["result_id"], each["round"]), default=None)
    values = {
        "task": task,
        "goal": goal,
        "seen": found.tag,
        "picture": _graph(task, siblings["items"]) if task["dependencies"] else None,
        "in_force": in_force,
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    return Shown(
        "task.html", f"Task {task['task_type']}", values, command=f"twinraven tasks show {task_id}", status=status
    )


def _graph(task: Mapping[str, Any], siblings: Sequence[Mapping[str, Any]]) -> Any:
    known = {each["task_id"]: each for each in siblings}
    names = [*task["dependencies"], task["task_id"]]
    nodes = tuple(
        GraphNode(
            name,
            f"/console/tasks/{quote(name, safe='')}",
            "chosen" if name == task["task_id"] else "",
            str(known.get(name, {}).get("status", "")),
            str(known.get(name, {}).get("task_type", name)),
        )
        for name in names
    )
    edges = tuple(GraphEdge(name, task["task_id"]) for name in task["dependencies"])
    return graph(nodes, edges, title="What the task waits for")
