"""Writes docs/cli.md from the parser itself: `python -m twinraven.cli.reference > docs/cli.md`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from twinraven.cli.parser import CommandParser, build_parser

_INTRODUCTION = """\
# The command line

<!-- Written by `python -m twinraven.cli.reference`; a test compares the two. -->

The home is `--home`, else `TWINRAVEN_HOME`, else the nearest `.twinraven` from the current folder upwards, as git finds
its own. `--home PATH`, `--tenant NAME`, `--log-level LEVEL` (debug, info, warning, error) and `--log-format json` may
stand before or behind any command, and so may `--output FORM` or `--json` where a command knows it. A server logs each
request at level info.

Tables are for people: they fit the terminal, and in a pipe nothing is cut. Programs say `--output json` (one document
on stdout) or `--output csv`. Errors go to stderr as `twinraven: error: …` and, where one is known, `fix: …`; with
`--output json` as one object, `{"error": {"code", "message", "retryable", "details", "fix"}}`. The codes are those of
the error tree and stable. Progress is shown only on a terminal, colours only there and not with `NO_COLOR`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | it was tried and failed: a tool failed, `doctor` found something broken |
| 2 | it could not be tried: bad input, bad usage, not there, a file without a line that could be read |
| 3 | trouble with the store |
| 130 | stopped by Ctrl-C; what serves (`up`, `gateway`, `worker`) ends in order instead, with 0 |
| 141 | whoever read the output has gone |
"""


def render_reference() -> str:
    """Render the whole page."""
    return "\n".join((_INTRODUCTION, *(line for parser in build_parser().walk() for line in _section(parser))))


def _section(parser: CommandParser) -> Iterator[str]:
    yield f"## {parser.prog}\n"
    yield f"{parser.description}\n"
    if parser.children:
        yield from (
            f"- [`{child.prog}`](#{_anchor(child.prog)}): {child.description}" for child in parser.children.values()
        )
        yield ""
    arguments = [action for action in parser._actions if _is_documented(action)]  # pyright: ignore[reportPrivateUsage]
    if arguments:
        yield "| argument | meaning |\n|---|---|"
        yield from (f"| `{_form(action)}` | {action.help} |" for action in arguments)
        yield ""
    yield f"```sh\n{parser.example}\n```\n"


def _is_documented(action: argparse.Action) -> bool:
    """Not the help option, the choice of a command, what is hidden, or (below the top) what may stand everywhere."""
    everywhere = action.dest in ("home", "tenant", "log_level", "log_format") and action.default is argparse.SUPPRESS
    hidden = action.help == argparse.SUPPRESS
    return action.dest != "help" and action.metavar != "COMMAND" and not everywhere and not hidden


def _form(action: argparse.Action) -> str:
    choices = "" if action.choices is None else "{" + ",".join(str(choice) for choice in action.choices) + "}"
    value = choices or str(action.metavar or "")
    if action.option_strings:
        names = ", ".join(name for name in action.option_strings if name.startswith("--"))
        return f"{names} {value}".strip().replace("|", "\\|")
    return f"[{value}]" if action.nargs == "?" else str(action.metavar or value)


def _anchor(title: str) -> str:
    return title.replace(" ", "-")


if __name__ == "__main__":
    print(render_reference(), end="")
