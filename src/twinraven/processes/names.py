"""Checks what a process says of itself before it is compiled: names, budgets, times and depth."""

from __future__ import annotations

import re
from typing import Final

from twinraven.flow import MAX_TIMEOUT_MS, PART_OF, invalid
from twinraven.processes.model import Process

MAX_STEPS: Final = 500
MAX_DEPTH: Final = 64

_STEP_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,47}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def check_names(process: Process) -> None:
    """Refuse names that are missing, doubled or not fit to be referred to."""
    if not 1 <= len(process.steps) <= MAX_STEPS:
        raise invalid("steps", f"must be 1 to {MAX_STEPS} steps, not {len(process.steps)}")
    _check_depth(process)
    taken: dict[str, str] = {}
    named = [(f"initial_context[{number}]", name) for number, name in enumerate(process.initial_context)]
    named += [(f"steps[{number}].output.variable", step.output.variable) for number, step in enumerate(process.steps)]
    for where, name in named:
        if not _VARIABLE.fullmatch(name):
            problem = f"{name[:80]!r} is not a variable: letters, digits and _, no digit first, 64 at most"
            raise invalid(where, problem, variable=name)
        if name in taken:
            raise invalid(where, f"the variable {name!r} is given by {taken[name]} already", variable=name)
        taken[name] = where
    ids: set[str] = set()
    for number, step in enumerate(process.steps):
        where = f"steps[{number}].id"
        if not _STEP_ID.fullmatch(step.id) or PART_OF in step.id:
            raise invalid(where, "must begin with a letter, then letters, digits, _ and -, 48 at most, no __")
        if step.id in ids:
            raise invalid(where, f"{step.id!r} is the id of an earlier step")
        ids.add(step.id)
    _check_budgets(process)
    _check_times(process)


def _check_times(process: Process) -> None:
    for number, step in enumerate(process.steps):
        timeout = step.execution.timeout
        if timeout is not None and not 0 < timeout <= MAX_TIMEOUT_MS:
            where = f"steps[{number}].execution.timeout"
            raise invalid(where, f"must be 1 to {MAX_TIMEOUT_MS} milliseconds, or null")


def _check_budgets(process: Process) -> None:
    stated = [("token_budget", process.token_budget)]
    for number, step in enumerate(process.steps):
        stated.append((f"steps[{number}].output.token_budget", step.output.token_budget))
    for where, budget in stated:
        if budget is not None and budget < 1:
            raise invalid(where, "must be at least 1 token, or null")


def _check_depth(process: Process) -> None:
    if not 0 <= process.max_recursion_depth <= MAX_DEPTH:
        raise invalid("max_recursion_depth", f"must be 0 to {MAX_DEPTH}")
