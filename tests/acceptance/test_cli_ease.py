"""What a person meets in the first hour at the terminal: mistakes on purpose, narrow windows, Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.cli import COMMAND, Shell, call, calls_file, heed_interrupts, home_in
from tools.requirements import ROOT
from twinraven import open_home
from twinraven.cli import main
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn import find_traces

_CHAIN = ("search_customer_by_email", "load_customer_with_contracts", "get_invoice_of_customer")


def _wide(shell: Shell) -> None:
    """A home whose names are as long as real ones, with more events than any table shows."""
    calls = [
        call(f"{session:032x}", number, tool, user_before="look" if number == 1 else None)
        for session in range(200)
        for number, tool in enumerate(_CHAIN, start=1)
    ]
    shell.succeed("import", str(calls_file(shell.folder / "wide.jsonl", calls)))


def _on_a_terminal(shell: Shell, *arguments: str) -> str:
    """What a command prints on a terminal of 80 columns, without colours."""
    main, side = pty.openpty()
    environment = {**shell.environment(), "COLUMNS": "80", "NO_COLOR": "1"}
    with subprocess.Popen([str(COMMAND), *arguments], cwd=shell.folder, env=environment, stdout=side, stderr=side):
        os.close(side)
        parts: list[bytes] = []
        # A terminal nobody writes to any more is an error on Linux, and the end elsewhere.
        with suppress(OSError):
            while part := os.read(main, 65_536):
                parts.append(part)
        os.close(main)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_tables_keep_what_one_needs_at_80_columns(tmp_path: Path) -> None:
    """Names that begin alike can be told apart, ids can be used, and no line is wider than the terminal."""
    shell = home_in(tmp_path)
    _wide(shell)
    shell.succeed("mine")
    chains = _on_a_terminal(shell, "chains", "list")
    events = _on_a_terminal(shell, "events", "list", "--limit", "5")
    for table in (chains, events):
        assert max(map(len, table.splitlines())) <= 80, table
    rows = [line.split("  ") for line in chains.splitlines()[1:]]
    assert len({row[1] for row in rows}) == len(rows) > 2
    event = events.splitlines()[1].split()[-1]
    assert re.fullmatch(r"[0-9a-f]{8}", event)
    assert shell.json("events", "show", event)["event_id"].startswith(event)


def test_a_short_id_finds_old_events_too(tmp_path: Path) -> None:
    """The beginning of any event's id is enough, however many came later."""
    shell = home_in(tmp_path)
    _wide(shell)
    oldest = shell.json("events", "list", "--oldest", "--limit", "1")[0]["event_id"]
    newest = shell.json("events", "list", "--limit", "1")[0]["event_id"]
    assert oldest != newest
    assert shell.json("events", "show", oldest[:9])["event_id"] == oldest


def test_a_whole_session_id_wins_over_those_that_begin_with_it(tmp_path: Path) -> None:
    """`ticket-1` is shown, although `ticket-10` to `ticket-15` came later."""
    shell = home_in(tmp_path)
    calls = [call("ticket-1", 1), *(call(f"ticket-1{last}", 1) for last in range(6))]
    shell.succeed("import", str(calls_file(tmp_path / "some.jsonl", calls)))
    assert shell.json("sessions", "show", "ticket-1")[0]["session_id"] == "ticket-1"


def test_tables_state_no_time_and_no_outcome_that_nobody_gave(tmp_path: Path) -> None:
    """Imported calls without times show none, and a session shows no outcome until somebody judged it."""
    shell = home_in(tmp_path)
    shell.succeed("import", str(calls_file(tmp_path / "some.jsonl", [call("s1", 1), call("s1", 2)])))
    assert shell.succeed("sessions", "list").text.splitlines()[1].split()[:5] == ["s1", "-", "2", "0", "-"]
    assert shell.succeed("events", "list").text.splitlines()[1].split()[:4] == ["-", "s1", "get_order", "-"]
    shell.succeed("sessions", "verdict", "s1", "partial")
    assert shell.succeed("sessions", "list").text.splitlines()[1].split()[4] == "partial"


_ASKED = (("--json", "status"), ("status", "--json"), ("--output", "json", "status"), ("-o", "json", "status"))


@pytest.mark.parametrize("words", _ASKED)
def test_json_can_be_asked_for_anywhere(tmp_path: Path, words: tuple[str, ...]) -> None:
    """`--json` and `--output json` are understood before and behind the command."""
    assert home_in(tmp_path).succeed(*words).json["sessions"] == 0


def test_a_day_may_end_with_z(tmp_path: Path) -> None:
    """`--since 2026-11-01Z` is that day."""
    assert home_in(tmp_path).json("sessions", "list", "--since", "2026-11-01Z") == []


def test_without_unicode_chains_are_drawn_in_ascii(tmp_path: Path) -> None:
    """Under a C locale an arrow is `->`."""
    shell = home_in(tmp_path)
    _wide(shell)
    shell.succeed("mine")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    said = shell.succeed("chains", "list", env=plain).text
    assert f"{_CHAIN[0]} -> {_CHAIN[1]}" in said
    assert "?" not in said


def test_config_check_names_what_keeps_servers_and_modules_from_working(tmp_path: Path) -> None:
    """A program that is not there, a secret nobody set and a module that cannot be imported are refused, with a fix."""
    shell = home_in(tmp_path)
    server = {"command": "python3", "env": {"TOKEN": "${secret:git-token}"}}
    servers = {"git": server, "gone": {"command": "no-such-program"}}
    (tmp_path / ".twinraven" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    checked = shell.run("config", "check")
    assert checked.code == 2
    assert "no secret 'git-token'" in checked.err
    assert "no program 'no-such-program'" in checked.err
    assert "fix: twinraven secrets set git-token" in checked.err
    status = {row["server"]: row for row in shell.run("gateway", "status", "--output", "json").json}
    assert {name: row["state"] for name, row in status.items()} == {"git": "broken", "gone": "broken"}
    doctor = shell.run("doctor", "--fast", "--output", "json")
    assert {row["check"] for row in doctor.json if row["status"] == "broken"} == {"server git", "server gone"}
    shell.succeed("secrets", "set", "git-token", stdin=b"a-long-value")
    (tmp_path / ".twinraven" / "mcp.json").write_text(json.dumps({"mcpServers": {"git": server}}))
    assert shell.json("config", "check")["valid"] is True
    assert shell.json("gateway", "status")[0]["state"] == "not started"
    (tmp_path / "twinraven.yaml").write_text("tools:\n  modules: [no_such_module]\n")
    assert shell.run("config", "check").code == 2


def test_a_secret_too_short_to_redact_is_warned_of(tmp_path: Path) -> None:
    """Whoever sets a short value is told at once."""
    shell = home_in(tmp_path)
    assert "never be redacted" in shell.succeed("secrets", "set", "pin", stdin=b"1234567").err
    assert "redacted" not in shell.succeed("secrets", "set", "key", stdin=b"12345678").err


def test_users_get_another_role_and_are_shut_out_by_name(tmp_path: Path) -> None:
    """`users role`, `disable` and `enable` take a name; an unknown one is refused with the command that lists them."""
    shell = home_in(tmp_path)
    shell.succeed("users", "add", "alice")
    assert shell.json("users", "role", "alice", "approver")["role"] == "approver"
    assert shell.json("users", "disable", "alice")["active"] is False
    assert shell.json("users", "enable", "alice")["active"] is True
    unknown = shell.run("users", "disable", "bob")
    assert (unknown.code, "fix: twinraven users list" in unknown.err) == (2, True)


def test_gateway_init_names_the_files_of_known_clients(tmp_path: Path) -> None:
    """Files of MCP clients are named with the command that takes them over, servers of single projects included."""
    project, user = tmp_path / "project", tmp_path / "user"
    project.mkdir()
    shell = Shell(project, {"HOME": str(user)})
    shell.succeed("init")
    (user / ".cursor").mkdir(parents=True)
    (user / ".cursor" / "mcp.json").write_text('{"mcpServers": {}}')
    claude = {"projects": {"/p/a": {"mcpServers": {"git": {"command": "mcp-server-git"}}}}}
    (user / ".claude.json").write_text(json.dumps(claude))
    said = shell.succeed("gateway", "init").text
    assert f"twinraven gateway init --from {user}/.cursor/mcp.json   # Cursor" in said
    assert f"--from {user}/.claude.json   # Claude Code" in said
    taken = shell.json("gateway", "init", "--from", str(user / ".claude.json"))
    assert taken["servers"] == ["git"]
    assert taken["left_out"] == ["git: that it is for project /p/a alone"]


def test_the_log_can_be_json_at_a_level_of_ones_choice(tmp_path: Path) -> None:
    """With `--log-format json` each record is an object; below the level nothing is logged."""
    (tmp_path / "noisy.py").write_text(
        "import logging\nfrom twinraven import tool\n\n@tool\ndef shout() -> dict:\n    '''Shout.'''\n"
        "    logging.getLogger('mine').info('hello %s', 'there', extra={'order': 7})\n    return {}\n"
    )
    (tmp_path / "twinraven.yaml").write_text("tools:\n  modules: [noisy]\n")
    shell = home_in(tmp_path)
    assert "hello" not in shell.succeed("call", "shout").err
    said = shell.succeed("call", "shout", "--log-level", "info", "--log-format", "json").err
    record = next(each for each in map(json.loads, said.splitlines()) if each["logger"] == "mine")
    assert (record["message"], record["level"], record["order"]) == ("hello there", "info", 7)


def test_a_home_can_be_named_by_a_text(tmp_path: Path) -> None:
    """`open_home("project")` opens the home of that project."""
    home_in(tmp_path)
    with open_home(str(tmp_path)) as raven:
        assert raven.home == tmp_path / ".twinraven"


_STUCK = """
import re
import twinraven.foundation.event_loop as loop


def stuck(coroutine):
    coroutine.close()
    print("stuck", flush=True)
    re.match("(a*)*b", "a" * 40)


loop.run_to_end = stuck
"""


def test_ctrl_c_ends_a_command_that_computes(tmp_path: Path) -> None:
    """A command inside a call of C that would take years is gone soon after Ctrl-C, with exit code 130."""
    home_in(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(_STUCK)
    started = subprocess.Popen(
        [str(COMMAND), "learn"],
        cwd=tmp_path,
        env={**Shell(tmp_path).environment(), "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - no threads here
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"stuck\n"
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=300)
    assert (started.returncode, err) == (130, b"twinraven: interrupted\n")


_TOLD_TWICE = """
import signal, threading
from twinraven.cli import interrupts

leaving = interrupts._Leaving("")
leaving._first.acquire()
leaving.on_signal(signal.SIGINT, None)
print("goes on")
"""


def test_ctrl_c_that_two_threads_notice_ends_the_command() -> None:
    """The thread that came first may wait for the interpreter, which the other must not take back to what it did."""
    ended = subprocess.run([sys.executable, "-c", _TOLD_TWICE], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


_ENDLESS = """
import threading

from twinraven import tool


@tool(effect="read")
def wait() -> str:
    print("waiting", flush=True)
    threading.Event().wait()
    return "never"
"""
_WAITING_PROCESS = """
id: patience
name: Patience
description: Waits.
steps: [{id: first, tool: wait, inputs: {}, output: {variable: said}}]
"""


@pytest.mark.parametrize("arguments", [("call", "wait"), ("process", "run", "patience")])
def test_ctrl_c_ends_a_command_whose_tool_goes_on(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A tool that is a plain function cannot be stopped, and nobody waits for it."""
    home_in(tmp_path)
    (tmp_path / "endless_tools.py").write_text(_ENDLESS)
    (tmp_path / "twinraven.yaml").write_text("tools:\n  modules: [endless_tools]\nengine:\n  drain_s: 0\n")
    if arguments[0] == "process":
        (tmp_path / "patience.yaml").write_text(_WAITING_PROCESS)
        assert Shell(tmp_path).run("process", "save", "patience.yaml").code == 0
    started = subprocess.Popen(
        [str(COMMAND), *arguments],
        cwd=tmp_path,
        env=Shell(tmp_path).environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - no threads here
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"waiting\n"
    started.send_signal(signal.SIGINT)
    try:
        said, _ = started.communicate(timeout=60)
    finally:
        started.kill()
    assert (started.returncode, said) == (130, b"twinraven: interrupted\n")


_OUTLIVING = """
import atexit
import threading

atexit.register(print, "tools are done", flush=True)
threading.Thread(target=threading.Event().wait).start()
"""


@pytest.mark.parametrize(
    ("arguments", "sign"),
    [
        (("up", "--http", "127.0.0.1:{port}"), b"/mcp"),
        (("gateway", "--http", "127.0.0.1:{port}"), b"listening"),
        (("worker",), b"is up"),
    ],
)
def test_ctrl_c_ends_what_serves_whatever_threads_its_tools_left(
    arguments: tuple[str, ...], sign: bytes, tmp_path: Path
) -> None:
    """A server closes what it has open, runs what tools registered for the end, and waits for no thread of theirs."""
    home_in(tmp_path)
    (tmp_path / "lasting_tools.py").write_text(_OUTLIVING)
    (tmp_path / "twinraven.yaml").write_text("tools:\n  modules: [lasting_tools]\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = subprocess.Popen(
        [str(COMMAND), *(each.format(port=port) for each in arguments)],
        cwd=tmp_path,
        env=Shell(tmp_path).environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - no threads here
    )
    assert started.stderr is not None
    said = b""
    while sign not in said:
        line = started.stderr.readline()
        assert line, said
        said += line
    started.send_signal(signal.SIGINT)
    try:
        out, err = started.communicate(timeout=100)
    finally:
        started.kill()
    assert (started.returncode, out, err) == (0, b"tools are done\n", b"")


def test_ctrl_c_before_a_command_begins_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody who presses it while the command is still being loaded is told the same as later."""

    class Pressed:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "twinraven.cli.exits":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "twinraven.cli.exits", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Pressed(), *sys.meta_path])
    assert main(["--version"]) == 130
    assert capsys.readouterr().err == "twinraven: interrupted\n"


def _widest(text: str) -> int:
    """The longest line that could be broken: no command, and no path."""
    lines = re.split(r"[\r\n]", text)
    return max(len(line) for line in lines if "twinraven " not in line and "/" not in line)


def test_doctor_cuts_nothing_on_a_narrow_terminal(tmp_path: Path) -> None:
    """Each finding and each fix can be read whole at 80 columns, and the extras take two rows."""
    said = _on_a_terminal(Shell(tmp_path), "doctor")
    assert "…" not in said
    assert "fix: twinraven init" in said
    assert 1 <= len([line for line in said.splitlines() if "info" in line]) <= 2
    assert _widest(said) <= 80


def test_what_is_said_is_broken_between_words(tmp_path: Path) -> None:
    """Errors, reasons and reviews fit the terminal; a command to copy stays on its line."""
    shell = home_in(tmp_path)
    shell.succeed("import", str(ROOT / "examples" / "traces" / "mytraces.jsonl.gz"))
    tool = "search_customer_load_customer_get_invoice_each"
    learned = _on_a_terminal(shell, "learn")
    review = _on_a_terminal(shell, "approve", tool)
    refused = _on_a_terminal(shell, "--home", "/no/such/folder/" + "deep/" * 10, "status")
    backtest = _on_a_terminal(shell, "backtest")
    assert f"{tool}: search_customer," in learned
    assert "nobody declared its tools" in review
    for text in (learned, review, backtest):
        assert _widest(text) <= 80, text
    error, _, fix = refused.strip().rpartition("\n")
    assert len(error.splitlines()) > 1
    assert fix.startswith("fix: twinraven init /no/such")


def test_ascii_tables_are_aligned(tmp_path: Path) -> None:
    """Where an arrow takes two characters, the columns behind it still stand below each other."""
    shell = home_in(tmp_path)
    _wide(shell)
    shell.succeed("mine")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    heading, *rows = shell.succeed("chains", "list", env=plain).text.splitlines()
    end = heading.index("SESSIONS") + len("SESSIONS")
    assert {row[:end].split()[-1] for row in rows} == {"200"}


def test_a_file_of_no_known_format_is_told_in_two_short_lines(tmp_path: Path) -> None:
    """What was seen, and what could be read."""
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    told = Shell(tmp_path).run("backtest", "x.csv")
    error, fix = told.err.splitlines()
    assert (told.code, error) == (
        2,
        "twinraven: error: no known format of traces was recognised; the first line is not JSON, it begins with 'a'",
    )
    assert fix.startswith("fix: export it as JSON of a format known (otlp, langfuse,")
    assert '"session_id"' in fix


def test_sessions_that_several_files_tell_of_count_once(tmp_path: Path) -> None:
    """Importing a folder with copies of a file says how many sessions there are."""
    shell = home_in(tmp_path)
    for name in ("one.jsonl", "two.jsonl"):
        calls_file(tmp_path / name, [call("s1", 1), call("s2", 1)])
    report = shell.json("import", "one.jsonl", "two.jsonl")
    assert (report["sessions"], report["events"], report["duplicates"]) == (2, 2, 2)


def test_a_short_id_that_means_several_says_so(tmp_path: Path) -> None:
    """No count is stated that was not counted."""
    shell = home_in(tmp_path)
    shell.succeed("import", str(calls_file(tmp_path / "some.jsonl", [call(f"ticket-{n}", 1) for n in range(9)])))
    assert "more than one session begins with 'ticket-', such as " in shell.run("sessions", "show", "ticket-").err


def test_an_event_shows_no_outcome_that_nobody_stated(tmp_path: Path) -> None:
    """`partial` in the record reads as `-` for people, as in lists."""
    shell = home_in(tmp_path)
    shell.succeed("import", str(calls_file(tmp_path / "some.jsonl", [call("s1", 1)])))
    event = shell.json("events", "list")[0]
    assert event["outcome"] == "partial"
    assert "outcome          -" in shell.succeed("events", "show", event["event_id"]).text


def test_a_damaged_database_is_named_with_what_mends_it(tmp_path: Path) -> None:
    """The file that is damaged is named, and the command that puts a copy back."""
    shell = home_in(tmp_path)
    (tmp_path / ".twinraven" / "twinraven.db").write_bytes(b"garbage" * 1000)
    told = shell.run("sessions", "list")
    assert told.code == 3
    assert f"fix: {tmp_path / '.twinraven' / 'twinraven.db'} is damaged" in told.err


@pytest.mark.parametrize("command", ["up", "gateway"])
def test_a_port_that_is_taken_is_known_before_anything_is_started(tmp_path: Path, command: str) -> None:
    """One line says so; no MCP server was started for nothing."""
    shell = home_in(tmp_path)
    started = tmp_path / "started"
    server = {"command": "sh", "args": ["-c", f"touch {started}; sleep 60"]}
    (tmp_path / ".twinraven" / "mcp.json").write_text(json.dumps({"mcpServers": {"one": server}}))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = shell.run(command, "--http", str(taken.getsockname()[1]))
    assert (told.code, len(told.err.splitlines()), started.exists()) == (2, 1, False)
    assert "Address already in use; choose another with --http" in told.err


def test_a_file_that_may_not_be_reached_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on the way that may not be entered is told like a file that is not there."""

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(InvalidInput, match=r"cannot read .*x\.jsonl: Permission denied"):
        find_traces([str(tmp_path / "x.jsonl")])
