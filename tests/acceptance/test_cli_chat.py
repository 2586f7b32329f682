"""`twinraven chat` and `twinraven conversations` at the terminal, with a scripted model."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.acceptance.cli import COMMAND, Shell, home_in

SCRIPT = """
- when: {contains: "in short"}
  say: On Tuesday.
- when: {contains: "bell"}
  say: "ring \\u0007 \\u001b[2J"
- when: {contains: "slowly"}
  say: A word, and then many others that nobody will ever read to their end, because they come one by one.
  piece_chars: 6
  pause_s: 1
  times: 1
- say: The order ships on Tuesday, because the depot is closed on Monday.
"""
LONG = "The order ships on Tuesday, because the depot is closed on Monday."


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    shell = home_in(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = [str(COMMAND), "model", "serve", "script.yaml", "--http", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        serving, cwd=tmp_path, env=shell.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as model:
        try:
            assert model.stdout is not None
            assert f"http://127.0.0.1:{port}" in model.stdout.readline()
            settings = {
                "model": {"name": "scripted", "url": f"http://127.0.0.1:{port}/v1"},
                "connectors": {"allow_private": ["127.0.0.1"]},
                "engine": {"poll_s": 0.05, "lease_s": 2.0},
            }
            (tmp_path / "twinraven.yaml").write_text(json.dumps(settings))
            yield shell
        finally:
            model.terminate()


@pytest.mark.req("AD-16", "AD-17", "AD-18", "AD-19", "AD-22")
def test_a_conversation_with_branches(shell: Shell) -> None:
    """Lines are answered; edits, retries, switches, quotes and forks are commands; the memory is shown item by item."""
    lines = [
        "When does my order ship?",
        "/edit When does it ship, in short?",
        "/turns",
        "/retry",
        "/switch 1.1",
        "/quote 1.2 And then?",
        "/memory",
        "/title Orders",
        "/fork Another way",
        "/process chat_with_tools",
        "Really?",
    ]
    said = shell.succeed("chat", stdin=("\n".join(lines) + "\n").encode())
    assert said.text.startswith(f"{LONG}\nOn Tuesday.\n1 user (2 of 2): When does it ship, in short?\n")
    assert "1.1   When does my order ship?" in said.text
    assert re.search(r"quote +\d+ +system +turn 3 quotes it", said.text)
    assert re.search(r"\d+ of 32000 tokens", said.text)
    fork, first = shell.json("conversations", "list")
    assert (first["title"], fork["title"]) == ("Orders", "Another way")
    assert fork["forked_from"]["conversation_id"] == first["id"]
    assert fork["default_process"]["process_id"] == "chat_with_tools"
    turns = shell.json("conversations", "turns", first["id"])
    answers = [turn for turn in turns if turn["speaker"] == "agent"]
    assert [len(turn["alternatives"]) for turn in answers] == [1, 2, 1]
    stale = answers[1]["alternatives"][1]
    assert stale["cache_status"] == "stale"
    assert " stale " in shell.succeed("conversations", "turns", first["id"]).text
    memory = shell.json("conversations", "memory", first["id"])
    assert memory["total_tokens"] == sum(item["tokens"] for item in memory["items"])
    assert [item["kind"] for item in memory["items"]].count("quote") == 1
    small = shell.succeed("conversations", "memory", first["id"], "--budget", "20").text
    assert "LEFT OUT" in small


@pytest.mark.req("AD-16", "AD-17", "AD-18")
def test_conversations_by_commands(shell: Shell) -> None:
    """New, say, answer, edit, switch, fork, rename, archive: each by a command, with a code where it is refused."""
    made = shell.json("conversations", "new", "--title", "One")
    said = shell.json("conversations", "say", made["id"], "When?")
    answer = shell.json("conversations", "answer", made["id"])
    assert answer["alternatives"][0]["content"] == LONG
    assert answer["alternatives"][0]["executed_by"]["process_id"] == "chat"
    edited = shell.json("conversations", "edit", made["id"], said["id"], "When, in short?")
    again = shell.json("conversations", "edit", made["id"], answer["id"])
    assert again["alternatives"][1]["content"] == "On Tuesday."
    first = edited["alternatives"][0]["id"]
    refused = shell.run("conversations", "switch", made["id"], answer["id"], first, "--output", "json")
    assert (refused.code, json.loads(refused.err)["error"]["details"]["field"]) == (2, "alternative_id")
    shell.succeed("conversations", "rename", made["id"], "Two")
    shell.succeed("conversations", "process", made["id"], "chat_with_tools")
    assert shell.json("conversations", "archive", made["id"])["status"] == "archived"
    late = shell.run("conversations", "fork", made["id"], "--output", "json")
    assert json.loads(late.err)["error"]["code"] == "CONVERSATION_ARCHIVED"
    assert shell.json("conversations", "unarchive", made["id"])["status"] == "active"
    shown = shell.json("conversations", "show", made["id"])
    assert shown["title"] == "Two"
    assert next(turn["speaker"] for turn in shown["path"]) == "user"


@pytest.mark.req("AD-17")
def test_an_answer_that_was_cut_off_is_made_before_the_next(shell: Shell) -> None:
    """A chat that is killed in the middle of an answer leaves it to the next one, which then goes on."""
    begun = [str(COMMAND), "chat", "-m", "Tell me slowly"]
    with subprocess.Popen(begun, cwd=shell.folder, env=shell.environment(), stdout=subprocess.PIPE) as chat:
        assert chat.stdout is not None
        assert chat.stdout.read(6) == b"A word"
        chat.kill()
    said = shell.succeed("chat", "--last", "-m", "And in short?")
    assert said.text.startswith("1 user: Tell me slowly\n2 agent: generating\n")
    assert said.text.endswith(f"{LONG}\nOn Tuesday.\n")
    assert "waiting" in said.err
    [talk] = shell.json("conversations", "list")
    turns = shell.json("conversations", "turns", talk["id"])
    assert [[each["state"] for each in turn["alternatives"]] for turn in turns] == [["done"]] * 4


def test_what_a_model_says_cannot_take_the_terminal_over(shell: Shell) -> None:
    """Control characters are shown escaped, and an unknown command says so."""
    said = shell.run("chat", stdin=b"bell\n/nothing\n")
    assert said.code == 1
    assert "\\x1b[2J" in said.text
    assert "\x1b" not in said.text
    assert "/help" in said.err


def test_without_a_model_chat_says_how_to_configure_one(tmp_path: Path) -> None:
    """Exit code and words say what is missing, and nothing is begun."""
    shell = home_in(tmp_path)
    refused = shell.run("chat", "-m", "hello")
    assert refused.code != 0
    assert "model.name" in refused.err
    assert shell.json("conversations", "list") == []
