"""Shows durable runs: where each stands, its steps as a graph and a list, and takes answers, forks and endings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from twinraven.console.api_caller import ApiRefused, items_of, members, typed_value
from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.processes import step_edges
from twinraven.serving import encode_json

PAGES: Final = PageTable()
_STATES: Final = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "set_aside")
_PER_PAGE: Final = 100
_MOST_WORKERS: Final = 500
_FEW: Final = 6
_WORDS: Final = frozenset({"cancel", "resume", "retry"})
_LOOKS: Final = {"done": "done", "failed": "bad", "waiting": "wait", "running": "now", "not yet": "quiet"}
_ASKS: Final = "__ask"
"""What a place is called at which a person is asked before a manual step of a process."""
_KINDS: Final = {
    "person": "It asks a person",
    "approval": "A call waits for approval",
    "effect": "Nobody knows whether a step happened",
    "event": "It waits for an event",
    "moment": "It waits for a moment",
    "job": "It waits for another run",
}


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step of a run: its newest attempt, and the number of attempts."""

    place: str
    tool_id: str
    state: str
    settled_at: str | None
    epoch: int | None
    error_code: str | None
    output: Any
    error: Any

    @property
    def shown(self) -> str:
        """The step's name; at a step before which a person is asked, the step that waits."""
        return self.place.removesuffix(_ASKS)


@dataclass(frozen=True, slots=True)
class OpenWait:
    """An open wait of a run, and how to answer it."""

    place: str
    kind: str
    heading: str
    question: str
    given: Mapping[str, Any]
    choices: tuple[tuple[str, str], ...]
    """Answers that can be chosen: what is sent, and what stands on the button."""
    subject: str
    until: str | None
    rest: Any
    """A question that is no text."""


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """The work of one process on one queue."""

    process: str
    type: str
    alive: int
    busy: int
    last_heard: str
    done: int
    failed: int


@PAGES.shows("/runs", "runs", live="runs events/10", needs="runs")
async def list_runs(visit: PageRequest) -> PageView:
    state = visit.query.get("state", "")
    page, workers = await asyncio.gather(
        visit.api.get("runs", state=state or None, limit=_PER_PAGE, cursor=visit.query.get("cursor")),
        visit.api.find("workers", limit=_MOST_WORKERS),
    )
    more = {"state": state, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "runs": page["items"],
        "state": state,
        "states": _STATES,
        "workers": _groups(items_of(workers)),
        "more": None if more is None else f"/console/runs?{urlencode(more)}",
    }
    return PageView("runs.html", "Runs", values, command="twinraven runs list")


@PAGES.shows("/runs/{run_id}", "runs", live="runs events approvals", needs="runs")
async def show_run(visit: PageRequest) -> PageView:
    return await _page(visit, refusal=None)


@PAGES.takes("/runs/{run_id}/answer", "runs", needs="runs")
async def answer_run(visit: PageRequest) -> PageView | Redirect:
    """Answer what a run asks; what is no JSON is meant as a text."""
    form = visit.form
    return await _act(visit, "answer", {"place": form.get("place", ""), "answer": typed_value(form.get("answer", ""))})


@PAGES.takes("/runs/{run_id}/fork", "runs", needs="runs")
async def fork_run(visit: PageRequest) -> PageView | Redirect:
    """Start a new run from a step; what came before it is not repeated."""
    return await _act(visit, "fork", {"step": visit.form.get("step", "")})


@PAGES.takes("/runs/{run_id}/{word}", "runs", needs="runs")
async def act_on_run(visit: PageRequest) -> PageView | Redirect:
    """Cancel, resume or retry."""
    word = visit.path["word"]
    if word not in _WORDS:
        raise ApiRefused(404, {"title": "Not Found", "detail": "There is no such act.", "code": "NOT_FOUND"}, "")
    return await _act(visit, word, {})


async def _act(visit: PageRequest, word: str, body: Mapping[str, Any]) -> PageView | Redirect:
    run_id = visit.path["run_id"]
    try:
        done = await visit.api.post("runs", run_id, word, body=dict(body))
    except ApiRefused as refusal:
        if refusal.status not in (400, 409):
            raise
        return await _page(visit, refusal=refusal)
    return Redirect(f"/console/runs/{quote(done['run_id'], safe='')}")


async def _page(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    run_id = visit.path["run_id"]
    run = await visit.api.get("runs", run_id)
    process = await _process(visit, run["target"])
    lines = _lines(run)
    chosen = next((each for each in lines if each.place == visit.query.get("step")), None)
    values = {
        "run": run,
        "lines": lines,
        "chosen": chosen,
        "open_waits": [_wait(each) for each in run["waits"] if each["answered_at"] is None],
        "session": f"run:{run_id}",
        "is_plan": run["target"] == "plan",
        "picture": _graph(run, lines, process, visit.query.get("step", "")),
        "is_over": run["state"] in ("succeeded", "failed", "cancelled"),
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    title = f"Run of {run['target']}"
    command = command_line("runs", "show", run_id)
    return PageView("run.html", title, values, command=command, status=status, about=about_run(run_id))


def about_run(run_id: str) -> Mapping[str, Sequence[str]]:
    """Return what news concern a page of one run: its own, and the calls that it and its model make."""
    return {"runs": [run_id], "events": [f"run:{run_id}", f"run:{run_id}:model"]}


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
            named = known.tool_id if known else _waits_on(wait)
            found[wait["place"]] = StepLine(wait["place"], named, "waiting", None, None, None, None, None)
    for job in run["jobs"]:
        if job["place"] and job["place"] not in found:
            found[job["place"]] = StepLine(job["place"], job["queue"], "running", None, None, None, None, None)
    return sorted(found.values(), key=_order)


def _waits_on(wait: Mapping[str, Any]) -> str:
    """Return what is called at a place that waits."""
    question = members(wait["question"])
    details = members(members(question.get("error")).get("details"))
    return str(question.get("target") or details.get("tool_id") or wait["subject"] or wait["kind"])


def _order(line: StepLine) -> tuple[list[int], str]:
    """By number where places are numbers; named steps in the order in which they settled, open ones last."""
    numbers = [int(part) for part in line.place.split(".") if part.isdigit()]
    return numbers or [10**9], line.settled_at or "9"


async def _process(visit: PageRequest, target: str) -> Any:
    """Return the process that a run is of; most runs are of none, so the question is not one of the page's own."""
    if not visit.has("processes"):
        return None
    asked = list(visit.api.asked)
    found = await visit.api.find("processes", target)
    if found is None:
        visit.api.asked[:] = asked
    return found


def _wait(wait: Mapping[str, Any]) -> OpenWait:
    asked: Any = wait["question"]
    given = members(asked)
    if wait["kind"] == "effect":
        # What is not known of a call: which one, with which arguments, and what went wrong.
        given = {"question": members(given.get("error")).get("message"), "inputs": given.get("params")}
    is_form = isinstance(given.get("question"), str)
    form: Mapping[str, Any] = given if is_form else {}
    return OpenWait(
        place=wait["place"],
        kind=wait["kind"],
        heading=_KINDS.get(wait["kind"], str(wait["kind"])),
        question=str(form.get("question", "")),
        given=form.get("inputs") or {},
        choices=answer_choices(form.get("answer_schema")),
        subject=str(wait["subject"] or ""),
        until=wait["until"],
        rest=None if is_form else asked,
    )


def answer_choices(schema: Any) -> tuple[tuple[str, str], ...]:
    """Return the answers that a schema allows, where they are few enough to be buttons."""
    rules = members(schema)
    if rules.get("type") == "boolean":
        return ("true", "Yes"), ("false", "No")
    allowed = rules.get("enum")
    if not isinstance(allowed, list):
        return ()
    values = cast("list[Any]", allowed)
    return tuple((encode_json(each).decode(), str(each)) for each in values) if 1 <= len(values) <= _FEW else ()


def _groups(workers: Sequence[Mapping[str, Any]]) -> list[WorkerGroup]:
    """Workers by process and kind of work; of processes that ended, only those that did something."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in workers:
        found.setdefault((str(each["id"]).partition("/")[0], each["type"]), []).append(each)
    groups = [
        WorkerGroup(
            process,
            kind,
            alive=sum(each["status"] != "offline" for each in members),
            busy=sum(each["currentJobId"] is not None for each in members),
            last_heard=max(each["lastHeartbeat"] for each in members),
            done=sum(each["processedCount"] for each in members),
            failed=sum(each["errorCount"] for each in members),
        )
        for (process, kind), members in found.items()
    ]
    shown = [each for each in groups if each.alive or each.done or each.failed]
    return sorted(shown, key=lambda each: (not each.alive, each.process, each.type))


def _graph(run: Mapping[str, Any], lines: Sequence[StepLine], process: Any, chosen: str) -> Any:
    at = f"/console/runs/{quote(run['run_id'], safe='')}"
    lines = lines if process is None else _whole(lines, process)
    nodes = tuple(
        GraphNode(
            each.place,
            f"{at}?step={quote(each.place, safe='')}",
            _LOOKS[each.state] + (" chosen" if each.place == chosen else ""),
            each.state,
            each.place if process is not None else each.tool_id,
        )
        for each in lines
    )
    return graph(nodes, _edges(lines, process), title=f"Steps of the run of {run['target']}")


def _whole(lines: Sequence[StepLine], process: Mapping[str, Any]) -> list[StepLine]:
    """Return the steps of a process as they stand: with those to come, and what is asked before one as part of it."""
    known = {each.place: each for each in lines}
    steps: list[StepLine] = []
    for step in process["steps"]:
        name = step["id"]
        asked = known.pop(f"{name}{_ASKS}", None)
        line = known.pop(name, None)
        if line is None:
            state = "waiting" if asked is not None and asked.state == "waiting" else "not yet"
            target = str(step.get("tool") or step.get("process") or "")
            line = StepLine(name, target, state, None, None, None, None, None)
        steps.append(line)
    # What is asked or rendered between the steps is in the list below; inside a step it hangs on its step.
    return [*steps, *(each for place, each in known.items() if "." in place)]


def _edges(lines: Sequence[StepLine], process: Any) -> tuple[GraphEdge, ...]:
    """Return what waits for what; inner places hang on the place around them, the others follow each other."""
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
