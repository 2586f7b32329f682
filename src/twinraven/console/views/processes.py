"""Shows processes: the graph of their steps, their versions and what changed, and starts runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from twinraven.console.api_caller import ApiRefused, typed_value
from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line

PAGES: Final = PageTable()


@PAGES.shows("/processes", "processes", live="catalog", needs="processes")
async def list_processes(visit: PageRequest) -> PageView:
    page = await visit.api.get("processes", limit=500)
    return PageView("processes.html", "Processes", {"processes": page["items"]}, command="twinraven process list")


@PAGES.shows("/processes/{process_id}", "processes", live="catalog", needs="processes")
async def show_process(visit: PageRequest) -> PageView:
    return await _page(visit, refusal=None)


@PAGES.takes("/processes/{process_id}/run", "processes", needs="processes")
async def run_process(visit: PageRequest) -> PageView | Redirect:
    """Start a durable run with the values that were given."""
    parameters = {
        name.removeprefix("p_"): typed_value(value)
        for name, value in visit.form.items()
        if name.startswith("p_") and value
    }
    try:
        run = await visit.api.post("processes", visit.path["process_id"], "runs", body={"parameters": parameters})
    except ApiRefused as refusal:
        if refusal.status not in (400, 409):
            raise
        return await _page(visit, refusal=refusal)
    return Redirect(f"/console/runs/{quote(run['run_id'], safe='')}")


async def _page(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    process_id = visit.path["process_id"]
    process, versions = await asyncio.gather(
        visit.api.get("processes", process_id, version=visit.query.get("version")),
        visit.api.get("processes", process_id, "versions", limit=100),
    )
    difference = None
    if len(versions["items"]) > 1:
        difference = await visit.api.find("processes", process_id, "diff")
    values = {
        "process": process,
        "versions": versions["items"],
        "difference": difference,
        "picture": process_graph(process),
        "form": visit.form,
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    command = command_line("process", "show", process_id)
    return PageView("process.html", process["name"] or process_id, values, command=command, status=status)


def process_graph(process: Mapping[str, Any]) -> Any:
    """Return the steps and what each waits for."""
    nodes = tuple(
        GraphNode(step["id"], f"#step-{quote(step['id'], safe='')}", "", step.get("tool") or step.get("process") or "")
        for step in process["steps"]
    )
    return graph(nodes, tuple(step_edges(process)), title=f"Steps of {process['name'] or process['id']}")


def step_edges(process: Mapping[str, Any]) -> Iterator[GraphEdge]:
    """Return the edges of the step graph: a sequential step waits for all parallel steps before it."""
    done: list[str] = []
    beside: list[str] = []
    for step in process["steps"]:
        if _mode_of(step) == "sequential":
            needed, done, beside = beside or done, [step["id"]], []
        else:
            needed = list(step.get("depends_on") or ()) or done
            beside.append(step["id"])
        yield from (GraphEdge(name, step["id"]) for name in needed)


def _mode_of(step: Mapping[str, Any]) -> str:
    execution: Mapping[str, Any] = step.get("execution") or {}
    return str(execution.get("mode", "sequential"))
