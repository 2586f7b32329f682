"""Shows durable runs: where each stands, its steps as a graph and a list, and takes answers, forks and endings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from twinraven.console.asking import ApiRefused, items_of
from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.views.processes import step_edges
from twinraven.console.visits import PageTable, Redirect, Shown, Visit

PAGES: Final = PageTable()
_STATES: Final = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "set_aside")
_PER_PAGE: Final = 100
_WORDS: Final = frozenset({"cancel", "resume", "retry"})
_LOOKS: Final = {"done": "done", "failed": "bad", "waiting": "wait", "running": "now", "open": "quiet"}


@dataclass(frozen=True, slots=True)
class StepLine:
    """What came of one place of a run: its newest attempt, and how many there were."""

    place: str
    tool_id: str
    state: str
    settled_at: str | None
    epoch: int | None
    error_code: str | None
    output: Any
    error: Any


@PAGES.shows("/runs", "runs", live="runs events", needs="runs")
async def list_runs(visit: Visit) -> Shown:
    state = visit.query.get("state", "")
    page, workers = await asyncio.gather(
        visit.api.get("runs", state=state or None, limit=_PER_PAGE, cursor=visit.query.get("cursor")),
        visit.api.find("workers", limit=100),
    )
    more = {"state": state, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "runs": page["items"],
        "state": state,
        "states": _STATES,
        "workers": items_of(workers),
        "more": None if more is None else f"/console/runs?{urlencode(more)}",
    }
    return Shown("runs.html", "Runs", values, command="twinraven runs list")


@PAGES.shows("/runs/{run_id}", "runs", live="runs events approvals", needs="runs")
async def show_run(visit: Visit) -> Shown:
    return await _page(visit, refusal=None)


@PAGES.takes("/runs/{run_id}/answer", "runs", needs="runs")
async def answer_run(visit: Visit) -> Shown | Redirect:
    """Answer what a run asks; what is no JSON is meant as a text."""
    form = visit.form
    return await _act(visit, "answer", {"place": form.get("place", ""), "answer": _value(form.get("answer", ""))})


@PAGES.takes("/runs/{run_id}/fork", "runs", needs="runs")
async def fork_run(visit: Visit) -> Shown | Redirect:
    """Start a new run from a step; what came before it is not repeated."""
    return await _act(visit, "fork", {"step": visit.form.get("step", "")})


@PAGES.takes("/runs/{run_id}/{word}", "runs", needs="runs")
async def act_on_run(visit: Visit) -> Shown | Redirect:
    """Cancel, resume or retry."""
    word = visit.path["word"]
    if word not in _WORDS:
        raise ApiRefused(404, {"title": "Not Found", "detail": "There is no such act.", "code": "NOT_FOUND"}, "")
    return await _act(visit, word, {})


async def _act(visit: Visit, word: str, body: Mapping[str, Any]) -> Shown | Redirect:
    run_id = visit.path["run_id"]
    try:
        done = await visit.api.post("runs", run_id, word, body=dict(body))
    except ApiRefused as refusal:
        if refusal.status not in (400, 409):
            raise
        return await _page(visit, refusal=refusal)
    return Redirect(f"/console/runs/{quote(done['run_id'], safe='')}")


async def _page(visit: Visit, *, refusal: ApiRefused | None) -> Shown:
    run_id = visit.path["run_id"]
    run = await visit.api.get("runs", run_id)
    process = await visit.api.find("processes", run["target"]) if visit.has("processes") else None
    lines = _lines(run)
    chosen = next((each for each in lines if each.place == visit.query.get("step")), None)
    values = {
        "run": run,
        "lines": lines,
        "chosen": chosen,
        "open_waits": [each for each in run["waits"] if each["answered_at"] is None],
        "picture": _graph(run, lines, process, visit.query.get("step", "")),
        "is_over": run["state"] in ("succeeded", "failed", "cancelled"),
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    title = f"Run of {run['target']}"
    return Shown("run.html", title, values, command=f"twinraven runs show {run_id}", status=status)


def _lines(run: Mapping[str, Any]) -> list[StepLine]:
    newest: dict[str, Mapping[str, Any]] = {}
    for step in run["steps"]:
        newest[step["place"]] = step
    found = {
        place: StepLine(
            place,
            step["tool_id"],
            "failed" if step["error_code"] else "done",
            step["settled_at"],
            step["epoch"],
            step["error_code"],
            step["output"],
            step["error"],
        )
        for place, step in newest.items()
    }
    for wait in run["waits"]:
        if wait["answered_at"] is None:
            known = found.get(wait["place"])
            named = known.tool_id if known else wait["subject"] or wait["kind"]
            found[wait["place"]] = StepLine(wait["place"], named, "waiting", None, None, None, None, None)
    for job in run["jobs"]:
        if job["place"] and job["place"] not in found:
            found[job["place"]] = StepLine(job["place"], job["queue"], "running", None, None, None, None, None)
    return sorted(found.values(), key=_order)


def _order(line: StepLine) -> tuple[list[int], str]:
    """By number where places are numbers; named steps in the order in which they settled, open ones last."""
    numbers = [int(part) for part in line.place.split(".") if part.isdigit()]
    return numbers or [10**9], line.settled_at or "9"


def _graph(run: Mapping[str, Any], lines: Sequence[StepLine], process: Any, chosen: str) -> Any:
    at = f"/console/runs/{quote(run['run_id'], safe='')}"
    nodes = tuple(
        GraphNode(
            each.place,
            f"{at}?step={quote(each.place, safe='')}",
            _LOOKS[each.state] + (" chosen" if each.place == chosen else ""),
            each.state,
            each.tool_id,
        )
        for each in lines
    )
    return graph(nodes, _edges(lines, process), title=f"Steps of the run of {run['target']}")


def _edges(lines: Sequence[StepLine], process: Any) -> tuple[GraphEdge, ...]:
    """What waits for what; inner places hang on the place around them, the others follow each other."""
    top = [each.place for each in lines if "." not in each.place]
    known = {each.place for each in lines}
    if process is None:
        edges = [GraphEdge(before, after) for before, after in pairwise(top)]
    else:
        edges = [edge for edge in step_edges(process) if {edge.source, edge.target} <= known]
    edges += [
        GraphEdge(around, each.place)
        for each in lines
        if "." in each.place and (around := each.place.rpartition(".")[0]) in known
    ]
    return tuple(edges)


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return text
