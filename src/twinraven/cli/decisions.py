"""`twinraven decisions`: what was decided about results, and what a person decides."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count
from twinraven.cli.governed import read_document
from twinraven.cli.output import TableColumn, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_operator, with_home
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.governance import JudgeDecision, Verdict

_ID = "5f1c9e0b7a3d4c2e8f60719a2b3c4d5e"
_COLUMNS = (
    TableColumn("decision_id", "DECISION"),
    TableColumn("decision", "SAYS", tinted=True),
    TableColumn("task_id", "TASK", shrinks=True),
    TableColumn("reason_summary", "REASON", shrinks=True),
    TableColumn("decided_by", "BY", shrinks=True, spare=2),
    TableColumn("decided_at", "AT", text=short_time, spare=3),
)


def register(parser: CommandParser) -> None:
    parser.show_example(f"twinraven decisions waiting\ntwinraven decisions approve {_ID} --reason 'seen by legal'")
    listing = parser.command("list", "decisions in the order in which they were made")
    listing.add_argument("--says", choices=("approve", "reject", "escalate"), help="only those that say so")
    listing.add_argument("--in-force", action="store_true", help="only those that no later one replaced")
    listing.add_argument("--limit", type=count, default=100, metavar="N", help="at most so many (default: 100)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_decisions, example="twinraven decisions list --says reject")
    waiting = parser.command("waiting", "decisions that wait for a person")
    waiting.takes_output("table", "json", "csv")
    waiting.runs(list_waiting, example="twinraven decisions waiting")
    show = parser.command("show", "one decision with its checks")
    show.add_argument("decision_id", metavar="DECISION", help="the decision's id")
    show.takes_output("table", "json")
    show.runs(show_decision, example=f"twinraven decisions show {_ID}")
    evaluate = parser.command("evaluate", "judge a result by the checks of the house, on the state as it is now")
    evaluate.add_argument("result_id", metavar="RESULT", help="the result's id")
    evaluate.takes_output("table", "json")
    evaluate.runs(evaluate_result, example=f"twinraven decisions evaluate {_ID}")
    decide = parser.command("decide", "decide about a result by a judge.decision envelope")
    decide.add_argument("file", metavar="FILE", help="the envelope as JSON or YAML; - reads stdin")
    decide.takes_output("table", "json")
    decide.runs(decide_result, example="twinraven decisions decide envelope.json")
    _register_people(parser)


def _register_people(parser: CommandParser) -> None:
    for word, what, act in (
        ("approve", "approve what was escalated", approve_decision),
        ("reject", "reject what was escalated; its task is attempted again", reject_decision),
    ):
        command = parser.command(word, what)
        command.add_argument("decision_id", metavar="DECISION", help="the decision's id")
        command.add_argument("--reason", required=True, metavar="TEXT", help="why; kept with the decision")
        if word == "approve":
            command.add_argument(
                "--override", action="store_true", help="approve although mandatory checks have not passed"
            )
        command.takes_output("table", "json")
        command.runs(act, example=f"twinraven decisions {word} {_ID} --reason 'seen by legal'")


def list_decisions(options: Namespace) -> None:
    found: Any = with_home(
        options,
        lambda raven: raven.judge.list(
            options.tenant, verdict=options.says, is_in_force=options.in_force, limit=options.limit
        ),
    )
    show_rows(options.output, [each.as_json() for each in found], _COLUMNS, empty="no decisions")


def list_waiting(options: Namespace) -> None:
    found: Any = with_home(options, lambda raven: raven.judge.escalated(options.tenant))
    show_rows(options.output, [each.as_json() for each in found], _COLUMNS, empty="nothing waits for a person")


def show_decision(options: Namespace) -> None:
    _show(options, with_home(options, lambda raven: raven.judge.get(options.tenant, options.decision_id)))


def evaluate_result(options: Namespace) -> None:
    by = local_operator(options)
    _show(options, with_home(options, lambda raven: raven.judge.evaluate(options.result_id, by=by)))


def decide_result(options: Namespace) -> None:
    envelope = read_document(options.file)
    show_fields(
        options.output, with_home(options, lambda raven: raven.judge.decide(envelope, by=local_operator(options)))
    )


def approve_decision(options: Namespace) -> None:
    _resolve(options, "approve", override=options.override)


def reject_decision(options: Namespace) -> None:
    _resolve(options, "reject", override=False)


def _resolve(options: Namespace, verdict: Verdict, *, override: bool) -> None:
    decided: JudgeDecision = with_home(
        options,
        lambda raven: raven.judge.resolve(
            options.decision_id, verdict, reason=options.reason, by=local_operator(options), override=override
        ),
    )
    _show(options, decided)


def _show(options: Namespace, decision: JudgeDecision) -> None:
    if options.output == "json":
        show_json(decision.as_json())
        return
    checks = [
        f"{check.check_id}: {check.result}{' (optional)' if not check.mandatory else ''} {check.details}".rstrip()
        for check in decision.policy_checks
    ]
    show_fields(options.output, {**decision.as_json(), "policy_checks": checks})
