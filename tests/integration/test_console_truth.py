"""Every figure on the console's pages is what was recorded: homes are made at random, and pages compared with them."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import pytest

from tests.api_client import Door
from tests.console_desk import fill_desk, make_desk
from tests.console_pages import Pages, console_over, links, number_at, words
from tests.console_work import fill_work, make_work_desk
from twinraven.app import TwinRaven
from twinraven.foundation.clock import iso, utc_now
from twinraven.muninn import Outcome

TOOLS = ("get_order", "get_user", "track_shipment", "odd <b>tool</b>", "issue_refund")
CODES = ("NOT_FOUND", "TIMEOUT", "BAD <i>CODE</i>")
Call = dict[str, Any]


def made_up(chance: random.Random, now: datetime) -> list[Call]:
    """Calls of some sessions within three days: some failed, some inside others, some said at once."""
    calls: list[Call] = []
    for number in range(chance.randrange(1, 14)):
        at = now - timedelta(seconds=chance.randrange(10, 3 * 86_400))
        outer: str | None = None
        for place in range(chance.randrange(1, 9)):
            call: Call = {
                "event_id": str(uuid4()),
                "session_id": f"job {number % 9}/<i>",
                "tool_id": chance.choice(TOOLS),
                "input_params": {"n": place},
                "output": {},
                "timestamp": iso(at),
                "latency_ms": chance.randrange(4_000),
                "turn": place // 2,
            }
            if chance.random() < 0.25:
                call |= {"error": "it went wrong", "error_code": chance.choice(CODES)}
            if outer is not None and chance.random() < 0.3:
                call["parent_event_id"] = outer
            else:
                outer = call["event_id"]
            calls.append(call)
            at += timedelta(milliseconds=chance.randrange(1, 90_000))
    return [each for each in calls if each["timestamp"] < iso(now)]


@asynccontextmanager
async def filled(folder: Path, seed: int) -> AsyncGenerator[tuple[Pages, TwinRaven, list[Call]]]:
    chance = random.Random(seed)
    async with console_over(make_desk(folder)) as (pages, raven):
        calls = made_up(chance, utc_now())
        door = Door(pages.door.app, {})
        if calls:
            assert (await door.post("/v1/events", {"events": calls})).status == 201
        for session in sorted({each["session_id"] for each in calls}):
            if chance.random() < 0.4:
                await raven.events.state_verdict("default", session, chance.choice(list(Outcome)), stated_by="local")
        if chance.random() < 0.6:
            # Whether the roll-up was brought up or not, no figure may differ.
            await raven.activity.fold("default")
        yield pages, raven, calls


def rows(markup: str, label: str) -> list[list[str]]:
    """The cells of a table's rows as a reader hears them, by a word in the table's head."""
    for table in re.findall(r"<table[^>]*>.*?</table>", markup, re.DOTALL):
        head = re.search(r"<thead>(.*?)</thead>", table, re.DOTALL)
        if head is not None and label in words(head[1]):
            body = table.partition("<tbody")[2]
            return [
                [words(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)]
                for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
            ]
    return []


def number(text: str) -> int:
    return 0 if text == "–" else int(text.replace(",", ""))


def within(calls: list[Call], markup: str) -> list[Call]:
    """The calls in the stretch of time that a page says it counts."""
    found = re.search(r"since=([^&\"]+)&(?:amp;)?until=([^&\"]+)", markup)
    assert found is not None
    since, until = (unquote(each) for each in found.groups())
    assert timedelta(hours=23) < datetime.fromisoformat(until) - datetime.fromisoformat(since) <= timedelta(days=1)
    return [each for each in calls if since <= each["timestamp"] < until]


def check_today(markup: str, calls: list[Call]) -> None:
    day = within(calls, markup)
    assert number_at(markup, "calls-today") == len(day)
    assert number_at(markup, "sessions-today") == len({each["session_id"] for each in day})
    failed = [each for each in day if "error" in each]
    assert ("none failed" in words(markup)) is (not failed)
    if failed:
        assert number_at(markup, "failed-today") == len(failed)
    hours = Counter(each["timestamp"][:13] for each in day)
    shown = re.findall(r'aria-label="(\d\d:00) UTC: (\d+) call', markup)
    assert {hour: int(count) for hour, count in shown if count != "0"} == {
        f"{hour[-2:]}:00": count for hour, count in hours.items()
    }
    tools = Counter(each["tool_id"] for each in day)
    busiest = {row[0]: number(row[1]) for row in rows(markup, "Mean")}
    assert busiest == dict(tools)
    kinds = Counter((each["tool_id"], each["error_code"]) for each in failed)
    commonest = sorted(kinds.items(), key=lambda each: (-each[1], each[0]))[:6]
    assert [((row[0], row[1]), number(row[2])) for row in rows(markup, "Code")] == commonest


def check_sessions(markup: str, calls: list[Call]) -> None:
    sessions: dict[str, list[Call]] = {}
    for each in calls:
        sessions.setdefault(each["session_id"], []).append(each)
    shown = {row[0]: row for row in rows(markup, "First words")}
    assert shown.keys() == sessions.keys()
    for name, own in sessions.items():
        row = shown[name]
        assert number(row[3]) == len(own), name
        assert number(row[4]) == sum("error" in each for each in own), name
        assert number(row[5]) == len({each["turn"] for each in own}), name
    last = sorted(sessions, key=lambda name: max(each["timestamp"] for each in sessions[name]), reverse=True)
    assert list(shown) == last


def check_session(markup: str, own: list[Call]) -> None:
    top = [each for each in own if "parent_event_id" not in each]
    head = re.search(r'<p class="facts">(.*?)</p>', markup, re.DOTALL)
    assert head is not None
    facts = words(head[1])
    assert re.search(rf"\b{len(top)} calls?\b", facts), facts
    failed = sum("error" in each for each in top)
    assert (f"{failed} failed" in facts) is bool(failed), facts
    assert markup.count('<tr id="call-') == len(own)


def check_flow(markup: str, calls: list[Call]) -> None:
    pairs: Counter[tuple[str, str]] = Counter()
    for name in {each["session_id"] for each in calls}:
        own = [each for each in calls if each["session_id"] == name and "parent_event_id" not in each]
        own.sort(key=lambda each: each["timestamp"])
        pairs.update((one["tool_id"], other["tool_id"]) for one, other in pairwise(own))
    assert {(row[0], row[1]): number(row[2]) for row in rows(markup, "comes")} == dict(pairs)


@pytest.mark.parametrize("seed", range(4))
async def test_every_figure_is_what_was_recorded(tmp_path: Path, seed: int, full_scale: bool) -> None:
    """Today, Sessions, each Session, Calls, What follows what and Tools say what was recorded, and what /v1 says."""
    for own_seed in range(seed * 10, seed * 10 + (10 if full_scale else 1)):
        async with filled(tmp_path / str(own_seed), own_seed) as (pages, _, calls):
            if calls:
                check_today(await pages.text(""), calls)
            check_sessions(await pages.text("sessions"), calls)
            for name in sorted({each["session_id"] for each in calls}):
                own = [each for each in calls if each["session_id"] == name]
                check_session(await pages.text(f"sessions/{quote(name, safe='')}"), own)
            check_flow(await pages.text("flow"), calls)
            listed = rows(await pages.text("calls"), "Arguments")
            newest = sorted(calls, key=lambda each: each["timestamp"], reverse=True)[:100]
            assert sorted(row[1] for row in listed) == sorted(each["tool_id"] for each in newest)
            tools = await pages.text("tools")
            for row in rows(tools, "Calls in a day"):
                mine = [each for each in within(calls, tools) if each["tool_id"] == row[0]]
                assert number(row[4]) == len(mine), row
                assert number(row[5]) == sum("error" in each for each in mine), row


async def test_each_figure_leads_to_what_it_counts(tmp_path: Path) -> None:
    """A kind of failure on Today and on Calls leads to exactly the calls that it counts."""
    async with filled(tmp_path, 7) as (pages, _, calls):
        at = utc_now() - timedelta(hours=2)
        about: Call = {
            "session_id": "failing",
            "input_params": {},
            "timestamp": iso(at),
            "latency_ms": 5,
            "error": "no",
        }
        more: list[Call] = [
            {**about, "tool_id": tool, "error_code": code} for tool in TOOLS[:2] for code in CODES[:2] for _ in range(2)
        ]
        assert (await Door(pages.door.app, {}).post("/v1/events", {"events": more})).status == 201
        calls.extend(more)
        for page in ("", "calls"):
            markup = await pages.text(page)
            failed = [each for each in within(calls, markup) if "error" in each]
            found = [each for each in links(markup) if each.startswith("/console/calls?") and "error_code=" in each]
            counts = Counter[tuple[str, str]]()
            for href in dict.fromkeys(each for each in found if "since=" in each):
                listed = rows((await pages.door.get(href)).body.decode(), "Arguments")
                counts.update((row[1], row[2]) for row in listed)
            assert counts == Counter((each["tool_id"], each["error_code"]) for each in failed), page
            assert counts.total() >= len(more), page


async def test_what_waits_is_counted_in_full(tmp_path: Path) -> None:
    """Where more waits than a page shows, every count is of all of it, and the page says how much it shows."""
    async with console_over(make_desk(tmp_path)) as (pages, raven):
        pins = [
            {"name": f"tool{each}", "description": "Once", "inputSchema": {"type": "object"}} for each in range(203)
        ]
        await raven.upstream_tools.observe("default", "town", pins)
        await raven.upstream_tools.observe("default", "town", [{**pin, "description": "Now"} for pin in pins])
        shown = await pages.text("review")
        assert "everything 203" in words(shown)
        assert "changed upstream tools 203" in words(shown)
        assert "The 200 that wait longest, of 203." in words(shown)
        assert shown.count('<li class="waits-') == 200


async def test_figures_of_work_are_those_of_the_api(tmp_path: Path) -> None:
    """Review, Runs, Goals, Entities, Chains, Learned tools, Conversations and the audit log say what /v1 says."""
    home = make_work_desk(tmp_path)
    await asyncio.to_thread(fill_desk, home, sessions=60)
    await asyncio.to_thread(fill_work, home)
    async with console_over(home) as (pages, _):

        async def ask(path: str) -> list[dict[str, Any]]:
            return (await pages.door.get(f"/v1/{path}")).json()["items"]

        waiting = await ask("inbox?limit=500")
        review = await pages.text("review")
        kinds = Counter(each["kind"] for each in waiting)
        told = {
            key: int(count)
            for key, count in re.findall(r'review\?kind=(\w+)"[^>]*>[^<]*<span class="num">(\d+)', review)
        }
        assert told == dict(kinds)
        assert review.count('<li class="waits-') == len(waiting)
        runs = await ask("runs?limit=100")
        listed = rows(await pages.text("runs"), "Run of")
        assert sorted(row[1].split()[0] for row in listed) == sorted(each["state"] for each in runs)
        assert [number(row[-1]) for row in listed] == [each["epoch"] for each in runs]
        goals = await pages.text("goals")
        states = Counter(each["status"] for each in await ask("tasks?limit=500"))
        board = re.findall(r'<h3>([\w ]+) <span class="count">(\d+)</span>', goals)
        assert {name.replace(" ", "_"): int(count) for name, count in board} == dict(states)
        wallets = [(each["held"], f"{each['balance']} {each['currency']}") for each in await ask("wallets?limit=100")]
        assert [(row[3], row[4]) for row in rows(goals, "Held")] == wallets
        entities = {
            each["name"]: each["mentions"] for each in await ask("entities?limit=100") if "<" not in each["name"]
        }
        seen = {row[0]: number(row[3]) for row in rows(await pages.text("entities"), "Mentions")}
        assert entities.items() <= seen.items()
        chains = sorted((f"{each['support']:.0%}", f"{each['confidence']:.0%}") for each in await ask("chains"))
        drawn = rows(await pages.text("chains"), "Tools in a row")
        assert sorted((row[1].replace(" ", ""), row[2].replace(" ", "")) for row in drawn) == chains
        learned = rows(await pages.text("learned"), "Turns saved")
        by_name = {each["tool_id"]: each["adoption"] for each in await ask("learned-tools?adoption=true")}
        assert {row[0]: number(row[3]) for row in learned} == {
            name: 0 if adoption is None else adoption["uses"] for name, adoption in by_name.items()
        }
        verified = (await pages.door.get("/v1/audit/verification")).json()
        assert f"{verified['entries']} entries" in words(await pages.text("audit?verify=1"))
