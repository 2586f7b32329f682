"""`twinraven plan`: a request becomes a plan, and is carried out before your eyes."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count
from twinraven.cli.definitions import read_text
from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import TableColumn, encode_json, paint, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_caller, with_home
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.engine import Run
    from twinraven.plans import LogEntry, PlanLogFile, PlanRun
    from twinraven.processes import ProcessVersion

_LOOK_EVERY_S = 0.1
_MARKS = {"complete": ("done", "green"), "failed": ("failed", "red")}
_COLUMNS = (
    TableColumn("run_id", "RUN"),
    TableColumn("state", "STATE", tinted=True),
    TableColumn("actor", "STARTED BY", shrinks=True, spare=2),
    TableColumn("created_at", "STARTED", text=short_time, spare=1),
    TableColumn("finished_at", "ENDED", text=short_time, spare=3),
    TableColumn("error_code", "ERROR", shrinks=True),
)
_STEP_COLUMNS = (
    TableColumn("step_id", "STEP"),
    TableColumn("status", "STATUS", tinted=True),
    TableColumn("calls", "CALLS", shrinks=True),
    TableColumn("description", "DESCRIPTION", shrinks=True),
    TableColumn("errors", "ERRORS", shrinks=True),
)
_RUN = "5f1c9e0b7a3d4c2e8f60719a2b3c4d5e"


def register(parser: CommandParser) -> None:
    parser.falls_to("run")
    parser.show_example("twinraven plan 'Tell the customer of W1001 where the order is.'\ntwinraven plan list")
    run = parser.command("run", "turn a request into a plan and carry it out (the word run may be left out)")
    run.add_argument(
        "request", metavar="REQUEST", nargs="*", help="what is to be achieved; several words are one request"
    )
    run.add_argument("--file", metavar="FILE", help="a plan in JSON or YAML, in place of a request")
    run.add_argument("--ttl", type=int, metavar="N", help="how often the model may be asked (default: plans.ttl)")
    run.add_argument(
        "--tool", dest="tools", metavar="TOOL", action="append", help="use only this tool; may be repeated"
    )
    run.add_argument("--log", metavar="FILE", help="write one JSON line for each cycle there")
    run.add_argument("--id", metavar="RUN", help="the run's id: starting it twice is one plan")
    run.add_argument("--timeout", type=float, metavar="S", help="fail after so many seconds, waits for people aside")
    run.add_argument("--detach", action="store_true", help="start it and leave it to workers")
    run.takes_output("text", "json")
    run.runs(run_plan, example="twinraven plan run --file plan.json --ttl 20 --log run.jsonl")
    listing = parser.command("list", "plans, the newest first")
    listing.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_plans, example="twinraven plan list")
    show = parser.command("show", "a plan with its steps and what they gave")
    _add_run(show)
    show.takes_output("table", "json")
    show.runs(show_plan, example=f"twinraven plan show {_RUN}")
    log = parser.command("log", "the log of a plan, one JSON line for each cycle")
    _add_run(log)
    log.runs(show_log, example=f"twinraven plan log {_RUN}")
    fork = parser.command("fork", "start a new plan with what came before a step")
    _add_run(fork)
    fork.add_argument("step", metavar="STEP", help="the first step to be done anew")
    fork.add_argument("--ttl", type=int, metavar="N", help="how often the model may be asked in all")
    fork.takes_output("table", "json")
    fork.runs(fork_plan, example=f"twinraven plan fork {_RUN} 2 --ttl 40")
    save = parser.command("save", "save what a completed plan did as a process, its inputs as parameters")
    _add_run(save)
    save.add_argument("--as", dest="process", required=True, metavar="PROCESS", help="the id of the process")
    save.takes_output("table", "json")
    save.runs(save_plan, example=f"twinraven plan save {_RUN} --as track_order")


def _add_run(parser: CommandParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="the run's id, or the beginning of it")


def run_plan(options: Namespace) -> int:
    plan = None if options.file is None else _read(options.file)

    async def act(raven: TwinRaven) -> PlanRun:
        from contextlib import ExitStack
        from pathlib import Path

        from twinraven.engine import somebody_working
        from twinraven.foundation.errors import InvalidInput
        from twinraven.plans import PlanLogFile

        if options.log is not None and options.detach:
            raise InvalidInput("--log follows the plan, --detach does not; use `twinraven plan log RUN`", field="log")
        request = " ".join(options.request) if options.request else None
        wish = raven.plans.wish(request=request, plan=plan, ttl=options.ttl, tools=options.tools)
        with ExitStack() as stack:
            log = None if options.log is None else stack.enter_context(PlanLogFile(Path(options.log)))
            if log is not None and options.id is None:
                log.refuse_other_plan()
            run = await raven.plans.start(wish, by=local_caller(options), run_id=options.id, timeout_s=options.timeout)
            if options.detach:
                return await raven.plans.get(options.tenant, run.run_id)
            async with somebody_working(raven.runs, raven.working):
                return await _follow(raven, options, run.run_id, log)

    found: PlanRun = with_home(options, act)
    if options.output == "json":
        show_json(found.as_json())
    else:
        _tell_end(found)
    return FAILED if found.status in ("failed", "expired", "cancelled", "set_aside") else DONE


def list_plans(options: Namespace) -> None:
    found = with_home(options, lambda raven: raven.plans.list(options.tenant, limit=options.limit))
    show_rows(options.output, [run.as_json() for run in found], _COLUMNS, empty="no plans")


def show_plan(options: Namespace) -> None:
    found: PlanRun = with_home(options, lambda raven: raven.plans.get(options.tenant, options.run_id))
    if options.output == "json":
        show_json(found.as_json())
        return
    plan, (asked, said) = found.state.plan, found.state.tokens()
    fields: dict[str, Any] = {
        "plan": found.run.run_id,
        "status": found.status,
        "goal": found.wish.request if plan is None else plan.goal,
        "cycles": found.state.cycles,
        "ttl_remaining": found.state.ttl_remaining,
        "repairs": len(found.state.supervisor_actions),
        "tokens": asked + said,
        "error": None if found.error is None else found.error.get("message"),
        "results": found.state.results,
    }
    show_fields("table", fields)
    if plan is not None:
        rows = [
            {**step.as_json(), "calls": step.tool or step.agent, "errors": "; ".join(step.errors)}
            for step in plan.steps
        ]
        show_rows("table", rows, _STEP_COLUMNS)


def show_log(options: Namespace) -> None:
    entries = with_home(options, lambda raven: raven.plans.log(options.tenant, options.run_id))
    for entry in entries:
        print(encode_json(entry.as_json(), indent=False).decode())


def fork_plan(options: Namespace) -> None:
    fork: Run = with_home(
        options,
        lambda raven: raven.plans.fork(options.run_id, options.step, by=local_caller(options), ttl=options.ttl),
    )
    show_fields(options.output, fork.as_json())


def save_plan(options: Namespace) -> None:
    async def act(raven: TwinRaven) -> ProcessVersion:
        from twinraven.plans import plan_as_process
        from twinraven.processes import Process

        found = await raven.plans.get(options.tenant, options.run_id)
        definition = plan_as_process(found, options.process)
        return await raven.processes.save(Process.from_json(definition), by=local_caller(options))

    saved: ProcessVersion = with_home(options, act)
    if options.output == "json":
        show_json(saved.as_json())
        return
    inputs = list(saved.process.initial_context)
    told = {"process": saved.process.id, "version": saved.version, "steps": len(saved.process.steps), "inputs": inputs}
    show_fields(options.output, told)


async def _follow(raven: TwinRaven, options: Namespace, run_id: str, log: PlanLogFile | None) -> PlanRun:
    """Tell of each cycle as it ends, until the plan ends or waits for a person."""
    import asyncio

    told, shown = 0, False
    while True:
        found = await raven.plans.get(options.tenant, run_id)
        if log is not None:
            log.write(found.state.log)
        if options.output == "text":
            if not shown and found.state.plan is not None:
                shown = True
                _tell_plan(found)
            for entry in found.state.log[told:]:
                _tell_cycle(found, entry)
        told = found.state.cycles
        if found.run.finished_at is not None or found.run.state in ("waiting", "set_aside"):
            return found
        await asyncio.sleep(_LOOK_EVERY_S)


def _tell_plan(found: PlanRun) -> None:
    plan = found.state.plan
    assert plan is not None
    print(f"plan {found.run.run_id}: {plan.goal}", flush=True)
    width = max(len(step.step_id) for step in plan.steps)
    for step in plan.steps:
        print(f"  {step.step_id:>{width}}  {step.tool or step.agent or '?'}: {step.description}", flush=True)


def _tell_cycle(found: PlanRun, entry: LogEntry) -> None:
    """One line for a cycle: which step came to what, and what had to be repaired."""
    begun = [step["step_id"] for step in entry.plan_state.get("steps", []) if step["status"] == "pending"]
    plan = found.state.plan
    for action in entry.supervisor_actions:
        how = "repaired" if action.error is None else "not repaired"
        by = "by rule" if action.by == "rule" else f"by the model, attempt {action.attempt_number}"
        print(f"       {paint(how, 'yellow', sys.stdout)} {action.action_type} {by}", flush=True)
    if not begun or plan is None:
        return
    step = plan.step(begun[0])
    word, colour = _MARKS.get(step.status, (step.status, "bold"))
    why = "" if not entry.errors else f": {entry.errors[0]['message']}"
    print(f"  {step.step_id}  {paint(word, colour, sys.stdout)}{why}", flush=True)


def _tell_end(found: PlanRun) -> None:
    asked, said = found.state.tokens()
    cost = found.state.cost()
    spent = f"{found.state.cycles} cycles, {asked + said} tokens" + (f", {cost[0]} {cost[1]}" if cost else "")
    print(f"{found.status} ({spent})", flush=True)
    for step_id, result in found.state.results.items():
        print(f"  {step_id}: {encode_json(result, indent=False).decode()}", flush=True)
    for wait in found.waits:
        if wait.answered_at is None:
            print(f"  waits for {wait.kind} {wait.subject or ''} at {wait.place}", flush=True)
    if found.error is not None:
        print(f"twinraven: error: {found.error.get('message')}", file=sys.stderr)


def _read(file: str) -> Any:

    from twinraven.catalog import load_document

    text = read_text(file)
    return load_document(text)
