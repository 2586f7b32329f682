"""Names the person at the terminal, for what is recorded with an actor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from argparse import Namespace

    from twinraven.foundation.actors import Actor


def user_name() -> str:
    """Return the name of this process's user, or its number where it has none."""
    import os
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"user {os.getuid()}"


def confirm(options: Namespace, question: str) -> None:
    """Ask the person at a terminal before something final; a script says `--yes`."""
    import sys

    if options.yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("this is final and needs a yes; add --yes", field="yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidInput("nothing was changed", field="yes")


def operator() -> Actor:
    """Return the person at the terminal, as an actor."""
    from twinraven.foundation.actors import person

    return person(user_name())
