"""Restricts which programs the catalogue may start.

Whoever defines a tool on a `stdio` service names a program of this machine. That is the operator's to allow, as
beginnings of command lines:

    npx -y @modelcontextprotocol/server-memory      this program with these arguments, and whatever stands behind them
    API_KEY= npx -y shop-server                     the same, and tools may give it this variable of the environment

Nothing is allowed unless it is listed. Variables must be listed because many of them make a program run another.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from twinraven.foundation.errors import InvalidSetting, PolicyViolation

_SETTING: Final = "connectors.allow_programs"
_VARIABLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


@dataclass(frozen=True, slots=True)
class _Allowed:
    words: tuple[str, ...]
    variables: frozenset[str]


class ProgramRules:
    """The programs that are allowed."""

    def __init__(self, allowed: Iterable[_Allowed] = ()) -> None:
        self._allowed = tuple(allowed)

    @classmethod
    def of(cls, lines: Iterable[str]) -> ProgramRules:
        return cls(_read(line) for line in lines)

    def check(self, command: Sequence[str], variables: Collection[str]) -> None:
        """Raise PolicyViolation unless a line allows the command with these variables."""
        fitting = [each for each in self._allowed if tuple(command[: len(each.words)]) == each.words]
        if any(each.variables.issuperset(variables) for each in fitting):
            return
        if not fitting:
            raise PolicyViolation(
                f"the catalogue may not start {command[0]!r} like this; the operator has to allow it",
                fix=f"list the command in {_SETTING}",
            )
        refused = min(set(variables) - frozenset[str]().union(*(each.variables for each in fitting)), default="")
        raise PolicyViolation(
            f"the catalogue may not give {command[0]!r} the variable {refused or ', '.join(sorted(variables))}",
            fix=f"list it before the command in {_SETTING}, as NAME=",
        )


def _read(line: str) -> _Allowed:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InvalidSetting(f"{line!r} is not a command line: {error}", field=_SETTING) from None
    variables: list[str] = []
    while words and (found := _VARIABLE.fullmatch(words[0])) is not None:
        variables.append(found[1])
        words.pop(0)
    if not words:
        raise InvalidSetting(f"{line!r} names no program", field=_SETTING)
    return _Allowed(tuple(words), frozenset(variables))
