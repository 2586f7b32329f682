"""Mutants: where an edit is made, what counts as proven, and that the data follows the code."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tools import reqs
from tools.mutant_workshop import Workshop
from tools.mutation import (
    KILLED,
    SURVIVED,
    Edit,
    Mutant,
    StaleMutantError,
    Verdict,
    is_current,
    proven_requirements,
    read_mutants,
    read_verdicts,
    write_verdicts,
)
from tools.requirements import ROOT, Outcomes, digest_sources, known_requirements, read_outcomes

_MODULE = """
LIMIT = 7

def first(x):
    return x + 1

class Box:
    @property
    def size(self):
        return 1 + LIMIT

    def other(self):
        return 1 + LIMIT
"""


def edit(symbol: str, find: str, replace: str = "0") -> Edit:
    return Edit(f"twinraven.pack.module{symbol}", find, replace)


def mutant(symbol: str, find: str, *, requirement: str = "TR-01", breaks: str = "it") -> Mutant:
    return Mutant(requirement, breaks, (edit(symbol, find),))


@pytest.mark.parametrize(
    ("symbol", "find", "edited"),
    [
        (":LIMIT", "7", "LIMIT = 0"),
        (":first", "x + 1", "return 0"),
        (":Box.other", "1 + LIMIT", "    def other(self):\n        return 0"),
        (":Box.size", "@property", "class Box:\n    0\n"),
        ("", "def first(x)", "\n0:\n    return x + 1"),
    ],
)
def test_an_edit_stays_inside_its_symbol(symbol: str, find: str, edited: str) -> None:
    """The text is looked for in the named symbol alone, decorators included."""
    text = edit(symbol, find).apply(_MODULE)
    assert edited in text
    assert len(text) == len(_MODULE) - len(find) + 1


@pytest.mark.parametrize(
    ("symbol", "find"), [(":Box", "1 + LIMIT"), (":first", "y"), (":second", "x"), (":Box.none", "1")]
)
def test_data_that_no_longer_fits_is_stale(symbol: str, find: str) -> None:
    """A text that is there twice or never, or a symbol that is gone, is no edit."""
    with pytest.raises(StaleMutantError):
        edit(symbol, find).apply(_MODULE)


def test_a_changed_symbol_makes_an_outcome_stale_and_nothing_else_does() -> None:
    """The hash covers the symbol and the edit, and nothing around them."""
    one = edit(":first", "x + 1")
    assert one.fingerprint(_MODULE) == one.fingerprint(_MODULE.replace("LIMIT = 7", "LIMIT = 8"))
    assert one.fingerprint(_MODULE) != one.fingerprint(_MODULE.replace("x + 1", "x + 1 + 0"))
    assert one.fingerprint(_MODULE) != edit(":first", "x + 1", "2").fingerprint(_MODULE)
    assert not is_current(mutant(":first", "x + 1"), Verdict(KILLED, "x"))


def test_edits_of_one_mutant_are_made_together(tmp_path: Path) -> None:
    """Further places of an entry are edited too, also in the same module, and each belongs to the hash."""
    entry = """
    [[mutant]]
    requirement = "TR-01"
    symbol = "twinraven.pack.module:LIMIT"
    find = "7"
    replace = "8"
    breaks = "both"
    [[mutant.also]]
    symbol = "twinraven.pack.module:first"
    find = "x + 1"
    replace = "0"
    """
    (tmp_path / "TR.toml").write_text(entry, encoding="utf-8")
    (both,) = read_mutants(tmp_path)
    path = Path("src/twinraven/pack/module.py")
    text = both.apply({path: _MODULE})[path]
    assert "LIMIT = 8" in text
    assert "return 0" in text
    one = Mutant("TR-01", "both", both.edits[:1])
    assert both.fingerprint({path: _MODULE}) != one.fingerprint({path: _MODULE})
    assert both.packages == {"pack"}


def test_what_has_no_killed_mutant_or_one_that_got_away_is_unproven(tmp_path: Path) -> None:
    """One kill proves an ID; a survivor takes that away; verdicts of mutants that are gone are dropped."""
    mutants = [
        mutant(":first", "x", requirement="TR-01"),
        mutant(":first", "x", requirement="TR-02"),
        mutant(":first", "x", requirement="TR-02", breaks="more"),
        mutant(":first", "x", requirement="TR-03"),
    ]
    file = tmp_path / "outcomes.json"
    seen = {"TR-01 it": KILLED, "TR-02 it": KILLED, "TR-02 more": SURVIVED, "TR-09 gone": KILLED}
    write_verdicts({key: Verdict(outcome, "h") for key, outcome in seen.items()}, mutants, file)
    verdicts = read_verdicts(file)
    assert sorted(verdicts) == ["TR-01 it", "TR-02 it", "TR-02 more"]
    assert proven_requirements(mutants, verdicts) == {"TR-01"}


def test_every_mutant_fits_the_code() -> None:
    """Each edit of tests/mutants finds its text, changes it, and names a known requirement."""
    known = known_requirements()
    for one in read_mutants():
        texts = one.read()
        assert one.requirement in known
        assert all(one.apply(texts)[path] != text for path, text in texts.items()), one.key


def test_a_mutant_is_killed_in_a_copy_of_the_project() -> None:
    """The tests really run there: the same one fails with the edit and passes without."""
    broken = Edit("twinraven.foundation.ids:new_id", "return", "return 'same' or")
    killer = "tests/unit/foundation/test_ids.py"
    workshop = Workshop()
    try:
        verdict = workshop.judge(Mutant("CH-01", "ids are equal", (broken,)), Verdict(KILLED, "", killer))
    finally:
        workshop.close()
    assert (verdict.outcome, (verdict.test or "").partition("::")[0]) == (KILLED, killer)


def test_the_report_runs_the_marked_tests(tmp_path: Path) -> None:
    """What `make reqs` starts where no outcomes are at hand is a command that pytest understands."""
    found = tmp_path / "outcomes.json"
    command = [*reqs.run_command(found), "--req=CH-01", "tests/unit/foundation/test_ids.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = read_outcomes(found)
    assert outcomes is not None
    assert outcomes.is_passing("CH-01")


def test_the_report_counts_what_no_mutant_proves_as_unproven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Passing tests of an ID without a killed mutant are a claim, and `make reqs` says so."""
    outcomes, mutants = tmp_path / "outcomes.json", tmp_path / "mutants.json"
    Outcomes(digest_sources(), passed={"TR-05": ["a"], "TR-09": ["b"]}).write(outcomes)
    key = next(one.key for one in read_mutants() if one.requirement == "TR-05")
    write_verdicts({key: Verdict(KILLED, "old")}, read_mutants(), mutants)
    given = ["--from", str(outcomes), "--mutants", str(mutants)]
    assert reqs.main([*given, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["TR"]
    assert (report["passing"], report["unproven"], len(report["missing"])) == (["TR-05"], ["TR-09"], 24)
    assert reqs.main(given) == 0
    printed = capsys.readouterr().out
    assert "unproven  TR-09" in printed
    assert "1 killed mutant is older than its code" in printed
