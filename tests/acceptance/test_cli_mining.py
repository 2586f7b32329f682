"""Mining from the command line: the settings act, and a stored chain repeats the run that found it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.homes import make_home, opened_home
from tests.unit.huginn.billing_world import billing_scripts, lines_of
from twinraven.cli import main
from twinraven.foundation.clock import utc_now


class Desk:
    """A home with a log of billing sessions, and the command in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], **sections: Any) -> None:
        self._home = make_home(folder, **sections)
        self._capsys = capsys
        calls = folder / "calls.jsonl"
        calls.write_bytes(lines_of(billing_scripts(120, seed=41)))
        self.run("import", str(calls))

    def run(self, *arguments: str) -> Any:
        """What a command prints; JSON is read."""
        assert main([*arguments, "--home", str(self._home)]) == 0
        out = self._capsys.readouterr().out
        return json.loads(out) if out.startswith(("[", "{")) else out

    def mine(self, *arguments: str) -> list[dict[str, Any]]:
        return self.run("mine", *arguments, "--output", "json")


def figures(chains: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chains without what must differ between two runs."""
    return [{name: each[name] for name in each if name not in ("chain_id", "discovered_at")} for each in chains]


@pytest.mark.req("TR-12")
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--algorithm", "prefixspan", "--min-support", "0.2", "--limit", "9"],
        ["--collapse-repeats", "--last-sessions", "70"],
        ["--since", "1d", "--until", "2999-01-01T00:00:00Z"],
    ],
)
def test_a_stored_chain_repeats_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """`mine --like CHAIN` finds the same chains in the same order, although settings and log have changed since."""
    desk = Desk(tmp_path, capsys, mining={"min_support": 0.05, "max_length": 3})
    first = desk.mine(*arguments)
    assert first
    assert {len(chain["tools"]) for chain in first} <= {2, 3}
    (tmp_path / "twinraven.yaml").write_text(json.dumps({"mining": {"min_support": 0.5, "last_sessions": 3}}))
    more = tmp_path / "more.jsonl"
    more.write_bytes(lines_of(billing_scripts(60, seed=5)).replace(b'"s000', b'"t000'))
    desk.run("import", str(more))
    second = desk.mine("--like", first[0]["chain_id"][:12])
    assert figures(second) == figures(first)
    assert {chain["chain_id"] for chain in first}.isdisjoint(chain["chain_id"] for chain in second)


def test_a_repeated_run_takes_no_other_filter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--like` with an option that would change the run is refused by the option's name."""
    desk = Desk(tmp_path, capsys)
    chain = desk.mine()[0]["chain_id"]
    home = str(tmp_path / ".twinraven")
    assert main(["mine", "--like", chain, "--last-sessions", "3", "--home", home]) != 0
    assert "leave out --last-sessions" in capsys.readouterr().err


def _fits(setting: str, value: Any, chain: dict[str, Any]) -> bool:
    """Whether a chain is what a setting asks for."""
    length = len(chain["tools"])
    return {
        "min_support": lambda: chain["support"] >= value,
        "min_sessions": lambda: chain["sessions"] >= value,
        "min_confidence": lambda: chain["confidence"] >= value,
        "min_length": lambda: length >= value,
        "max_length": lambda: length <= value,
        "last_sessions": lambda: chain["sessions"] <= value,
        "algorithm": lambda: chain["mining_config"]["algorithm"] == value,
    }[setting]()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("min_support", 0.9),
        ("min_sessions", 100),
        ("min_confidence", 0.8),
        ("min_length", 3),
        ("max_length", 2),
        ("last_sessions", 40),
        ("algorithm", "prefixspan"),
    ],
)
def test_every_mining_setting_acts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, value: Any
) -> None:
    """Each setting changes what `mine` finds, as it says."""
    usual = Desk(tmp_path / "usual", capsys, mining={"min_support": 0.005}).mine()
    chains = Desk(tmp_path / "set", capsys, mining={"min_support": 0.005, setting: value}).mine()
    assert chains
    assert figures(chains) != figures(usual)
    assert all(_fits(setting, value, chain) for chain in chains)


def test_a_window_in_days_leaves_out_what_is_older(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`mining.window_days` reaches back from now: calls from before it are not mined, those since are."""
    for days, found in ((2, []), (30, [["a", "b"]])):
        folder = tmp_path / str(days)
        with opened_home(folder, mining={"window_days": days}) as raven:
            for number in range(5):
                with raven.collector.observe(f"s{number}") as session:
                    at = utc_now() - timedelta(days=9)
                    session.record("a", {}, timestamp=at).result()
                    session.record("b", {}, timestamp=at + timedelta(seconds=1)).result()
        assert main(["mine", "--output", "json", "--home", str(folder / ".twinraven")]) == 0
        assert [chain["tools"] for chain in json.loads(capsys.readouterr().out)] == found
