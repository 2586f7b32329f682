"""One contract for both backends of knowledge: the tables alone on either store, and Graphiti on FalkorDB beside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell
from tests.falkor import falkor_server
from tests.homes import opened_home
from tests.integration.test_thinking import reflect_on
from tests.postgres import PostgresLogin
from tests.scripted import RunningModel, scripted_model
from twinraven.app import TwinRaven
from twinraven.foundation.errors import Conflict, InvalidInput, InvalidSetting, StorageUnavailable
from twinraven.knowledge import EpisodeFilter, GraphContent, NewEpisode

# Graphiti uses what newer versions of pydantic and redis discourage.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TENANT, GROUP = "default", "talk-1"
_DAY = datetime(2023, 5, 8, 13, tzinfo=UTC)
_SAID = (
    ("D1:1", "Ann", "I moved to Lisbon with my sister."),
    ("D1:2", "Bob", "Lovely! The weather must be nice there."),
    ("D2:1", "Ann", "We packed everything again, I moved to Porto."),
    ("D2:2", "Bob", "I bought a bicycle last week."),
)


def fact(city: str, words: str, since: str) -> dict[str, Any]:
    return {
        "source_entity_name": "Ann",
        "target_entity_name": city,
        "relation_type": "LIVES_IN",
        "fact": words,
        "valid_at": since,
        "invalid_at": None,
    }


def script() -> list[dict[str, Any]]:
    """What a model extracts from `_SAID`, by the schema that it is asked to fill in and the turn it is asked about."""

    def extracted(*names: str) -> dict[str, Any]:
        return {"extracted_entities": [{"name": name, "entity_type_id": 0} for name in names]}

    def when(turn: str, schema: str) -> dict[str, str]:
        return {"matches": rf"(?s)<CURRENT[ _]MESSAGE>[^<]*{turn}.*{schema}"}

    lisbon = fact("Lisbon", "Ann resides in the Portuguese capital", "2023-05-08T00:00:00Z")
    porto = fact("Porto", "Ann resides in the city of port wine", "2023-06-08T00:00:00Z")
    return [
        {"when": when("to Lisbon", "ExtractedEntities"), "json": extracted("Ann", "Lisbon")},
        {"when": when("to Porto", "ExtractedEntities"), "json": extracted("Ann", "Porto")},
        {"when": {"contains": "ExtractedEntities"}, "json": extracted()},
        {"when": when("to Lisbon", "ExtractedEdges"), "json": {"edges": [lisbon]}},
        {"when": when("to Porto", "ExtractedEdges"), "json": {"edges": [porto]}},
        {"when": {"contains": "ExtractedEdges"}, "json": {"edges": []}},
        {"when": {"contains": "EdgeDuplicate"}, "json": {"duplicate_facts": [], "contradicted_facts": [0]}},
        {"when": {"contains": "NodeResolutions"}, "json": {"entity_resolutions": []}},
        {"when": {"contains": "SummarizedEntities"}, "json": {"summaries": []}},
        {"when": {"contains": "Steps left: 8"}, "json": {"done": False, "searches": ["capital"]}},
        {"when": {"contains": "Steps left: 7"}, "json": {"done": True, "notes": [{"position": 0, "content": "a"}]}},
    ]


@pytest.fixture(scope="module")
def falkor(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with falkor_server(tmp_path_factory.mktemp("falkor")) as url:
        yield url


@pytest.fixture
async def model() -> AsyncGenerator[RunningModel]:
    async with scripted_model(*script()) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres", "graphiti"])
def raven(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[TwinRaven]:
    """A home of each backend in turn."""
    postgres: PostgresLogin | None = None
    sections: dict[str, Any] = {"knowledge": {"embedder": "off"}}
    if request.param == "postgres":
        postgres = request.getfixturevalue("postgres_login")
    if request.param == "graphiti":
        sections = graphed(request.getfixturevalue("falkor"), request.getfixturevalue("model"))
    with opened_home(tmp_path, postgres=postgres, **sections) as opened:
        yield opened


def graphed(url: str, model: RunningModel) -> dict[str, Any]:
    return {"knowledge": {"graph_url": url}, **model.settings()}


def turns(group: str = GROUP) -> list[NewEpisode]:
    return [
        NewEpisode(group, name, text, speaker=who, valid_at=_DAY + timedelta(days=31 * (name[1] == "2"), minutes=place))
        for place, (name, who, text) in enumerate(_SAID)
    ]


async def taken_in(raven: TwinRaven, group: str = GROUP) -> GraphContent:
    """What the graph holds when it holds every turn; a worker takes them in."""
    async with raven.working():
        for _ in range(1200):
            held = await raven.knowledge.graph_content(TENANT, group)
            if len(held.episode_ids) == len(_SAID) and await settled(raven):
                return held
            await asyncio.sleep(0.05)
    raise AssertionError("the graph did not take the turns in")


async def settled(raven: TwinRaven) -> bool:
    found = await raven.runs.list(TENANT)
    return all(run.state in ("succeeded", "failed") for run in found if run.run_id.startswith("graph-"))


async def names(raven: TwinRaven, question: str, **options: Any) -> list[str]:
    return [hit.name for hit in await raven.knowledge.search(TENANT, question, group_id=GROUP, **options)]


@pytest.mark.req("AD-21")
async def test_both_backends_keep_one_contract(raven: TwinRaven) -> None:
    """Stored once, found with reasons, filtered, and within its group and tenant: whichever backend holds it."""
    knowledge = raven.knowledge
    assert (await knowledge.remember_all(TENANT, turns())).added == len(_SAID)
    assert (await knowledge.remember_all(TENANT, turns())).present == len(_SAID)
    with pytest.raises(Conflict, match="D1:1"):
        await knowledge.remember(TENANT, NewEpisode(GROUP, "D1:1", "something else"))
    if raven.settings.knowledge.graph_url is not None:
        await taken_in(raven)
    [first, *_] = await knowledge.search(TENANT, "When did Bob buy a bicycle?", group_id=GROUP)
    assert (first.name, first.speaker, "bicycle" in first.why["words"]) == ("D2:2", "Bob", True)
    assert first.score == pytest.approx(sum(first.why["signals"].values()), abs=0.01)
    assert set(await names(raven, "moved", wanted=EpisodeFilter(speaker="bob"))) <= {"D1:2", "D2:2"}
    assert "D1:1" not in await names(raven, "moved", wanted=EpisodeFilter(since=_DAY + timedelta(days=10)))
    assert await knowledge.search(TENANT, "bicycle", group_id="talk-2") == []
    assert [len(each) for each in await knowledge.search_all(TENANT, [(GROUP, "bicycle")], limit=1)] == [1]


@pytest.mark.req("AD-21", "AD-30")
async def test_graphiti_holds_episodes_entities_and_temporal_facts(
    tmp_path: Path, falkor: str, model: RunningModel
) -> None:
    """Every turn is in the graph once, a later fact ends the earlier, and a fact leads to a turn without its words.

    The reflective agent is told the facts that led it to a turn.
    """
    with opened_home(tmp_path, **graphed(falkor, model)) as raven:
        await raven.knowledge.remember_all(TENANT, turns("moves"))
        held = await taken_in(raven, "moves")
        stored = await raven.knowledge.episodes(TENANT, group_id="moves")
        assert held.episode_ids == tuple(sorted(each.episode_id for each in stored))
        assert [each.name for each in held.entities] == ["Ann", "Lisbon", "Porto"]
        ended, current = sorted(held.facts, key=lambda each: each.valid_at or _DAY)
        assert (ended.relation, ended.invalid_at) == ("LIVES_IN", current.valid_at)
        assert current.invalid_at is None
        asking = ("knowledge", "search", "capital", "--group", "moves", "--output", "json")
        [first, *_] = (await asyncio.to_thread(Shell(tmp_path).run, *asking)).json
        assert first["name"] == "D1:1"
        assert first["why"]["graph"]["facts"] == ["Ann resides in the Portuguese capital"]
        assert first["why"]["signals"]["graph"] > 0

        await reflect_on(raven, "moves")
        findings = model.exchanges[-1].asked.last
        assert "- Ann: I moved to Lisbon with my sister. (known of it: Ann resides in the Portuguese" in findings

        asked = len(model.exchanges)
        forget = "UPDATE graph_progress SET next_seq = 0"
        await raven.database.write(TENANT, lambda tx: tx.execute(forget))
        await raven.graph_progress.take_in(TENANT, "moves")
        assert await raven.knowledge.graph_content(TENANT, "moves") == held
        assert len(model.exchanges) == asked


async def test_a_graph_that_is_wrong_or_away_is_named(tmp_path: Path, model: RunningModel) -> None:
    """An address that is none is a wrong setting; one where nobody answers is said to be out of reach."""
    with (
        opened_home(tmp_path / "a", **graphed("http://localhost", model)) as raven,
        pytest.raises(InvalidSetting, match="graph_url"),
    ):
        await raven.knowledge.search(TENANT, "anything", group_id=GROUP)
    with (
        opened_home(tmp_path / "b", **graphed("falkor://127.0.0.1:1", model)) as raven,
        pytest.raises(StorageUnavailable, match=r"127\.0\.0\.1:1"),
    ):
        await raven.knowledge.search(TENANT, "anything", group_id=GROUP)
    with opened_home(tmp_path / "c") as raven, pytest.raises(InvalidInput, match="graph_url"):
        await raven.knowledge.graph_content(TENANT, GROUP)
