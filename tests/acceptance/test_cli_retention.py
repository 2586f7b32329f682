"""Retention from a shell: by option or by setting, tried first, written down."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.cli import Shell, call, home_in
from tests.acceptance.desk import Desk, Step
from tests.api_homes import make_chain
from tests.registry_kit import make_definition, make_verdict
from tests.traces import GOLDEN
from twinraven.app import TwinRaven, open_home
from twinraven.foundation.clock import now_micros, utc_now
from twinraven.foundation.event_loop import run_to_end


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home with an old transcript and a session of today."""
    shell = home_in(tmp_path)
    shell.succeed("import", str(GOLDEN / "claude-code.jsonl"))
    shell.succeed("import", "-", stdin=json.dumps(call("today", 1)).encode())
    return shell


def sessions(shell: Shell) -> list[str]:
    return [session["session_id"] for session in shell.json("sessions", "list")]


@pytest.mark.req("TR-02")
def test_old_sessions_leave_and_a_genuine_note_stays(shell: Shell) -> None:
    """A dry run says what will leave; a run removes that, notes it, audits it, and does nothing the second time."""
    before = sessions(shell)
    tried = shell.json("retention", "run", "--days", "30", "--dry-run")
    assert (tried["sessions"], tried["events"], tried["dry_run"]) == (2, 8, True)
    assert sessions(shell) == before
    done = shell.json("retention", "run", "--days", "30")
    assert (done["sessions"], done["events"], done["spared"], done["residue_cleared"]) == (2, 8, 0, True)
    assert sessions(shell) == ["today"]
    (note,) = shell.json("retention", "notes")
    assert done["notes"] == [note["note_id"]]
    assert (note["events"], note["genuine"]) == (8, "ok")
    (entry,) = shell.json("audit", "show", "--event", "muninn.sessions_pruned")
    assert note["note_id"] in json.dumps(entry)
    assert shell.json("audit", "verify")["ok"] is True
    assert shell.json("retention", "run", "--days", "30")["sessions"] == 0


@pytest.mark.req("TR-02")
def test_the_setting_decides_where_no_option_does(shell: Shell) -> None:
    """`retention.days` is used without `--days`; without either nothing is removed and the fix is named."""
    refused = shell.run("retention", "run")
    assert refused.code == 2
    assert "--days" in refused.err
    assert len(sessions(shell)) == 3
    shell.env["TWINRAVEN__RETENTION__DAYS"] = "30"
    text = shell.succeed("retention", "run").text
    assert "sessions" in text
    assert sessions(shell) == ["today"]


def test_people_read_what_left(shell: Shell) -> None:
    """The table form of each command says the same to people."""
    assert "nothing was removed" in shell.succeed("retention", "run", "--days", "30", "--dry-run").text
    assert "nothing has left" in shell.succeed("retention", "notes").err
    shell.succeed("retention", "run", "--days", "30", "--fast")
    assert "ok" in shell.succeed("retention", "notes").text


@pytest.mark.parametrize("days", ["0", "-3", "soon"])
def test_a_span_that_makes_no_sense_is_bad_usage(shell: Shell, days: str) -> None:
    """Days are a whole number from 1."""
    assert shell.run("retention", "run", "--days", days).code == 2
    assert len(sessions(shell)) == 3


async def _serve(raven: TwinRaven) -> None:
    """Put a learned tool into service."""
    chain = make_chain()
    await raven.chains.add("default", [chain])
    definition = make_definition(chain_id=str(chain.chain_id))
    draft = await raven.registry.draft("default", definition, evidence_hash="e")
    await raven.registry.register("default", draft.definition, make_verdict())


@pytest.mark.req("RG-09")
def test_uses_of_a_learned_tool_outlive_the_calls(tmp_path: Path) -> None:
    """Calls that leave the log stay counted, with the time of the last one."""
    desk = Desk(tmp_path, tools={"modules": ["tests.registry_kit"]}, registry={"require_approval": False})
    with open_home(desk.home, micros=lambda: now_micros() - 60 * 86_400_000_000) as raven:
        run_to_end(_serve(raven))
    called = utc_now() - timedelta(days=50)
    desk.record("s", [Step("search_read", {"q": "x"}, {})] * 3, at=called)
    (before,) = desk.json("registry", "list")
    assert desk.json("retention", "run", "--days", "30")["events"] == 3
    (after,) = desk.json("registry", "list")
    assert (after["invocation_count"], after["last_used_at"]) == (3, before["last_used_at"])
    assert after["last_used_at"].startswith(f"{called:%Y-%m-%dT%H}")
