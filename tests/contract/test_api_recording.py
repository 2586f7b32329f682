"""Recording from outside: what is sent is in the log once, however often it had to be sent."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from tests.api_homes import ApiHome, Seeds, api_home, login_of, made, search
from tests.homes import make_home
from twinraven.app import open_home
from twinraven.calls import CallContext
from twinraven.catalog import tool
from twinraven.foundation.canonical import input_hash
from twinraven.foundation.clock import now_micros, parse_iso, utc_now
from twinraven.foundation.errors import StorageUnavailable, TwinRavenError
from twinraven.muninn import EventFilter
from twinraven.muninn.batch import BatchCommitter, Encoded


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


@pytest.fixture
async def ada(home: ApiHome) -> Seeds:
    return await home.tenant("ada")


def event(number: int, **facts: Any) -> dict[str, Any]:
    return {"session_id": "s", "tool_id": "search", "input_params": {"number": number}, **facts}


async def recorded(ada: Seeds, session: str = "s") -> list[int]:
    found = made(await ada.door.get(f"/v1/events?session_id={session}&limit=500"))["items"]
    return sorted(each["input_params"]["number"] for each in found)


def lose_some(monkeypatch: pytest.MonkeyPatch, **details: str) -> None:
    """Let the store go away once, when some events of a batch are stored already."""
    commit = BatchCommitter.commit
    batches: list[int] = []

    def commit_some(committer: BatchCommitter, items: list[Encoded]) -> list[TwinRavenError | None]:
        batches.append(len(items))
        if len(batches) > 1:
            return commit(committer, items)
        # The first is lost, the second is not, the third is stored although nobody can say so.
        commit(committer, items[1:3])
        away = StorageUnavailable("the store is away", **details)
        return [away, None, *[away] * (len(items) - 2)]

    monkeypatch.setattr(BatchCommitter, "commit", commit_some)


@pytest.mark.parametrize("details", [{}, {"commit": "unknown"}], ids=["lost", "unknown"])
@pytest.mark.parametrize("states_ids", [False, True])
async def test_what_failed_halfway_is_completed_under_its_key(
    ada: Seeds, monkeypatch: pytest.MonkeyPatch, details: dict[str, str], *, states_ids: bool
) -> None:
    """When the store goes away between two events, the same request under the same key records the rest and no more."""
    timed = {"timestamp": "2026-03-01T10:00:00.5Z", "latency_ms": 12, "turn": 3}
    events = [event(number, **({"event_id": str(uuid4()), **timed} if states_ids else {})) for number in range(6)]
    lose_some(monkeypatch, **details)
    failed = await ada.door.post("/v1/events", {"events": events}, Idempotency_Key="k")
    assert (failed.status, failed.json()["retryable"]) == (503, True)
    assert 0 < len(await recorded(ada)) < len(events)
    ids = made(await ada.door.post("/v1/events", {"events": events}, Idempotency_Key="k"))["event_ids"]
    assert await recorded(ada) == list(range(6))
    assert all(UUID(each).version == 4 for each in ids)
    for number, each in enumerate(ids):
        assert made(await ada.door.get(f"/v1/events/{each}"))["input_params"] == {"number": number}


async def test_what_the_sender_is_told_of_is_not_lost(
    home: ApiHome, ada: Seeds, caplog: pytest.LogCaptureFixture
) -> None:
    """Events that are there already are no loss: nothing is logged as one, and the next flush does not speak of any."""
    events = [event(number, event_id=str(uuid4())) for number in range(20)]
    made(await ada.door.post("/v1/events", {"events": events}, Idempotency_Key="k"))
    made(await ada.door.post("/v1/events", {"events": events}, Idempotency_Key="j"))
    assert (await ada.door.post("/v1/events", {"events": events})).status == 409
    home.raven.collector.flush()
    assert "nobody waits" not in caplog.text


async def test_a_taken_id_is_a_conflict_each_time_and_the_others_are_recorded_once(ada: Seeds) -> None:
    """Somebody else's event keeps its id: 409 however often it is tried, and nothing beside it is recorded twice."""
    taken = str(uuid4())
    made(await ada.door.post("/v1/events", {"events": [event(1, session_id="other", event_id=taken)]}))
    for changed in ({}, {"session_id": "other", "input_params": {"number": 2}}, {"session_id": "other", "turn": 9}):
        body = {"events": [event(1, event_id=taken, **changed) if changed else event(1, event_id=taken), event(5)]}
        for _ in range(3):
            refused = await ada.door.post("/v1/events", body, Idempotency_Key="k")
            assert (refused.status, refused.json()["details"]["event_ids"]) == (409, [taken])
    assert await recorded(ada) == [5]
    assert await recorded(ada, "other") == [1]


async def test_keys_and_users_and_places_do_not_share_ids(home: ApiHome, ada: Seeds) -> None:
    """The same event twice in a request, under another key or from another user is another event."""
    mia = await home.user(ada.tenant_id, "mia")
    body = {"events": [event(1), event(1)]}
    for door, key in ((ada.door, "k"), (ada.door, "j"), (mia.door, "k")):
        made(await door.post("/v1/events", body, Idempotency_Key=key))
    assert await recorded(ada) == [1] * 6


async def test_a_long_session_is_shown_up_to_a_page(ada: Seeds) -> None:
    """Up to 500 calls are shown whole; of more, the first 500, and the answer says that there are others."""
    for first, count, is_cut in ((0, 500, False), (500, 1, True)):
        events = [event(number) for number in range(first, first + count)]
        made(await ada.door.post("/v1/events", {"events": events}))
        shown = made(await ada.door.get("/v1/sessions/s"))
        assert (shown["event_count"], shown["events_truncated"]) == (first + count, is_cut)
        assert [each["input_params"]["number"] for each in shown["events"]] == list(range(500))


@pytest.mark.req("TR-03")
async def test_neighbours_agree_with_each_other_and_with_time_however_events_arrive(ada: Seeds) -> None:
    """In lists and one by one, who stands before an event names it as the one behind, in the order of times."""
    times = ["2026-01-01T00:00:03Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"]
    events = [event(number, timestamp=at) for number, at in enumerate(times)]
    ids = made(await ada.door.post("/v1/events", {"events": events}))["event_ids"]
    in_order = [ids[1], ids[2], ids[0]]
    single = [made(await ada.door.get(f"/v1/events/{each}")) for each in in_order]
    listed = {each["event_id"]: each for each in made(await ada.door.get("/v1/events?session_id=s"))["items"]}
    for found in (single, [listed[each] for each in in_order]):
        assert [each["predecessor"] for each in found] == [None, *in_order[:-1]]
        assert [each["successor"] for each in found] == [*in_order[1:], None]


@pytest.mark.req("TR-01", "TR-08")
async def test_what_is_stated_of_a_recorded_call_is_kept(ada: Seeds) -> None:
    """Latency, tags and outcome are those that the client states; an error decides no outcome that is stated."""
    stated = [
        {"latency_ms": 70, "tags": ["eu", "night"], "outcome": "success"},
        {"error": "no such page", "outcome": "success"},
        {"error": "no such page"},
        {"output": {"error": "boom"}},
    ]
    ids = made(await ada.door.post("/v1/events", {"events": [event(n, **each) for n, each in enumerate(stated)]}))
    kept = [made(await ada.door.get(f"/v1/events/{each}")) for each in ids["event_ids"]]
    assert [(each["outcome"], each["raised"]) for each in kept] == [
        ("success", False),
        ("success", True),
        ("failure", True),
        ("partial", False),
    ]
    assert (kept[0]["latency_ms"], kept[0]["tags"], kept[3]["latency_ms"], kept[3]["tags"]) == (
        70, ["eu", "night"], 0, []
    )  # fmt: skip


@pytest.mark.req("TR-04")
async def test_times_without_a_zone_and_negative_latencies_are_refused(ada: Seeds) -> None:
    """The door names the field, and records nothing of the request; a time of another zone is kept in UTC."""
    for stated in ({"timestamp": "2026-01-01T10:00:00"}, {"timestamp": "yesterday"}, {"latency_ms": -1}):
        refused = await ada.door.post("/v1/events", {"events": [event(1), event(2, **stated)]})
        assert refused.status == 400, refused.body
        assert next(iter(stated)) in refused.json()["details"]["field"]
    assert await recorded(ada) == []
    told = {"timestamp": "2026-01-01T10:00:00+02:00"}
    (event_id,) = made(await ada.door.post("/v1/events", {"events": [event(1, **told)]}))["event_ids"]
    assert made(await ada.door.get(f"/v1/events/{event_id}"))["timestamp"] == "2026-01-01T08:00:00.000000Z"


@pytest.mark.req("TR-04")
async def test_a_clock_that_is_set_back_gives_no_negative_latency(tmp_path: Path) -> None:
    """A call that ends before it began, as the clock has it, is recorded and took no time."""
    clock = iter(range(now_micros(), 0, -1_000_000))
    with open_home(make_home(tmp_path), functions=[search], micros=clock.__next__) as raven:
        await raven.calls.call("search", {"query": "x"}, CallContext("s"))
        (found,) = await raven.events.events("default", EventFilter(session_id="s"))
    assert (found.latency_ms, found.raised) == (0, False)


@pytest.mark.req("RG-02")
async def test_defaults_of_an_input_schema_are_filled_in_before_a_call(home: ApiHome) -> None:
    """What the caller leaves out is what the schema says, and stands in the record as it was passed."""

    @tool(effect="read")
    def look(query: str, limit: int = 3) -> dict[str, Any]:
        """Look something up."""
        return {"query": query, "limit": limit}

    home.raven.functions.add(look)
    call = {"tool_name": "look", "payload": {"query": "x"}, "session_id": "defaults"}
    answered = made(await home.door.post("/v1/calls", call))
    assert answered["output"] == {"query": "x", "limit": 3}
    home.raven.collector.flush()
    (recorded_call,) = made(await home.door.get("/v1/events?session_id=defaults"))["items"]
    assert recorded_call["input_params"] == {"query": "x", "limit": 3}


@pytest.mark.req("AE-07")
async def test_arguments_and_results_are_held_against_their_schemas(home: ApiHome) -> None:
    """What the input schema forbids never reaches the tool, and what the output schema forbids reaches no caller."""
    reached: list[Any] = []

    @tool(effect="read")
    def double(number: int) -> dict[str, int]:
        """Double a number, or lie about a large one."""
        reached.append(number)
        return {"number": cast("int", "many") if number > 5 else 2 * number}

    home.raven.functions.add(double)
    answers: list[Any] = []
    for payload in ({"number": "two"}, {}, {"number": 2, "more": 1}, {"number": 9}, {"number": 2}):
        call = {"tool_name": "double", "payload": payload, "session_id": "checked"}
        answers.append((await home.door.post("/v1/calls", call)).json())
    codes = [(answer.get("error") or answer).get("code") for answer in answers]
    assert codes == ["VALIDATION_FAILED"] * 3 + ["OUTPUT_INVALID", None]
    assert [answer.get("output") for answer in answers] == [None] * 4 + [{"number": 4}]
    assert reached == [9, 2]


@pytest.mark.req("TR-01")
async def test_a_call_through_the_door_leaves_one_event_with_all_fields(home: ApiHome) -> None:
    """Each call is one event: what was called with what, when, how long, what came of it, and between which others."""

    @tool(effect="read")
    def ponder(query: str) -> dict[str, Any]:
        """Take a while."""
        time.sleep(0.03)
        return {"answer": query}

    home.raven.functions.add(ponder)
    before = utc_now()
    for query in ("first", "second", "third"):
        call = {"tool_name": "ponder", "payload": {"query": query}, "session_id": "pondering", "tags": ["deep"]}
        made(await home.door.post("/v1/calls", call))
    home.raven.collector.flush()
    events = made(await home.door.get("/v1/events?session_id=pondering"))["items"]
    assert [each["input_params"]["query"] for each in events] == ["first", "second", "third"]
    ids = [str(UUID(each["event_id"])) for each in events]
    assert len(set(ids)) == 3
    assert [(each["predecessor"], each["successor"]) for each in events] == [
        (None, ids[1]),
        (ids[0], ids[2]),
        (ids[1], None),
    ]
    for each in events:
        assert (each["session_id"], each["tool_id"], each["outcome"]) == ("pondering", "ponder", "partial")
        assert each["input_hash"] == input_hash(each["input_params"])
        assert each["latency_ms"] >= 30
        assert before <= parse_iso(each["timestamp"]) <= utc_now()
        assert "deep" in each["tags"]
        assert each["input_params"]["query"] in each["output_summary"]
