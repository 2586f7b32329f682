"""Shows plans: the steps on the left, and cycle by cycle what the model said, what was repaired and what was called."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from twinraven.console.api_caller import ApiRefused, members
from twinraven.console.drawing.columns import meter
from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.runs import about_run

PAGES: Final = PageTable()
_PER_PAGE: Final = 30
_LOOKS: Final = {
    "complete": "done",
    "completed": "done",
    "done": "done",
    "failed": "bad",
    "in_progress": "now",
    "executing": "now",
    "waiting": "wait",
    "skipped": "quiet",
    "pending": "quiet",
}


@PAGES.shows("/plans", "plans", live="runs events/10", needs="plans")
async def list_plans(visit: PageRequest) -> PageView:
    return await _list(visit, refusal=None)


async def _list(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    page = await visit.api.get("plans", limit=_PER_PAGE, cursor=visit.query.get("cursor"))
    more = {"cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "plans": list(zip(page["items"], await _requests(visit, page["items"]), strict=True)),
        "more": None if more is None else f"/console/plans?{urlencode(more)}",
        "typed": visit.form.get("request", ""),
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    return PageView("plans.html", "Plans", values, command="twinraven plan list", status=status)


async def _requests(visit: PageRequest, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what each plan is to achieve; the list of plans as runs does not say."""
    asked = list(visit.api.asked)
    found = await asyncio.gather(*(visit.api.find("plans", each["run_id"]) for each in runs))
    visit.api.asked[:] = asked
    return ["" if each is None else _goal(each) for each in found]


def _goal(plan: Mapping[str, Any]) -> str:
    """Return the purpose of a plan: the words of its request, or the goal that it was given with."""
    return str(plan["request"] or members(plan["state"]["plan"]).get("goal") or "")


@PAGES.takes("/plans", "plans", needs="plans")
async def start_plan(visit: PageRequest) -> PageView | Redirect:
    """Begin a plan for a request."""
    body: dict[str, Any] = {"request": visit.form.get("request", "")}
    if visit.form.get("ttl", "").isdigit():
        body["ttl"] = int(visit.form["ttl"])
    try:
        run = await visit.api.post("plans", body=body)
    except ApiRefused as refusal:
        if refusal.status not in (400, 409, 422):
            raise
        return await _list(visit, refusal=refusal)
    return Redirect(_at(run["run_id"]))


@PAGES.shows("/plans/{run_id}", "plans", live="runs events approvals", needs="plans")
async def show_plan(visit: PageRequest) -> PageView:
    return await _page(visit, refusal=None)


@PAGES.takes("/plans/{run_id}/fork", "plans", needs="plans")
async def fork_plan(visit: PageRequest) -> PageView | Redirect:
    """Begin anew at a step, with what came before it."""
    run_id = visit.path["run_id"]
    try:
        fork = await visit.api.post("plans", run_id, "fork", body={"step": visit.form.get("step", "")})
    except ApiRefused as refusal:
        if refusal.status not in (400, 409):
            raise
        return await _page(visit, refusal=refusal)
    return Redirect(_at(fork["run_id"]))


async def _page(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    run_id = visit.path["run_id"]
    plan, log = await asyncio.gather(visit.api.get("plans", run_id), visit.api.get("plans", run_id, "log"))
    made: Mapping[str, Any] = plan["state"]["plan"] or {}
    steps: list[Mapping[str, Any]] = made.get("steps", [])
    goal = _goal(plan) or "A plan"
    most = max(plan["ttl"], 1)
    values = {
        "plan": plan,
        "goal": goal,
        "steps": steps,
        "picture": _graph(run_id, steps) if steps else None,
        "cycles": [(each, meter(each["ttl_remaining"] / most)) for each in log["items"]],
        "left": meter(max(plan["state"]["ttl_remaining"], 0) / most),
        "at": _at(run_id),
        "sessions": [f"run:{run_id}", f"run:{run_id}:model"],
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    command = command_line("plan", "show", run_id)
    return PageView("plan.html", goal, values, command=command, status=status, about=about_run(run_id))


def _at(run_id: str) -> str:
    return f"/console/plans/{quote(run_id, safe='')}"


def _graph(run_id: str, steps: list[Mapping[str, Any]]) -> Any:
    nodes = tuple(
        GraphNode(
            step["step_id"],
            f"{_at(run_id)}#step-{quote(step['step_id'], safe='')}",
            _LOOKS.get(step["status"], ""),
            step["status"],
        )
        for step in steps
    )
    edges: list[GraphEdge] = []
    before: str | None = None
    for step in steps:
        needed = step["depends_on"] or ([before] if before else [])
        edges += [GraphEdge(name, step["step_id"]) for name in needed]
        before = step["step_id"]
    return graph(nodes, tuple(edges), title="Steps of the plan")
