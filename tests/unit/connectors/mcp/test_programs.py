"""Which programs the catalogue may start: what the operator lists, and nothing else."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.connectors import ProgramRules
from twinraven.foundation.errors import InvalidSetting, PolicyViolation

WORDS = st.lists(st.text(st.characters(exclude_characters="\x00"), min_size=1, max_size=6), min_size=1, max_size=4)


@given(allowed=WORDS, asked=WORDS)
def test_a_command_runs_if_and_only_if_it_begins_as_listed(allowed: list[str], asked: list[str]) -> None:
    """Whatever the words hold, they are compared as words."""
    rules = ProgramRules.of([f"HOME= {shlex.join(allowed)}"])
    rules.check([*allowed, *asked], ["HOME"])
    if asked[: len(allowed)] == allowed:
        rules.check(asked, [])
    else:
        with pytest.raises(PolicyViolation, match="may not start"):
            rules.check(asked, [])


def test_each_line_allows_its_own_variables() -> None:
    """A variable of one line is of no use to the command of another."""
    rules = ProgramRules.of(["A_KEY= B_KEY= /opt/a", "C_KEY= /opt/c serve"])
    rules.check(["/opt/a", "anything"], ["B_KEY", "A_KEY"])
    rules.check(["/opt/c", "serve"], ["C_KEY"])
    for command, variables, named in (
        (["/opt/a"], ["C_KEY"], "C_KEY"),
        (["/opt/a"], ["A_KEY", "LD_PRELOAD"], "LD_PRELOAD"),
        (["/opt/c", "serve"], ["PATH"], "PATH"),
    ):
        with pytest.raises(PolicyViolation, match=f"variable {named}"):
            rules.check(command, variables)
    with pytest.raises(PolicyViolation, match="may not start"):
        rules.check(["/opt/c", "steal"], [])


def test_variables_of_two_lines_do_not_add_up() -> None:
    """One line has to allow all that is asked."""
    rules = ProgramRules.of(["A= /opt/a", "B= /opt/a"])
    with pytest.raises(PolicyViolation, match="A, B"):
        rules.check(["/opt/a"], ["A", "B"])


@pytest.mark.parametrize("line", ["", "  ", "KEY=", "npx 'open"])
def test_a_line_that_names_no_program_is_refused(line: str) -> None:
    """A setting that allows nothing is a mistake."""
    with pytest.raises(InvalidSetting):
        ProgramRules.of([line])
