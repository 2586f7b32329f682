"""Homes from a shell: made, found, examined, configured."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.cli import Shell, call, calls_file, home_in
from tests.postgres import PostgresLogin
from twinraven.app import open_home
from twinraven.foundation.errors import NotFound
from twinraven.storage import open_database


def statuses(findings: list[dict[str, Any]]) -> dict[str, str]:
    return {finding["check"]: finding["status"] for finding in findings}


def test_init_makes_a_private_home_that_works_at_once(tmp_path: Path) -> None:
    """A new home can be read by its owner alone, has a database, and holds nothing that git would take."""
    shell = Shell(tmp_path)
    made = shell.json("init")
    home = tmp_path / ".twinraven"
    assert made["home"] == str(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (home / ".gitignore").read_text() == "*\n"
    assert shell.json("sessions", "list") == []
    assert shell.json("db", "status")["current"] is True


@pytest.mark.parametrize(("before", "after"), [(0o755, 0o700), (0o770, 0o770), (0o777, 0o770)])
def test_an_empty_folder_that_becomes_a_home_is_closed_to_others(before: int, after: int, tmp_path: Path) -> None:
    """Whoever made the folder first has no home that everybody can read; a group that may write keeps its share."""
    for arguments, home in ((("--home", "ravens"), tmp_path / "ravens"), ((), tmp_path / ".twinraven")):
        home.mkdir()
        home.chmod(before)
        Shell(tmp_path).succeed("init", *arguments)
        assert stat.S_IMODE(home.stat().st_mode) == after
        assert (home / "twinraven.db").exists()


def test_init_never_overwrites(tmp_path: Path) -> None:
    """Running it again changes no file and says that there was a home already."""
    (tmp_path / "twinraven.yaml").write_text("calls:\n  python_threads: 3\n")
    shell = home_in(tmp_path)
    shell.succeed("import", str(calls_file(tmp_path / "calls.jsonl", [call("a", 1)])))
    assert shell.json("init") == {"home": str(tmp_path / ".twinraven"), "created": [], "migrations": []}
    assert (tmp_path / "twinraven.yaml").read_text() == "calls:\n  python_threads: 3\n"
    assert len(shell.json("sessions", "list")) == 1


def test_init_goes_where_it_is_told(tmp_path: Path) -> None:
    """PATH gets a home inside; --home and TWINRAVEN_HOME name the home itself; two answers are refused."""
    shell = Shell(tmp_path)
    shell.succeed("init", "project")
    shell.succeed("init", "--home", "ravens")
    shell.succeed("init", env={"TWINRAVEN_HOME": str(tmp_path / "elsewhere")})
    assert [(tmp_path / name / "twinraven.db").exists() for name in ("project/.twinraven", "ravens", "elsewhere")] == [
        True,
        True,
        True,
    ]
    assert shell.run("init", "project", "--home", "ravens").code == 2


def test_init_where_nothing_may_be_written_is_refused(tmp_path: Path) -> None:
    """A place that cannot hold a home is named."""
    (tmp_path / "file").write_text("")
    ended = Shell(tmp_path).run("init", "file")
    assert ended.code == 2
    assert "cannot create" in ended.err


def test_the_settings_template_says_the_defaults(tmp_path: Path) -> None:
    """With every # taken away the file is valid and, but for the address, changes nothing."""
    shell = home_in(tmp_path)
    defaults = shell.json("config", "show")
    file = tmp_path / "twinraven.yaml"
    assert yaml.safe_load(file.read_text()) is None
    lines = [
        line.removeprefix("# ") for line in file.read_text().splitlines() if not line.startswith(("# Sett", "# The"))
    ]
    file.write_text("\n".join(line for line in lines if "<home>" not in line))
    changed = shell.json("config", "show")
    assert [(row["key"], row["value"]) for row in changed] == [(row["key"], row["value"]) for row in defaults]
    assert {row["origin"] for row in changed if row["key"] != "storage.url"} == {"file"}


def test_without_a_home_every_command_that_needs_one_says_how_to_get_it(tmp_path: Path) -> None:
    """It is bad usage, names the folder where the search began, and creates nothing."""
    shell = Shell(tmp_path)
    calls = str(calls_file(tmp_path / "calls.jsonl", [call("a", 1)]))
    for arguments in (
        ("sessions", "list"),
        ("events", "list"),
        ("tools", "list"),
        ("call", "anything"),
        ("import", calls),
        ("export", "json", "out.jsonl"),
        ("db", "upgrade"),
    ):
        ended = shell.run(*arguments)
        assert ended.code == 2
        assert f"no TwinRaven home found from {tmp_path} upwards; run `twinraven init`" in ended.err
        assert "\nfix: twinraven init" in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calls.jsonl"]


def test_the_home_is_found_upwards_and_overridden(tmp_path: Path) -> None:
    """The nearest one above wins, TWINRAVEN_HOME over it, --home over both, before and behind the command."""
    home_in(tmp_path).succeed("import", str(calls_file(tmp_path / "calls.jsonl", [call("outer", 1)])))
    other = tmp_path / "other"
    shell = Shell(tmp_path)
    shell.succeed("init", "other")
    deep = other / "a" / "b"
    deep.mkdir(parents=True)
    assert Shell(deep).json("sessions", "list") == []
    outer = str(tmp_path / ".twinraven")
    from_environment = Shell(deep, {"TWINRAVEN_HOME": outer})
    assert [item["session_id"] for item in from_environment.json("sessions", "list")] == ["outer"]
    assert from_environment.json("--home", str(other / ".twinraven"), "sessions", "list") == []
    assert from_environment.json("sessions", "list", "--home", str(other / ".twinraven")) == []
    missing = Shell(deep, {"TWINRAVEN_HOME": str(tmp_path / "nowhere")}).run("sessions", "list")
    assert missing.code == 2
    assert "TWINRAVEN_HOME" in missing.err


def test_doctor_finds_nothing_wrong_with_a_new_home(tmp_path: Path) -> None:
    """Every part of a new home is looked at and works, and the way to the home is told."""
    shell = home_in(tmp_path)
    below = tmp_path / "below"
    below.mkdir()
    findings = Shell(below).json("doctor")
    assert set(statuses(findings).values()) == {"ok", "info"}
    assert {"python", "home", "permissions", "disk space", "settings", "database", "schema", "sqlite", "journal"} < set(
        statuses(findings)
    )
    details = {finding["check"]: finding["detail"] for finding in findings}
    assert str(tmp_path / ".twinraven") in details["home"]
    assert str(below) in details["home"]
    assert details["journal"] == "wal"
    assert "integrity" in statuses(findings)
    assert "integrity" not in statuses(shell.json("doctor", "--fast"))


def test_doctor_names_what_is_broken_and_how_to_mend_it(tmp_path: Path) -> None:
    """It goes on behind the first fault, ends with 1, and each fault has a fix."""
    shell = home_in(tmp_path)
    (tmp_path / "twinraven.yaml").write_text("tools:\n  modules: [broken_tools, no_such_module]\n")
    (tmp_path / "broken_tools.py").write_text("raise RuntimeError('no credentials')\n")
    (tmp_path / ".twinraven").chmod(0o755)
    (tmp_path / ".twinraven" / "twinraven.db").write_bytes(b"not a database at all" * 100)
    (tmp_path / ".twinraven" / "twinraven.db-wal").unlink(missing_ok=True)
    ended = shell.run("doctor", "--output", "json")
    assert ended.code == 1
    found = statuses(ended.json)
    assert found["permissions"] == "warning"
    assert found["database"] == "broken"
    assert found["tools broken_tools"] == "broken"
    assert found["tools no_such_module"] == "broken"
    assert all(finding["fix"] for finding in ended.json if finding["check"].startswith(("tools", "permissions")))
    assert "no credentials" in ended.text


def test_doctor_works_without_a_home_and_with_bad_settings(tmp_path: Path) -> None:
    """What it cannot look at it says, instead of failing itself."""
    shell = Shell(tmp_path)
    nowhere = shell.run("doctor", "--output", "json")
    assert (nowhere.code, statuses(nowhere.json)["home"]) == (1, "broken")
    shell.succeed("init")
    (tmp_path / "twinraven.yaml").write_text("calls:\n  python_thread: 3\n")
    misspelt = shell.run("doctor")
    assert misspelt.code == 1
    assert "python_thread" in misspelt.text
    (tmp_path / "twinraven.yaml").write_text("policy: {rules: [{tol: pay, then: deny}]}\n")
    lawless = shell.run("doctor", "--output", "json")
    assert (lawless.code, statuses(lawless.json)["settings"]) == (1, "broken")


def test_config_shows_values_with_their_origin_and_no_password(tmp_path: Path) -> None:
    """Each setting stands there once, with the place that set it; a password in an address is masked."""
    shell = home_in(tmp_path)
    (tmp_path / "twinraven.yaml").write_text("calls:\n  python_threads: 3\n")
    shell.env["TWINRAVEN__STORAGE__URL"] = "postgresql://raven:hunter2@db.example/ravens"
    ended = shell.succeed("config", "show", "--output", "json")
    rows = {row["key"]: (row["value"], row["origin"]) for row in ended.json}
    assert rows["calls.python_threads"] == (3, "file")
    assert rows["storage.url"][1] == "environment"
    assert rows["muninn.store_outputs"] == (True, "default")
    assert b"hunter2" not in ended.out
    assert b"hunter2" not in shell.succeed("config", "show").out
    assert shell.succeed("config", "show", "--output", "csv").text.startswith("key,value,origin\n")


def test_config_check_refuses_what_is_misspelt(tmp_path: Path) -> None:
    """A key that nobody knows is bad input, and the right name is offered."""
    shell = home_in(tmp_path)
    assert shell.json("config", "check")["valid"] is True
    ended = shell.run("config", "check", env={"TWINRAVEN__CALLS__PYTHON_THREAD": "3"})
    assert ended.code == 2
    assert "PYTHON_THREADS" in ended.err
    ended = shell.run("config", "check", env={"TWINRAVEN__SERVING__ALLOW_ORIGINS": "https://app.example/path"})
    assert ended.code == 2
    assert "serving.allow_origins" in ended.err


def test_settings_are_checked_without_a_web_server(tmp_path: Path) -> None:
    """What a lean installation lacks is not needed to look at its settings."""
    home_in(tmp_path)
    program = (
        "import sys; sys.modules.update(uvicorn=None, starlette=None, mcp=None); from twinraven.cli import main; "
        "sys.exit(main(['config', 'check']) or main(['doctor']))"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_config_can_be_looked_at_before_there_is_a_home(tmp_path: Path) -> None:
    """Settings need no home; that there is none is a note beside them."""
    ended = Shell(tmp_path).succeed("config", "show", "--output", "json")
    assert ended.json
    assert "no TwinRaven home found" in ended.err


def test_a_shared_database_is_upgraded_only_when_asked(tmp_path: Path, empty_postgres_login: PostgresLogin) -> None:
    """On Postgres a command never migrates; it says which command does, and then everything works."""
    shell = Shell(
        tmp_path,
        {
            "TWINRAVEN__STORAGE__URL": empty_postgres_login.url,
            "TWINRAVEN__STORAGE__ADMIN_URL": empty_postgres_login.admin_url,
        },
    )
    assert "twinraven db upgrade" in shell.succeed("init").text
    refused = shell.run("sessions", "list", "--output", "json")
    assert refused.code == 3
    assert json.loads(refused.err)["error"]["code"] == "STORAGE_OUTDATED"
    assert json.loads(refused.err)["error"]["fix"] == "twinraven db upgrade"
    assert statuses(shell.run("doctor", "--output", "json").json)["schema"] == "broken"
    upgraded = shell.json("db", "upgrade")
    assert upgraded["store"] == "postgres"
    assert len(upgraded["applied"]) == upgraded["version"]
    shell.succeed("import", str(calls_file(tmp_path / "calls.jsonl", [call("a", 1), call("a", 2)])))
    assert [item["event_count"] for item in shell.json("sessions", "list")] == [2]
    assert len(shell.succeed("export", "json", "-").text.splitlines()) == 2
    assert "broken" not in statuses(shell.json("doctor")).values()


async def test_a_database_from_the_future_is_refused(tmp_path: Path) -> None:
    """A schema with steps this version does not know is neither read nor changed."""
    shell = home_in(tmp_path)
    database = open_database(f"sqlite:///{tmp_path / '.twinraven' / 'twinraven.db'}")
    step = "INSERT INTO schema_migrations (version, name, applied_at) VALUES (9999, 'm9999_future', 0)"
    await database.write("default", lambda tx: tx.execute(step))
    database.close()
    ended = shell.run("sessions", "list")
    assert ended.code == 3
    assert "newer TwinRaven" in ended.err


def test_naming_the_project_means_the_home_in_it(tmp_path: Path) -> None:
    """`--home PROJECT` and TWINRAVEN_HOME=PROJECT reach PROJECT/.twinraven, and init finds it there."""
    home_in(tmp_path).succeed("import", str(calls_file(tmp_path / "calls.jsonl", [call("mine", 1)])))
    for shell, named in ((Shell(tmp_path), ("--home", str(tmp_path))), (Shell(tmp_path, _names(tmp_path)), ())):
        assert [item["session_id"] for item in shell.json("sessions", "list", *named)] == ["mine"]
        assert shell.json("init", *named)["created"] == []
    assert not (tmp_path / "twinraven.db").exists()


def test_a_folder_that_is_no_home_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Neither the command line nor `open_home` takes a folder of other things for a home, and nothing is created."""
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "mine.jsonl").write_text("{}")
    ended = Shell(tmp_path).run("sessions", "list", "--home", str(folder))
    assert ended.code == 2
    assert f"fix: twinraven init {folder}" in ended.err
    with pytest.raises(NotFound, match=r"there is no \.twinraven in it"):
        open_home(folder)
    assert [path.name for path in folder.iterdir()] == ["mine.jsonl"]
    shell = Shell(tmp_path)
    shell.succeed("init", "--home", str(folder))
    assert (folder / ".twinraven" / "twinraven.db").exists()
    assert not (folder / ".gitignore").exists()


def _names(folder: Path) -> dict[str, str]:
    return {"TWINRAVEN_HOME": str(folder)}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"policy": {"rules": [{"tol": "pay", "then": "deny"}]}}, "policy.rules[1] has no field 'tol'"),
        ({"policy": {"rules": [{"then": "allow"}, {"then": "maybe"}]}}, "policy.rules[2].then must be one of"),
        ({"mcpServers": {"git": {"comand": "git-mcp"}}}, "git"),
    ],
)
def test_config_check_reads_policy_and_servers(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    """What would fail at the first call is bad input for `config check`, too."""
    (tmp_path / "twinraven.yaml").write_text(json.dumps(settings))
    ended = home_in(tmp_path).run("config", "check")
    assert (ended.code, said in ended.err) == (2, True), ended.err


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (
            "from twinraven import tool\n@tool(effect='red')\ndef f() -> int: return 1",
            "use one of read, write, unknown",
        ),
        ("def f(:", "'bad_tools' raised SyntaxError"),
        (
            "\n1 / 0",
            "'bad_tools' raised ZeroDivisionError when it was imported: division by zero (bad_tools.py, line 2)",
        ),
    ],
)
def test_a_mistake_in_a_tool_module_is_the_users(tmp_path: Path, module: str, said: str) -> None:
    """It is bad input that names module, file and line, not a fault of TwinRaven."""
    (tmp_path / "bad_tools.py").write_text(module)
    (tmp_path / "twinraven.yaml").write_text(json.dumps({"tools": {"modules": ["bad_tools"]}}))
    ended = home_in(tmp_path).run("tools", "list")
    assert (ended.code, said in ended.err) == (2, True), ended.err


def test_a_bare_decorator_declares_a_tool(tmp_path: Path) -> None:
    """`@tool` without parentheses works, and the function stays the function it was."""
    (tmp_path / "my_tools.py").write_text(
        "from twinraven import tool\n@tool\ndef add(a: int) -> int: return a + 1\nadd(1)"
    )
    (tmp_path / "twinraven.yaml").write_text(json.dumps({"tools": {"modules": ["my_tools"]}}))
    assert home_in(tmp_path).json("call", "add", "--param", "a=2") == 3
