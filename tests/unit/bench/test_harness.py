"""Benchmarks report medians of interleaved ratios and file them without losing anybody else's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.harness import Harness, Row, child_cpu_timed, cpu_timed, timed
from bench.results import as_text, merge, read_rows, write_page, write_rows


def row(name: str, ratio: float = 1.0, *, aim: float = 2.0) -> Row:
    return Row(name, ratio, "peer", ratio, ratio, aim)


def test_contenders_take_turns_after_a_warm_up() -> None:
    """Each repeat runs everybody once, in alternating order, and the first round does not count."""
    order: list[str] = []

    def contender(name: str, cost: float) -> float:
        order.append(name)
        return cost

    samples = Harness("m").sample({"a": lambda: contender("a", 1.0), "b": lambda: contender("b", 2.0)})
    assert "".join(order) == "ab" + "abba" * 2 + "ab"
    assert samples == {"a": [1.0] * 5, "b": [2.0] * 5}


def test_a_row_is_the_median_ratio_with_its_extremes() -> None:
    """Ratios are taken within a repeat, so a slow moment hits both contenders alike."""
    samples = {"ours": [1.0, 2.0, 30.0, 4.0, 9.0], "peer": [1.0, 1.0, 10.0, 8.0, 1.0]}
    measured = Harness("m").row("thing", samples, ours="ours", against="peer", aim=1.5)
    assert measured == Row("m: thing", ratio=2.0, against="peer", low=0.5, high=9.0, aim=1.5)
    assert not measured.is_met


def test_too_few_repeats_are_refused() -> None:
    """A spread of fewer than five repeats would be a claim without evidence."""
    with pytest.raises(ValueError, match="at least 5"):
        Harness("m", repeats=4)


def test_compare_is_two_contenders_and_one_row() -> None:
    """The common case needs one call."""
    measured = Harness("m").compare("thing", lambda: 3.0, lambda: 2.0, against="peer", aim=1.5)
    assert (measured.ratio, measured.against, measured.is_met) == (1.5, "peer", True)


def test_clocks_measure_something() -> None:
    """Wall time, processor time and a child's processor time are positive for real work."""
    work = [cpu_timed(lambda: sum(range(200_000))), timed(lambda: sum(range(1000)))]
    assert all(contender() > 0 for contender in work)
    assert child_cpu_timed([sys.executable, "-c", "sum(range(100000))"])() > 0


def test_running_one_module_keeps_the_rows_of_the_others() -> None:
    """A module's new rows replace all its old ones; rows of modules that no longer exist disappear."""
    old = [row("a: kept"), row("b: renamed since"), row("gone: module")]
    merged = merge(old, [row("b: new")], measured=["b"], known=["a", "b"])
    assert [each.name for each in merged] == ["a: kept", "b: new"]


def test_results_are_a_list_of_rows(tmp_path: Path) -> None:
    """The file for programs has exactly the promised fields and is read back as written."""
    file = tmp_path / "results.json"
    assert read_rows(file) == []
    write_rows([row("a: thing", 1.25)], file)
    (written,) = json.loads(file.read_text(encoding="utf-8"))
    assert list(written) == ["name", "ratio", "against", "low", "high", "aim"]
    assert read_rows(file) == [row("a: thing", 1.25)]


def test_the_page_keeps_its_words(tmp_path: Path) -> None:
    """Only what stands between the markers is rewritten, however often."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- results -->\nold\n<!-- end of results -->\nafter\n", encoding="utf-8")
    write_page([row("a: fast"), row("a: slow", 3.0)], page)
    write_page([row("a: fast"), row("a: slow", 3.0)], page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- results -->\n| what")
    assert text.endswith("<!-- end of results -->\nafter\n")
    assert "old" not in text
    assert text.count("| a: slow | peer | 3.00 | 3.00–3.00 | ≤ 2 | **no** |") == 1


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    """A lost marker is an error, not a reason to overwrite a page."""
    page = tmp_path / "page.md"
    page.write_text("words", encoding="utf-8")
    with pytest.raises(ValueError, match="markers"):
        write_page([], page)
    assert page.read_text(encoding="utf-8") == "words"


def test_a_missed_aim_is_marked() -> None:
    """Whoever reads the terminal sees at once what fell short."""
    fast, slow = as_text([row("a: fast"), row("a: slow", 3.0)]).splitlines()
    assert fast.startswith("ok ")
    assert slow.startswith("MISS ")
