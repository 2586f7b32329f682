"""Live events: what any process records reaches whoever listens, once and in order, and nobody else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.api_client import Listening
from tests.api_homes import ApiHome, Seeds, api_home, login_of, made

_RECORDER = """
import sys
from pathlib import Path
from twinraven.app import open_home

home, tenant, first, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with open_home(home) as raven:
    with raven.collector.observe("elsewhere", tenant_id=tenant) as session:
        for number in range(first, first + count):
            session.record("count", {"number": number}).result()
"""


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


def record_elsewhere(home: ApiHome, tenant_id: str, first: int, count: int) -> None:
    """Record numbered events in a process of its own."""
    arguments = [sys.executable, "-c", _RECORDER, str(home.raven.home), tenant_id, str(first), str(count)]
    subprocess.run(arguments, check=True, timeout=60)


async def record(seeds: Seeds, *numbers: int, session: str = "here") -> None:
    events = [{"session_id": session, "tool_id": "count", "input_params": {"number": each}} for each in numbers]
    made(await seeds.door.post("/v1/events", {"events": events}))


async def numbers(listening: Listening, count: int) -> list[int]:
    return [(await listening.next())[1]["input_params"]["number"] for _ in range(count)]


async def open_streams(home: ApiHome) -> int:
    text = (await home.door.get("/metrics")).body.decode()
    return int(text.split("\ntwinraven_live_streams ")[1].split("\n")[0])


async def test_events_of_another_process_arrive(home: ApiHome) -> None:
    """Events that another process records appear in their order, each once, with the form that reading them has."""
    ada = await home.tenant("ada")
    async with ada.door.listen("/v1/events/live") as listening:
        assert listening.status == 200
        await asyncio.to_thread(record_elsewhere, home, ada.tenant_id, 0, 20)
        heard = [await listening.next() for _ in range(20)]
        assert await listening.is_silent()
    assert [event["input_params"]["number"] for _, event in heard] == list(range(20))
    arrivals = [arrival for arrival, _ in heard]
    assert arrivals == sorted(set(arrivals))
    one = (await ada.door.get(f"/v1/events/{heard[7][1]['event_id']}")).json()
    assert {**heard[7][1], "successor": one["successor"]} == {
        name: value for name, value in one.items() if name not in ("output", "output_stored", "idempotency_key")
    }


async def test_who_comes_back_misses_nothing_and_hears_nothing_twice(home: ApiHome) -> None:
    """With Last-Event-ID, or `after`, a stream goes on where the last one ended, whatever was recorded meanwhile."""
    ada = await home.tenant("ada")
    seen: list[int] = []
    last = "0"
    for first in range(0, 30, 10):
        async with ada.door.listen("/v1/events/live", Last_Event_ID=last) as listening:
            await record(ada, *range(first, first + 7))
            for _ in range(5):
                arrival, event = await listening.next()
                last = str(arrival)
                seen.append(event["input_params"]["number"])
        await record(ada, *range(first + 7, first + 10))
    async with ada.door.listen(f"/v1/events/live?after={last}") as listening:
        seen += await numbers(listening, 30 - len(seen))
        assert await listening.is_silent()
    assert seen == list(range(30))


@pytest.mark.parametrize("ahead", [1, 10**6, 10**18 - 10**9])
async def test_who_is_ahead_of_the_log_hears_what_comes(home: ApiHome, ahead: int) -> None:
    """An id beyond the newest event, as after a restore: the stream says where it stands, and nothing new is missed."""
    ada = await home.tenant("ada")
    await record(ada, 1, 2)
    newest = made(await ada.door.get("/v1/events?newest=true&limit=1"))["items"][0]["arrival"]
    beyond = str(newest + ahead)
    async with (
        ada.door.listen("/v1/events/live", Last_Event_ID=beyond) as returned,
        ada.door.listen(f"/v1/events/live?after={beyond}") as asking,
    ):
        for listening in (returned, asking):
            assert await listening.place() == newest
        await record(ada, 3)
        for listening in (returned, asking):
            assert await numbers(listening, 1) == [3]


@pytest.mark.parametrize("target", ["/v1/events/live", "/v1/events/live?tool_id=count&session_id=chosen"])
async def test_who_heard_nothing_yet_misses_nothing_either(home: ApiHome, target: str) -> None:
    """A connection that breaks before its first event has an id to come back with: what came meanwhile is heard."""
    ada = await home.tenant("ada")
    await record(ada, 1, 2, session="chosen")
    async with ada.door.listen(target) as listening:
        stands_at = await listening.place()
    await record(ada, 3, session="chosen")
    async with ada.door.listen(target, Last_Event_ID=str(stands_at)) as listening:
        await record(ada, 4, session="chosen")
        assert await numbers(listening, 2) == [3, 4]
        assert await listening.is_silent()


async def test_signs_of_life_say_how_far_the_stream_is(home: ApiHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener whose filter matches nothing learns an id behind what it did not want, and goes on from there."""
    monkeypatch.setattr("twinraven.api.live._SIGN_OF_LIFE_S", 0.25)
    ada = await home.tenant("ada")
    async with ada.door.listen("/v1/events/live?session_id=chosen") as listening:
        begun = await listening.place()
        await record(ada, *range(5))
        newest = made(await ada.door.get("/v1/events?newest=true&limit=1"))["items"][0]["arrival"]
        stands_at = begun
        while stands_at < newest:
            stands_at = await listening.place()
    await record(ada, 7, session="chosen")
    async with ada.door.listen("/v1/events/live?session_id=chosen", Last_Event_ID=str(stands_at)) as listening:
        assert await numbers(listening, 1) == [7]


async def test_a_number_beyond_64_bits_does_not_end_the_stream(home: ApiHome) -> None:
    """An event with a huge integer is heard as it was recorded, and so is what follows."""
    ada = await home.tenant("ada")
    body = b'{"events":[{"session_id":"s","tool_id":"count","input_params":{"number":%d}}]}' % (2**70)
    async with ada.door.listen("/v1/events/live?after=0") as listening:
        made(await ada.door.ask("POST", "/v1/events", body=body, headers={"content-type": "application/json"}))
        await record(ada, 1)
        assert await numbers(listening, 2) == [2**70, 1]


async def test_another_tenants_events_are_never_heard(home: ApiHome) -> None:
    """A listener hears its own tenant, from the first event on; filters choose among its own."""
    ada, bob = await home.tenant("ada"), await home.tenant("bob")
    await record(bob, 1, 2)
    async with (
        ada.door.listen("/v1/events/live?after=0") as adas,
        ada.door.listen("/v1/events/live?session_id=chosen") as chosen,
        bob.door.listen("/v1/events/live?after=0&tool_id=nothing") as nothing,
    ):
        await record(bob, 3)
        await record(ada, 10)
        await record(ada, 11, session="chosen")
        await record(bob, 4, session="chosen")
        assert await numbers(adas, 2) == [10, 11]
        assert await numbers(chosen, 1) == [11]
        for listening in (adas, chosen, nothing):
            assert await listening.is_silent(for_s=0.6)


async def test_who_leaves_frees_the_stream(home: ApiHome) -> None:
    """The gauge counts the streams that are open, and none after their clients have gone."""
    ada = await home.tenant("ada")
    async with ada.door.listen("/v1/events/live"), ada.door.listen("/v1/events/live"):
        assert await open_streams(home) == 2
    assert await open_streams(home) == 0


async def test_a_stream_ends_when_its_key_does(home: ApiHome) -> None:
    """Who listens with a key that is revoked hears no more after about a second, and the stream is free."""
    ada = await home.tenant("ada")
    issued = made(await ada.door.post("/v1/keys", {}))
    async with home.door.keyed(issued["shown_once"]).listen("/v1/events/live") as listening:
        await record(ada, 1)
        assert await numbers(listening, 1) == [1]
        assert (await ada.door.delete(f"/v1/keys/{issued['key_id']}")).status == 204
        await asyncio.wait_for(listening.ended.wait(), 4)
        assert await open_streams(home) == 0
        await record(ada, 2)
        assert await listening.is_silent()


async def test_a_stream_is_refused_like_any_request(home: ApiHome) -> None:
    """A place that is none, another parameter and no key: refused before anything is streamed; HEAD ends at once."""
    ada = await home.tenant("ada")
    for odd in ("x", "-1", "9" * 30, "1.5", "٣"):
        refused = await ada.door.get("/v1/events/live", Last_Event_ID=odd.encode().decode("latin-1"))
        assert (refused.status, refused.json()["details"]["field"]) == (400, "Last-Event-ID")
    assert (await ada.door.get("/v1/events/live?since=now")).status == 400
    assert (await home.door.keyed("tr_none").get("/v1/events/live")).status == 401
    headed = await ada.door.ask("HEAD", "/v1/events/live")
    assert (headed.status, headed.headers["content-type"], headed.body) == (200, "text/event-stream", b"")
    assert await open_streams(home) == 0
