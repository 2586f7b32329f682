"""From somebody's traces to a tool in service, when the tools themselves come later."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli import home_in
from tests.acceptance.test_cli_learning import TOOLS
from tests.unit.huginn.billing_world import LOAD, LOOKUP, billing_scripts, lines_of


def test_what_was_learned_from_traces_goes_into_service_when_its_tools_are_there(tmp_path: Path) -> None:
    """It is listed, reviewed and exported without them; promotion names all that are missing, and then works."""
    (tmp_path / "calls.jsonl").write_bytes(lines_of(billing_scripts(120, seed=41)))
    shell = home_in(tmp_path)
    shell.succeed("import", "calls.jsonl")
    proposals = shell.json("learn")["proposals"]
    learned = next(each for each in proposals if LOOKUP in each["tool_id"] and LOAD in each["tool_id"])
    name = learned["tool_id"]
    assert learned["novelty"] == "awaiting"
    assert LOOKUP in learned["note"]
    assert "tools.modules" in learned["note"]
    assert name in [tool["tool_id"] for tool in shell.json("registry", "list")]
    review = shell.json("approve", name)
    assert set(review["missing"]) >= {LOOKUP, LOAD}
    assert "cannot serve yet" in shell.succeed("approve", name).text
    assert shell.succeed("registry", "export", name, "--as", "python").text
    refused = shell.run("approve", name, "--promote")
    assert refused.code == 2
    assert all(tool in refused.err for tool in review["missing"])
    assert "fix: name their Python module in tools.modules" in refused.err

    (tmp_path / "billing_tools.py").write_text(TOOLS)
    (tmp_path / "twinraven.yaml").write_text("tools:\n  modules: [billing_tools]\n")
    shell.succeed("approve", name, "--promote")
    assert name in [tool["tool_id"] for tool in shell.json("tools", "list")]
