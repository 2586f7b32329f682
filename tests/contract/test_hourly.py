"""The roll-up of activity by the hour says on both stores what the log says, whatever arrives late or leaves."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.api_homes import ApiHome, Seeds, api_home, login_of, made
from twinraven.foundation.clock import iso, utc_now
from twinraven.muninn import hourly_sql as hourly
from twinraven.muninn import roll_up

NOW = utc_now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
SINCE = NOW - timedelta(days=60)
TOOLS = ("search", "read", "pay")


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


@pytest.fixture
async def ada(home: ApiHome) -> Seeds:
    return await home.tenant("ada")


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few events are folded at once, so that sessions lie on both sides of the mark."""
    monkeypatch.setattr(hourly, "AT_ONCE", 7)


def calls_of(chance: random.Random, number: int) -> list[dict[str, Any]]:
    """Calls of a few sessions at times in no order, some of them at once, inside another, or failed."""
    made_calls: list[dict[str, Any]] = []
    for _ in range(number):
        session = chance.randrange(6)
        day = 40 if session < 2 else chance.choice((0, 0, 1))
        at = NOW - timedelta(days=day, minutes=1 + chance.randrange(40) * 7)
        inner = bool(made_calls) and chance.random() < 0.2
        made_calls.append(
            {
                "event_id": str(uuid4()),
                "session_id": f"s{session}",
                "tool_id": chance.choice(TOOLS),
                "input_params": {},
                "timestamp": iso(at),
                "latency_ms": chance.choice((5, 5, 80, 300)),
                "outcome": chance.choice(("success", "success", "success", "failure", "partial")),
                "tags": chance.choice(([], [], ["night"], ["night", 'odd "tag" 100%'], ["night!", "night!"])),
                **({"parent_event_id": str(uuid4())} if inner else {}),
                **chance.choice(({}, {}, {}, {}, {"error": "no"}, {"error": "no", "error_code": "LATE"})),
            }
        )
    return made_calls


class Expected:
    """What a plain count of some calls says."""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        hours: dict[str, list[dict[str, Any]]] = {}
        self.tools: dict[str, tuple[int, int, float, int]] = {}
        self.pairs: Counter[tuple[str, str]] = Counter()
        failed = [each for each in calls if "error" in each]
        self.failures = Counter((each["tool_id"], each.get("error_code", "TOOL_FAILED")) for each in failed)
        for each in calls:
            begin = datetime.fromisoformat(each["timestamp"]).replace(minute=0, second=0, microsecond=0)
            hours.setdefault(iso(begin), []).append(each)
        self.buckets = [
            (hour, len(found), sum("error" in each for each in found), len({each["session_id"] for each in found}))
            for hour, found in sorted(hours.items())
        ]
        for tool in {each["tool_id"] for each in calls}:
            took = [each["latency_ms"] for each in calls if each["tool_id"] == tool]
            raised = sum("error" in each for each in calls if each["tool_id"] == tool)
            self.tools[tool] = (len(took), raised, sum(took) / len(took), max(took))
        for session in {each["session_id"] for each in calls}:
            own = [each for each in calls if each["session_id"] == session and "parent_event_id" not in each]
            own.sort(key=lambda each: each["timestamp"])  # stable: calls of one moment stay in the order they came in
            self.pairs.update((a["tool_id"], b["tool_id"]) for a, b in pairwise(own))


OUTCOMES = ("success", "failure", "partial")
TAGS = ("night", 'odd "tag" 100%', "night!", "nigh", "tag")


class Judged:
    """What a plain look at some calls and verdicts says of their sessions and tags."""

    def __init__(self, calls: list[dict[str, Any]], verdicts: dict[str, str]) -> None:
        self.newest: dict[str, list[str]] = {each: [] for each in OUTCOMES}
        self.tagged = {tag: {each["event_id"] for each in calls if tag in each["tags"]} for tag in TAGS}
        own: dict[str, list[tuple[str, int, str]]] = {}
        for number, each in enumerate(calls):
            own.setdefault(each["session_id"], []).append((each["timestamp"], number, each["outcome"]))
        for session, found in sorted(own.items(), key=lambda item: max(item[1]), reverse=True):
            said = {outcome for _, _, outcome in found}
            by_calls = said.pop() if len(said) == 1 else "partial"
            self.newest[verdicts.get(session, by_calls)].append(session)


async def check_judged(
    seeds: Seeds, calls: list[dict[str, Any]], verdicts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By outcome, newest first and by id, and by tag, lists hold what the calls and verdicts say, and in pages too."""
    expected = Judged(calls, verdicts)
    for most in (10**9, -1):
        monkeypatch.setattr(roll_up, "MOST_BEHIND", most)
        for outcome, sessions in expected.newest.items():
            listed = [each["session_id"] for each in await _all(seeds, f"sessions?order=newest&outcome={outcome}")]
            assert listed == sessions, (most, outcome)
            by_id = [each["session_id"] for each in await _all(seeds, f"sessions?outcome={outcome}")]
            assert by_id == sorted(sessions), (most, outcome)
        for tag, events in expected.tagged.items():
            found = await _all(seeds, f"events?newest=true&tag={quote(tag)}")
            assert {each["event_id"] for each in found} == events, (most, tag)
            assert [each["timestamp"] for each in found] == sorted((each["timestamp"] for each in found), reverse=True)


async def _all(seeds: Seeds, path: str) -> list[dict[str, Any]]:
    """All pages of a list, a few rows each."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = made(await seeds.door.get(f"/v1/{path}&limit=4{cursor}"))
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={quote(page['next_cursor'])}"


async def told(seeds: Seeds, *, since: datetime = SINCE) -> tuple[Any, ...]:
    span = f"since={iso(since)}&until={iso(NOW)}"
    activity = made(await seeds.door.get(f"/v1/activity?{span}"))
    pairs = made(await seeds.door.get(f"/v1/transitions?{span}&limit=500"))["items"]
    return (
        [(each["begins_at"], each["calls"], each["failed"], each["sessions"]) for each in activity["buckets"]],
        {
            each["tool_id"]: (each["calls"], each["raised"], each["mean_latency_ms"], each["max_latency_ms"])
            for each in activity["tools"]
        },
        {(each["from_tool"], each["to_tool"]): each["count"] for each in pairs},
        {(each["tool_id"], each["error_code"] or ""): each["calls"] for each in activity["failures"]},
    )


async def check(seeds: Seeds, calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rolled up, and from the log alone, the figures are those of the calls."""
    expected = Expected(calls)
    for most in (10**9, -1):
        monkeypatch.setattr(roll_up, "MOST_BEHIND", most)
        buckets, tools, pairs, failures = await told(seeds)
        assert buckets == expected.buckets, most
        assert tools == expected.tools, most
        assert pairs == dict(expected.pairs), most
        assert failures == dict(expected.failures), most


async def fold_once(home: ApiHome, seeds: Seeds) -> None:
    settled = await roll_up.settled(home.raven.database, seeds.tenant_id)
    await home.raven.database.write(seeds.tenant_id, lambda tx: hourly.fold(tx, seeds.tenant_id, settled))


async def test_figures_are_those_of_the_log_at_any_time(
    home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of folding, with calls that arrive late, every figure is what the calls say."""
    chance, calls = random.Random(5), list[dict[str, Any]]()
    bob = await home.tenant("bob")
    for _ in range(8):
        more = calls_of(chance, chance.randrange(1, 9))
        calls += more
        made(await ada.door.post("/v1/events", {"events": more}))
        made(await bob.door.post("/v1/events", {"events": calls_of(chance, 3)}))
        if chance.random() < 0.7:
            await fold_once(home, ada)
        await check(ada, calls, monkeypatch)


async def test_outcomes_and_tags_are_those_of_the_log_at_any_time(
    home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of folding, with late calls and changed verdicts, lists by outcome and tag are right."""
    chance, calls, verdicts = random.Random(8), list[dict[str, Any]](), dict[str, str]()
    for turn in range(6):
        more = calls_of(chance, chance.randrange(3, 12))
        calls += more
        made(await ada.door.post("/v1/events", {"events": more}))
        for session in chance.sample(sorted({each["session_id"] for each in calls}), k=min(turn, 2)):
            verdicts[session] = chance.choice(OUTCOMES)
            made(await ada.door.post(f"/v1/sessions/{session}/verdicts", {"outcome": verdicts[session]}))
        if chance.random() < 0.7:
            await fold_once(home, ada)
        await check_judged(ada, calls, verdicts, monkeypatch)
    await home.raven.activity.fold(ada.tenant_id)
    await home.raven.retention.run(ada.tenant_id, days=30, compact=False)
    left = [each for each in calls if each["session_id"] not in ("s0", "s1")]
    assert len(left) < len(calls)
    await check_judged(ada, left, verdicts, monkeypatch)


async def test_what_retention_removes_is_no_longer_counted(
    home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that leave take their counts along, folded or not, the slowest call and the pairs included."""
    chance = random.Random(11)
    calls = calls_of(chance, 40)
    made(await ada.door.post("/v1/events", {"events": calls}))
    for _ in range(3):
        await fold_once(home, ada)
    report = await home.raven.retention.run(ada.tenant_id, days=30, compact=False)
    assert report.sessions == 2
    left = [each for each in calls if each["session_id"] not in ("s0", "s1")]
    assert len(left) < len(calls)
    await check(ada, left, monkeypatch)
    await home.raven.activity.fold(ada.tenant_id)
    await check(ada, left, monkeypatch)
    again = calls_of(chance, 5)
    made(await ada.door.post("/v1/events", {"events": again}))
    await check(ada, left + again, monkeypatch)


async def test_many_who_fold_at_once_count_nothing_twice(
    home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folding from several sides while calls are recorded comes to what the calls say."""
    chance, calls = random.Random(3), list[dict[str, Any]]()

    async def record() -> None:
        for _ in range(10):
            more = calls_of(chance, 4)
            calls.extend(more)
            made(await ada.door.post("/v1/events", {"events": more}))

    await asyncio.gather(record(), *(home.raven.activity.fold(ada.tenant_id) for _ in range(3)))
    await asyncio.gather(*(home.raven.activity.fold(ada.tenant_id) for _ in range(3)))
    assert await home.raven.database.read(ada.tenant_id, lambda tx: roll_up.roll_up(tx, ada.tenant_id).behind) == 0
    await check(ada, calls, monkeypatch)


async def test_parts_of_hours_are_counted_call_by_call(
    home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A span that begins or ends within an hour counts the calls inside it and no others; pairs count whole hours."""
    begin = NOW - timedelta(hours=5)
    minutes = (10, 30, 70, 130, 170, 190)
    calls: list[dict[str, Any]] = [
        {
            "session_id": "a",
            "tool_id": "read",
            "input_params": {},
            "timestamp": iso(begin + timedelta(minutes=each)),
            "latency_ms": 5,
        }
        for each in minutes
    ]
    made(await ada.door.post("/v1/events", {"events": calls}))
    await home.raven.activity.fold(ada.tenant_id)
    cases = {(0, 300): 6, (20, 180): 4, (20, 50): 1, (31, 59): 0, (60, 180): 3, (30, 31): 1}
    for most in (10**9, -1):
        monkeypatch.setattr(roll_up, "MOST_BEHIND", most)
        for (first, last), number in cases.items():
            span = f"since={iso(begin + timedelta(minutes=first))}&until={iso(begin + timedelta(minutes=last))}"
            found = made(await ada.door.get(f"/v1/activity?{span}"))
            assert sum(each["calls"] for each in found["tools"]) == number, (first, last)
            assert sum(each["calls"] for each in found["buckets"]) == number, (first, last)
        span = f"since={iso(begin + timedelta(minutes=65))}&until={iso(begin + timedelta(minutes=125))}"
        found = made(await ada.door.get(f"/v1/transitions?{span}"))
        assert [each["count"] for each in found["items"]] == [3]
        assert (found["since"], found["until"]) == (
            iso(begin + timedelta(hours=1)),
            iso(begin + timedelta(hours=3)),
        )


async def test_who_asks_has_the_roll_up_brought_up(home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for figures of a log that grew starts the folding, and closing the home waits for nothing."""
    monkeypatch.setattr(hourly, "FOLD_BEYOND", 0)
    made(await ada.door.post("/v1/events", {"events": calls_of(random.Random(2), 30)}))
    await told(ada)

    async def is_up() -> bool:
        return await home.raven.database.read(ada.tenant_id, lambda tx: roll_up.roll_up(tx, ada.tenant_id).behind) == 0

    async with asyncio.timeout(30):
        while not await is_up():  # noqa: ASYNC110 - the database is asked, which tells nobody
            await asyncio.sleep(0.01)
