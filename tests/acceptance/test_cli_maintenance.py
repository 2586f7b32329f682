"""Maintenance of a home as users get it: drift, failures and each key of the `registry:` block decide what happens."""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell, home_in
from tests.acceptance.test_cli_registry import TOOLS, arguments
from tests.unit.huginn.billing_world import billing_scripts, lines_of
from twinraven.app import open_home
from twinraven.foundation.clock import utc_now

SESSIONS = 120


@pytest.fixture(scope="module")
def promoted_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one learned tool in service."""
    folder = tmp_path_factory.mktemp("promoted")
    (folder / "billing_tools.py").write_text(TOOLS)
    (folder / "twinraven.yaml").write_text("tools:\n  modules: [billing_tools]\n")
    (folder / "calls.jsonl").write_bytes(lines_of(billing_scripts(SESSIONS, seed=41)))
    shell = home_in(folder)
    shell.succeed("import", "calls.jsonl")
    shell.succeed("learn")
    shell.succeed("approve", shell.json("registry", "list")[0]["tool_id"], "--promote")
    return folder


@pytest.fixture
def shell(promoted_home: Path, tmp_path: Path) -> Shell:
    return Shell(Path(shutil.copytree(promoted_home, tmp_path / "project")))


def served(shell: Shell) -> dict[str, Any]:
    return next(row for row in shell.json("registry", "list") if row["status"] in ("promoted", "retired"))


def record_long_ago(shell: Shell, tool: str, times: int) -> None:
    """Sessions of one call each, a day more than a month ago."""
    with open_home(shell.folder / ".twinraven") as raven:
        for number in range(times):
            with raven.collector.observe(f"{tool}-{number}") as session:
                session.record(tool, {}, latency_ms=1, timestamp=utc_now() - timedelta(days=31))


def record(shell: Shell, tool: str, times: int, *, start: int = 0, ok: bool = True, then: str | None = None) -> None:
    """Sessions of one call each, or of two."""
    numbers = range(start, start + times)
    line: dict[str, Any] = {"params": {"q": 1}, "output": {"n": 1}, "ok": ok}
    tools = [tool] if then is None else [tool, then]
    lines = [
        {**line, "session_id": f"{tool}-{number}", "tool": each, "seq": place}
        for number in numbers
        for place, each in enumerate(tools)
    ]
    (shell.folder / "more.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    shell.succeed("import", "more.jsonl")


def configure(shell: Shell, **registry: Any) -> None:
    tools = {"modules": ["billing_tools"]}
    (shell.folder / "twinraven.yaml").write_text(json.dumps({"tools": tools, "registry": registry}))


def actions(shell: Shell) -> list[tuple[str, str]]:
    """What maintenance would do."""
    return [(each["verb"], each["name"]) for each in shell.json("maintenance", "run", "--dry-run")["actions"]]


def measures(shell: Shell) -> dict[str, Any]:
    (measured,) = shell.json("maintenance", "run", "--dry-run")["tools"]
    return measured


def support(shell: Shell) -> float:
    return measures(shell)["support"]


@pytest.mark.req("RG-10")
def test_drift_is_measured_on_the_log_and_shown_in_the_list(shell: Shell) -> None:
    """Sessions without the chain lower its support, calls of the learned tool raise it; the list and the log tell."""
    name, before = served(shell)["tool_id"], support(shell)
    assert 0 < before <= 1
    record(shell, "look_out_of_the_window", 3 * SESSIONS)
    assert support(shell) == pytest.approx(before / 4)
    record_long_ago(shell, "look_out_of_the_door", SESSIONS)
    assert support(shell) == pytest.approx(before / 4), "only the last 30 days count"
    record(shell, name, 4 * SESSIONS)
    assert support(shell) == pytest.approx((before + 4) / 8)
    sure = measures(shell)["confidence"]
    file = shell.folder / ".twinraven/tools/generated" / name / "v1.json"
    first = json.loads(file.read_bytes())["steps"][0]["tool_id"]
    record(shell, first, 2 * SESSIONS, then="look_out_of_the_window")
    low = measures(shell)["confidence"]
    assert 0 < low < sure <= 1
    record(shell, name, SESSIONS, start=4 * SESSIONS)
    assert low < measures(shell)["confidence"] < 1
    record(shell, "look_out_of_the_window", 40 * SESSIONS, start=3 * SESSIONS)
    assert "drifts" not in shell.succeed("maintenance", "run", "--dry-run").err
    told = shell.succeed("maintenance", "run").err
    assert f"{name!r} drifts: the support of its chain fell from" in told
    assert "drift" in served(shell)["flags"]
    assert "drift" in shell.succeed("registry", "list").text


@pytest.mark.req("RG-15", "RG-10")
def test_the_keys_about_drift_act(shell: Shell) -> None:
    """`drift_threshold` says from when on, `auto_retire_on_drift` whether the tool is marked or retired."""
    record(shell, "look_out_of_the_window", 3 * SESSIONS)
    for threshold, retires, expected in (
        (0.9, False, [("flag", "drift")]),
        (0.9, True, [("retire", "drift")]),
        (0.1, True, []),
    ):
        configure(shell, drift_threshold=threshold, auto_retire_on_drift=retires)
        assert actions(shell) == expected
    (measured,) = shell.json("maintenance", "run", "--dry-run")["tools"]
    configure(shell, drift_threshold=measured["drift_ratio"], auto_retire_on_drift=True)
    assert actions(shell) == [], "only what falls below the threshold drifts"


@pytest.mark.req("RG-12", "RG-15")
def test_failed_calls_count_and_refused_ones_do_not(shell: Shell) -> None:
    """Three calls without an argument ran nothing; failures above `failure_spike_threshold` end the tool."""
    name = served(shell)["tool_id"]
    for _ in range(3):
        assert shell.run("call", name, "--params", "{}").code == 2
    assert actions(shell) == []
    fitting = json.dumps(arguments(shell, name))
    shell.succeed("call", name, "--params", fitting)
    (shell.folder / "billing_tools.py").write_text(re.sub(r"return .*", 'raise OSError("down")', TOOLS))
    assert shell.run("call", name, "--params", fitting).code != 0
    for threshold, expected in ((0.4, [("retire", "failure_spike")]), (0.6, [])):
        configure(shell, failure_spike_threshold=threshold)
        assert [each for each in actions(shell) if each[0] == "retire"] == expected


@pytest.mark.req("RG-15", "RG-13")
def test_the_schedule_of_the_settings_acts(shell: Shell) -> None:
    """Off means never, and without a word in the settings it is a week."""
    configure(shell, maintenance_schedule="off")
    assert shell.json("maintenance", "run", "--if-due") is None
    configure(shell)
    shown = {row["key"]: row["value"] for row in shell.json("config", "show")}
    assert shown["registry.maintenance_schedule"] == "weekly"
    assert shell.json("maintenance", "run", "--if-due")["dry_run"] is False
    assert shell.json("maintenance", "run", "--if-due") is None
