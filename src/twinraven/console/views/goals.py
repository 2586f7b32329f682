"""Shows goals and tasks: a board by state with budgets and effects, and a task with its evidence and decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from twinraven.console.api_caller import ApiRefused, items_of, members
from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.effects import effect_lines
from twinraven.console.views.waiting_items import task_words

PAGES: Final = PageTable()
_MOST: Final = 500
_SHOWN: Final = 30
_WORDS: Final = frozenset({"cancel", "retry"})
_COLUMNS: Final = ("pending", "in_progress", "review", "escalated", "rejected", "failed", "complete", "cancelled")
_LOOKS: Final = {"complete": "done", "failed": "bad", "rejected": "bad", "escalated": "wait", "in_progress": "now"}
_LEFT: Final = frozenset({"pending", "failed", "rejected", "escalated", "in_progress", "review"})


@PAGES.shows("/goals", "goals", live="work events/10 approvals", needs="goals")
async def board(visit: PageRequest) -> PageView:
    campaign = visit.query.get("campaign_id")
    goals, tasks, campaigns, budgets, wallets, effects = await asyncio.gather(
        visit.api.get("goals", campaign_id=campaign, limit=_MOST),
        visit.api.get("tasks", campaign_id=campaign, limit=_MOST),
        visit.api.get("campaigns", limit=_MOST),
        visit.api.get("budgets", campaign_id=campaign, limit=_MOST),
        visit.api.find("wallets", limit=_MOST) if visit.has("wallets") else _nothing(),
        effect_lines(visit),
    )
    names = {each["campaign_id"]: each["name"] for each in campaigns["items"]}
    values = {
        "campaigns": campaigns["items"],
        "campaign": campaign or "",
        "goals": goals["items"],
        "goal_names": {each["goal_id"]: each["description"] for each in goals["items"]},
        "columns": _columns(tasks["items"]),
        "budgets": [(each, names.get(each["campaign_id"], "–")) for each in budgets["items"]],
        "wallets": [(each, names.get(each["agent_or_campaign_id"], "–")) for each in items_of(wallets)],
        "effects": [each for each in effects if campaign in (None, each.campaign_id)],
    }
    return PageView("goals.html", "Goals and tasks", values, command="twinraven goals list")


async def _nothing() -> None:
    return None


def _columns(tasks: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, list[tuple[Mapping[str, Any], str]]]]:
    """Return the tasks of each state that has any, from what waits to what is over."""
    found: dict[str, list[tuple[Mapping[str, Any], str]]] = {}
    for task in tasks:
        found.setdefault(task["status"], []).append((task, task_words(task)))
    states = (*_COLUMNS, *(each for each in found if each not in _COLUMNS))
    return [(state, len(found[state]), found[state][:_SHOWN]) for state in states if state in found]


@PAGES.shows("/tasks/{task_id}", "goals", live="work", needs="tasks")
async def show_task(visit: PageRequest) -> PageView:
    return await _page(visit, refusal=None)


@PAGES.takes("/tasks/{task_id}/{word}", "goals", needs="tasks")
async def act_on_task(visit: PageRequest) -> PageView | Redirect:
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


async def _page(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    task_id = visit.path["task_id"]
    found = await visit.api.show("tasks", task_id)
    task = found.body
    goal, siblings, effects = await asyncio.gather(
        visit.api.find("goals", task["goal_id"]),
        visit.api.get("tasks", goal_id=task["goal_id"], limit=_MOST),
        effect_lines(visit, task_id=task_id),
    )
    results = {each["result_id"]: each["attempt_number"] for each in task["results"]}
    name = task_words(task)
    values = {
        "task": task,
        "name": name,
        "goal": goal,
        "seen": found.tag,
        "picture": _graph(task, siblings["items"]),
        "attempt_of": results,
        "judged": {results.get(each["result_id"]): each["decision"] for each in task["decisions"]},
        "in_force": decision_in_force(task),
        "criteria": {each.get("id"): each for each in members(task["spec_json"]).get("acceptance_criteria", [])},
        "effects": effects,
        "may_move": task["status"] in _LEFT,
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    command = command_line("tasks", "show", task_id)
    about = {"work": [task_id, task["goal_id"], *_before(task), *_after(task, siblings["items"])]}
    return PageView("task.html", name, values, command=command, status=status, about=about)


def decision_in_force(task: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the last decision about the newest attempt that was judged at all."""
    attempts = {each["result_id"]: each["attempt_number"] for each in task["results"]}
    decisions: Sequence[Mapping[str, Any]] = task["decisions"]
    return max(decisions, key=lambda each: (attempts.get(each["result_id"], 0), each["round"]), default=None)


def _graph(task: Mapping[str, Any], siblings: Sequence[Mapping[str, Any]]) -> Any:
    """Return what the task waits for and what waits for it; None where it stands alone."""
    known = {each["task_id"]: each for each in siblings}
    before, after = _before(task), _after(task, siblings)
    if not before and not after:
        return None
    nodes = tuple(_node(name, known.get(name), task["task_id"]) for name in (*before, task["task_id"], *after))
    edges = [GraphEdge(name, task["task_id"]) for name in before]
    edges += [GraphEdge(task["task_id"], name) for name in after]
    return graph(nodes, tuple(edges), title="What the task waits for, and what waits for it")


def _before(task: Mapping[str, Any]) -> list[str]:
    return [name for name in task["dependencies"] if name != task["task_id"]]


def _after(task: Mapping[str, Any], siblings: Sequence[Mapping[str, Any]]) -> list[str]:
    return [each["task_id"] for each in siblings if task["task_id"] in _needed(each)]


def _needed(task: Mapping[str, Any]) -> Sequence[str]:
    return members(task["spec_json"]).get("dependencies") or ()


def _node(name: str, task: Mapping[str, Any] | None, chosen: str) -> GraphNode:
    status = "" if task is None else str(task["status"])
    look = _LOOKS.get(status, "quiet") + (" chosen" if name == chosen else "")
    shown = name if task is None else task_words(task)
    return GraphNode(name, f"/console/tasks/{quote(name, safe='')}", look, status.replace("_", " "), shown)
