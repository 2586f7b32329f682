"""Summaries, introspection and enrichment made by workers of a home, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell
from tests.homes import opened_home
from tests.postgres import PostgresLogin
from twinraven.app import TwinRaven
from twinraven.calls import CallContext
from twinraven.catalog import tool
from twinraven.foundation.errors import ToolError
from twinraven.knowledge import Compression, CompressionRequest, Introspection, NewEpisode, Reflection
from twinraven.processes import Process
from twinraven.tenancy import LOCAL

TENANT = LOCAL.tenant_id
SAID = (
    "I moved to Lisbon in March because my sister Clara lives there.",
    "The bakery on Rua Augusta hired me, I start on the 3rd of May.",
    "We adopted a dog, Bruno, and he eats everything.",
    "My landlord Mr Silva raised the rent by 40 euros.",
)


@pytest.fixture(params=["sqlite", "postgres"])
async def raven(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[TwinRaven]:
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    with opened_home(tmp_path, postgres=login) as opened:
        yield opened


async def say(raven: TwinRaven, group: str, texts: tuple[str, ...] = SAID, *, first: int = 0) -> list[str]:
    """Remember texts as turns, and give their episodes' ids."""
    stored = [
        await raven.knowledge.remember(TENANT, NewEpisode(group, f"Turn:{group}a{first + number}", text, speaker="Ann"))
        for number, text in enumerate(texts)
    ]
    return [each.episode_id for each in stored]


async def until(found: Callable[[], Awaitable[Any]], *, tries: int = 2_400) -> Any:
    """What `found` gives once it gives something."""
    for _ in range(tries):
        if (value := await found()) is not None:
            return value
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen")


async def compressed(raven: TwinRaven, wish: CompressionRequest) -> Compression:
    begun = await raven.summaries.compress(wish, by=LOCAL)

    async def ended() -> Compression | None:
        found = await raven.summaries.compression(TENANT, begun.compression_id)
        return None if found.state == "running" else found

    return await until(ended)


@pytest.mark.req("AD-26")
async def test_a_worker_sums_up(raven: TwinRaven) -> None:
    """A summary is of one level more than its sources, covers what they are, and names its process."""
    ids = await say(raven, "talk")
    async with raven.working():
        done = await compressed(raven, CompressionRequest("talk", tuple(ids), "turn-3", "talka3"))
        assert done.state == "done", done.error
        summary = await raven.summaries.summary(TENANT, done.summary_id or "")
        assert summary.level == 1
        assert summary.process_id == "compress_memory"
        assert "Lisbon" in summary.content
        assert summary.token_count > 0
        assert summary.covers == tuple(f"Turn:talka{number}" for number in range(4))
        assert (summary.covers_up_to_turn, summary.covers_up_to_alternative) == ("turn-3", "talka3")
        higher = await compressed(raven, CompressionRequest("talk", (summary.contents[-1].episode_id,)))
        assert (await raven.summaries.summary(TENANT, higher.summary_id or "")).level == 2


async def reflect_on(raven: TwinRaven, group: str) -> Any:
    """What the tool of the reflective agent answers, called as the process that reflects calls it."""
    told: dict[str, Any] = {"warning": "", "replaces": 0, "positions": 3, "notes": [], "compressions": []}
    params = {**told, "user_id": LOCAL.user_id, "conversation_id": group}
    context = CallContext("reflecting", caller=LOCAL.user_id)
    return await raven.calls.call("memory_reflect", params, context)


async def notes_of(raven: TwinRaven, count: int) -> list[Introspection]:
    async def enough() -> list[Introspection] | None:
        found = await raven.introspections.notes(TENANT, LOCAL.user_id)
        return found if len(found) >= count else None

    return await until(enough)


@pytest.mark.req("AD-27", "AD-30")
async def test_the_agent_reflects_at_the_threshold(raven: TwinRaven) -> None:
    """Five compressions of a conversation start a reflection in the background; its note says what led to it."""
    async with raven.working():
        for number in range(5):
            ids = await say(raven, "talk", (SAID[number % 4],), first=number)
            assert not await raven.introspections.notes(TENANT, LOCAL.user_id)
            await compressed(raven, CompressionRequest("talk", tuple(ids)))
        [note] = await notes_of(raven, 1)
        for number in range(5, 9):
            ids = await say(raven, "talk", (SAID[number % 4],), first=number)
            await compressed(raven, CompressionRequest("talk", tuple(ids)))
        # Whoever ends a compression starts the work of the next reflection with it.
        begun = [run.run_id for run in await raven.runs.list(TENANT, limit=100) if "reflect-begin" in run.run_id]
    assert len(begun) == 1
    assert note.position == 0
    assert note.as_json()["conversation_context"] == note.conversation_context == "talk, compressions 1-5"
    assert note.made_by == "reflection"
    assert "Clara" in note.content
    [reflection] = await raven.introspections.reflections(TENANT, LOCAL.user_id)
    assert (reflection.state, reflection.replaces) == ("done", 0)
    found = await raven.knowledge.search(TENANT, "Where does Clara live?", group_id=f"introspection:{LOCAL.user_id}")
    assert found[0].content == note.content


@dataclass
class Thinker:
    """Reflects as it is told to: it fails, or gives what a process of its user's gives."""

    gives: list[Any] = field(default_factory=list[Any])
    seen: list[list[int]] = field(default_factory=list[list[int]])

    @tool(effect="read")
    async def think(self, compressions: list[dict[str, Any]]) -> dict[str, Any]:
        """Make notes of compressions."""
        self.seen.append([each["number"] for each in compressions])
        given = self.gives.pop(0)
        if given is None:
            raise ToolError("no thought came")
        return {"notes": given}


def thinking_process() -> Process:
    step = {"id": "a", "tool": "think", "inputs": {"compressions": "{step.compressions}"}}
    return Process.from_json(
        {
            "id": "reflect_memory",
            "description": "Mine",
            "initialContext": ["compressions"],
            "steps": [step | {"output": {"variable": "thought"}}],
        }
    )


@pytest.mark.req("AD-30")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_what_a_failed_reflection_was_about_is_reflected_on_again(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A reflection that failed writes no note and counts for nothing: the next compression starts another on all of it.

    One that succeeded counts: the next then waits for the threshold.
    """
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if store == "postgres" else None
    good = {"position": 0, "content": "Ann lives in Lisbon."}
    misshapen = [None, ["a text"], [good, {"position": 1}], [good, {"position": "x", "content": "b"}],
                 [good, {"position": 99, "content": "b"}]]  # fmt: skip
    thinker = Thinker([*misshapen, [good]])
    knowledge = {"introspection_compression_threshold": 2, "embedder": "off"}
    with opened_home(tmp_path, functions=[thinker.think], postgres=login, knowledge=knowledge) as raven:
        await raven.processes.save(thinking_process(), by=LOCAL)

        async def reflected(number: int) -> Reflection:
            ids = await say(raven, "talk", (SAID[number % 4],), first=number)
            assert (await compressed(raven, CompressionRequest("talk", tuple(ids)))).state == "done"

            async def ended() -> Reflection | None:
                found = await raven.introspections.reflections(TENANT, LOCAL.user_id)
                return found[0] if len(found) == number and found[0].state != "running" else None

            return await until(ended)

        async with raven.working():
            await compressed(raven, CompressionRequest("talk", tuple(await say(raven, "talk", SAID[:1]))))
            for number in range(1, len(misshapen) + 1):
                failed = await reflected(number)
                assert (failed.state, failed.first_compression, failed.last_compression) == ("failed", 1, number + 1)
                assert failed.error
                assert await raven.introspections.notes(TENANT, LOCAL.user_id, with_archived=True) == []
            last = len(misshapen) + 1
            assert (await reflected(last)).state == "done"
            [note] = await raven.introspections.notes(TENANT, LOCAL.user_id)
            assert note.content == good["content"]
            assert await raven.introspections.reflect(TENANT, LOCAL.user_id, "talk") is None
    assert thinker.seen == [list(range(1, number + 2)) for number in range(1, last + 1)]


@pytest.mark.req("AD-30")
async def test_a_reflection_is_told_what_it_replaces_and_all_there_is(tmp_path: Path) -> None:
    """A process of one's own gets the position, the warning, every note and every compression that was not seen."""
    told: list[dict[str, Any]] = []

    @tool(effect="read")
    async def think(about: dict[str, Any]) -> dict[str, Any]:
        """Keep what it was told, and write two notes."""
        told.append(about)
        return {"notes": [{"position": about["replaces"], "content": "new"}, {"position": 0, "content": "rewritten"}]}

    names = ("replaces", "warning", "positions", "notes", "compressions", "conversation_id", "user_id")
    step = {"id": "a", "tool": "think", "inputs": {"about": {name: f"{{step.{name}}}" for name in names}}}
    process = {"id": "reflect_memory", "description": "Mine", "initialContext": list(names)}
    process |= {"steps": [step | {"output": {"variable": "thought"}}]}
    knowledge = {"introspection_notes": 3, "introspection_compression_threshold": 20, "embedder": "off"}
    with opened_home(tmp_path, functions=[think], knowledge=knowledge) as raven:
        await raven.processes.save(Process.from_json(process), by=LOCAL)
        for content in ("first", "second"):
            await raven.introspections.add(LOCAL.user_id, content, by=LOCAL)
        async with raven.working():
            for number in range(2):
                ids = await say(raven, "talk", (SAID[number],), first=number)
                await compressed(raven, CompressionRequest("talk", tuple(ids)))
            await raven.introspections.reflect(TENANT, LOCAL.user_id, "talk")
            notes = await notes_of(raven, 3)
    (about,) = told
    assert (about["replaces"], about["positions"], about["conversation_id"]) == (2, 3, "talk")
    assert about["warning"].startswith("Position 2 will be replaced")
    assert about["user_id"] == LOCAL.user_id
    assert about["notes"] == [{"position": 0, "content": "first"}, {"position": 1, "content": "second"}]
    assert [each["number"] for each in about["compressions"]] == [1, 2]
    assert [(note.position, note.content) for note in notes] == [(0, "rewritten"), (1, "second"), (2, "new")]


@pytest.mark.req("AD-30")
async def test_nobody_waits_for_a_reflection(tmp_path: Path) -> None:
    """While the agent thinks, turns are said, summaries are made, and the command line says what is under way."""
    release = asyncio.Event()

    @tool(effect="read")
    async def think(compressions: list[dict[str, Any]]) -> dict[str, Any]:
        """Think for as long as the test wants."""
        await release.wait()
        return {"notes": [{"position": 0, "content": f"{len(compressions)} compressions."}]}

    async def shown(*command: str) -> Any:
        shell = Shell(tmp_path)
        return (await asyncio.to_thread(shell.succeed, "introspection", *command, "--output", "json")).json

    async def thinking() -> Any:
        return await raven.introspections.reflections(TENANT, LOCAL.user_id) or None

    knowledge = {"introspection_compression_threshold": 1, "embedder": "off", "extraction": "rules"}
    with opened_home(tmp_path, functions=[think], knowledge=knowledge) as raven:
        await raven.processes.save(thinking_process(), by=LOCAL)
        async with raven.working():
            ids = await say(raven, "talk", SAID[:1])
            assert (await compressed(raven, CompressionRequest("talk", tuple(ids)))).state == "done"
            await until(thinking)
            talk = (await raven.conversations.create(by=LOCAL)).conversation_id
            assert (await raven.conversations.say(talk, "I moved to Porto.", by=LOCAL)).sequence == 1
            ids = await say(raven, "talk", SAID[1:2], first=1)
            assert (await compressed(raven, CompressionRequest("talk", tuple(ids)))).state == "done"
            assert {each["state"] for each in await shown("reflections")} == {"running"}
            assert await shown("list") == []
            release.set()
            await notes_of(raven, 1)
    assert [each["position"] for each in await shown("list")] == [0]


@pytest.mark.req("AD-25")
async def test_an_entity_is_enriched_when_it_is_mentioned_often_enough(raven: TwinRaven) -> None:
    """The fifth mention starts enrichment in the background: facets, centrality and a summary, once."""
    texts = tuple(f"I love walking with Clara in Sintra on day {number}, it is great." for number in range(5))
    await say(raven, "walks", texts)
    async with raven.working():

        async def enriched() -> Any:
            found = await raven.entities.entities(TENANT, text="clara")
            return found[0] if found and found[0].enriched_at is not None else None

        clara = await until(enriched)
    assert clara.enriched_by == "rules"
    assert clara.facets["related"] == ["Sintra"]
    assert clara.facets["sentiment"] == ["positive"]
    assert 0 < clara.confidence["facets"]["sentiment"] <= 1
    assert clara.enrichment["centrality"] > 0
    assert clara.enrichment["turns_read"] == 5
    assert [each["name"] for each in clara.enrichment["neighbours"]] == ["Sintra"]
    assert "Clara" in clara.summary
    before = await raven.entities.details(TENANT, clara.entity_id)
    bad = "we see Clara sad, angry, hurt and sick: a terrible, awful, bad problem, the worst, and we hate what we lost."
    await say(raven, "walks", (f"Today {bad}", f"And again {bad}"), first=5)
    begun = [run.run_id for run in await raven.runs.list(TENANT, limit=100) if clara.entity_id in run.run_id]
    assert len(begun) == 1
    after = await raven.entities.enrich(TENANT, clara.entity_id)
    assert after.entity.facets["sentiment"] == ["positive", "negative"]
    assert after.entity.summary == before.entity.summary
    assert all(set(values) <= set(after.entity.facets[name]) for name, values in before.entity.facets.items())
    assert len(after.sources) == len(before.sources) + 2
