"""`twinraven process`: processes as data, checked, saved as versions, drawn and run."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count
from twinraven.cli.definitions import read_text
from twinraven.cli.output import TableColumn, show_fields, show_json, show_rows, write_bytes
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_caller, look_at, show_detail, with_home
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.engine import RunDetail
    from twinraven.flow import FlowDefinition
    from twinraven.processes import OpenedProcess, Process, ProcessVersion

_COLUMNS = (
    TableColumn("id", "PROCESS"),
    TableColumn("version", "VERSION"),
    TableColumn("enabled", "ENABLED", spare=1),
    TableColumn("steps", "STEPS", spare=2),
    TableColumn("owner_id", "OWNER", shrinks=True, spare=4),
    TableColumn("updated_at", "SAVED", text=short_time, spare=3),
    TableColumn("description", "DESCRIPTION", shrinks=True),
)
_STEP_COLUMNS = (
    TableColumn("id", "STEP"),
    TableColumn("calls", "CALLS", shrinks=True),
    TableColumn("mode", "MODE"),
    TableColumn("variable", "FILLS"),
    TableColumn("condition", "IF", shrinks=True),
)
_DIFF_COLUMNS = (
    TableColumn("place", "PLACE"),
    TableColumn("before", "BEFORE", shrinks=True),
    TableColumn("after", "AFTER"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven process save triage.yaml\ntwinraven process run triage --param order_id=W1001")
    _register_definitions(parser)
    _register_looks(parser)
    run = parser.command("run", "run a process durably and tell what came of it")
    _add_process(run)
    run.add_argument("--params", metavar="JSON", help="all variables, as an object; @FILE reads a file, - stdin")
    run.add_argument("--param", metavar="NAME=VALUE", action="append", default=[], help="one variable; may be repeated")
    run.add_argument("--id", metavar="RUN", help="the run's id: starting it twice is one run")
    run.add_argument("--timeout", type=float, metavar="S", help="fail after so many seconds, waits for people aside")
    run.add_argument("--detach", action="store_true", help="start it and leave it to the workers")
    run.takes_output("table", "json")
    run.runs(run_process, example="twinraven process run triage --param order_id=W1001")


def _register_definitions(parser: CommandParser) -> None:
    for name, what, act in (
        ("check", "say whether a definition makes sense, and what it would call", check_process),
        ("save", "save a definition as a new version", save_process),
    ):
        command = parser.command(name, what)
        command.add_argument("file", metavar="FILE", help="the process as YAML or JSON; - reads stdin")
        if name == "save":
            command.add_argument(
                "--version", type=int, metavar="N", help="refuse unless N is in force; 0 for a new process"
            )
        command.takes_output("table", "json")
        command.runs(act, example=f"twinraven process {name} triage.yaml")
    for name, what, act in (
        ("enable", "let a process be run again", enable_process),
        ("disable", "let a process not be run", disable_process),
        ("delete", "delete a process that nothing refers to; its versions stay", delete_process),
    ):
        command = parser.command(name, what)
        _add_process(command)
        command.takes_output("table", "json")
        command.runs(act, example=f"twinraven process {name} triage")


def _register_looks(parser: CommandParser) -> None:
    listing = parser.command("list", "processes in the version in force")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_processes, example="twinraven process list")
    show = parser.command("show", "a process with its steps, or drawn")
    _add_process(show)
    show.add_argument("--version", type=count, metavar="N", help="this version; without it, the one in force")
    show.add_argument("--svg", action="store_true", help="draw the graph as SVG")
    show.takes_output("table", "json")
    show.runs(show_process, example="twinraven process show triage --svg")
    opened = parser.command("open", "write a learned tool as a process to edit")
    opened.add_argument("tool", metavar="TOOL", help="the learned tool's id")
    opened.add_argument("--as", dest="process", metavar="ID", help="the process's id (default: TOOL-process)")
    opened.runs(open_tool, example="twinraven process open look-and-note --as triage")
    diff = parser.command("diff", "what one version says otherwise than another")
    _add_process(diff)
    diff.add_argument("before", type=count, nargs="?", metavar="FROM", help="a version (default: the one before TO)")
    diff.add_argument("after", type=count, nargs="?", metavar="TO", help="a later version (default: the newest)")
    diff.takes_output("table", "json", "csv")
    diff.runs(diff_process, example="twinraven process diff triage 1 2")


def _add_process(parser: CommandParser) -> None:
    parser.add_argument("process", metavar="PROCESS", help="the process's id")


def check_process(options: Namespace) -> None:
    process = _read(options.file)
    flow: FlowDefinition = with_home(options, lambda raven: raven.processes.check(process, by=local_caller(options)))
    if options.output == "json":
        show_json(flow.as_json())
    else:
        show_fields(options.output, {"process": process.id, "ok": True, "steps": len(flow.steps)})


def save_process(options: Namespace) -> None:
    process = _read(options.file)
    saved: ProcessVersion = with_home(
        options,
        lambda raven: raven.processes.save(process, by=local_caller(options), expected_version=options.version),
    )
    _show_version(options, saved)


def enable_process(options: Namespace) -> None:
    _switch(options, enabled=True)


def disable_process(options: Namespace) -> None:
    _switch(options, enabled=False)


def delete_process(options: Namespace) -> None:
    with_home(options, lambda raven: raven.processes.delete(options.process, by=local_caller(options)))
    show_fields(options.output, {"process": options.process, "deleted": True})


def list_processes(options: Namespace) -> None:
    found: tuple[ProcessVersion, ...] = with_home(options, lambda raven: raven.processes.list(options.tenant))
    rows = [each.as_json() if options.output == "json" else _row(each) for each in found]
    show_rows(options.output, rows, _COLUMNS, empty="no processes")


def show_process(options: Namespace) -> None:
    found: ProcessVersion = with_home(
        options, lambda raven: raven.processes.get(options.tenant, options.process, version=options.version)
    )
    if options.svg:
        from twinraven.processes import draw_process

        write_bytes(draw_process(found.process).encode())
    elif options.output == "json":
        show_json(found.as_json())
    else:
        _show_version(options, found)
        rows = [
            {
                "id": step.id,
                "calls": step.target if step.process is None else f"process {step.process}",
                "mode": f"{step.execution.mode}{', manual' if step.execution.interaction_mode == 'manual' else ''}",
                "variable": step.output.variable,
                "condition": step.execution.condition or "",
            }
            for step in found.process.steps
        ]
        show_rows(options.output, rows, _STEP_COLUMNS)


def open_tool(options: Namespace) -> None:
    import sys

    found: OpenedProcess = with_home(
        options,
        lambda raven: raven.processes.open(options.tool, by=local_caller(options), process_id=options.process),
    )
    for each in found.left_out:
        print(f"left out: {each}", file=sys.stderr)
    show_json(found.process.as_json())


def diff_process(options: Namespace) -> None:
    found = with_home(
        options,
        lambda raven: raven.processes.diff(options.tenant, options.process, before=options.before, after=options.after),
    )
    show_rows(options.output, [each.as_json() for each in found], _DIFF_COLUMNS, empty="no difference")


def run_process(options: Namespace) -> int:
    options.follow = not options.detach

    async def act(raven: TwinRaven) -> RunDetail:
        from twinraven.cli.call import read_params

        schema: dict[str, Any] = {}
        run = await raven.processes.run(
            options.process,
            read_params(options.params, options.param, schema),
            by=local_caller(options),
            run_id=options.id,
            timeout_s=options.timeout,
        )
        return await look_at(raven, options, run.run_id)

    return show_detail(options, with_home(options, act))


def _switch(options: Namespace, *, enabled: bool) -> None:
    saved: ProcessVersion = with_home(
        options,
        lambda raven: raven.processes.enable(options.process, enabled=enabled, by=local_caller(options)),
    )
    _show_version(options, saved)


def _show_version(options: Namespace, saved: ProcessVersion) -> None:
    if options.output == "json":
        show_json(saved.as_json())
    else:
        show_fields(options.output, _row(saved))


def _row(saved: ProcessVersion) -> dict[str, Any]:
    return {**saved.as_json(), "steps": len(saved.process.steps)}


def _read(file: str) -> Process:
    """Read the process that a file describes, in YAML or JSON."""

    from twinraven.catalog import load_document
    from twinraven.processes import Process

    text = read_text(file)
    return Process.from_json(load_document(text))
