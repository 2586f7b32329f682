"""Long conversations: the oldest part of a path is summed up beside them, and stands for it in the working memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.postgres import PostgresLogin
from tests.talking import Speaker, bound, talking_home
from tests.working import working
from twinraven.app import TwinRaven
from twinraven.conversations import WorkingMemory
from twinraven.knowledge import CompressionRequest
from twinraven.tenancy import LOCAL

SENTENCE = "The parcel {0} went from Lisbon to Porto on day {0}, and Ann paid {0} euros for it. "


async def compressed(raven: TwinRaven, conversation_id: str) -> WorkingMemory:
    async with asyncio.timeout(60):
        while True:
            memory = await raven.conversations.memory(conversation_id, by=LOCAL)
            if memory.of("summary"):
                return memory
            await asyncio.sleep(0.05)


@pytest.mark.req("AD-22")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_path_that_is_too_long_is_summed_up(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A summary counts while all it covers is active, and tokens stay an exact sum within the budget."""
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if store == "postgres" else None
    settings = {"conversations": {"token_budget": 1_000}}
    with talking_home(tmp_path, Speaker(), postgres=login, **settings) as raven:
        talk = raven.conversations
        conversation_id = (await talk.create(by=LOCAL)).conversation_id
        turns = [await talk.say(conversation_id, SENTENCE.format(number) * 2, by=LOCAL) for number in range(1, 21)]
        async with working(raven):
            await bound(raven, conversation_id)
            memory = await compressed(raven, conversation_id)
        covered = [each.id for each in memory.left_out if "summary" in each.why and each.kind == "path"]
        assert turns[0].active.alternative_id in covered
        shown = {item.alternative_id for item in memory.of("path")}
        assert not shown & set(covered)
        assert turns[-1].active.alternative_id in shown
        assert memory.total_tokens == sum(item.tokens for item in memory.items) <= memory.budget
        assert [item.kind for item in memory.items][-len(shown) :] == ["path"] * len(shown)
        edited = await talk.edit(conversation_id, turns[0].turn_id, "Never mind the parcels.", by=LOCAL)
        last = await talk.memory(conversation_id, turn_id=turns[-1].turn_id, budget=100_000, by=LOCAL)
        assert not last.of("summary")
        assert last.of("path")[0].alternative_id == edited.active.alternative_id
        await talk.switch(conversation_id, turns[0].turn_id, turns[0].active.alternative_id, by=LOCAL)
        back = await talk.memory(conversation_id, by=LOCAL)
        (made,) = back.of("summary")
        assert len(back.material.path) == 20
        first = [place.place for place in back.material.path[:2]]
        wish = CompressionRequest(
            conversation_id,
            tuple(str(place.episode_id) for place in first),
            first[-1].turn_id,
            first[-1].alternative_id,
        )
        shorter = await raven.summaries.write(wish, "Two parcels.", by=LOCAL)
        for used, gone in ((made.id, made.id), (shorter.summary_id, shorter.summary_id), (None, None)):
            memory = await talk.memory(conversation_id, budget=100_000, by=LOCAL)
            assert [item.id for item in memory.of("summary")] == ([] if used is None else [used])
            if gone is not None:
                await raven.summaries.delete(gone, by=LOCAL)


@pytest.mark.req("AD-22")
async def test_entities_of_the_path_rise_and_fall(tmp_path: Path) -> None:
    """An entity is there with its relevance and why; it rises when it is spoken of, and falls when it is not."""
    with talking_home(tmp_path, Speaker()) as raven:
        talk = raven.conversations
        conversation_id = (await talk.create(by=LOCAL)).conversation_id
        made = await raven.entities.create(
            "default", "Marguerite Duval", "a customer in Lyon", category="Person", group_id=conversation_id
        )
        other = await raven.entities.create("default", "Harvest", "a fair in autumn", group_id=conversation_id)
        first = await talk.say(conversation_id, "Marguerite Duval called about her order.", by=LOCAL)
        async with working(raven):
            await bound(raven, conversation_id)
            near = await _relevance(raven, conversation_id, made.entity_id)
            assert 0 < near <= 1
            for number in range(6):
                await talk.say(conversation_id, f"Something else, part {number}, about the weather.", by=LOCAL)
            await bound(raven, conversation_id)
            far = await _relevance(raven, conversation_id, made.entity_id)
            assert far < near
            await talk.say(conversation_id, "Marguerite Duval called again.", by=LOCAL)
            await bound(raven, conversation_id)
            assert await _relevance(raven, conversation_id, made.entity_id) > far
        await raven.introspections.add(LOCAL.user_id, "She prefers the phone.", by=LOCAL)
        memory = await talk.memory(conversation_id, by=LOCAL)
        assert [each.text for each in memory.of("note")] == ["Note to self: She prefers the phone."]
        item = next(each for each in memory.of("entity") if each.id == made.entity_id)
        assert "Marguerite Duval" in item.text
        assert "relevance" in item.why
        flags = next(each for each in memory.as_json()["active_entities"] if each["entity_uuid"] == made.entity_id)
        assert flags["include_summary"] in (True, False)
        small = await talk.memory(conversation_id, budget=memory.total_tokens - 1, by=LOCAL)
        assert (small.left_out[0].kind, small.left_out[0].id) == ("entity", other.entity_id)
        assert first.active.alternative_id in [place.alternative_id for place in small.of("path")]
        await raven.entities.enrich("default", made.entity_id)
        for relation, value in (("lives_in", "Nantes"), ("lives_in", "Lyon")):
            await raven.entities.state("default", made.entity_id, relation, value)
        said = {"include_summary": "a customer", "include_facets": "mentioned_by", "include_relationships": "in: Lyon"}
        for flag in said:
            flags = dict.fromkeys(said, False) | {flag: True}
            await raven.entities.place("default", conversation_id, made.entity_id, **flags)
            memory = await talk.memory(conversation_id, by=LOCAL)
            item = next(each for each in memory.of("entity") if each.id == made.entity_id)
            assert [name for name, words in said.items() if words in item.text] == [flag]
            assert "Nantes" not in item.text


async def _relevance(raven: TwinRaven, conversation_id: str, entity_id: str) -> float:
    memory = await raven.conversations.memory(conversation_id, by=LOCAL)
    return next(float(str(each.relevance)) for each in memory.of("entity") if each.id == entity_id)


@pytest.mark.req("AD-22")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_entities_of_an_inactive_alternative_are_not_active(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The list of a conversation's entities follows its active path, as its working memory does."""
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if store == "postgres" else None
    with talking_home(tmp_path, Speaker(), postgres=login) as raven:
        talk = raven.conversations
        conversation_id = (await talk.create(by=LOCAL)).conversation_id
        said = await talk.say(conversation_id, "My cousin Theo moved to Lisbon.", by=LOCAL)
        edited = await talk.edit(conversation_id, said.turn_id, "My cousin Theo moved to Ghent.", by=LOCAL)
        async with working(raven):
            await bound(raven, conversation_id)
        for turn, place, other in ((edited, "Ghent", "Lisbon"), (said, "Lisbon", "Ghent")):
            await talk.switch(conversation_id, turn.turn_id, turn.active.alternative_id, by=LOCAL)
            active = {each.entity.name: each for each in await raven.entities.active("default", conversation_id)}
            assert place in active
            assert other not in active
            assert active["Theo"].why == "mentioned in 1 turn, last in the last one"
            memory = await talk.memory(conversation_id, by=LOCAL)
            assert {each.entity.entity_id for each in active.values()} == {each.id for each in memory.of("entity")}
