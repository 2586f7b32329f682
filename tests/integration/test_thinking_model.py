"""A configured model writes summaries, enriches entities and reflects; the carousel and the summaries of a home."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.homes import opened_home
from tests.integration.test_thinking import SAID, TENANT, compressed, notes_of, reflect_on, say, until
from tests.scripted import scripted_model
from twinraven.app import TwinRaven
from twinraven.audit import AuditFilter
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput, NotFound
from twinraven.knowledge import CompressionRequest, EpisodeFilter, NewEpisode
from twinraven.processes import Process
from twinraven.storage import Transaction
from twinraven.tenancy import LOCAL, Principal


@pytest.fixture
def raven(tmp_path: Path) -> Generator[TwinRaven]:
    with opened_home(tmp_path, knowledge={"introspection_notes": 3}) as opened:
        yield opened


def answer(**value: Any) -> dict[str, Any]:
    return {"json": value, "times": 1}


@pytest.mark.req("AD-25", "AD-26", "AD-30")
async def test_a_model_compresses_enriches_and_reflects(tmp_path: Path) -> None:
    """The agent is told what is replaced, searches and looks up before it writes, and may write several notes."""
    told = [
        answer(summary="Ann moved to Lisbon to be near Clara."),
        answer(done=False, searches=["Who lives in Lisbon?"], entities=["Lisbon"]),
        answer(done=True, notes=[{"position": 0, "content": "Ann"}, {"position": 2, "content": "Family matters."}]),
        answer(summary="A bakery hired Ann."),
        answer(done=True, notes=[{"position": 5, "content": "Work is new."}, {"position": 10, "content": "Nowhere."}]),
        answer(summary="A sister.", category="Person", facets={"role": ["sister"]}, confidence={"role": 0.9}),
        answer(summary="Somebody.", facets={"role": ["friend"]}, confidence={"role": 0.2}),
    ]
    async with scripted_model(*told) as model:
        sections = model.settings()
        knowledge = {"introspection_compression_threshold": 1, "extraction": "rules"}
        with opened_home(tmp_path, knowledge=knowledge, **sections) as raven:
            ids = await say(raven, "talk", SAID[:1])
            async with raven.working():
                done = await compressed(raven, CompressionRequest("talk", tuple(ids)))
                assert done.state == "done", done.error
                notes = await notes_of(raven, 2)
                more = await say(raven, "talk", SAID[1:2], first=1)
                assert (await compressed(raven, CompressionRequest("talk", tuple(more)))).state == "done"
                assert len(await notes_of(raven, 3)) == 3
            summary = await raven.summaries.summary(TENANT, done.summary_id or "")
            assert summary.content == "Ann moved to Lisbon to be near Clara."
            assert [(note.position, note.content) for note in notes] == [(0, "Ann"), (2, "Family matters.")]
            asked = [exchange.asked.last for exchange in model.exchanges]
            assert "Position 0 will be replaced" in asked[1]
            assert "The carousel is empty" in asked[1]
            assert summary.content in asked[1]
            assert SAID[0] in asked[2]
            assert "Entity Lisbon" in asked[2]
            assert asked[2].startswith(asked[1].partition("\n\nSteps left")[0])
            shown = ("Ann", "Family matters.", "A bakery hired Ann.", "Position 3 will be replaced", "0 to 9.")
            assert [text for text in shown if text not in asked[4]] == []
            [clara] = await raven.entities.entities(TENANT, text="clara")
            enriched = (await raven.entities.enrich(TENANT, clara.entity_id)).entity
            assert (enriched.facets, enriched.category) == ({"role": ["sister"]}, "Person")
            assert enriched.enriched_by == "model:scripted"
            assert enriched.confidence["facets"]["role"] == 0.9
            question = model.exchanges[5].asked.last
            around = (await raven.entities.neighbourhood(TENANT, clara.entity_id)).in_words()
            assert [text for text in ("Name: Clara", "Lisbon", around, SAID[0]) if text not in question] == []
            again = (await raven.entities.enrich(TENANT, clara.entity_id)).entity
            assert (again.summary, again.facets) == (enriched.summary, {"role": ["sister", "friend"]})
            assert again.confidence["facets"]["role"] == 0.9


@pytest.mark.req("AD-30")
async def test_the_agent_searches_what_its_user_may_read(tmp_path: Path) -> None:
    """What others said in their conversations, and the notes about them, reach no note about somebody else."""
    told = [
        answer(summary="Ann moved to Lisbon."),
        answer(done=False, searches=["salary in Lisbon"], entities=["Salary Corporation", "Lisbon"]),
        answer(done=True, notes=[{"position": 0, "content": "Ann lives in Lisbon."}]),
    ]
    async with scripted_model(*told) as model:
        knowledge = {"introspection_compression_threshold": 1, "extraction": "rules", "embedder": "off"}
        with opened_home(tmp_path, knowledge=knowledge, **model.settings()) as raven:
            user = await raven.tenancy.add_user(TENANT, "bob")
            bob = Principal(TENANT, user.user_id, "member")
            theirs = (await raven.conversations.create(by=bob)).conversation_id
            await say(raven, theirs, ("The salary that Salary Corporation pays me in Lisbon is secret-4711.",))
            await raven.introspections.add(bob.user_id, "His salary in Lisbon is secret-4712.", by=bob)
            await say(raven, "shared", ("A fair salary in Lisbon is hard to find.",))
            ids = await say(raven, "talk", SAID[:1])
            async with raven.working():
                await compressed(raven, CompressionRequest("talk", tuple(ids)))
                await notes_of(raven, 1)
            findings = model.exchanges[2].asked.last
    assert "A fair salary" in findings
    assert "Entity Lisbon" in findings
    assert [each for each in ("secret-471", "Entity Salary") if each in findings] == []


@pytest.mark.req("AD-30")
async def test_the_agent_has_a_budget_of_its_own(tmp_path: Path) -> None:
    """It may look things up seven times, for longer than other tools may take, and ends with the eighth answer."""
    asking = {"json": {"done": False, "searches": ["Lisbon"]}, "delay_s": 0.1}
    written = {"json": {"done": False, "notes": [{"position": 0, "content": "Ann lives in Lisbon."}]}, "times": 1}
    steps = [{**asking, "when": {"contains": f"Steps left: {left}."}} for left in range(8, 1, -1)]
    async with scripted_model(*steps, {**written, "when": {"contains": "Steps left: 1."}}) as model:
        knowledge = {"introspection_compression_threshold": 20, "extraction": "rules", "embedder": "off"}
        sections: dict[str, Any] = {
            "knowledge": knowledge,
            "calls": {"default_timeout_ms": 400},
            **model.settings(timeout_s=5),
        }
        with opened_home(tmp_path, **sections) as raven:
            found = await reflect_on(raven, "talk")
        assert len(model.exchanges) == 8
    assert found == {"notes": [{"position": 0, "content": "Ann lives in Lisbon."}], "by": "scripted"}


@pytest.mark.req("AD-30", "AD-22")
async def test_the_agent_is_told_when_a_relation_ended(tmp_path: Path) -> None:
    """Of two homes, one after the other, the first is shown with its end, so that it is not taken for the present."""
    told = [
        answer(done=False, entities=["Theo"]),
        answer(done=True, notes=[{"position": 0, "content": "Theo moved."}]),
    ]
    async with scripted_model(*told) as model:
        knowledge = {"extraction": "rules", "embedder": "off"}
        with opened_home(tmp_path, knowledge=knowledge, **model.settings()) as raven:
            for day, city in ((5, "Lisbon"), (6, "Berlin")):
                at = datetime(2023, day, 8, tzinfo=UTC)
                await raven.knowledge.remember(
                    TENANT, NewEpisode("g", f"n{day}", f"I moved to {city}.", speaker="Theo", valid_at=at)
                )
            await raven.entities.create(TENANT, "Theo", "a cousin who moves often", group_id="g")
            await reflect_on(raven, "g")
            findings = model.exchanges[1].asked.last
    assert "Entity Theo (unknown): a cousin who moves often" in findings
    assert "Lisbon since 2023-05-08 until 2023-06-08" in findings
    assert "Berlin since 2023-06-08." in findings


@pytest.mark.req("AD-25")
async def test_the_setting_says_how_many_mentions_start_enrichment(tmp_path: Path) -> None:
    """With `enrichment_edge_threshold: 2` the second mention starts it, also one that a merge brings."""
    knowledge = {"enrichment_edge_threshold": 2, "extraction": "rules"}
    with opened_home(tmp_path, knowledge=knowledge) as raven:
        await say(raven, "walks", ("I love walking with Clara in Sintra.", "I love walking with Clara again."))

        async def enriched() -> Any:
            found = await raven.entities.entities(TENANT, text="clara")
            return found[0] if found and found[0].enriched_at is not None else None

        async with raven.working():
            clara = await until(enriched)
        assert clara.enrichment["turns_read"] == 2
        [sintra] = await raven.entities.entities(TENANT, text="sintra")
        assert sintra.enriched_at is None
        await say(raven, "talks", ("I met Theo.", "I met Matteo."))
        [theo], [matteo] = [await raven.entities.entities(TENANT, text=name) for name in ("theo", "matteo")]
        merged = await raven.entities.merge(TENANT, theo.entity_id, matteo.entity_id)
        begun = [run.run_id for run in await raven.runs.list(TENANT, limit=100) if merged.kept_id in run.run_id]
        assert len(begun) == 1


@pytest.mark.req("AD-26")
async def test_summaries_are_written_repaired_covered_and_deleted(raven: TwinRaven) -> None:
    """Links never change, a repair keeps what was bound, coverage is stated once, deletion may compress again."""
    ids = await say(raven, "talk")
    made = await raven.summaries.write(CompressionRequest("talk", (ids[0], ids[2])), "Ann moved.", by=LOCAL)
    assert (made.level, made.sources, made.process_id) == (1, (ids[0], ids[2]), "manual")
    episode = await raven.knowledge.episode(TENANT, made.contents[0].episode_id)
    assert (episode.source, episode.group_id) == ("summary", "talk")
    repaired = await raven.summaries.repair(made.summary_id, "Ann moved to Lisbon.", by=LOCAL)
    assert repaired.content == "Ann moved to Lisbon."
    assert repaired.contents[0].episode_id == episode.episode_id
    assert repaired.token_count > made.token_count
    entries = await raven.audit.entries(TENANT, AuditFilter(subject_id=made.summary_id))
    assert [entry.event_type for entry in entries] == ["summary.written", "summary.repaired"]
    covered = await raven.summaries.backfill(made.summary_id, "turn-1", "alternative-1", by=LOCAL)
    assert covered.covers_up_to_turn == "turn-1"
    with pytest.raises(Conflict, match="stated already"):
        await raven.summaries.backfill(made.summary_id, "turn-2", None, by=LOCAL)
    for column in ("covers_up_to_turn", "process_id", "level"):
        with pytest.raises(AppendOnly):
            await _write(raven, f"UPDATE summaries SET {column} = 7 WHERE summary_id = '{made.summary_id}'")
    with pytest.raises(AppendOnly):
        await _write(raven, f"DELETE FROM summary_sources WHERE summary_id = '{made.summary_id}'")
    with pytest.raises(InvalidInput, match="at least one source"):
        CompressionRequest("talk", ())
    with pytest.raises(NotFound, match="episode"):
        await raven.summaries.write(CompressionRequest("talk", ("nobody",)), "x", by=LOCAL)
    with pytest.raises(InvalidInput, match="another group"):
        await raven.summaries.write(CompressionRequest("elsewhere", (ids[0],)), "x", by=LOCAL)
    again = await raven.summaries.delete(made.summary_id, by=LOCAL, recompress=True)
    assert again is not None
    assert await raven.summaries.summaries(TENANT, group_id="talk") == []
    assert (await raven.summaries.summary(TENANT, made.summary_id)).deleted_at is not None


@pytest.mark.req("AD-26")
async def test_anybody_can_replace_the_process_that_compresses(raven: TwinRaven) -> None:
    """A process saved under the id is what compresses from then on, and the summary names its version."""
    ids = await say(raven, "talk")
    async with raven.working():
        await compressed(raven, CompressionRequest("talk", tuple(ids)))
        step = {"id": "a", "tool": "memory_compress", "output": {"variable": "x"}}
        step["inputs"] = {name: f"{{step.{name}}}" for name in ("sources", "text", "level", "most_characters")}
        own = {
            "id": "compress_memory",
            "description": "Mine",
            "initialContext": ["sources", "text", "level", "most_characters"],
            "steps": [step],
            "outputTemplate": "Own: {{x.summary}}",
        }
        await raven.processes.save(Process.from_json(own), by=LOCAL)
        done = await compressed(raven, CompressionRequest("talk", tuple(ids)))
    summary = await raven.summaries.summary(TENANT, done.summary_id or "")
    assert summary.content.startswith("Own: ")
    assert summary.process_version == 2


async def _write(raven: TwinRaven, sql: str) -> None:
    def work(tx: Transaction) -> None:
        tx.execute(sql)

    await raven.database.write(TENANT, work)


@pytest.mark.req("AD-27")
async def test_the_carousel_turns_and_loses_nothing(raven: TwinRaven) -> None:
    """Positions wrap, the oldest note is replaced and archived, notes are corrected and deleted by hand, per user."""
    made = [await raven.introspections.add("ann", f"note {number}", by=LOCAL) for number in range(5)]
    assert [note.position for note in made] == [0, 1, 2, 0, 1]
    current = await raven.introspections.notes(TENANT, "ann")
    assert [(note.position, note.content) for note in current] == [(0, "note 3"), (1, "note 4"), (2, "note 2")]
    every = await raven.introspections.notes(TENANT, "ann", with_archived=True)
    assert [note.archived_because for note in every] == ["replaced", "replaced", None, None, None]
    corrected = await raven.introspections.correct(current[0].introspection_id, "note 3, corrected", by=LOCAL)
    assert (corrected.content, len(corrected.contents)) == ("note 3, corrected", 2)
    gone = await raven.introspections.delete(current[1].introspection_id, by=LOCAL)
    assert gone.archived_because == "deleted"
    with pytest.raises(Conflict, match="archived already"):
        await raven.introspections.delete(gone.introspection_id, by=LOCAL)
    assert (await raven.introspections.add("ann", "refilled", by=LOCAL)).position == 1
    with pytest.raises(InvalidInput, match="position must be 0 to 2"):
        await raven.introspections.add("ann", "x", by=LOCAL, position=3)
    assert await raven.introspections.notes(TENANT, "bob") == []
    with pytest.raises(AppendOnly):
        await _write(raven, "UPDATE introspections SET position = 2")


@pytest.mark.req("AD-29")
async def test_summaries_and_archived_notes_are_found(raven: TwinRaven) -> None:
    """Episodes, summaries and notes, current and archived, are found by words, filtered by source, with reasons."""
    ids = await say(raven, "talk")
    await raven.summaries.write(
        CompressionRequest("talk", tuple(ids)), "Ann relocated and works in a bakery.", by=LOCAL
    )
    for number in range(4):
        await raven.introspections.add("ann", f"Enjoys chess variant {number}.", by=LOCAL)
    found = await raven.knowledge.search(TENANT, "bakery", group_id="talk", wanted=EpisodeFilter(source="summary"))
    assert [hit.content for hit in found] == ["Ann relocated and works in a bakery."]
    assert found[0].why["words"] == ["bakery"]
    notes = await raven.knowledge.search(TENANT, "chess", group_id="introspection:ann", limit=10)
    assert {hit.content for hit in notes} == {f"Enjoys chess variant {number}." for number in range(4)}
    of_notes = EpisodeFilter(source="introspection")
    assert len(await raven.knowledge.search(TENANT, "chess", group_id="introspection:ann", wanted=of_notes)) == 4
    said = await raven.knowledge.search(TENANT, "bakery", group_id="talk", wanted=EpisodeFilter(speaker="Ann"))
    assert said[0].name == "Turn:talka1"


@pytest.mark.soak
@pytest.mark.req("AD-29")
async def test_meaning_finds_what_words_do_not(tmp_path: Path) -> None:
    """With an embedder a turn is found that shares no word with the question, and the hit says how similar it is."""
    with opened_home(tmp_path, knowledge={"embedder": "installed"}) as raven:
        texts = ("The physician prescribed antibiotics.", "We repainted the fence.", "Dinner was pasta again.")
        await say(raven, "talk", texts)
        [first, *_] = await raven.knowledge.search(TENANT, "medication", group_id="talk")
        assert first.content == texts[0]
        assert first.why["similarity"] > 0.2


@pytest.mark.req("AD-22")
async def test_relevance_rises_and_falls_with_the_path(raven: TwinRaven) -> None:
    """An entity's relevance follows the turns of the path that mention it; what a person put there keeps a floor."""
    texts = ("We met Clara today.", "It rained.", "It rained again.", "Then it snowed.")
    ids = await say(raven, "talk", texts)
    own = await raven.entities.create(TENANT, "Garden project", "the plot", group_id="talk")
    scores: list[float] = []
    for end in range(1, 5):
        active = await raven.entities.active(TENANT, "talk", episode_ids=ids[:end])
        scores += [each.relevance for each in active if each.entity.name == "Clara"]
        assert [each.relevance for each in active if each.entity.entity_id == own.entity_id] == [0.5]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    active = await raven.entities.active(TENANT, "talk", episode_ids=ids)
    assert next(each.why for each in active if each.entity.name == "Clara") == "mentioned in 1 turn, last 3 turns ago"
    left = await raven.entities.active(TENANT, "talk", episode_ids=ids[1:])
    assert "Clara" not in {each.entity.name for each in left}
    await raven.entities.place(TENANT, "talk", own.entity_id, is_active=False)
    assert own.entity_id not in {each.entity.entity_id for each in await raven.entities.active(TENANT, "talk")}


@pytest.mark.req("AD-27")
async def test_reflection_needs_an_owner(raven: TwinRaven) -> None:
    """A member's notes are no other member's; nothing is reflected where nothing was compressed."""
    note = await raven.introspections.add("ann", "hers", by=Principal(TENANT, "ann", "member"))
    with pytest.raises(NotFound):
        await raven.introspections.note(TENANT, note.introspection_id, user_id="bob")
    assert await raven.introspections.reflect(TENANT, "ann", "talk") is None


@pytest.mark.req("AD-25", "AD-26")
async def test_a_model_that_never_answers_as_asked_leaves_it_to_the_rules(tmp_path: Path) -> None:
    """Whatever the model says instead, the entity is enriched and the summary made, and both say by what."""
    async with scripted_model({"say": "I know."}) as model:
        knowledge = {"enrichment_edge_threshold": 2, "extraction": "rules"}
        with opened_home(tmp_path, knowledge=knowledge, **model.settings()) as raven:
            ids = await say(
                raven, "walks", ("I love walking with Clara in Sintra.", "I love walking with Clara again.")
            )
            async with raven.working():
                clara = await until(lambda: _enriched(raven))
                done = await compressed(raven, CompressionRequest("walks", tuple(ids)))
            assert clara.enriched_by == "rules"
            assert done.state == "done", done.error
            assert "walking" in (await raven.summaries.summary(TENANT, done.summary_id or "")).content


@pytest.mark.req("AD-25")
async def test_an_enrichment_that_failed_is_started_by_the_next_mention(tmp_path: Path) -> None:
    """A model that cannot be reached costs an entity nothing but time."""
    sections: dict[str, Any] = {
        "model": {"name": "away", "url": "http://127.0.0.1:9/v1"},
        "connectors": {"allow_private": ["127.0.0.1"]},
    }
    knowledge = {"enrichment_edge_threshold": 2, "extraction": "rules"}
    with opened_home(tmp_path, knowledge=knowledge, **sections) as raven:
        said = ("I love walking with Clara in Sintra.", "I love walking with Clara again.", "I met Clara.")
        async with raven.working():
            for number, text in enumerate(said):
                await say(raven, "walks", (text,), first=number)
                if number:
                    await until(lambda number=number: _failed(raven, number))
        assert await _enriched(raven) is None


async def _enriched(raven: TwinRaven) -> Any:
    found = await raven.entities.entities(TENANT, text="clara")
    return found[0] if found and found[0].enriched_at is not None else None


async def _failed(raven: TwinRaven, count: int) -> bool | None:
    found = await raven.runs.list(TENANT, limit=10)
    failed = [run for run in found if run.run_id.startswith("enrich-") and run.state == "failed"]
    return len(failed) == count or None
