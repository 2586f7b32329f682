"""What happened, summed up, through the API on both stores: newest sessions, activity, transitions, filters, news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.api_homes import ApiHome, Seeds, api_home, login_of, made
from twinraven.foundation.clock import iso, utc_now
from twinraven.muninn import recent_sql

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


@pytest.fixture
async def ada(home: ApiHome) -> Seeds:
    return await home.tenant("ada")


async def record(seeds: Seeds, *calls: tuple[str, str, int], **more: Any) -> list[str]:
    """Record calls, each with its session, its tool and its minute after noon."""
    events: list[dict[str, Any]] = [
        {
            "session_id": session,
            "tool_id": tool,
            "input_params": {},
            "timestamp": iso(NOON + timedelta(minutes=minute)),
            "latency_ms": 5,
            **more,
        }
        for session, tool, minute in calls
    ]
    return made(await seeds.door.post("/v1/events", {"events": events}))["event_ids"]


async def listed(seeds: Seeds, query: str) -> list[dict[str, Any]]:
    """Every page of a list of sessions, the newest first, two at a time."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = made(await seeds.door.get(f"/v1/sessions?order=newest&limit=2{query}{cursor}"))
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def test_sessions_are_listed_by_their_last_call(ada: Seeds) -> None:
    """Each session stands once, where its last call puts it, with what a list of the newest shows."""
    await record(ada, ("a", "search", 0), ("b", "search", 1), ("c", "read", 2), ("d", "pay", 3), ("e", "read", 4))
    await record(ada, ("a", "read", 10), turn=2, outside_input="find the invoice")
    await record(ada, ("b", "pay", 5), error="no money")
    found = await listed(ada, "")
    assert [each["session_id"] for each in found] == ["a", "b", "e", "d", "c"]
    first, second = found[0], found[1]
    assert (first["tools"], first["first_words"], first["event_count"]) == (["search", "read"], "find the invoice", 2)
    assert (second["failed"], first["failed"], second["started_at"]) == (1, 0, iso(NOON + timedelta(minutes=1)))
    assert [each["lasted_ms"] for each in found] == [600_005, 240_005, 5, 5, 5]
    whole = {each["session_id"]: each for each in made(await ada.door.get("/v1/sessions"))["items"]}
    for each in found:
        assert whole[each["session_id"]].items() <= each.items()


@pytest.mark.parametrize("few", [20_000, -1])
async def test_newest_sessions_can_be_narrowed(
    home: ApiHome, ada: Seeds, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time, tool, failure and the beginning of the id restrict the list, by an index or by walking the log."""
    monkeypatch.setattr(recent_sql, "_FEW", few)
    await record(ada, ("a-1", "search", 0), ("a-2", "read", 1), ("b-1", "read", 2))
    await record(ada, ("a-2", "pay", 3), error="no")
    await record(await home.tenant("bob"), ("a-9", "read", 9))
    cases = {
        "&tool_id=read": ["a-2", "b-1"],
        "&failed=true": ["a-2"],
        "&failed=false": ["b-1", "a-1"],
        "&outcome=partial": ["a-2", "b-1", "a-1"],
        "&outcome=failure": [],
        "&starts_with=a-": ["a-2", "a-1"],
        f"&since={_at(2)}": ["a-2", "b-1"],
        f"&until={_at(2)}": ["a-1"],
        "&tool_id=nothing": [],
    }
    for query, expected in cases.items():
        assert [each["session_id"] for each in await listed(ada, query)] == expected, query
    for odd in ("?failed=true", "?order=newest&cursor=x"):
        assert (await ada.door.get(f"/v1/sessions{odd}")).status == 400, odd


async def test_activity_counts_every_call_once(ada: Seeds) -> None:
    """Calls are counted in the stretch they were made in, with their failures and sessions; tools by use."""
    await record(ada, ("a", "search", 0), ("a", "read", 59), ("b", "read", 61), ("c", "read", 181))
    await record(ada, ("b", "pay", 62), error="no")
    told = made(await ada.door.get(f"/v1/activity?since={_at(0)}&until={_at(240)}"))
    assert [(each["begins_at"], each["calls"], each["failed"], each["sessions"]) for each in told["buckets"]] == [
        (iso(NOON), 2, 0, 1),
        (iso(NOON + timedelta(hours=1)), 2, 1, 1),
        (iso(NOON + timedelta(hours=3)), 1, 0, 1),
    ]
    assert [(each["tool_id"], each["calls"], each["raised"]) for each in told["tools"]] == [
        ("read", 3, 0),
        ("pay", 1, 1),
        ("search", 1, 0),
    ]
    narrow = made(await ada.door.get(f"/v1/activity?since={_at(0)}&until={_at(240)}&tool_id=pay&bucket_s=60"))
    assert [each["begins_at"] for each in narrow["buckets"]] == [iso(NOON + timedelta(minutes=62))]
    for odd in (f"since={_at(9)}&until={_at(9)}", "since=2020-01-01T00:00:00Z", "bucket_s=1", f"until={_at(1)}&x=1"):
        assert (await ada.door.get(f"/v1/activity?{odd}")).status == 400, odd


async def test_transitions_say_what_follows_what(ada: Seeds) -> None:
    """Neighbouring calls of a session are counted as pairs, the commonest first, within the time that is asked for."""
    for number, session in enumerate(("a", "b", "c")):
        await record(ada, (session, "search", number), (session, "read", number + 10))
    await record(ada, ("a", "pay", 30), ("a", "read", 500))
    told = made(await ada.door.get(f"/v1/transitions?since={_at(0)}&until={_at(60)}"))
    assert [tuple(each.values()) for each in told["items"]] == [("search", "read", 3), ("read", "pay", 1)]
    assert len(made(await ada.door.get(f"/v1/transitions?since={_at(0)}&until={_at(60)}&limit=1"))["items"]) == 1


async def test_events_are_found_by_how_they_went_and_where_they_belong(ada: Seeds) -> None:
    """Calls can be asked for by failure, error code, request and the call they were made inside."""
    (outer,) = await record(ada, ("a", "outer", 0))
    (inner,) = await record(ada, ("a", "inner", 1), parent_event_id=outer)
    (broken,) = await record(ada, ("a", "broken", 2), error="no", error_code="CARD_REFUSED")
    event = made(await ada.door.get(f"/v1/events/{broken}"))
    cases = {
        "raised=true": [broken],
        "raised=false": [outer, inner],
        "error_code=CARD_REFUSED": [broken],
        f"parent_event_id={outer.upper()}": [inner],
        f"correlation_id={event['correlation_id']}": [broken],
    }
    for query, expected in cases.items():
        found = made(await ada.door.get(f"/v1/events?{query}"))["items"]
        assert [each["event_id"] for each in found] == expected, query


async def test_news_names_what_changed_and_for_whom(home: ApiHome, ada: Seeds) -> None:
    """A page is told the topic of each change of its tenant, and nothing of another's."""
    bob = await home.tenant("bob")
    async with ada.door.listen("/v1/news") as listening, asyncio.timeout(20):
        assert await listening.topic() is None
        await record(bob, ("x", "read", 0))
        asked = {"tool_name": "refund", "payload": {"order": 7}, "session_id": "s"}
        assert (await ada.door.post("/v1/calls", asked, Idempotency_Key="k")).status == 202
        seen: set[str | None] = set()
        while "approvals" not in seen:
            seen.add(await listening.topic())
    assert seen <= {"approvals", "events", None}


async def test_news_name_what_a_change_is_about(ada: Seeds) -> None:
    """News of calls name their session by a digest; of very many at once it is said that any may have changed."""
    async with ada.door.listen("/v1/news") as listening, asyncio.timeout(20):
        assert await listening.change() == (None, None)
        await record(ada, ("a session", "read", 0), ("another", "read", 0))
        assert {await listening.change(), await listening.change()} == {
            ("events", sha256(b"a session").hexdigest()[:16]),
            ("events", sha256(b"another").hexdigest()[:16]),
        }
        await record(ada, *[(f"s-{number}", "read", 0) for number in range(150)])
        while (await listening.change())[1] is not None:
            pass


async def test_news_since_a_moment_begin_with_what_changed_then(home: ApiHome, ada: Seeds) -> None:
    """Whoever says when they read what they have is told at once what changed since, and nothing of before."""
    async with ada.door.listen("/v1/news") as listening, asyncio.timeout(20):
        assert await listening.topic() is None
        before = iso(utc_now() + timedelta(seconds=2))
        await record(ada, ("x", "read", 0))
        while await listening.topic() != "events":
            pass
    long_ago, late = (quote(each) for each in ("2020-01-01T00:00:00Z", iso(utc_now() + timedelta(seconds=60))))
    async with ada.door.listen(f"/v1/news?since={quote(before)}") as listening, asyncio.timeout(20):
        assert await listening.topic() == "events"
    async with ada.door.listen(f"/v1/news?since={long_ago}") as listening, asyncio.timeout(20):
        assert await listening.topic() is None
    async with ada.door.listen(f"/v1/news?since={late}") as listening, asyncio.timeout(20):
        await record(ada, ("x", "read", 1))
        assert await listening.topic() == "events"
    assert (await ada.door.get("/v1/news?since=yesterday")).status == 400


async def test_a_decision_holds_for_what_was_seen(ada: Seeds) -> None:
    """With If-Match a request is decided only as it stood; what somebody else decided meanwhile is 412."""
    asked = {"tool_name": "refund", "payload": {"order": 7}, "session_id": "s"}
    place = (await ada.door.post("/v1/calls", asked, Idempotency_Key="k")).headers["location"]
    seen = await ada.door.get(place)
    assert (await ada.door.get(place, If_None_Match=seen.tag)).status == 304
    assert (await ada.door.post(f"{place}/grant", {}, If_Match='"7"')).status == 412
    granted = await ada.door.post(f"{place}/grant", {}, If_Match=seen.tag)
    assert (granted.status, granted.tag == seen.tag) == (200, False)
    late = await ada.door.post(f"{place}/deny", {}, If_Match=seen.tag)
    assert (late.status, late.json()["code"]) == (412, "OCC_CONFLICT")


async def test_the_rules_are_shown_to_administrators(home: ApiHome, ada: Seeds) -> None:
    """Whoever administers a tenant reads the policy in force; a member does not."""
    shown = made(await ada.door.get("/v1/policy"))
    assert shown["rules"] == [{"tool": "refund", "then": "ask", "reason": "refunds need a person"}]
    member = await home.user(ada.tenant_id, "mia")
    assert (await member.door.get("/v1/policy")).status == 403


def _at(minute: int) -> str:
    return iso(NOON + timedelta(minutes=minute)).replace("+", "%2B")
