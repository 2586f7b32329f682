"""One contract for all extractors: rules, a spaCy pipeline and the configured model write the same tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell
from tests.homes import make_home, opened_home
from tests.postgres import PostgresLogin
from tests.scripted import RunningModel, scripted_model
from tests.working import FAST
from twinraven.app import TwinRaven, open_home
from twinraven.engine import Run
from twinraven.foundation.errors import InvalidInput, InvalidSetting, NotFound
from twinraven.knowledge import Entities, EntityDetails, NewEpisode

TENANT, GROUP = "default", "talk"
_SAID = {2022: "Yesterday Theo moved to Lisbon. I live in Porto.", 2023: "Then Theo moved to Berlin. I live in Oslo."}
_SYSTEM = "You read turns of a dialogue"


@dataclass(frozen=True)
class Case:
    """A home with one extractor, and whose moves it understands."""

    raven: TwinRaven
    name: str
    who: str
    first: str
    second: str


def answer(*facts: tuple[int, str, str], names: tuple[tuple[int, str, str], ...] = ()) -> dict[str, Any]:
    """What a model answers: who lives where in which turn, and the names of turns."""
    return {
        "entities": [{"turn": t, "name": name, "category": kind, "confidence": 0.9} for t, name, kind in names],
        "facts": [
            {
                "turn": turn,
                "subject": who,
                "relation": "Lives in",
                "value": where,
                "names_entity": True,
                "holds_one_value": True,
                "since": None,
                "confidence": 0.9,
            }
            for turn, who, where in facts
        ],
    }


def of_names(*names: str) -> dict[str, Any]:
    return answer(names=tuple((1, name, "Person") for name in names))


READ = answer(
    (1, "Theo", "Lisbon"),
    (2, "Theo", "Berlin"),
    (2, "Zeus", "Olympus"),
    names=((1, "Theo", "Person"), (1, "Lisbon", "Place"), (2, "Berlin", "Place"), (2, "Zeus", "Person")),
)
"""Two turns in one question; Zeus is an invention."""


def make_pipeline(folder: Path) -> str:
    """A pipeline of spaCy that names what it was told, because trained ones are not on every index."""
    made = import_module("spacy").blank("en")
    ruler = made.add_pipe("entity_ruler")
    labels = {"Theo": "PERSON", "Lisbon": "GPE", "Berlin": "GPE", "Porto": "GPE", "Oslo": "GPE", "Yesterday": "DATE"}
    ruler.add_patterns([{"label": label, "pattern": name} for name, label in labels.items()])
    made.to_disk(folder)
    return str(folder)


@pytest.fixture
async def model() -> AsyncGenerator[RunningModel]:
    async with scripted_model({"when": {"system": _SYSTEM}, "json": READ}) as running:
        yield running


@pytest.fixture(params=["rules", "spacy", "model"])
def case(request: pytest.FixtureRequest, tmp_path: Path, store: PostgresLogin | None) -> Generator[Case]:
    """A home of each extractor in turn, on each store."""
    knowledge: dict[str, Any] = {"embedder": "off", "extraction": request.param}
    sections: dict[str, Any] = {"engine": FAST}
    if request.param == "spacy":
        knowledge["spacy_pipeline"] = make_pipeline(tmp_path / "pipeline")
    if request.param == "model":
        sections |= request.getfixturevalue("model").settings()
    with opened_home(tmp_path / "home", postgres=store, knowledge=knowledge, **sections) as raven:
        if request.param == "rules":
            yield Case(raven, "rules", "Ann", "Porto", "Oslo")
        else:
            yield Case(raven, request.param, "Theo", "Lisbon", "Berlin")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> PostgresLogin | None:
    return request.getfixturevalue("postgres_login") if request.param == "postgres" else None


async def say(raven: TwinRaven, *texts: str, start: int = 0) -> None:
    said = [
        NewEpisode(GROUP, f"n{start + i}", text, speaker="Ann", valid_at=datetime(2022 + start + i, 5, 8, tzinfo=UTC))
        for i, text in enumerate(texts)
    ]
    await raven.knowledge.remember_all(TENANT, said)


async def read_through(raven: TwinRaven) -> list[Run]:
    """Let a worker finish every extraction; says how they ended."""
    async with raven.working(), asyncio.timeout(120):
        while True:
            found = [run for run in await raven.runs.list(TENANT) if run.run_id.startswith("extract-")]
            if all(run.state in ("succeeded", "failed") for run in found):
                return found
            await asyncio.sleep(0.02)


async def named(entities: Entities, name: str) -> EntityDetails:
    [found] = [each for each in await entities.entities(TENANT, group_id=GROUP) if each.name == name]
    return await entities.details(TENANT, found.entity_id)


async def names_of(raven: TwinRaven) -> set[str]:
    return {each.name for each in await raven.entities.entities(TENANT, group_id=GROUP)}


@pytest.mark.req("AD-23")
async def test_extractors_keep_one_contract(case: Case) -> None:
    """Names and facts have source and confidence, a later fact ends the earlier, and reading twice adds nothing."""
    raven = case.raven
    await say(raven, *_SAID.values())
    runs = await read_through(raven)
    assert [run.state for run in runs] == ([] if case.name == "rules" else ["succeeded"])
    city = await named(raven.entities, case.first)
    assert [(each.episode, each.type) for each in city.sources] == [("n0", case.name)]
    assert 0 < city.sources[0].confidence < 1
    assert city.entity.category == "Place"
    facts = {
        each.value: each
        for each in (await named(raven.entities, case.who)).relations
        if each.relation == "lives_in" and each.source == case.name
    }
    earlier, later = facts[case.first], facts[case.second]
    assert (earlier.valid_at, earlier.invalid_at) == (
        datetime(2022, 5, 8, tzinfo=UTC),
        datetime(2023, 5, 8, tzinfo=UTC),
    )
    assert (earlier.ended_by, later.invalid_at) == (later.fact_id, None)
    assert earlier.object_id == city.entity.entity_id
    assert 0 < earlier.confidence < 1
    assert await names_of(raven) >= {"Ann", "Lisbon", "Berlin"}
    assert not await names_of(raven) & {"Yesterday", "Zeus", "Olympus"}

    before = [await named(raven.entities, name) for name in (case.who, case.first, case.second)]
    await say(raven, *_SAID.values())
    if case.name != "rules":
        assert await raven.extraction.read_anew(TENANT, GROUP) == (case.name,)
        assert len(await read_through(raven)) == 2
    assert [await named(raven.entities, name) for name in (case.who, case.first, case.second)] == before


async def test_a_users_entity_keeps_its_category(case: Case) -> None:
    """What an extractor is sure of does not change what a person said of an entity."""
    made = await case.raven.entities.create(TENANT, case.first, "A ship", category="Object", group_id=GROUP)
    await say(case.raven, *_SAID.values())
    await read_through(case.raven)
    found = await named(case.raven.entities, case.first)
    assert (found.entity.entity_id, found.entity.category) == (made.entity_id, "Object")
    assert [each.type for each in found.sources] == ["user", case.name]


@pytest.mark.req("AD-30")
async def test_a_model_reads_through_the_call_path(tmp_path: Path, model: RunningModel) -> None:
    """An import is read by the configured model in one recorded call, without its conversation waiting for it."""
    said = [
        {"group_id": GROUP, "name": f"D{year}:1", "speaker": "Ann", "valid_at": f"{year}-05-08", "content": text}
        for year, text in _SAID.items()
    ]
    home = make_home(tmp_path, engine=FAST, knowledge={"embedder": "off"}, **model.settings())
    (tmp_path / "said.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in said))
    shell = Shell(tmp_path)
    await asyncio.to_thread(shell.succeed, "episodes", "import", "said.jsonl")
    assert model.exchanges == []
    with open_home(home) as raven:
        [run] = await read_through(raven)
        assert run.state == "succeeded"
        [exchange] = model.exchanges
        assert "[1] 2022-05-08 Ann: Yesterday Theo" in exchange.asked.last
        assert "[2] 2023-05-08 Ann: Then Theo" in exchange.asked.last
        calls = (await asyncio.to_thread(shell.succeed, "events", "list", "--output", "json")).json
        assert [each["tool_id"] for each in calls] == ["twinraven.ask_model"]
    listed = (await asyncio.to_thread(shell.succeed, "entities", "list", "--name", "Theo", "--output", "json")).json
    shown = (
        await asyncio.to_thread(shell.succeed, "entities", "show", listed[0]["entity_id"], "--output", "json")
    ).json
    assert {(each["value"], each["source"], each["confidence"]) for each in shown["relations"]} == {
        ("Lisbon", "model", 0.9),
        ("Berlin", "model", 0.9),
    }


async def test_rules_alone_ask_no_model(tmp_path: Path, model: RunningModel) -> None:
    """`knowledge.extraction: rules` leaves a configured model alone, and no run is started."""
    sections: dict[str, Any] = {
        "knowledge": {"embedder": "off", "extraction": "rules"},
        "engine": FAST,
        **model.settings(),
    }
    with opened_home(tmp_path, **sections) as raven:
        await say(raven, *_SAID.values())
        assert await read_through(raven) == []
        assert model.exchanges == []
        with pytest.raises(InvalidInput, match="only rules"):
            await raven.extraction.read_anew(TENANT, GROUP)


async def test_answers_are_mended_and_unreadable_turns_are_left_to_the_rules(tmp_path: Path) -> None:
    """Prose around an answer is mended; turns whose answers never fit are passed over, and those behind them read."""
    prose = {"when": {"contains": "Mia"}, "say": f"Here you are:\n{of_names('Mia')}".replace("'", '"')}
    never = {"when": {"mentions": "Noah"}, "say": "I would rather not."}
    other = {"when": {"contains": "Olga"}, "json": of_names("Olga")}
    async with scripted_model(prose, never, other) as model:
        sections: dict[str, Any] = {"knowledge": {"embedder": "off"}, "engine": FAST, **model.settings()}
        with opened_home(tmp_path, **sections) as raven:
            for place, name in enumerate(("Mia", "Noah", "Olga")):
                await say(raven, f"we met {name} today", start=place)
                await read_through(raven)
            runs = await read_through(raven)
            assert {run.state for run in runs} == {"succeeded"}
            outputs = [(await raven.runs.get(TENANT, run.run_id)).steps[0].output for run in runs]
            assert sorted(each["unread"] for each in outputs) == [0, 0, 1]
            assert [each.type for each in (await named(raven.entities, "Mia")).sources] == ["model"]
            assert [each.type for each in (await named(raven.entities, "Noah")).sources] == ["rules"]
            assert [each.type for each in (await named(raven.entities, "Olga")).sources] == ["model"]


async def test_a_model_that_is_away_is_asked_again_with_the_next_turn(tmp_path: Path) -> None:
    """A failure to reach the model fails the run and loses no turn; one that refuses a turn thrice is passed over."""
    away = {"when": "Mia", "status": 503, "times": 4}
    back = {"when": {"contains": "Mia"}, "json": of_names("Mia")}
    refused = {"when": {"contains": "Noah"}, "status": 400}
    async with scripted_model(away, back, refused) as model:
        sections: dict[str, Any] = {"knowledge": {"embedder": "off"}, "engine": FAST, **model.settings()}
        with opened_home(tmp_path, **sections) as raven:
            await say(raven, "we met Mia today")
            assert [run.state for run in await read_through(raven)] == ["failed"]
            await say(raven, "and it rained", start=1)
            assert sorted(run.state for run in await read_through(raven)) == ["failed", "succeeded"]
            assert [each.type for each in (await named(raven.entities, "Mia")).sources] == ["model"]
            for place in range(2, 5):
                await say(raven, f"we met Noah {place} times", start=place)
                await read_through(raven)
            assert sorted(run.state for run in await read_through(raven)) == ["failed"] * 3 + ["succeeded"] * 2


async def test_readers_that_race_store_once(tmp_path: Path, store: PostgresLogin | None) -> None:
    """A worker that was taken for dead and another that took over store what they found once."""
    sections: dict[str, Any] = {"knowledge": {"embedder": "off", "extraction": "model"}, "engine": FAST}
    async with scripted_model({"json": READ, "delay_s": 0.2}) as model:
        with opened_home(tmp_path, postgres=store, **sections, **model.settings()) as raven:
            await say(raven, *_SAID.values())
            both = [raven.extraction.read_group(TENANT, GROUP, "model") for _ in range(2)]
            await asyncio.gather(*both)
            assert len(model.exchanges) == 2
            facts = [each for each in (await named(raven.entities, "Theo")).relations if each.source == "model"]
            assert [each.value for each in facts] == ["Lisbon", "Berlin"]


async def test_wrong_settings_are_named(tmp_path: Path) -> None:
    """An extractor that is wished for and not there is a wrong setting; so is a pipeline that names nothing."""
    with opened_home(tmp_path / "a", knowledge={"extraction": "spacy", "spacy_pipeline": "xx_none"}) as raven:
        with pytest.raises(InvalidSetting, match="xx_none") as caught:
            await say(raven, "hello")
        assert caught.value.details["field"] == "knowledge.spacy_pipeline"
    with (
        opened_home(tmp_path / "b", knowledge={"extraction": "model"}) as raven,
        pytest.raises(InvalidSetting, match="no model is configured"),
    ):
        await say(raven, "hello")
    import_module("spacy").blank("en").to_disk(tmp_path / "blank")
    blank = {"extraction": "spacy", "spacy_pipeline": str(tmp_path / "blank"), "embedder": "off"}
    with opened_home(tmp_path / "c", knowledge=blank, engine=FAST) as raven:
        await say(raven, "hello")
        [run] = await read_through(raven)
        assert run.state == "failed"
        with pytest.raises(NotFound, match="nowhere"):
            await raven.extraction.read_anew(TENANT, "nowhere")
