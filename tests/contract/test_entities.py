"""Entities, facts and merges, on both stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, cast

import pytest

from twinraven.foundation.errors import Conflict, InvalidInput, NotFound
from twinraven.knowledge import Entities, EntityDetails, Knowledge, NewEpisode
from twinraven.knowledge.entities import duplicates, service
from twinraven.knowledge.entities.duplicates import DEFAULT_THRESHOLD, PossibleDuplicate, find_duplicates
from twinraven.knowledge.entities.model import KnownEntity
from twinraven.storage import Database, Row, Transaction

pytestmark = pytest.mark.tenants("t", "u")


@pytest.fixture
def entities(database: Database) -> Entities:
    ticks = count(1_700_000_000_000_000)
    return Entities(database, micros=lambda: next(ticks))


@pytest.fixture
def knowledge(database: Database) -> Knowledge:
    return Knowledge(database)


async def say(knowledge: Knowledge, *turns: str, speaker: str = "Ann", year: int = 2023, group: str = "g") -> None:
    start = len(await knowledge.episodes("t", group_id=group))
    await knowledge.remember_all(
        "t",
        [
            NewEpisode(group, f"n{start + i}", text, speaker=speaker, valid_at=datetime(year, 1, 1 + i, tzinfo=UTC))
            for i, text in enumerate(turns)
        ],
    )


async def found(entities: Entities, name: str) -> EntityDetails:
    listed = [each for each in await entities.entities("t", limit=500) if each.name == name]
    assert len(listed) == 1
    return await entities.details("t", listed[0].entity_id)


@pytest.mark.req("AD-23")
async def test_rules_extract_names_with_sources(entities: Entities, knowledge: Knowledge) -> None:
    """A name in a turn becomes an entity whose source is that turn, with a confidence."""
    await say(knowledge, "We visited Lisbon with my cousin Theo.", "Great, I still dream of Lisbon.")
    lisbon = await found(entities, "Lisbon")
    assert [(each.episode, each.type) for each in lisbon.sources] == [("n0", "rules"), ("n1", "rules")]
    assert all(0 < each.confidence < 1 for each in lisbon.sources)
    assert (await found(entities, "Theo")).entity.category == "Person"
    names = {each.name for each in await entities.entities("t")}
    assert names == {"Ann", "Lisbon", "Theo"}


@pytest.mark.req("AD-23")
async def test_known_speakers_are_looked_up_for_facts_alone(
    entities: Entities, knowledge: Knowledge, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that names nobody asks nothing of the entities, once its speaker is one; a fact finds its subject."""
    await say(knowledge, "The kettle is on.")
    kind = cast("Any", await database.read("t", type))
    asked: list[str] = []
    whole = kind.fetch_all

    def spied(self: Transaction, sql: str, **values: object) -> list[Row]:
        asked.append(sql)
        return whole(self, sql, **values)

    monkeypatch.setattr(kind, "fetch_all", spied)
    await say(knowledge, "The kettle is off.")
    assert asked
    assert not [sql for sql in asked if "FROM entities" in sql]
    await say(knowledge, "I moved to Lisbon.")
    assert [each.value for each in (await found(entities, "Ann")).relations] == ["Lisbon"]


@pytest.mark.req("AD-23")
async def test_a_later_fact_ends_the_earlier_one(entities: Entities, knowledge: Knowledge) -> None:
    """Of a relation with one value at a time the newest holds and history stays, in whatever order it is told."""
    await say(knowledge, "I moved to Lisbon.", year=2022)
    await say(knowledge, "I moved to Berlin.", year=2024)
    await say(knowledge, "I live in Oslo.", year=2023)
    facts = {each.value: each for each in (await found(entities, "Ann")).relations if each.relation == "lives_in"}
    starts = {name: facts[name].valid_at for name in ("Lisbon", "Oslo", "Berlin")}
    assert facts["Lisbon"].invalid_at == starts["Oslo"]
    assert facts["Oslo"].invalid_at == starts["Berlin"]
    assert facts["Berlin"].invalid_at is None
    assert facts["Lisbon"].ended_by == facts["Oslo"].fact_id


@pytest.mark.req("AD-23")
async def test_a_users_entity_takes_the_mentions_of_its_name(entities: Entities, knowledge: Knowledge) -> None:
    """What a user made is in force at once: later mentions of its name are its own."""
    made = await entities.create("t", "Theo Marsh", "My cousin", category="Person", group_id="g", created_by="me")
    await say(knowledge, "I had lunch with Theo Marsh.")
    details = await found(entities, "Theo Marsh")
    assert details.entity.entity_id == made.entity_id
    assert [each.type for each in details.sources] == ["user", "rules"]
    for field, body in (("name", ("", "x")), ("summary", ("Ann", ""))):
        with pytest.raises(InvalidInput, match=field):
            await entities.create("t", *body)
    with pytest.raises(InvalidInput, match="category"):
        await entities.create("t", "Merlin", "Makes magic", category="Wizard", group_id="g")


@pytest.mark.req("AD-24")
async def test_a_merge_moves_everything_and_can_be_undone(entities: Entities, knowledge: Knowledge) -> None:
    """After a merge every reference leads to the user's entity; undone, everything is as it was."""
    await say(knowledge, "I met Bob Miller.", "Yes, Bob Miller and Robert Miller came.", "My friend is Bob Miller.")
    mine = await entities.create("t", "Robert Miller", "A painter", category="Person")
    theirs = (await found(entities, "Bob Miller")).entity
    assert (await entities.enrich("t", theirs.entity_id)).entity.facets
    await entities.place("t", "talk", theirs.entity_id)
    before = [await entities.details("t", each) for each in (theirs.entity_id, mine.entity_id)]
    merged = await entities.merge("t", theirs.entity_id, mine.entity_id, by="me")
    assert (merged.kept_id, merged.gone_id) == (mine.entity_id, theirs.entity_id)
    after = await entities.details("t", theirs.entity_id)
    assert (after.entity.entity_id, after.entity.name) == (mine.entity_id, "Robert Miller")
    assert after.entity.aliases == ("Bob Miller",)
    assert after.entity.mentions == before[0].entity.mentions
    assert after.entity.facets == before[0].entity.facets
    assert after.entity.confidence["category"] == mine.confidence["category"] == 1
    assert [each.entity.entity_id for each in await entities.active("t", "talk")] == [mine.entity_id]
    assert "Bob Miller" not in {each.name for each in await entities.entities("t")}
    await say(knowledge, "Bob Miller again.")
    await entities.undo("t", merged.merge_id)
    assert [each.entity.entity_id for each in await entities.active("t", "talk")] == [theirs.entity_id]
    for was in before[1:]:
        assert (await entities.details("t", was.entity.entity_id)).entity.as_json() | {"mentions": 0} == (
            was.entity.as_json() | {"mentions": 0}
        )
    assert (await entities.details("t", theirs.entity_id)).sources[:3] == before[0].sources
    with pytest.raises(Conflict, match="undone already"):
        await entities.undo("t", merged.merge_id)


@pytest.mark.req("AD-24")
async def test_merges_are_undone_in_reverse(entities: Entities) -> None:
    """A merge on which another one built can be undone only after that one."""
    one, two, three = [(await entities.create("t", name, "x y")).entity_id for name in ("Aa", "Bb", "Cc")]
    first = await entities.merge("t", two, one)
    second = await entities.merge("t", three, two)
    assert (await entities.details("t", one)).entity.entity_id == three
    with pytest.raises(Conflict, match=second.merge_id):
        await entities.undo("t", first.merge_id)
    await entities.undo("t", second.merge_id)
    await entities.undo("t", first.merge_id)
    assert [(await entities.details("t", each)).entity.entity_id for each in (one, two, three)] == [one, two, three]


@pytest.mark.req("AD-24")
async def test_wrong_merges_are_refused(entities: Entities) -> None:
    """An entity cannot be merged with itself, nor with one that is not there or another tenant's."""
    one = (await entities.create("t", "Aa", "first")).entity_id
    foreign = (await entities.create("u", "Bb", "second")).entity_id
    with pytest.raises(InvalidInput, match="itself"):
        await entities.merge("t", one, one)
    for other in ("nobody", foreign):
        with pytest.raises(NotFound):
            await entities.merge("t", one, other)
    with pytest.raises(InvalidInput) as refused:
        await entities.create("t", "Aa", "x", category="Planet")
    assert refused.value.details["field"] == "category"


@pytest.mark.req("AD-24")
async def test_only_certain_duplicates_merge_unasked(entities: Entities, knowledge: Knowledge) -> None:
    """Equal tokens merge by themselves; look-alikes and a user's two entities wait for a person, and a no is final."""
    await say(knowledge, "I like Paris.", "I like GPT-4 and GPT-5.", "We met Paris Hilton.")
    await entities.create("t", "PARIS", "The city", group_id="h")
    await entities.create("t", "Acme Corp", "makes tools")
    await entities.create("t", "ACME Corporation", "makes tools")
    for number in (1042, 1043):
        await entities.create("t", f"order {number}", "an order")
    proposals = await entities.find_proposals("t", merges_certain=True)
    pairs = {frozenset((each.first_name, each.second_name)) for each in proposals}
    assert not {frozenset(("GPT-4", "GPT-5")), frozenset(("order 1042", "order 1043"))} & pairs
    assert frozenset(("Acme Corp", "ACME Corporation")) in pairs
    names = {each.name for each in await entities.entities("t")}
    assert {"PARIS", "Paris Hilton", "GPT-4", "GPT-5", "Acme Corp", "ACME Corporation"} <= names
    assert "Paris" not in names
    for each in proposals:
        await entities.reject("t", each.first_id, each.second_id, by="me")
    assert await entities.find_proposals("t", merges_certain=True) == []
    (merge,) = await entities.merges("t")
    await entities.undo("t", merge.merge_id)
    await entities.find_proposals("t", merges_certain=True)
    assert {"Paris", "PARIS"} <= {each.name for each in await entities.entities("t")}


@pytest.mark.req("AD-24")
async def test_what_is_of_another_category_is_asked(database: Database, knowledge: Knowledge) -> None:
    """However low the similarity is set, a person and a place of one name are proposed and not merged."""
    entities = Entities(database, threshold=0.5)
    await say(knowledge, "I visited my cousin Marisol.")
    await entities.create("t", "MARISOL", "A village", category="Place", group_id="h")
    proposed = await entities.find_proposals("t", merges_certain=True)
    assert {"Marisol", "MARISOL"} in [{each.first_name, each.second_name} for each in proposed]
    assert all(each.similarity < DEFAULT_THRESHOLD for each in proposed)
    assert {"Marisol", "MARISOL"} <= {each.name for each in await entities.entities("t")}


@pytest.mark.req("AD-24")
async def test_what_is_as_alike_as_asked_is_proposed(database: Database, knowledge: Knowledge) -> None:
    """A pair at the threshold is proposed and one below is not; one name for two things is not merged unasked."""
    await Entities(database).create("t", "Acme Corp", "makes tools")
    await Entities(database).create("t", "ACME Corporation", "makes tools")
    proposed = [await Entities(database, threshold=least).find_proposals("t") for least in (0.945, 0.944)]
    assert [[each.similarity for each in some] for some in proposed] == [[], [0.94]]
    await say(knowledge, "We heated Mercury, which is a metal.")
    entities = Entities(database)
    await entities.enrich("t", (await found(entities, "Mercury")).entity.entity_id)
    await entities.create("t", "MERCURY", "A planet near the sun", group_id="h")
    await entities.find_proposals("t", merges_certain=True)
    assert {"Mercury", "MERCURY"} <= {each.name for each in await entities.entities("t")}


@pytest.mark.req("AD-24")
async def test_a_third_entity_is_no_bridge_between_two(entities: Entities, knowledge: Knowledge) -> None:
    """What may not merge unasked does not by way of an entity that is like both: users' own, categories, a no."""
    await say(knowledge, "I like Paris.", "I work with Jordan.")
    for group in ("h", "i"):
        await entities.create("t", "PARIS" if group == "h" else "Páris", "The city", group_id=group)
    await entities.create("t", "JORDAN", "x", category="Person", group_id="h")
    await entities.create("t", "jordan", "y", category="Place", group_id="i")
    await entities.find_proposals("t", merges_certain=True)
    proposed = await entities.find_proposals("t", merges_certain=True)
    assert {"PARIS", "Páris", "JORDAN", "jordan"} <= {each.name for each in await entities.entities("t")}
    assert ["PARIS", "Páris"] in [sorted((each.first_name, each.second_name)) for each in proposed]


@pytest.mark.req("AD-24")
async def test_a_no_holds_whatever_merges_around_it(entities: Entities, knowledge: Knowledge) -> None:
    """Two that a person told apart stay two when a user makes a third that is like both."""
    await say(knowledge, "I met Tom Lee.", group="g")
    await say(knowledge, "I met TOM LEE.", group="h")
    first, second = [each.entity_id for each in await entities.entities("t") if each.name.casefold() == "tom lee"]
    await entities.find_proposals("t")
    await entities.reject("t", first, second, by="me")
    await entities.create("t", "tom lee", "a friend", group_id="i")  # a user's own: it is what the others merge into
    await entities.find_proposals("t", merges_certain=True)
    await entities.find_proposals("t", merges_certain=True)
    kept = [(await entities.details("t", each)).entity.entity_id for each in (first, second)]
    assert len(set(kept)) == 2


@pytest.mark.req("AD-25")
async def test_enrichment_adds_and_never_removes(entities: Entities, knowledge: Knowledge) -> None:
    """An extracted entity gets a summary and facets from its episodes; what a user wrote stays."""
    await say(knowledge, "We visited Lisbon with Theo.", "The trams of Lisbon are yellow.", "Theo loves Lisbon.")
    lisbon = await entities.enrich("t", (await found(entities, "Lisbon")).entity.entity_id)
    assert "Lisbon" in lisbon.entity.summary
    assert lisbon.entity.facets["related"] == ["Theo"]
    assert lisbon.entity.confidence["facets"]["related"] < 1
    mine = await entities.create("t", "Lisbon", "My town", group_id="other")
    theo = (await found(entities, "Theo")).entity.entity_id
    await entities.state("t", mine.entity_id, "home_of", "Theo", object_id=theo)
    around = await entities.neighbourhood("t", mine.entity_id)
    assert ([each.object_id for each in around.relations], around.degree) == ([theo], 1)
    enriched = (await entities.enrich("t", mine.entity_id)).entity
    assert (enriched.summary, (enriched.enrichment or {})["degree"]) == ("My town", 1)
    assert (enriched.enrichment or {})["centrality"] == around.centrality > 0


async def test_looking_for_duplicates_holds_nobody_up(
    entities: Entities, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are compared in no transaction, so that others write meanwhile, and the work has a bound."""
    for name in ("Acme Corp", "ACME Corporation", "Acme Corps"):
        await entities.create("t", name, "makes tools")

    def compare(known: Sequence[KnownEntity], threshold: float) -> list[PossibleDuplicate]:
        connection = database.connect()
        try:
            with connection.transaction("t", write=True) as tx:
                tx.execute("UPDATE entities SET summary = 'sells tools' WHERE tenant_id = 't'")
        finally:
            connection.close()
        return find_duplicates(known, threshold)

    monkeypatch.setattr(service, "find_duplicates", compare)
    monkeypatch.setattr(duplicates, "_MOST_PAIRS", 2)
    monkeypatch.setattr(service, "_MOST_PROPOSED", 1)
    (proposed,) = await entities.find_proposals("t")
    assert {each.summary for each in await entities.entities("t")} == {"sells tools"}
    assert "acme" in proposed.first_name.casefold()
