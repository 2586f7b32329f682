"""Builds the argument parser: a table of command groups, each loaded from its file when it is chosen.

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


class CommandGroup(NamedTuple):
    """One word behind `twinraven`, and the file that knows it."""

    name: str
    summary: str
    module: str


HEADINGS = {
    "run": (
        CommandGroup("init", "create a TwinRaven home in a folder", "init"),
        CommandGroup("call", "call a tool and record the call", "call"),
        CommandGroup("tools", "list, define and classify tools", "tools"),
        CommandGroup("services", "manage the endpoints that tools reach", "services"),
        CommandGroup("templates", "manage templates of services and tools", "templates"),
        CommandGroup("console", "open the pages of a running server in a browser", "console"),
        CommandGroup("up", "serve the REST API and the MCP gateway", "up"),
        CommandGroup("gateway", "run the MCP gateway in front of your MCP servers", "gateway"),
        CommandGroup("process", "define processes as data, compare their versions and run them", "process"),
        CommandGroup("chat", "have a conversation at the terminal, with its branches", "chat"),
        CommandGroup("plan", "turn a request into a plan and carry it out", "plan"),
        CommandGroup("runs", "start durable runs, follow them and decide about them", "runs"),
        CommandGroup("model", "ask the configured model, or serve a scripted one", "model"),
        CommandGroup("campaigns", "begin, pause and end campaigns, and give them budgets", "campaigns"),
        CommandGroup("goals", "set goals and plan their tasks", "goals"),
        CommandGroup("tasks", "plan, look at, revise and retry tasks", "tasks"),
        CommandGroup("decisions", "judge results, and decide what was escalated", "decisions"),
        CommandGroup("worker", "run a worker that advances durable runs", "worker"),
    ),
    "look": (
        CommandGroup("status", "show what this home holds and what waits for you", "status"),
        CommandGroup("sessions", "list and show recorded sessions", "sessions"),
        CommandGroup("events", "list and show recorded calls", "events"),
        CommandGroup("conversations", "list and branch conversations, and see what a model is sent", "conversations"),
        CommandGroup("trace", "follow a post, payment, task, run or call to all around it", "trace"),
        CommandGroup("episodes", "import, list and show episodes of a dialogue", "episodes"),
        CommandGroup("knowledge", "search episodes, with the reasons for each hit", "knowledge"),
        CommandGroup("entities", "list, create and merge the entities of episodes", "entities"),
        CommandGroup("summaries", "sum dialogues up, and list, repair and delete summaries", "summaries"),
        CommandGroup("introspection", "show and edit the notes that an agent keeps of a user", "introspection"),
        CommandGroup("metrics", "define what is measured, report values and sum them up", "metrics"),
        CommandGroup("import", "read traces and recorded calls into the log", "imports"),
        CommandGroup("export", "write the log to a file", "exports"),
    ),
    "learn": (
        CommandGroup("learn", "mine, synthesize and validate new tools", "learn"),
        CommandGroup("backtest", "measure what learned tools would have saved", "backtest"),
        CommandGroup("mine", "find chains of calls that repeat, and what they are worth", "mine"),
        CommandGroup("chains", "list and show the chains that mining found", "chains"),
        CommandGroup("synthesize", "draft a tool from a chain", "synthesize"),
        CommandGroup("validate", "replay a draft on recorded sessions", "validate"),
        CommandGroup("registry", "list learned tools, their versions and their files", "registry"),
        CommandGroup("approve", "review a learned tool and put it into service", "approve"),
        CommandGroup("reject", "refuse a learned tool, with a reason", "reject"),
        CommandGroup("quarantine", "take a learned tool out of service at once", "quarantine"),
        CommandGroup("retire", "end a learned tool for good", "retire"),
        CommandGroup("maintenance", "check whether learned tools are still worth having", "maintenance"),
    ),
    "govern": (
        CommandGroup("effects", "publish, send and pay what was approved, and see how it went", "effects"),
        CommandGroup("wallets", "open and fund wallets, and check that the books add up", "wallets"),
        CommandGroup("inbox", "decide what waits for a person: calls, questions, tools", "inbox"),
        CommandGroup("approvals", "grant or deny calls that wait for approval", "approvals"),
        CommandGroup("audit", "show the audit log and verify that nothing was changed", "audit"),
        CommandGroup("secrets", "manage the credentials of tools, encrypted", "secrets"),
        CommandGroup("tenants", "manage tenants", "tenants"),
        CommandGroup("users", "manage the users of a tenant", "users"),
        CommandGroup("keys", "manage API keys", "keys"),
        CommandGroup("retention", "delete old sessions", "retention"),
    ),
    "operate": (
        CommandGroup("doctor", "check the installation and the home", "doctor"),
        CommandGroup("config", "show and check the settings", "config"),
        CommandGroup("db", "upgrade the database and show its version", "db"),
        CommandGroup("backup", "copy the database and the learned tools into one file", "backup"),
        CommandGroup("restore", "put back what a backup holds", "restore"),
        CommandGroup("schemas", "export the JSON Schema of every entity", "schemas"),
        CommandGroup("completion", "print a completion script for your shell", "completion"),
    ),
}
GROUPS = tuple(group for groups in HEADINGS.values() for group in groups)


_EXAMPLE = "example:\n"
_LONGEST_CHOICES = 20
LOG_LEVELS = ("debug", "info", "warning", "error")


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Knows its width; argparse makes a formatter for each argument and would import shutil to measure the terminal."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"width": _help_width(), **options})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap descriptions; examples stand as they are typed."""
        if text.startswith(_EXAMPLE):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)

    def _metavar_formatter(self, action: argparse.Action, default_metavar: str) -> Callable[[int], tuple[str, ...]]:
        if not _has_many_choices(action):
            return super()._metavar_formatter(action, default_metavar)
        return lambda size: (action.dest.rpartition("_")[2].upper(),) * size

    def _expand_help(self, action: argparse.Action) -> str:
        said = super()._expand_help(action)
        return f"{said}: {', '.join(map(str, action.choices or ()))}" if _has_many_choices(action) else said


def _has_many_choices(action: argparse.Action) -> bool:
    """Return whether choices are too many for the usage line, which cannot be broken inside them."""
    return action.metavar is None and len(",".join(map(str, action.choices or ()))) > _LONGEST_CHOICES


@cache
def _help_width() -> int:
    try:
        return max(40, int(os.environ.get("COLUMNS") or os.get_terminal_size().columns) - 2)
    except (OSError, ValueError):
        return 78


class CommandParser(argparse.ArgumentParser):
    """A parser that fills itself in on first use, shows an example, and raises our errors."""

    def __init__(self, *, module: str | None = None, **options: Any) -> None:
        self.prog: str = options["prog"]
        self.description: str | None = options["description"]
        self._options: dict[str, Any] = {"formatter_class": _HelpFormatter, "allow_abbrev": False, **options}
        # argparse asks a parser among many for nothing before it is chosen, and making all of them takes longer than
        # most commands do.
        if module is None:
            super().__init__(**self._options)
        self.children: dict[str, CommandParser] = {}
        self.example = ""
        self._module = module
        self._commands: Any = None
        self._default: str | None = None

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

    def falls_to(self, name: str) -> None:
        """Let a command's name be left out: what is none of the commands is said to this one."""
        self._default = name

    def runs(self, run: Run, *, example: str) -> None:
        """Make this a command that can be carried out."""
        self.set_defaults(run=run)
        self.show_example(example)
        everywhere = self.add_argument_group("everywhere")
        unset = argparse.SUPPRESS
        _add_everywhere(everywhere, home=unset, tenant=unset, log_level=unset, log_format=unset)

    def show_example(self, example: str) -> None:
        self.example = example
        self.epilog = _EXAMPLE + "\n".join(f"  {line}" for line in example.splitlines())

    def takes_output(self, *forms: str) -> None:
        """Let the caller choose how results are printed; the first form is the usual one."""
        self.add_argument(
            "-o", "--output", choices=forms, default=forms[0], help=f"how to print it (default: {forms[0]})"
        )

    def fill(self) -> None:
        """Read the file of this group, once."""
        if self._module is not None:
            module, self._module = self._module, None
            super().__init__(**self._options)
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
        if self._default is not None and args and args[0] not in (*self.children, "-h", "--help"):
            args = [self._default, *args]
        found, rest = super().parse_known_args(args, namespace or argparse.Namespace())
        if rest and not self.children:
            # Refused here, not by the top, so that the error can name the command that does not know them.
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def format_help(self) -> str:
        """Format the help text; the many groups of the top stand under headings."""
        if self.prog != "twinraven":
            return super().format_help()
        top, _, rest = super().format_help().partition("\ncommands:\n")
        example = rest[rest.index("\nexample:\n") :]
        width = max(len(group.name) for group in GROUPS)
        blocks = [
            f"\n{heading}:\n" + "".join(f"  {group.name:<{width}}  {group.summary}\n" for group in groups)
            for heading, groups in HEADINGS.items()
        ]
        return top + "".join(blocks) + example

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
    """Return the whole command line; the groups' files are not read yet."""
    parser = CommandParser(
        prog="twinraven",
        description="Runs agents' tool calls, remembers each of them, and compiles what repeats into verified tools.",
    )
    parser.add_argument(
        "-V", "--version", action="version", version=f"twinraven {__version__}", help="print the version"
    )
    _add_everywhere(parser, home=None, tenant="default", log_level="warning", log_format="text")
    parser.show_example("twinraven init\ntwinraven import calls.jsonl.gz --format calls\ntwinraven sessions list")
    for group in GROUPS:
        parser.command(group.name, group.summary, module=group.module)
    return parser


def _add_everywhere(parser: Any, *, home: str | None, tenant: str, log_level: str, log_format: str) -> None:
    parser.add_argument(
        "--home", metavar="PATH", default=home, help="the home to use (default: TWINRAVEN_HOME, else found upwards)"
    )
    parser.add_argument("--tenant", metavar="NAME", default=tenant, help='whose data (default: "default")')
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        default=log_level,
        help="what is logged to stderr (default: warning; info logs each request of a server)",
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default=log_format, help="how it is logged (default: text)"
    )
