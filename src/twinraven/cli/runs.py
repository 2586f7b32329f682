"""`twinraven runs`: durable work, and what people decide about it.

Whoever sits at the machine decides as the tenant's administrator, under the name they are logged in with.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count
from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.interrupts import not_waiting_when_interrupted
from twinraven.cli.output import TableColumn, encode_json, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.engine import Run, RunDetail, RunRequest, Worker
    from twinraven.tenancy import Principal

_STATES = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "set_aside")
_LOOK_EVERY_S = 0.3
_COLUMNS = (
    TableColumn("run_id", "RUN", shrinks=True, least=38),
    TableColumn("state", "STATE", tinted=True),
    TableColumn("target", "TARGET", shrinks=True),
    TableColumn("actor", "STARTED BY", shrinks=True, spare=3),
    TableColumn("created_at", "STARTED", text=short_time, spare=2),
    TableColumn("finished_at", "ENDED", text=short_time, spare=4),
    TableColumn("error_code", "ERROR", shrinks=True),
)
_STEPS = (
    TableColumn("place", "STEP"),
    TableColumn("tool_id", "CALLS", shrinks=True),
    TableColumn("error_code", "ERROR"),
    TableColumn("settled_at", "ENDED", text=short_time),
    TableColumn("gave", "GAVE", shrinks=True),
)
_WAITED = {"person": "a person", "effect": "word of an effect", "approval": "an approval", "event": "an event"}
_GOES_ON = {
    "person": "  twinraven runs answer {run} {place} JSON",
    "effect": """  twinraven runs answer {run} {place} '{{"effect": "happened" | "did_not_happen" | "give_up"}}'""",
    "approval": "  twinraven approvals grant {subject}",
    "event": "  twinraven runs signal {subject}",
}
_WORKER_COLUMNS = (
    TableColumn("process", "WORKER"),
    TableColumn("type", "TYPE"),
    TableColumn("status", "STATE", tinted=True),
    TableColumn("slots", "SLOTS", spare=2),
    TableColumn("busy", "BUSY", spare=1),
    TableColumn("processedCount", "DONE"),
    TableColumn("errorCount", "FAILED"),
    TableColumn("lastHeartbeat", "HEARD", text=short_time),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven runs start get_order --param order_id=W1001 --follow\ntwinraven runs list")
    _register_looks(parser)
    _register_start(parser)
    for name, what, act in (
        ("cancel", "begin nothing more; what is under way is let finish", cancel_run),
        ("resume", "go on with a run that was set aside, or look again at one that waits", resume_run),
        ("retry", "make the failed calls of an ended run again", retry_run),
    ):
        command = parser.command(name, what)
        _add_run(command)
        command.runs(act, example=f"twinraven runs {name} 5f1c9e0b7a3d4c2e8f60719a2b3c4d5e")
    fork = parser.command("fork", "start a new run with what came before a step")
    _add_run(fork)
    fork.add_argument("step", metavar="STEP", help="the first step to be done anew, by its id or number")
    fork.runs(fork_run, example="twinraven runs fork 5f1c9e0b7a3d4c2e8f60719a2b3c4d5e 2")
    answer = parser.command("answer", "answer what a run asks at a place")
    _add_run(answer)
    answer.add_argument("place", metavar="PLACE", help="where it asks, as `runs show` says")
    answer.add_argument(
        "answer",
        metavar="JSON",
        help='the answer; for an unknown effect {"effect": "happened", "output": …}, "did_not_happen" or "give_up"',
    )
    answer.runs(answer_run, example="twinraven runs answer 5f1c9e0b7a3d4c2e8f60719a2b3c4d5e 0 true")
    event = parser.command("signal", "tell all runs that wait for an event that it happened")
    event.add_argument("event", metavar="EVENT", help="the event's name")
    event.add_argument("payload", metavar="JSON", nargs="?", default="null", help="what they are given (default: null)")
    event.takes_output("table", "json")
    event.runs(signal_event, example="twinraven runs signal invoice-paid 5")


def _register_looks(parser: CommandParser) -> None:
    listing = parser.command("list", "runs, the newest first")
    listing.add_argument("--state", choices=_STATES, help="only those in this state")
    listing.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_runs, example="twinraven runs list --state waiting")
    show = parser.command("show", "a run with its steps, and what it waits for")
    _add_run(show)
    show.add_argument("--follow", action="store_true", help="tell of each step until the run ends or waits")
    show.add_argument("--svg", action="store_true", help="draw its steps as SVG, each coloured by what came of it")
    show.runs(show_run, example="twinraven runs show 5f1c9e0b7a3d4c2e8f60719a2b3c4d5e --follow")
    workers = parser.command("workers", "who works on runs")
    workers.takes_output("table", "json", "csv")
    workers.runs(list_workers, example="twinraven runs workers")


def _register_start(parser: CommandParser) -> None:
    start = parser.command("start", "start a run of a tool, or of a flow in a file")
    start.add_argument("tool", metavar="TOOL", nargs="?", help="the tool's id")
    start.add_argument("--definition", metavar="FILE", help="a flow definition as JSON, in place of a tool")
    start.add_argument("--params", metavar="JSON", help="all arguments, as an object; @FILE reads a file, - stdin")
    start.add_argument(
        "--param", metavar="NAME=VALUE", action="append", default=[], help="one argument; may be repeated"
    )
    start.add_argument("--id", metavar="RUN", help="the run's id: starting it twice is one run")
    start.add_argument(
        "--priority", type=int, default=100, metavar="N", help="the smallest is taken first (default: 100)"
    )
    start.add_argument("--timeout", type=float, metavar="S", help="fail after so many seconds, waits for people aside")
    start.add_argument("--follow", action="store_true", help="tell of each step until the run ends or waits")
    start.takes_output("table", "json")
    start.runs(start_run, example="twinraven runs start get_order --param order_id=W1001 --follow")


def _add_run(parser: CommandParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="the run's id, or the beginning of it")
    parser.takes_output("table", "json")


def list_runs(options: Namespace) -> None:
    found = with_home(options, lambda raven: raven.runs.list(options.tenant, state=options.state, limit=options.limit))
    show_rows(options.output, [run.as_json() for run in found], _COLUMNS, empty="no runs")


def list_workers(options: Namespace) -> None:
    found = with_home(options, lambda raven: raven.runs.workers())
    if options.output == "json":
        show_json([worker.as_json() for worker in found])
    else:
        show_rows(options.output, _pool_rows(found), _WORKER_COLUMNS, empty="no workers")


def _pool_rows(workers: Iterable[Worker]) -> list[dict[str, Any]]:
    """Return one row for each pool of each process: a process has dozens of slots."""
    pools: dict[str, dict[str, Any]] = {}
    for worker in workers:
        name = worker.worker_id.rpartition("/")[0]
        row = pools.setdefault(
            name,
            {
                "process": name.partition("/")[0],
                "type": worker.type,
                "status": worker.status,
                "slots": 0,
                "busy": 0,
                "processedCount": 0,
                "errorCount": 0,
                "lastHeartbeat": worker.as_json()["lastHeartbeat"],
            },
        )
        if worker.status == "busy":
            row["status"] = "busy"
        row["slots"] += 1
        row["busy"] += worker.status == "busy"
        row["processedCount"] += worker.processed_count
        row["errorCount"] += worker.error_count
    return list(pools.values())


def show_run(options: Namespace) -> int:
    if options.svg:
        from twinraven.cli.output import write_bytes

        svg: str = with_home(options, lambda raven: raven.runs.draw(options.tenant, options.run_id))
        write_bytes(svg.encode())
        return DONE
    return show_detail(options, with_home(options, lambda raven: look_at(raven, options, options.run_id)))


def start_run(options: Namespace) -> int:
    async def act(raven: TwinRaven) -> RunDetail:
        run = await raven.runs.start(_wish(raven, options), by=local_caller(options))
        return await look_at(raven, options, run.run_id)

    return show_detail(options, with_home(options, act))


def cancel_run(options: Namespace) -> None:
    _show_run(options, lambda raven: raven.runs.cancel(options.run_id, by=local_operator(options)))


def resume_run(options: Namespace) -> None:
    _show_run(options, lambda raven: raven.runs.resume(options.run_id, by=local_operator(options)))


def retry_run(options: Namespace) -> None:
    _show_run(options, lambda raven: raven.runs.retry(options.run_id, by=local_operator(options)))


def fork_run(options: Namespace) -> None:
    _show_run(options, lambda raven: raven.runs.fork(options.run_id, options.step, by=local_caller(options)))


def answer_run(options: Namespace) -> None:
    from twinraven.foundation.canonical import parse_json

    answer = parse_json(options.answer, field="answer")
    _show_run(
        options, lambda raven: raven.runs.answer(options.run_id, options.place, answer, by=local_operator(options))
    )


def signal_event(options: Namespace) -> None:
    from twinraven.foundation.canonical import parse_json

    payload = parse_json(options.payload, field="payload")
    told = with_home(options, lambda raven: raven.runs.signal(options.event, payload, by=local_operator(options)))
    show_fields(options.output, {"event": options.event, "runs": told})


def with_home(options: Namespace, act: Callable[[TwinRaven], Awaitable[Any]]) -> Any:
    import asyncio

    from twinraven.cli.home import opened

    async def run(raven: TwinRaven) -> Any:
        if "run_id" in options:
            options.run_id = await _whole_id(raven, options)
        return await act(raven)

    with not_waiting_when_interrupted(), opened(options) as raven:
        return asyncio.run(run(raven))


async def _whole_id(raven: TwinRaven, options: Namespace) -> str:
    from twinraven.cli.short_ids import LOOKED_AT, complete_id, is_whole

    if is_whole(options.run_id):
        return options.run_id
    newest = await raven.runs.list(options.tenant, limit=LOOKED_AT)
    return complete_id(options.run_id, (run.run_id for run in newest), what="run")


def _wish(raven: TwinRaven, options: Namespace) -> RunRequest:
    from pathlib import Path

    from twinraven.cli.call import read_params
    from twinraven.engine import RunRequest
    from twinraven.flow import FlowDefinition
    from twinraven.foundation.canonical import parse_json
    from twinraven.foundation.errors import InvalidInput

    definition, schema = None, dict[str, Any]()
    if options.definition is not None:
        try:
            raw = Path(options.definition).read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot read {options.definition}: {error.strerror}", field="definition") from error
        definition = FlowDefinition.from_json(parse_json(raw, field="definition"))
        schema = definition.parameters
    elif options.tool is not None:
        schema = raven.catalog.find(options.tenant, options.tool).input_schema
    return RunRequest(
        parameters=read_params(options.params, options.param, schema),
        tool_id=options.tool,
        definition=definition,
        run_id=options.id,
        priority=options.priority,
        timeout_s=options.timeout,
    )


async def look_at(raven: TwinRaven, options: Namespace, run_id: str) -> RunDetail:
    """Return the run; with --follow, once it ends or waits, worked on here where no worker is heard."""
    if not options.follow:
        found = await raven.runs.get(options.tenant, run_id)
        await _tell_if_idle(raven, found.run)
        return found
    from twinraven.engine import somebody_working

    async with somebody_working(raven.runs, raven.working):
        return await _follow(raven, options, run_id)


async def _follow(raven: TwinRaven, options: Namespace, run_id: str) -> RunDetail:
    """Return the run once it ends or waits; every step is told on the way."""
    import asyncio

    told = 0
    while True:
        found = await raven.runs.get(options.tenant, run_id)
        for step in found.steps[told:]:
            how = "done" if step.error_code is None else step.error_code
            print(f"{step.place:>8}  {step.tool_id}  {how}", file=sys.stderr, flush=True)
        told = len(found.steps)
        if found.run.state not in ("queued", "running"):
            return found
        await asyncio.sleep(_LOOK_EVERY_S)


def show_detail(options: Namespace, found: RunDetail) -> int:
    from twinraven.foundation.canonical import to_json_value

    body: dict[str, Any] = to_json_value(found.as_json())
    if options.output == "json":
        show_json(body)
    else:
        _show_parts(options, body)
    return FAILED if options.follow and found.run.state in ("failed", "cancelled", "set_aside") else DONE


def _show_parts(options: Namespace, body: dict[str, Any]) -> None:
    """Print a run in parts: itself, its steps, and how to answer what it asks."""
    steps, waits = body.pop("steps"), body.pop("waits")
    body["jobs"] = ", ".join(f"{job['job_id']} ({job['state']})" for job in body["jobs"]) or None
    show_fields(options.output, body)
    if steps:
        print()
        show_rows(options.output, [{**step, "gave": _short(step["error"] or step["output"])} for step in steps], _STEPS)
    for wait in waits:
        if wait["answered_at"] is None and wait["kind"] in _GOES_ON:
            print(f"\nwaits at {wait['place']} for {_WAITED[wait['kind']]}: {_short(wait['question'])}")
            print(_GOES_ON[wait["kind"]].format(run=body["run_id"], **wait))


def _short(value: Any) -> str:
    return encode_json(value, indent=False).decode()


def _show_run(options: Namespace, act: Callable[[TwinRaven], Awaitable[Run]]) -> None:
    async def decide(raven: TwinRaven) -> Run:
        run = await act(raven)
        await _tell_if_idle(raven, run)
        return run

    run: Run = with_home(options, decide)
    show_fields(options.output, run.as_json())


async def _tell_if_idle(raven: TwinRaven, run: Run) -> None:
    """Say so where a run is due and no worker is heard that could take it."""
    if run.state == "queued" and all(worker.status == "offline" for worker in await raven.runs.workers()):
        how = f"start `twinraven worker` or `twinraven up`, or `twinraven runs show {run.run_id} --follow`"
        print(f"no worker is heard; {how}", file=sys.stderr)


def local_operator(options: Namespace) -> Principal:
    from twinraven.cli.people import user_name
    from twinraven.tenancy import Principal

    return Principal(options.tenant, user_name(), "admin")


def local_caller(options: Namespace) -> Principal:
    """Calls of a run have the rights of the one user of an embedded home, like `twinraven call`."""
    from twinraven.tenancy import LOCAL_USER, Principal

    return Principal(options.tenant, LOCAL_USER, "admin")
