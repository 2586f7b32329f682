"""The registry from the command line: look, decide, roll back, retire, and keep files and rows in agreement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell, home_in
from tests.unit.huginn.billing_world import billing_scripts, lines_of

TOOLS = """
from typing import Any
from twinraven import tool

@tool(effect="read")
def search_customer(email: str) -> dict[str, Any]:
    "Find a customer by e-mail."
    return {"hits": 1, "customer": {"id": f"C-{email}"}}

@tool(effect="read", sensitivity="high")
def load_customer(customer_id: str, detail: str) -> dict[str, Any]:
    "A customer with its invoices."
    return {"id": customer_id, "plan": "pro", "invoices": [{"id": f"{customer_id}-1"}, {"id": f"{customer_id}-2"}]}

@tool(effect="read")
def get_invoice(invoice_id: str) -> dict[str, Any]:
    "One invoice."
    return {"id": invoice_id, "total": 7, "lines": []}
"""


@pytest.fixture(scope="module")
def learned_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that has learned from four hundred sessions and waits for decisions."""
    folder = tmp_path_factory.mktemp("learned")
    (folder / "billing_tools.py").write_text(TOOLS)
    (folder / "twinraven.yaml").write_text("tools:\n  modules: [billing_tools]\n")
    (folder / "calls.jsonl").write_bytes(lines_of(billing_scripts(400, seed=41)))
    shell = home_in(folder)
    shell.succeed("import", "calls.jsonl")
    shell.succeed("learn")
    return folder


@pytest.fixture
def shell(learned_home: Path, tmp_path: Path) -> Shell:
    """The command in a copy of that home."""
    import shutil

    return Shell(Path(shutil.copytree(learned_home, tmp_path / "project")))


def tools(shell: Shell) -> dict[str, Any]:
    return {row["tool_id"]: row for row in shell.json("registry", "list")}


def first(shell: Shell) -> str:
    return next(iter(tools(shell)))


def arguments(shell: Shell, tool_id: str) -> dict[str, Any]:
    """Arguments that a tool takes."""
    schema = shell.json("tools", "show", tool_id)["input_schema"]
    values: dict[str, Any] = {"email": "a@b.c", "detail": "full", "customer_id": "C-1", "invoice_id": "I-1"}
    return {key: values.get(key, ["I-1"]) for key in schema["required"]}


def tool_folder(shell: Shell, tool_id: str) -> Path:
    return shell.folder / ".twinraven" / "tools" / "generated" / tool_id


@pytest.mark.req("RG-07", "RG-01")
def test_what_was_learned_waits_for_approval(shell: Shell) -> None:
    """After learning, tools are in testing, listed with their use, and lie as files in the home."""
    listed = tools(shell)
    assert listed
    assert {row["status"] for row in listed.values()} == {"testing"}
    assert all((tool_folder(shell, name) / "v1.json").exists() for name in listed)
    assert first(shell) not in {row["tool_id"] for row in shell.json("tools", "list")}
    assert "TOOL" in shell.succeed("registry", "list").text


@pytest.mark.req("RG-07")
def test_approval_is_one_screen_and_one_command(shell: Shell) -> None:
    """The screen shows chain, wiring with evidence, effects, verdict and savings; --promote puts it into service."""
    name = first(shell)
    screen = shell.succeed("approve", name).text
    for word in ("learned from", "confidence", "can do", "verdict", "passed", "would have saved", "FOR", "AGAINST"):
        assert word in screen
    assert "sensitivity high" in screen or "sensitivity low" in screen
    assert f"twinraven approve {name} --promote" in screen
    assert len(screen.splitlines()) <= 40
    review = shell.json("approve", name)
    assert {"chain", "steps", "validation", "savings", "diff", "effect"} <= set(review)
    assert any(argument["for"] for step in review["steps"] for argument in step["arguments"])
    assert "nothing was changed" in shell.succeed("approve", name, "--promote", "--dry-run").text
    assert tools(shell)[name]["status"] == "testing"
    assert "is in service" in shell.succeed("approve", name, "--promote").text
    assert tools(shell)[name]["status"] == "promoted"
    assert name in {row["tool_id"] for row in shell.json("tools", "list")}
    assert "nothing to decide" in shell.succeed("approve", name).text
    assert shell.run("approve", name, "--promote").code == 1


@pytest.mark.req("TR-15")
def test_a_name_can_be_given_at_approval(shell: Shell) -> None:
    """--as names a tool before its first promotion; a bad name, and --as alone, are refused."""
    name = first(shell)
    assert shell.run("approve", name, "--as", "lookup").code == 2
    assert shell.run("approve", name, "--promote", "--as", "../up").code == 2
    shell.succeed("approve", name, "--promote", "--as", "lookup")
    assert tools(shell)["lookup"]["status"] == "promoted"
    assert name not in tools(shell)
    assert tool_folder(shell, "lookup").is_dir()
    assert not tool_folder(shell, name).exists()
    assert shell.run("approve", "lookup", "--promote", "--as", "other").code != 0


def test_what_cannot_be_promoted_is_not_renamed(shell: Shell) -> None:
    """A version that was sent back stays out of service, and --as leaves it the name it has."""
    name = first(shell)
    shell.succeed("reject", name, "--reason", "reads the wrong page")
    assert shell.run("approve", name, "--version", "1", "--promote", "--as", "lookup").code != 0
    assert name in tools(shell)
    assert "lookup" not in tools(shell)


@pytest.mark.req("RG-09", "TR-23")
def test_a_promoted_tool_is_called_recorded_and_counted(shell: Shell) -> None:
    """A call from the shell is one use, whichever process makes it."""
    name = first(shell)
    shell.succeed("approve", name, "--promote")
    params = arguments(shell, name)
    for _ in range(2):
        shell.succeed("call", name, "--params", json.dumps(params), "--session", "mine")
    assert tools(shell)[name]["invocation_count"] == 2
    events = shell.json("sessions", "show", "mine")
    assert sum(event["parent_event_id"] is None for event in events) == 2


def test_the_list_says_whether_a_tool_is_taken(shell: Shell) -> None:
    """Sessions that call a tool and sessions that do its chain by hand stand in list, detail and JSON alike."""
    name = first(shell)
    assert tools(shell)[name]["adoption"] is None
    shell.succeed("approve", name, "--promote")
    definition = shell.json("registry", "show", name, "--version", "1")
    chain = list(dict.fromkeys(step["tool_id"] for step in definition["steps"]))
    for session, tool in [("taker", name), *(("hand", tool) for tool in chain), ("other", chain[-1])]:
        shell.succeed("call", tool, "--params", json.dumps(arguments(shell, tool)), "--session", session)
    found = tools(shell)[name]["adoption"]
    assert (found["offered"], found["fitted"], found["taken"]) == (3, 2, 1)
    assert found["turns_saved"] == len(chain) - 1
    assert shell.json("registry", "show", name)["adoption"] == found
    heading, line, *_ = shell.succeed("registry", "list").text.splitlines()
    assert "TAKEN  SAVED" in heading
    assert "1/2" in line
    shown = shell.succeed("registry", "show", name).text
    assert "1 sessions (50%, 9% to 91%)" in shown
    assert "TAKEN" in shell.succeed("maintenance", "run", "--dry-run").text


def test_a_rejection_is_remembered(shell: Shell) -> None:
    """What was rejected is a draft again and the next round does not propose it on the same evidence."""
    name = first(shell)
    assert shell.run("reject", name).code == 2
    said = shell.json("reject", name, "--reason", "reads the wrong page")
    assert (said["version"], said["reason"]) == (1, "reads the wrong page")
    assert tools(shell)[name]["status"] == "draft"
    shell.succeed("learn")
    assert tools(shell)[name]["status"] == "draft"


@pytest.mark.req("RG-08", "RG-06")
def test_quarantine_retire_and_rollback(shell: Shell) -> None:
    """A tool goes out of service and back, cannot be rolled back to what never served, and ends for good."""
    name = first(shell)
    shell.succeed("approve", name, "--promote")
    assert shell.run("quarantine", name).code == 2
    shell.succeed("quarantine", name, "--reason", "answers nonsense")
    assert "quarantined" in shell.succeed("registry", "list").text
    assert shell.run("tools", "show", name).code == 2
    shell.succeed("quarantine", name, "--release")
    assert shell.run("registry", "rollback", name, "--to-version", "7").code == 2
    assert shell.run("registry", "rollback", name, "--to-version", "1").code == 1
    unconfirmed = shell.run("retire", name)
    assert (unconfirmed.code, "add --yes" in unconfirmed.err) == (2, True)
    assert shell.json("retire", name, "--note", "enough", "--yes")["retirement_reason"] == "manual"
    assert shell.run("approve", name, "--promote").code == 1
    shown = shell.json("registry", "show", name)
    assert (shown["status"], shown["versions"][0]["status"]) == ("retired", "retired")
    assert shell.json("registry", "show", name, "--version", "1")["tool_id"] == name
    assert "retired" in shell.succeed("registry", "show", name).text
    assert {row["event_type"] for row in shell.json("audit", "show")} >= {"tool.promoted", "tool.retired"}


@pytest.mark.req("RG-06")
def test_rollback_from_the_command_line(shell: Shell) -> None:
    """`registry rollback --to-version N` makes N current again."""
    name = first(shell)
    shell.succeed("approve", name, "--promote")
    body = json.loads((tool_folder(shell, name) / "v1.json").read_text())
    (tool_folder(shell, name) / "v2.json").write_text(json.dumps(body | {"version": 2}))
    metadata = tool_folder(shell, name) / "metadata.json"
    state = json.loads(metadata.read_text())
    state["versions"][0]["superseded_at"] = state["versions"][0]["promoted_at"]
    second = state["versions"][0] | {"version": 2, "superseded_at": None}
    from hashlib import sha256

    second["sha256"] = sha256((tool_folder(shell, name) / "v2.json").read_bytes()).hexdigest()
    state |= {"current_version": 2, "versions": [state["versions"][0], second], "revision": 10_000}
    metadata.write_text(json.dumps(state))
    shell.succeed("registry", "verify", "--rebuild", "rows")
    assert tools(shell)[name]["current_version"] == 2
    assert "is in service again" in shell.succeed("registry", "rollback", name, "--to-version", "1").text
    assert tools(shell)[name]["current_version"] == 1
    assert shell.json("registry", "verify")["disagreements"] == []


@pytest.mark.req("RG-01", "RG-03")
def test_files_and_rows_are_verified_and_rebuilt(shell: Shell) -> None:
    """`registry verify` names what disagrees, ends with a code that says so, and makes either from the other."""
    name = first(shell)
    assert "agree" in shell.run("registry", "verify").err
    (tool_folder(shell, name) / "v1.json").unlink()
    ended = shell.run("registry", "verify", "--output", "json")
    assert ended.code == 1
    (found,) = ended.json["disagreements"]
    assert (found["kind"], found["tool_id"], found["settled_by"]) == ("missing", name, "files")
    assert name in shell.succeed("registry", "verify", "--rebuild", "files").text
    assert (tool_folder(shell, name) / "v1.json").exists()


@pytest.mark.req("RG-13")
def test_maintenance_can_be_asked_and_run(shell: Shell) -> None:
    """By hand it says what it would do and does it; by schedule it waits its time."""
    name = first(shell)
    shell.succeed("approve", name, "--promote")
    asked = shell.json("maintenance", "run", "--dry-run")
    assert (asked["dry_run"], [row["tool_id"] for row in asked["tools"]]) == (True, [name])
    assert shell.json("maintenance", "run", "--if-due")["dry_run"] is False
    assert shell.json("maintenance", "run", "--if-due") is None
    assert "SUPPORT" in shell.succeed("maintenance", "run").text
    assert shell.run("maintenance", "run", "--if-due", "--dry-run").code == 2


@pytest.mark.req("RG-15")
def test_every_registry_setting_is_known(shell: Shell) -> None:
    """The documented block is accepted as it stands, and a misspelt key is refused."""
    documented = (
        "registry:\n  storage_dir: tools/elsewhere\n  auto_retire_after_days: 30\n  auto_retire_on_drift: false\n"
        "  drift_threshold: 0.5\n  failure_spike_threshold: 0.3\n  maintenance_schedule: weekly\n"
    )
    file = shell.folder / "twinraven.yaml"
    before = file.read_text()
    file.write_text(before + documented)
    ended = shell.run("registry", "verify", "--rebuild", "files")
    assert ended.code == 0, ended.err
    assert (shell.folder / ".twinraven" / "tools" / "elsewhere" / first(shell) / "v1.json").exists()
    file.write_text(before + "registry:\n  drift_treshold: 0.5\n")
    assert "drift_threshold" in shell.run("registry", "list").err
