"""`twinraven trace ID`: everything before and after a post, a payment, a task, a decision, a run or a call."""

from __future__ import annotations

from argparse import Namespace

from twinraven.cli.output import clean, print_lines, show_json
from twinraven.cli.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.add_argument("id", metavar="ID", help="any id, a provider's too, an idempotency key, or kind:id")
    parser.takes_output("tree", "json", "svg")
    parser.runs(
        show_trace, example="twinraven trace 9c1d4be05f1a4f27a5f0a3f2d1c6b7e8\ntwinraven trace correlation:req-7"
    )


def show_trace(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.tracing import draw_trace, trace_lines

    with opened(options) as raven:
        trace = asyncio.run(raven.tracer.trace(options.tenant, options.id))
    if options.output == "json":
        show_json(trace.as_json())
    elif options.output == "svg":
        print(draw_trace(trace), end="")
    else:
        print_lines([clean(line) for line in trace_lines(trace)])
