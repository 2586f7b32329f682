"""`twinraven synthesize`: a mined chain becomes a draft, with evidence for every choice."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.advice import advice_field, advice_lines
from twinraven.cli.output import TableColumn, clean, print_lines, show_json, show_rows
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.registry import SynthesizedTool

_WIRING = (
    TableColumn("step", "STEP"),
    TableColumn("argument", "ARGUMENT"),
    TableColumn("source", "COMES FROM", shrinks=True),
    TableColumn("for", "FOR", right=True),
    TableColumn("against", "AGAINST", right=True),
    TableColumn("also", "ALSO EXPLAINED BY", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.add_argument("chain_id", metavar="CHAIN", help="a chain's id, or the beginning of it (see `chains list`)")
    parser.add_argument("--with-writes", action="store_true", help="let a tool that writes stand last")
    parser.add_argument("--no-model", action="store_true", help="do not ask the configured model, if there is one")
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven synthesize 3f2a9c1b")


def run(options: Namespace) -> None:
    from twinraven.cli.home import opened
    from twinraven.foundation.event_loop import run_to_end

    with opened(options) as raven:
        draft = run_to_end(
            raven.huginn.synthesize(
                options.tenant, options.chain_id, with_writes=options.with_writes, with_model=not options.no_model
            )
        )
    if options.output == "json":
        show_json(draft.definition.as_json())
        return
    show_definition(draft.definition)
    print_lines(["", f"draft {draft.tool_id} v{draft.version}; judge it with: twinraven validate {draft.tool_id}"])


def show_definition(definition: SynthesizedTool) -> None:
    """Print a definition for a person: the drawing, the sentence, and the wiring with its evidence."""
    from twinraven.huginn import draw_chain

    print_lines([draw_chain(definition), definition.description, ""])
    show_rows("table", wiring_rows(definition), _WIRING, empty="it takes everything from its caller")
    for name, words in advice_field(definition).items():
        print_lines(["", clean(f"{name}: {words}"), *advice_lines(definition)])


def wiring_rows(definition: SynthesizedTool) -> list[dict[str, Any]]:
    """Return each argument with where it comes from and the samples for and against that."""
    rows: list[dict[str, Any]] = []
    for number, step in enumerate(definition.evidence.get("steps", [])):
        where = f"{number} {step['tool_id']}"
        rows.extend(
            {"step": where, "argument": name, "source": "asked of the caller"} for name in step.get("asked", [])
        )
        for name, evidence in step.get("arguments", {}).items():
            also = ", ".join(rival["source"] for rival in evidence["also"])
            rows.append({"step": where, "argument": name, **evidence, "also": also or None})
    return rows
