"""Exported Parquet files are mined in parts with the counts of the whole, by one process or by several."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.homes import make_home
from tests.servers.server_process import environment
from tests.unit.huginn.billing_world import LOOKUP, billing_scripts, lines_of
from twinraven.app import TwinRaven, open_home
from twinraven.cli import main
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.event_loop import run_to_end
from twinraven.huginn import (
    CandidateChain,
    MiningConfig,
    MiningRun,
    MiningSettings,
    mine_log,
    mine_parquet,
    open_engine,
)
from twinraven.muninn import export_parquet, plan_parts, read_part

RUN = MiningRun(config=MiningConfig(min_support=0.02, collapse_repeats=True), idle_gap_s=900)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("billing"))


@pytest.fixture(scope="module")
def raven(home: Path) -> Generator[TwinRaven]:
    with open_home(home) as opened:
        yield opened


@pytest.fixture(scope="module")
def export(raven: TwinRaven, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 sessions in row groups of 64 rows, so that groups end inside of sessions."""
    run_to_end(raven.importer.import_calls("default", lines_of(billing_scripts(150, seed=6)).splitlines()))
    file = tmp_path_factory.mktemp("export") / "events.parquet"
    with file.open("wb") as out:
        run_to_end(export_parquet(raven.database, "default", out, group_rows=64))
    return file


def figures(chains: list[CandidateChain]) -> list[dict[str, Any]]:
    """What must not depend on who counted."""
    bodies = [chain.as_json() for chain in chains]
    return [{name: body[name] for name in body if name not in ("chain_id", "discovered_at")} for body in bodies]


@pytest.mark.parametrize("algorithm", ["contiguous", "prefixspan"])
def test_parts_count_what_the_home_counts(raven: TwinRaven, export: Path, algorithm: Any) -> None:
    """Support, confidence, links and failures of every chain are those of mining the log itself."""
    run = replace(RUN, config=replace(RUN.config, algorithm=algorithm))
    with closing(open_engine("local", workers=1)) as engine:
        from_file = mine_parquet([export], run, engine, now=utc_now(), part_rows=70)
    from_home = run_to_end(mine_log(raven.events, "default", run, now=utc_now()))

    def counts(chains: list[CandidateChain]) -> dict[Any, Any]:
        return {c.tools: (c.sessions, c.occurrences, c.confidence, c.failure_rate, c.links) for c in chains}

    assert counts(from_file) == counts(from_home)
    sampled = [run_to_end(raven.events.event("default", each)) for each in from_file[0].sample_event_ids[:2]]
    assert [event.tool_id for event in sampled] == list(from_file[0].tools[:2])


def test_every_cut_and_every_number_of_processes_gives_the_same(export: Path) -> None:
    """Chains, figures, samples and order do not depend on the parts or on the workers."""
    with closing(open_engine("local", workers=1)) as engine:
        whole = figures(mine_parquet([export], RUN, engine, now=utc_now()))
        assert figures(mine_parquet([export], RUN, engine, now=utc_now(), part_rows=40)) == whole
    with closing(open_engine("local", workers=2)) as engine:
        assert figures(mine_parquet([export], RUN, engine, now=utc_now(), part_rows=100)) == whole


def test_parts_hold_whole_sessions(export: Path) -> None:
    """No session is parted, none is left out, and none comes twice."""
    parts = plan_parts([export], rows=50)
    assert len(parts) > 5
    whole = read_part(plan_parts([export])[0])
    arrays = [read_part(part) for part in parts]
    assert sum(len(each.offsets) - 1 for each in arrays) == len(whole.offsets) - 1 == 150
    assert sum(len(each.tools) for each in arrays) == len(whole.tools)
    firsts = {each.names[int(each.tools[0])] for each in arrays}
    assert firsts == {LOOKUP}


def test_a_session_in_two_places_is_refused(export: Path) -> None:
    """The same file twice would count everything twice, and is refused by a session's name."""
    with pytest.raises(InvalidInput, match=r"session 's00000' .* give each export once"):
        plan_parts([export, export])


def test_what_is_no_export_is_refused(tmp_path: Path) -> None:
    """A file that is not Parquet, or that lacks a column, is named with the reason."""
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    with pytest.raises(InvalidInput, match=r"cannot read .*notes.txt as Parquet"):
        plan_parts([text])
    other = tmp_path / "other.parquet"
    parquet.write_table(arrow.table({"session_id": ["s"]}), other)
    with pytest.raises(InvalidInput, match="lacks the column event_id"):
        plan_parts([other])


def test_a_log_beyond_the_budget_is_cut(export: Path) -> None:
    """Where the parts propose more chains than the budget, the support is raised, and that is said."""
    notes: list[str] = []
    config = MiningConfig(min_support=0.02, max_patterns=10)
    with closing(open_engine("local", workers=1)) as engine:
        chains = mine_parquet([export], replace(RUN, config=config), engine, now=utc_now(), note=notes.append)
    assert 0 < len(chains) <= 10
    assert notes[0].startswith("cut to a support of ")


def test_the_command_mines_files_without_a_home(
    export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mine PARQUET` needs no home, makes none, and says which engine is missing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TWINRAVEN_HOME", raising=False)
    assert main(["mine", str(export), "--workers", "1", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found[0]["tools"][0] == LOOKUP
    assert not list(tmp_path.iterdir())
    assert main(["mine", "--engine", "ray", "--output", "json"]) != 0
    assert "--engine is for mining Parquet files" in capsys.readouterr().err
    assert main(["mine", str(export), "--engine", "spark", "--workers", "2"]) != 0
    assert "leave workers out for spark" in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_a_cluster_of_this_machine_counts_the_same(export: Path, tmp_path: Path, engine: str) -> None:
    """Ray and Spark, each in an environment of its own, print what one process prints."""
    python = environment(engine)
    ours = sysconfig.get_path("purelib")
    source = Path(__file__).resolve().parents[2] / "src"
    paths = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ours}", "PYSPARK_PYTHON": str(python)}
    command = [str(python), "-m", "twinraven", "mine", str(export), "--engine", engine, "--output", "json"]
    done = subprocess.run(command, cwd=tmp_path, env=paths, stdout=subprocess.PIPE, check=True, timeout=600)
    chains = [CandidateChain.from_json(body) for body in json.loads(done.stdout)]
    with closing(open_engine("local", workers=1)) as here:
        run = MiningRun.of_settings(MiningSettings(), idle_gap_s=900, now=utc_now())
        expected = mine_parquet([export], replace(run, most=100), here, now=utc_now())
    assert figures(chains) == figures(expected)
