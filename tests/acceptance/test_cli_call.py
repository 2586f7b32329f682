"""Calling tools from a shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.cli import Shell, home_in

TOOLS = '''
from __future__ import annotations
import asyncio, os, pathlib, signal, time
from twinraven import tool

@tool(effect="read")
def get_order(order_id: str, with_items: bool = False) -> dict[str, object]:
    """Read an order."""
    if order_id == "gone":
        raise KeyError(order_id)
    print("looking it up")
    return {"order_id": order_id, "with_items": with_items, "huge": 2**70}

@tool(effect="read")
async def add(left: int, right: int = 1) -> int:
    """Add two numbers."""
    return left + right

@tool(effect="write")
def ship(order_id: str) -> str:
    """Send an order."""
    with pathlib.Path("shipped.txt").open("a") as log:
        log.write(order_id + "\\\\n")
    return "sent " + order_id

@tool(effect="read")
def interrupt() -> str:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)
    return "never"
'''


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home whose project declares four tools."""
    (tmp_path / "desk_tools.py").write_text(TOOLS.replace("\\\\n", "\\n"))
    (tmp_path / "twinraven.yaml").write_text("tools:\n  modules: [desk_tools]\n")
    return home_in(tmp_path)


def test_tools_are_listed_with_what_they_can_do(shell: Shell) -> None:
    """The catalogue says of each tool its effect and who said so."""
    listed = {entry["tool_id"]: entry for entry in shell.json("tools", "list")}
    assert sorted(listed) == ["add", "get_order", "interrupt", "ship"]
    assert (listed["ship"]["effect"], listed["ship"]["effect_origin"]) == ("write", "declared")
    assert "Read an order." in shell.succeed("tools", "list").text
    assert shell.json("tools", "show", "add")["input_schema"]["required"] == ["left"]
    assert '"left"' in shell.succeed("tools", "show", "add").text


def test_an_unknown_tool_is_not_found_and_a_near_one_is_offered(shell: Shell) -> None:
    """A misspelt tool is bad input with a suggestion, for `call` and for `tools show`."""
    for arguments in (("call", "get_ordr"), ("tools", "show", "get_ordr")):
        ended = shell.run(*arguments)
        assert ended.code == 2
        assert "did you mean get_order?" in ended.err


def test_without_tools_the_list_says_where_to_name_them(tmp_path: Path) -> None:
    """An empty catalogue is no error, and people are told how to fill it."""
    ended = home_in(tmp_path).succeed("tools", "list")
    assert ended.out == b""
    assert "tools.modules" in ended.err


def test_arguments_come_as_json_from_the_line_a_file_or_stdin(shell: Shell) -> None:
    """All three ways give the same call, and the output is printed as JSON."""
    (shell.folder / "params.json").write_text('{"left": 40, "right": 2}')
    assert shell.succeed("call", "add", "--params", '{"left": 40, "right": 2}').json == 42
    assert shell.succeed("call", "add", "--params", "@params.json").json == 42
    assert shell.succeed("call", "add", "--params", "-", stdin=b'{"left": 40, "right": 2}').json == 42
    assert shell.succeed("call", "add", "--params", '{"left": 1}', "--param", "left=41").json == 42


def test_single_arguments_have_the_type_the_tool_asks_for(shell: Shell) -> None:
    """A text stays a text however much it looks like a number; everything else is read as JSON; big numbers survive."""
    output = shell.succeed("call", "get_order", "--param", "order_id=007", "--param", "with_items=true").json
    assert output == {"order_id": "007", "with_items": True, "huge": 2**70}


@pytest.mark.req("CH-09")
def test_the_envelope_is_printed_whole(shell: Shell) -> None:
    """With --envelope the response has status, payload, error, audit times and cost, in success and in failure."""
    response = shell.succeed("call", "add", "--param", "left=1", "--envelope").json
    assert (response["status"], response["payload"], response["error"]) == ("success", {"result": 2}, None)
    assert response["audit"]["started_at"] <= response["audit"]["finished_at"]
    assert response["audit"]["cost_estimate"].keys() == {"tokens", "currency", "amount"}
    failed = shell.run("call", "get_order", "--param", "order_id=gone", "--envelope")
    assert (failed.code, failed.json["status"], failed.json["error"]["code"]) == (1, "failed", "TOOL_FAILED")


@pytest.mark.req("TR-01")
def test_every_call_is_in_the_log_whatever_came_of_it(shell: Shell) -> None:
    """Success, failure and refused arguments each leave one event in the named session."""
    shell.succeed("call", "add", "--param", "left=1", "--session", "s", "--turn", "4")
    assert shell.run("call", "get_order", "--param", "order_id=gone", "--session", "s").code == 1
    assert shell.run("call", "add", "--param", "left=many", "--session", "s").code == 2
    events = shell.json("sessions", "show", "s")
    assert [(event["tool_id"], event["raised"], event["error_code"]) for event in events] == [
        ("add", False, None),
        ("get_order", True, "TOOL_FAILED"),
        ("add", True, "VALIDATION_FAILED"),
    ]
    assert events[0]["turn"] == 4


def test_calls_without_a_session_do_not_share_one(shell: Shell) -> None:
    """Each call that names no session gets one of its own."""
    shell.succeed("call", "add", "--param", "left=1")
    shell.succeed("call", "add", "--param", "left=1")
    assert [item["event_count"] for item in shell.json("sessions", "list")] == [1, 1]


def test_a_write_under_one_key_happens_once(shell: Shell) -> None:
    """A second call with the key gets the first one's answer; without a key a write gets one of its own."""
    for _ in range(2):
        assert shell.succeed("call", "ship", "--param", "order_id=1", "--key", "k").json == "sent 1"
    replayed = shell.succeed("call", "ship", "--param", "order_id=1", "--key", "k", "--envelope").json
    assert replayed["replayed"] is True
    shell.succeed("call", "ship", "--param", "order_id=2")
    assert (shell.folder / "shipped.txt").read_text() == "1\n2\n"
    other = shell.run("call", "ship", "--param", "order_id=3", "--key", "k", "--output", "json")
    assert other.code == 1
    assert json.loads(other.err)["error"]["code"] == "IDEMPOTENCY_CONFLICT"


def test_bad_arguments_are_named(shell: Shell) -> None:
    """What is not JSON, not an object, not NAME=VALUE or not readable ends with 2 before anything is called."""
    for arguments in (
        ("--params", "{"),
        ("--params", "[1]"),
        ("--params", "@nowhere.json"),
        ("--param", "left"),
        ("--param", "=1"),
        ("--param", "left=1", "--turn", "0"),
        ("--param", "left=1", "--session", ""),
        ("--param", "left=1", "--session", "a\nb"),
    ):
        ended = shell.run("call", "add", *arguments)
        assert (ended.code, ended.out) == (2, b""), arguments
        assert ended.err.startswith("twinraven: error:"), arguments


def test_ctrl_c_ends_with_130(shell: Shell) -> None:
    """An interrupted call says so, without a traceback."""
    ended = shell.run("call", "interrupt")
    assert ended.code == 130
    assert "Traceback" not in ended.err
