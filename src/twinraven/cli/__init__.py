"""Implements the command line, for people at a terminal and for scripts.

A command is started far more often than any other part of TwinRaven, so a command pays only for itself: the parser
knows the groups by a table, and a group's file is read when its command is chosen.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and say how it went, as an exit code; nothing but that code leaves here."""
    began = time.monotonic()
    try:
        from twinraven.cli.exits import guarded

        arguments = list(sys.argv[1:] if argv is None else argv)
        return guarded(arguments, lambda: _run(arguments, began))
    except KeyboardInterrupt:
        # Pressed before the command had begun, or once more while it ended.
        print("twinraven: interrupted", file=sys.stderr)
        return 130


def _run(arguments: list[str], began: float) -> int:
    from twinraven.cli.parser import build_parser

    parser = build_parser()
    if not arguments:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(_as_options(arguments))
    options.began = began
    return options.run(options) or 0


def _as_options(arguments: list[str]) -> list[str]:
    """Read what people also try: `help COMMAND`, `version`, `--json`, and `--output` before the command."""
    if arguments[0] == "help":
        return [*arguments[1:], "--help"]
    if arguments == ["version"]:
        return ["--version"]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, rest = arguments[:end], arguments[end:]
    form: list[str] = ["--output", "json"] if "--json" in words else []
    words = [word for word in words if word != "--json"]
    while words and words[0].startswith(("--output=", "--output", "-o")):
        taken = 1 if words[0].startswith("--output=") else 2
        form, words = words[:taken], words[taken:]
    return [*words, *form, *rest]
