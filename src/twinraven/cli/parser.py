"""What can be said on the command line: a table of groups, and a parser that reads a group's file when it is chosen.

To add a group, write `cli/<module>.py` with `def register(parser: CommandParser) -> None` and add one line to GROUPS.
`register` either calls `parser.command(…)` for each of its commands or makes the group itself a command; a command says
with `runs(…)` what it does and shows an example. A group's file imports what it needs inside the functions that run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from twinraven import __version__
from twinraven.foundation.errors import InvalidInput

Run = Callable[[argparse.Namespace], int | None]
"""Carries a command out; nothing and zero mean success."""


class Group(NamedTuple):
    """One word behind `twinraven`, and the file that knows it."""

    name: str
    summary: str
    module: str


GROUPS = (
    Group("init", "make a home for TwinRaven in a folder", "init"),
    Group("call", "call a tool and remember the call", "call"),
    Group("tools", "what can be called", "tools"),
    Group("services", "the endpoints that data-defined tools reach", "services"),
    Group("templates", "blueprints of services and tools", "templates"),
    Group("up", "serve the API and the gateway", "up"),
    Group("gateway", "serve every tool to MCP clients, and stand before their servers", "gateway"),
    Group("approvals", "calls that wait for somebody's word, and giving it", "approvals"),
    Group("sessions", "what agents did, task by task", "sessions"),
    Group("events", "what agents did, call by call", "events"),
    Group("import", "read recorded calls into the log", "imports"),
    Group("export", "write the log to a file", "exports"),
    Group("mine", "which chains of calls repeat, and what they are worth", "mine"),
    Group("chains", "the chains that mining found", "chains"),
    Group("synthesize", "make a draft of a chain", "synthesize"),
    Group("validate", "judge a draft on history", "validate"),
    Group("learn", "find, draft and prove what is worth having", "learn"),
    Group("backtest", "what learned tools would have saved", "backtest"),
    Group("registry", "learned tools, their versions and their files", "registry"),
    Group("approve", "look at a learned tool and put it into service", "approve"),
    Group("reject", "say no to a learned tool, and why", "reject"),
    Group("retire", "end a learned tool for good", "retire"),
    Group("quarantine", "take a learned tool out of service at once", "quarantine"),
    Group("maintenance", "whether learned tools are still worth having", "maintenance"),
    Group("secrets", "credentials for tools, kept sealed", "secrets"),
    Group("tenants", "who shares this house and sees nothing of the others", "tenants"),
    Group("users", "the people and programs inside a tenant", "users"),
    Group("keys", "API keys, by which a request becomes a user", "keys"),
    Group("audit", "who did what, and proof that it was not changed", "audit"),
    Group("retention", "sessions that are old enough leave the log", "retention"),
    Group("backup", "copy the database and the learned tools into one file", "backup"),
    Group("restore", "put back what a backup holds", "restore"),
    Group("schemas", "what the JSON of every entity looks like", "schemas"),
    Group("db", "the database and its version", "db"),
    Group("config", "the settings and where they come from", "config"),
    Group("doctor", "which home this is and what works", "doctor"),
)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Knows its width; argparse makes a formatter for each argument and would import shutil to measure the terminal."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"width": _help_width(), **options})


@cache
def _help_width() -> int:
    try:
        return max(40, int(os.environ.get("COLUMNS") or os.get_terminal_size().columns) - 2)
    except (OSError, ValueError):
        return 78


class CommandParser(argparse.ArgumentParser):
    """A parser that fills itself in on first use, shows an example, and raises our errors."""

    def __init__(self, *, module: str | None = None, **options: Any) -> None:
        options.setdefault("formatter_class", _HelpFormatter)
        super().__init__(allow_abbrev=False, **options)
        self.children: dict[str, CommandParser] = {}
        self.example = ""
        self._module = module
        self._commands: Any = None

    def command(self, name: str, summary: str, *, module: str | None = None) -> CommandParser:
        """Add a command below this one."""
        if self._commands is None:
            # Stating `prog` spares argparse the work of finding it out by formatting a help text. A group that runs by
            # itself may have commands besides.
            alone = self.get_default("run") is not None
            self._commands = self.add_subparsers(
                title="commands", metavar="COMMAND", required=not alone, prog=self.prog
            )
        description = f"{summary[0].upper()}{summary[1:]}."
        child: CommandParser = self._commands.add_parser(name, help=summary, description=description, module=module)
        self.children[name] = child
        return child

    def runs(self, run: Run, *, example: str) -> None:
        """Make this a command that can be carried out."""
        self.set_defaults(run=run)
        self.show_example(example)
        everywhere = self.add_argument_group("everywhere")
        _add_everywhere(everywhere, home=argparse.SUPPRESS, tenant=argparse.SUPPRESS)

    def show_example(self, example: str) -> None:
        self.example = example
        self.epilog = "example:\n" + "\n".join(f"  {line}" for line in example.splitlines())

    def takes_output(self, *forms: str) -> None:
        """Let the caller choose how results are printed; the first form is the usual one."""
        self.add_argument("--output", choices=forms, default=forms[0], help=f"how to print it (default: {forms[0]})")

    def fill(self) -> None:
        """Read the file of this group, once."""
        if self._module is not None:
            module, self._module = self._module, None
            import_module(f"twinraven.cli.{module}").register(self)

    def walk(self) -> Iterator[CommandParser]:
        """This command and all below it, in order."""
        self.fill()
        yield self
        for child in self.children.values():
            yield from child.walk()

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        self.fill()
        found, rest = super().parse_known_args(args, namespace or argparse.Namespace())
        if rest and not self.children:
            # Refused here, not by the top, so that the error can name the command that does not know them.
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(message, field="arguments", fix=f"{self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, _refusal(str(value), [str(choice) for choice in action.choices]))


def _refusal(value: str, choices: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(value, choices, n=1)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(choices)}"
    return f"there is no {value!r}; {hint}"


def build_parser() -> CommandParser:
    """The whole command line; the groups' files are not read yet."""
    parser = CommandParser(
        prog="twinraven",
        description="Runs agents' tool calls, remembers each of them, and compiles what repeats into verified tools.",
    )
    parser.add_argument("--version", action="version", version=f"twinraven {__version__}", help="print the version")
    _add_everywhere(parser, home=None, tenant="default")
    parser.show_example("twinraven init\ntwinraven import calls.jsonl.gz --format calls\ntwinraven sessions list")
    for group in GROUPS:
        parser.command(group.name, group.summary, module=group.module)
    return parser


def _add_everywhere(parser: Any, *, home: str | None, tenant: str) -> None:
    parser.add_argument(
        "--home", metavar="PATH", default=home, help="the home to use (default: TWINRAVEN_HOME, else found upwards)"
    )
    parser.add_argument("--tenant", metavar="NAME", default=tenant, help='whose data (default: "default")')
