"""Habits of agents on servers of other people, behind one gateway: learned whole, and right when they are called.

The servers answer in text, in JSON inside text, in Python's repr, in Markdown and in structured content, and nobody
tells the gateway what a user said. Each habit is what a person would see at a glance.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import http.server
import json
import re
import sqlite3
import subprocess
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import mcp_types as types
import pytest
from mcp import Client

from bench.harness import peer_python
from tests.acceptance.cli import Shell
from tests.gateways import home_with, http_gateway
from tests.integration.test_gateway_fleet import npm_servers

SESSIONS: Final = 32
FRESH: Final = range(SESSIONS, SESSIONS + 3)
"""Inputs that no session had."""
_ZONES: Final = ("Europe/Paris", "Asia/Tokyo", "America/New_York", "Africa/Cairo", "Asia/Kolkata", "Europe/London")
_WORDS: Final = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "harbor")


@dataclass
class Hand:
    """An agent that makes its calls one by one, and what it made."""

    client: Client
    world: World
    made: list[tuple[str, dict[str, Any], types.CallToolResult]] = field(
        default_factory=list[tuple[str, dict[str, Any], types.CallToolResult]]
    )

    async def call(self, tool: str, **arguments: Any) -> types.CallToolResult:
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, (tool, arguments, answer.content)
        self.made.append((tool, arguments, answer))
        return answer

    async def text(self, tool: str, **arguments: Any) -> str:
        return "\n".join(_texts(await self.call(tool, **arguments)))


@dataclass(frozen=True)
class World:
    """What the servers have to show, different for each number."""

    folder: Path
    site: str

    def directory(self, number: int) -> str:
        return str(self.folder / "files" / f"{_WORDS[number % 8]}-{number:02}")

    def repository(self, number: int) -> str:
        return str(self.folder / "git" / f"r{number}")

    def workbook(self, number: int) -> str:
        return str(self.folder / "books" / f"book{number}.xlsx")

    def make(self, count: int) -> None:
        for number in range(count):
            self._files(number)
            self._repository(number)
        self._rows(count)
        pages = self.folder / "pages"
        pages.mkdir()
        for number in range(count):
            link = f"<p>Words about {_WORDS[number % 8]}.</p><a href='/article-{number * 37}.html'>Read on</a>"
            (pages / f"index{number}.html").write_text(f"<html><body><h1>Topic {number}</h1>{link}</body></html>")
            (pages / f"article-{number * 37}.html").write_text(f"<html><body><p>Article {number}.</p></body></html>")
        nodes = [
            {"type": "entity", "name": f"{_WORDS[(number + part) % 8]}_{number}_{part}",
             "entityType": f"kind{number:02}", "observations": [f"seen in {number}"]}
            for number in range(count) for part in range(2 + number % 2)
        ]  # fmt: skip
        (self.folder / "memory.json").write_text("\n".join(map(json.dumps, nodes)))

    def _files(self, number: int) -> None:
        folder = Path(self.directory(number))
        folder.mkdir(parents=True)
        for part in range(2 + number % 3):
            (folder / f"{_WORDS[(number + part) % 8]}.txt").write_text(f"notes {number} {part}\n")
        for part in range(2 + number % 2):
            (folder / f"{_WORDS[(number + part) % 8]}-readme.md").write_text(f"# Read {number} {part}\n")

    def _repository(self, number: int) -> None:
        folder = Path(self.repository(number))
        folder.mkdir(parents=True)

        def git(*arguments: str) -> None:
            who = ("-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "commit.gpgsign=false")
            subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)

        git("init", "-q")
        for commit in range(4):
            (folder / "f.txt").write_text(f"{number} {commit}\n")
            git("add", ".")
            git("commit", "-qm", f"{_WORDS[commit]} {number}")
        (folder / "f.txt").write_text("changed\n")

    def _rows(self, count: int) -> None:
        with sqlite3.connect(self.folder / "shop.db") as database:
            database.executescript(
                "CREATE TABLE customers(id INTEGER, name TEXT); CREATE TABLE orders(id INTEGER, customer_id INTEGER);"
                "CREATE TABLE refunds(id INTEGER)"
            )
            for number in range(count):
                database.execute("INSERT INTO customers VALUES (?, ?)", (7_000 + number * 13, f"Customer {number}"))
                database.execute("INSERT INTO orders VALUES (?, ?)", (number, 7_000 + number * 13))
        database.close()


async def read_listed(hand: Hand, number: int) -> None:
    folder = hand.world.directory(number)
    for name in re.findall(r"\[FILE\] (.+)", await hand.text("files__list_directory", path=folder)):
        await hand.call("files__read_text_file", path=f"{folder}/{name}")


async def read_found(hand: Hand, number: int) -> None:
    found = await hand.text("files__search_files", path=hand.world.directory(number), pattern="*.md")
    for path in found.splitlines():
        await hand.call("files__read_text_file", path=path)


async def read_tree(hand: Hand, number: int) -> None:
    folder = hand.world.directory(number)
    for entry in json.loads(await hand.text("files__directory_tree", path=folder)):
        await hand.call("files__read_file", path=f"{folder}/{entry['name']}")


async def read_together(hand: Hand, number: int) -> None:
    folder = hand.world.directory(number)
    names = re.findall(r"\[FILE\] (.+)", await hand.text("files__list_directory", path=folder))
    await hand.call("files__read_multiple_files", paths=[f"{folder}/{name}" for name in names])


async def look_and_read(hand: Hand, number: int) -> None:
    path = str(sorted(Path(hand.world.directory(number)).iterdir())[number % 2])
    await hand.call("files__get_file_info", path=path)
    await hand.call("files__read_text_file", path=path)


async def show_commits(hand: Hand, number: int) -> None:
    folder = hand.world.repository(number)
    said = await hand.text("git__git_log", repo_path=folder, max_count=2 + number % 3)
    for revision in re.findall(r"Commit: '?([0-9a-f]{40})", said):
        await hand.call("git__git_show", repo_path=folder, revision=revision)


async def look_at_changes(hand: Hand, number: int) -> None:
    for tool in ("git_status", "git_diff_unstaged", "git_diff_staged"):
        await hand.call(f"git__{tool}", repo_path=hand.world.repository(number))


async def query_twice(hand: Hand, number: int) -> None:
    said = await hand.text("shop__read_query", query=f"SELECT id FROM customers WHERE name = 'Customer {number}'")
    customer = ast.literal_eval(said)[0]["id"]
    await hand.call("shop__read_query", query=f"SELECT * FROM orders WHERE customer_id = {customer}")


async def open_found(hand: Hand, number: int) -> None:
    found = json.loads(await hand.text("memory__search_nodes", query=f"kind{number:02}"))
    await hand.call("memory__open_nodes", names=[entity["name"] for entity in found["entities"]])


async def find_like(hand: Hand, number: int) -> None:
    found = json.loads(await hand.text("memory__open_nodes", names=[f"{_WORDS[number % 8]}_{number}_0"]))
    await hand.call("memory__search_nodes", query=found["entities"][0]["entityType"])


async def convert_now(hand: Hand, number: int) -> None:
    zone, other = _ZONES[number % 6], _ZONES[(number + 1 + number // 6 % 5) % 6]
    now = re.search(r"T(\d\d:\d\d)", await hand.text("time__get_current_time", timezone=zone))
    assert now is not None
    await hand.call("time__convert_time", source_timezone=zone, time=now[1], target_timezone=other)


async def follow_link(hand: Hand, number: int) -> None:
    link = re.search(r"\]\((\S+?)\)", await hand.text("fetch__fetch", url=f"{hand.world.site}/index{number}.html"))
    assert link is not None
    await hand.call("fetch__fetch", url=link[1] if link[1].startswith("http") else f"{hand.world.site}{link[1]}")


async def read_sheets(hand: Hand, number: int) -> None:
    book = hand.world.workbook(number)
    described = await hand.call("excel__describe_workbook", path=book)
    content = described.structured_content or json.loads(_texts(described)[0])
    for sheet in content["sheets"]:
        await hand.call("excel__read_range", path=book, sheet=sheet["name"])


HABITS: Final[dict[tuple[str, ...], Callable[[Hand, int], Awaitable[None]]]] = {
    ("files__list_directory", "files__read_text_file"): read_listed,
    ("files__search_files", "files__read_text_file"): read_found,
    ("files__directory_tree", "files__read_file"): read_tree,
    ("files__list_directory", "files__read_multiple_files"): read_together,
    ("files__get_file_info", "files__read_text_file"): look_and_read,
    ("git__git_log", "git__git_show"): show_commits,
    ("git__git_status", "git__git_diff_unstaged", "git__git_diff_staged"): look_at_changes,
    ("shop__read_query", "shop__read_query"): query_twice,
    ("memory__search_nodes", "memory__open_nodes"): open_found,
    ("memory__open_nodes", "memory__search_nodes"): find_like,
    ("time__get_current_time", "time__convert_time"): convert_now,
    ("fetch__fetch", "fetch__fetch"): follow_link,
    ("excel__describe_workbook", "excel__read_range"): read_sheets,
}


@pytest.mark.soak
async def test_habits_on_servers_of_others_become_tools_that_are_right(tmp_path: Path) -> None:
    """Of thirteen habits at least eleven are learned whole; each that is gives, for new inputs, what hands would."""
    with website(tmp_path) as site:
        world = World(tmp_path, site)
        world.make(FRESH.stop)
        shell = home_with(tmp_path, servers(tmp_path))
        with http_gateway(shell) as url:
            await _workbooks(f"{url}/mcp", world)
            await _work(f"{url}/mcp", world)
            await asyncio.to_thread(shell.succeed, "tools", "classify", "--accept-suggestions", "--yes")
            await asyncio.to_thread(shell.succeed, "tools", "classify", "shop__read_query", "read")
            await asyncio.to_thread(shell.succeed, "learn")
            learned = await asyncio.to_thread(_promote, shell)
            async with Client(f"{url}/mcp", mode="legacy") as client:
                right = [
                    tools for tools in HABITS if tools in learned and await _is_right(client, world, tools, learned)
                ]
        assert set(right) == learned.keys() & HABITS.keys(), "what is learned is right"
        assert len(right) >= 11, sorted(HABITS.keys() - set(right))


def servers(folder: Path) -> dict[str, dict[str, Any]]:
    """Seven servers of other people."""
    npm, python = npm_servers(), peer_python("mcp_servers").parent
    more, older = peer_python("mcp_servers_more").parent, peer_python("mcp_servers_old").parent
    return {
        "files": {"command": str(npm / "mcp-server-filesystem"), "args": [str(folder / "files")]},
        "memory": {"command": str(npm / "mcp-server-memory"), "env": {"MEMORY_FILE_PATH": str(folder / "memory.json")}},
        "git": {"command": str(python / "mcp-server-git")},
        "time": {"command": str(python / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "fetch": {"command": str(more / "mcp-server-fetch"), "args": ["--ignore-robots-txt", "--allow-private-ips"]},
        "excel": {"command": str(more / "excel-mcp-server"), "args": ["stdio"]},
        "shop": {"command": str(older / "mcp-server-sqlite"), "args": ["--db-path", str(folder / "shop.db")]},
    }


@contextmanager
def website(folder: Path) -> Generator[str]:
    """The pages of a world, on this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    pages = functools.partial(Quiet, directory=str(folder / "pages"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def _workbooks(url: str, world: World) -> None:
    """Let the server of workbooks make them; its own calls are no habit, as each sheet has another name."""
    (world.folder / "books").mkdir()
    async with Client(url, mode="legacy") as client:
        for number in range(FRESH.stop):
            sheets = [f"{_WORDS[(number + part) % 8]}{number}" for part in range(2 + number % 2)]
            made = await client.call_tool("excel__create_workbook", {"path": world.workbook(number), "sheets": sheets})
            assert not made.is_error, made.content


async def _work(url: str, world: World) -> None:
    for number in range(SESSIONS):
        for habit in HABITS.values():
            async with Client(url, mode="legacy") as client:
                await habit(Hand(client, world), number)


def _promote(shell: Shell) -> dict[tuple[str, ...], str]:
    """Put everything that was learned into service; says which tool is which habit."""
    learned: dict[tuple[str, ...], str] = {}
    for entry in json.loads(shell.succeed("registry", "list", "--output", "json").out):
        shell.succeed("approve", entry["tool_id"], "--promote")
        file = shell.folder / ".twinraven" / "tools" / "generated" / entry["definition_path"]
        learned[tuple(step["tool_id"] for step in json.loads(file.read_text())["steps"])] = entry["tool_id"]
    return learned


async def _is_right(client: Client, world: World, tools: tuple[str, ...], learned: dict[tuple[str, ...], str]) -> bool:
    """Whether a learned tool gives, for inputs that it never saw, what a hand gets by its last calls."""
    for number in FRESH:
        hand = Hand(client, world)
        await HABITS[tools](hand, number)
        given = dict(hand.made[0][1])
        if "target_timezone" in hand.made[-1][1]:
            given["target_timezone"] = hand.made[-1][1]["target_timezone"]
        answer = await client.call_tool(learned[tools], given)
        if answer.is_error:
            return False
        told = set(_values(answer.structured_content or json.loads(_texts(answer)[0])))
        last = [made for made in hand.made[1:] if made[0] == tools[-1]]
        if not {value for _, _, by_hand in last for text in _texts(by_hand) for value in _values(text)} <= told:
            return False
    return True


def _texts(answer: types.CallToolResult) -> list[str]:
    return [block.text for block in answer.content if isinstance(block, types.TextContent)]


def _values(value: Any) -> Iterator[str]:
    """Everything that stands anywhere in a value, JSON inside text read."""
    if isinstance(value, dict):
        yield from _values(list(cast("dict[str, Any]", value).values()))
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _values(each)
    elif isinstance(value, str) and value[:1] in "{[":
        try:
            yield from _values(json.loads(value))
        except ValueError:
            yield value.strip()
    else:
        yield str(value).strip()
