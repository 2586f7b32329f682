"""A round of learning is started over the API, runs in the background, and says how far it is and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.api_homes import ApiHome, api_home, login_of
from tests.homes import opened_home
from tests.unit.huginn.billing_world import billing_scripts, lines_of
from twinraven.app.rounds import LearningRounds
from twinraven.foundation.clock import iso_micros, now_micros
from twinraven.foundation.errors import Conflict, InvalidInput
from twinraven.huginn import Huginn, RoundStore


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


async def ended(home: ApiHome, round_id: str) -> dict[str, Any]:
    """The round once it is over."""
    async with asyncio.timeout(120):
        while True:
            found = (await home.door.get(f"/v1/learning/{round_id}")).json()
            if found["state"] != "running":
                return found
            await asyncio.sleep(0.05)


async def test_a_round_runs_to_its_end_in_the_background(home: ApiHome) -> None:
    """It begins at once with 202 and a place to ask at, and ends with what `twinraven learn` would print."""
    await home.raven.importer.import_calls("default", lines_of(billing_scripts(60, seed=41)).splitlines())
    begun = await home.door.post("/v1/learning", {"with_model": False})
    assert begun.status == 202
    body = begun.json()
    assert begun.headers["location"] == f"/v1/learning/{body['round_id']}"
    assert (body["state"], body["outcome"], body["started_by"]) == ("running", None, "local")
    over = await ended(home, body["round_id"])
    assert (over["state"], over["error"]) == ("done", None)
    assert over["outcome"]["sessions"] == 60
    assert over["outcome"]["chains"] > 0
    assert over["finished_at"] >= over["started_at"]


async def test_one_round_at_a_time_for_each_tenant(home: ApiHome) -> None:
    """While one runs, a second is refused with its id; another tenant's starts; and afterwards the next may."""
    store = RoundStore(home.raven.database)
    first = await store.start("default", by="ada")
    refused = await home.door.post("/v1/learning", {})
    assert refused.status == 409
    assert str(first.round_id) in refused.json()["detail"]
    other = await home.tenant("other")
    assert (await other.door.post("/v1/learning", {})).status == 202
    await store.finish("default", first.round_id, "done", outcome={})
    assert (await home.door.post("/v1/learning", {})).status == 202


async def test_only_an_administrator_starts_a_round(home: ApiHome) -> None:
    """Learning changes the registry, so a member may not start it."""
    member = await home.user("default", "mia")
    assert (await member.door.post("/v1/learning", {})).status == 403


async def test_a_round_whose_process_is_gone_is_interrupted(home: ApiHome) -> None:
    """A round that nobody has seen for a minute reads as interrupted, and the next one may start."""
    begun = now_micros() - 61_000_000
    lost = await RoundStore(home.raven.database, micros=lambda: begun).start("default", by="ada")
    read = (await home.door.get(f"/v1/learning/{lost.round_id}")).json()
    assert (read["state"], read["started_at"]) == ("interrupted", iso_micros(begun))
    assert read["finished_at"] == iso_micros(begun)
    assert (await home.door.post("/v1/learning", {})).status == 202
    assert (await home.door.get(f"/v1/learning/{lost.round_id}")).json()["state"] == "interrupted"


async def test_a_failed_round_says_why(home: ApiHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ours comes with its code; a fault inside comes without anything that could be a secret."""

    async def refuse(*_: Any, **__: Any) -> None:
        raise InvalidInput("the log cannot be read", field="log")

    monkeypatch.setattr(Huginn, "learn", refuse)
    over = await ended(home, (await home.door.post("/v1/learning", {})).json()["round_id"])
    assert (over["state"], over["error"]["code"], over["error"]["message"]) == (
        "failed",
        "VALIDATION_FAILED",
        "the log cannot be read",
    )

    async def break_down(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("sk-very-secret")

    monkeypatch.setattr(Huginn, "learn", break_down)
    over = await ended(home, (await home.door.post("/v1/learning", {})).json()["round_id"])
    assert over["error"]["code"] == "INTERNAL"
    assert "secret" not in str(over["error"])


async def test_a_closing_home_interrupts_its_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round ends at its next step when the home closes, and is marked as interrupted for whoever asks later."""
    reached, go_on = Event(), Event()

    async def learn(*_: Any, progress: Any, **__: Any) -> None:
        reached.set()
        go_on.wait(30)
        progress("mining")

    monkeypatch.setattr(Huginn, "learn", learn)
    with opened_home(tmp_path) as raven:
        begun = await raven.rounds.start("default", by="ada")
        await asyncio.to_thread(reached.wait, 30)
        asyncio.get_running_loop().call_later(0.1, go_on.set)
        await asyncio.to_thread(raven.rounds.close)
        with pytest.raises(Conflict, match="closing"):
            await raven.rounds.start("default", by="ada")
        assert (await raven.rounds.round("default", str(begun.round_id))).state == "interrupted"


async def test_progress_is_seen_while_a_round_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How far a round is can be read while its thread is busy and never returns to a loop."""
    go_on = Event()

    async def learn(*_: Any, progress: Any, **__: Any) -> None:
        progress("wiring 7 chains")
        go_on.wait(30)
        raise InvalidInput("enough", field="log")

    monkeypatch.setattr(Huginn, "learn", learn)
    with opened_home(tmp_path) as raven:
        rounds: LearningRounds = raven.rounds
        begun = await rounds.start("default", by="ada")
        async with asyncio.timeout(30):
            while True:
                if (await rounds.round("default", str(begun.round_id))).progress == "wiring 7 chains":
                    break
                await asyncio.sleep(0.05)
        go_on.set()
