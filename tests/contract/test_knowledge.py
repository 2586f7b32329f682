"""Episodes and the search over them, on both stores."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput, NotFound
from twinraven.knowledge import EpisodeFilter, Knowledge, NewEpisode, read_questions
from twinraven.storage import Database

pytestmark = pytest.mark.tenants("t", "u")

_DAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
_LATER = datetime(2023, 8, 8, tzinfo=UTC)
_TALK = (
    ("D1:1", "Ann", "Hi Bob! What did you do last weekend?"),
    ("D1:2", "Bob", "I adopted a tabby from the shelter, her name is Biscuit."),
    ("D1:3", "Ann", "So sweet! I signed up for a pottery class last Friday."),
    ("D1:4", "Bob", "Pottery sounds fun. Where is it?"),
    ("D1:5", "Ann", "At the old mill by the river."),
    ("D2:1", "Bob", "We hiked up to the lake with the kids yesterday."),
)


@pytest.fixture
def knowledge(database: Database) -> Knowledge:
    return Knowledge(database)


def talk(group: str = "g") -> list[NewEpisode]:
    return [NewEpisode(group, name, content, speaker=who, valid_at=_DAY) for name, who, content in _TALK]


async def names(knowledge: Knowledge, question: str, **options: Any) -> list[str]:
    return [hit.name for hit in await knowledge.search("t", question, group_id="g", **options)]


@pytest.mark.req("AD-20")
async def test_an_episode_is_stored_once(knowledge: Knowledge) -> None:
    """The same import again adds nothing, and other content under a name is reported and changes nothing."""
    assert (await knowledge.remember_all("t", talk())).added == len(_TALK)
    again = await knowledge.remember_all("t", [*talk(), NewEpisode("g", "D1:1", "something else")])
    assert (again.added, again.present, again.conflicts) == (0, len(_TALK), ("D1:1",))
    assert (await knowledge.named_episode("t", "g", "D1:1")).content == _TALK[0][2]
    with pytest.raises(Conflict, match="D1:1"):
        await knowledge.remember("t", NewEpisode("g", "D1:1", "something else"))


async def test_writers_of_one_group_take_turns(knowledge: Knowledge) -> None:
    """Concurrent writers of one group store each episode once, and every one is found."""
    batches = [[NewEpisode("g", f"n{i}", f"turn number word{i}") for i in range(j, j + 4)] for j in range(6)]
    await asyncio.gather(*(knowledge.remember_all("t", batch) for batch in batches))
    stored = await knowledge.episodes("t", group_id="g")
    assert sorted(each.name for each in stored) == sorted(f"n{i}" for i in range(9))
    assert [await names(knowledge, f"word{i}", limit=1) for i in range(9)] == [[f"n{i}"] for i in range(9)]


@pytest.mark.req("AD-29")
async def test_a_question_finds_its_answer_and_says_why(knowledge: Knowledge) -> None:
    """A hit names the words that matched, which stood for others, and what each signal added."""
    await knowledge.remember_all("t", talk())
    hits = await knowledge.search("t", "When did Ann sign up for the pottery class?", group_id="g", limit=3)
    assert hits[0].name == "D1:3"
    assert {"pottery", "class"} <= set(hits[0].why["words"])
    assert hits[0].why["signals"]["time"] > 0
    assert hits[0].score == pytest.approx(sum(hits[0].why["signals"].values()), abs=0.01)
    cat = (await knowledge.search("t", "What is Bob's cat called?", group_id="g", limit=1))[0]
    assert (cat.name, cat.why["related"]) == ("D1:2", {"called": ["name"]})


async def test_an_answer_is_found_behind_its_question(knowledge: Knowledge) -> None:
    """A turn that shares no word with the query is found because the turn before asked for it."""
    await knowledge.remember_all("t", talk())
    assert "D1:5" in await names(knowledge, "Where is the pottery class?", limit=3)


@pytest.mark.req("AD-29")
@pytest.mark.parametrize("asked", ["on 7 May 2023", "in May 2023"])
async def test_a_question_that_names_a_date_finds_what_was_told_of_it(knowledge: Knowledge, asked: str) -> None:
    """A turn of that date is found though no word matches, and the words of the date find nothing else."""
    later = [
        NewEpisode("g", f"D{n}:1", "There were 2023 crumbs beside 7 spoons.", speaker="Bob", valid_at=_LATER)
        for n in range(3, 9)
    ]
    await knowledge.remember_all("t", [*talk(), *later])
    hits = await knowledge.search("t", f"Which excursion was it {asked}?", group_id="g", limit=6)
    assert "D2:1" in [hit.name for hit in hits[:2]]
    assert hits[0].why["signals"]["date"] > 0
    assert {hit.name[:2] for hit in hits[:4]} <= {"D1", "D2"}


@pytest.mark.req("AD-29")
async def test_filters_and_neighbours(knowledge: Knowledge) -> None:
    """Only what a filter lets through is found; neighbours are the turns beside a hit."""
    late = NewEpisode(
        "g", "D3:1", "More pottery", speaker="Bob", source="note", valid_at=datetime(2024, 1, 1, tzinfo=UTC)
    )
    await knowledge.remember_all("t", [*talk(), late])
    assert set(await names(knowledge, "pottery", wanted=EpisodeFilter(speaker="bob"))) <= {
        "D1:2",
        "D1:4",
        "D2:1",
        "D3:1",
    }
    assert await names(knowledge, "pottery", wanted=EpisodeFilter(source="note")) == ["D3:1"]
    assert await names(knowledge, "pottery", wanted=EpisodeFilter(since=datetime(2023, 12, 1, tzinfo=UTC))) == ["D3:1"]
    assert "D3:1" not in await names(
        knowledge, "pottery", wanted=EpisodeFilter(until=datetime(2023, 12, 1, tzinfo=UTC))
    )
    hit = (await knowledge.search("t", "hiked lake", group_id="g", limit=1, neighbours=1))[0]
    assert [each.name for each in hit.neighbours] == ["D1:5", "D3:1"]


@pytest.mark.req("AD-20")
async def test_long_content_lies_in_parts_and_is_found_as_one(knowledge: Knowledge) -> None:
    """A word deep inside a long episode finds it under its one name, and it reads back whole."""
    content = "lorem ipsum dolor. " * 3000 + "The zanzibar clause. " + "sit amet. " * 3000
    stored = await knowledge.remember("t", NewEpisode("g", "long", content))
    assert stored.parts > 10
    assert stored.content == content
    hits = await knowledge.search("t", "zanzibar clause lorem", group_id="g")
    assert [hit.name for hit in hits] == ["long"]
    assert "zanzibar" in hits[0].content


@pytest.mark.req("AD-29")
async def test_tenants_and_groups_are_apart(knowledge: Knowledge) -> None:
    """Nobody finds or reads an episode of another tenant, and a group's search stays inside it."""
    await knowledge.remember_all("t", talk())
    await knowledge.remember_all("t", talk("h"))
    stored = await knowledge.named_episode("t", "g", "D1:1")
    assert await knowledge.search("other", "pottery class") == []
    assert await knowledge.episodes("other") == []
    with pytest.raises(NotFound):
        await knowledge.episode("other", stored.episode_id)
    assert {hit.group_id for hit in await knowledge.search("t", "pottery", group_id="h")} == {"h"}
    assert {hit.group_id for hit in await knowledge.search("t", "pottery")} == {"g", "h"}


@pytest.mark.req("AD-29")
async def test_a_question_for_a_name_prefers_turns_that_bring_one(knowledge: Knowledge) -> None:
    """Who and where want a name that the question does not have; the other speaker's name does not count."""
    told = ("Bob, my new boss at work is so strict.", "Oh no.", "My new boss at work, Priscilla, is so strict.")
    await knowledge.remember_all("t", [NewEpisode("g", f"n{n}", text, speaker="Ann") for n, text in enumerate(told)])
    await knowledge.remember("t", NewEpisode("g", "n3", "Poor you.", speaker="Bob"))
    hits = {hit.name: hit for hit in await knowledge.search("t", "Who is Ann's new boss?", group_id="g")}
    assert hits["n2"].why["signals"]["named"] > 0
    assert "named" not in hits["n0"].why["signals"]
    assert hits["n2"].score > hits["n0"].score
    [plain, *_] = await knowledge.search("t", "How strict is Ann's new boss?", group_id="g")
    assert "named" not in plain.why["signals"]


@pytest.mark.req("AD-29")
async def test_a_hit_says_how_much_it_tells_and_how_much_of_the_question_is_near(knowledge: Knowledge) -> None:
    """The words of a question may stand in a turn and those beside it; detail is measured beside the dialogue."""
    told = (
        "How is the violin?", "Great, the lessons are on Monday in the old mill, and my teacher lends me hers.",
        "Lessons, lessons, lessons.", "Fine.",
    )  # fmt: skip
    await knowledge.remember_all("t", [NewEpisode("g", f"n{n}", text, speaker="Ann") for n, text in enumerate(told)])
    hits = {hit.name: hit.why["signals"] for hit in await knowledge.search("t", "violin lessons", group_id="g")}
    assert hits["n1"]["near"] == hits["n2"]["near"] > 0
    assert hits["n1"]["detail"] > hits["n2"]["detail"]


@pytest.mark.req("AD-29")
async def test_an_answer_is_found_by_what_it_is_about(knowledge: Knowledge) -> None:
    """An answer that shares no word with the question, and is beside none, is found, and the nearest word is named."""
    told = [f"We painted fence number {number} and the gate." for number in range(40)]
    told[10] = "Pickle ate my pancakes."
    told[30] = "The surgeon sewed it up, and now there is a fever."
    await knowledge.remember_all("t", [NewEpisode("g", f"n{place}", text) for place, text in enumerate(told)])
    found = await knowledge.search("t", "What happened to Pickle in hospital?", group_id="g")
    answer = next(hit for hit in found if hit.name == "n30")
    assert (answer.why["words"], answer.why["related"]) == ([], {})
    assert answer.why["similar"]["hospital"] == "surgeon"
    assert min(answer.why["signals"][name] for name in ("theme", "near")) > 0


@pytest.mark.req("AD-29")
async def test_of_a_large_group_the_best_passages_are_compared(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a group beyond the limit, passages are compared for those turns that the other signals rank first."""
    await knowledge.remember_all("t", talk())
    asked = ("t", "Where is the pottery class that Ann signed up for?")
    whole = await knowledge.search(*asked, group_id="g")
    monkeypatch.setattr("twinraven.knowledge.searching._WHOLE_PARTS", 0)
    large = await knowledge.search(*asked, group_id="g")
    assert whole[0].name == large[0].name == "D1:3"
    assert large[0].why["signals"]["near"] > 0
    monkeypatch.setattr("twinraven.knowledge.searching._COMPARED", 1)
    found = await knowledge.search(*asked, group_id="g")
    assert [hit.name for hit in found if "near" in hit.why["signals"]] == ["D1:3"]


@pytest.mark.req("AD-29")
async def test_a_search_of_all_groups_prefers_those_whose_speakers_are_named(knowledge: Knowledge) -> None:
    """Ann's dialogue answers a question about Ann, though another one has more of its words."""
    others = ("Pottery class? I signed up for the pottery class.", "The pottery class is on Friday.")
    told = [NewEpisode("h", f"D1:{n}", text, speaker="Zoe", valid_at=_DAY) for n, text in enumerate(others)]
    await knowledge.remember_all("t", [*talk(), *told])
    asked = "When did Ann sign up for the pottery class?"
    hits = await knowledge.search("t", asked, limit=4)
    assert {hit.group_id for hit in hits[:2]} == {"g"}
    away = [hit for hit in await knowledge.search("t", asked, limit=20) if hit.group_id == "h"]
    assert away[0].why["signals"]["other_group"] < 0
    assert away[0].score == pytest.approx(sum(away[0].why["signals"].values()), abs=0.01)
    assert [hit.name for hit in hits] == (await knowledge.search_all("t", [(None, asked)], limit=4))[0]


@pytest.mark.req("AD-20")
async def test_episodes_never_change(database: Database, knowledge: Knowledge) -> None:
    """The database refuses to change or remove an episode."""
    await knowledge.remember_all("t", talk())
    for statement in ("UPDATE episodes SET content = 'x'", "DELETE FROM episodes"):
        with pytest.raises(AppendOnly):
            await database.write("t", lambda tx, sql=statement: tx.execute(sql))


async def test_pages_of_episodes_go_on_behind_an_id(knowledge: Knowledge) -> None:
    """Paging by id gives every episode once, in order."""
    await knowledge.remember_all("t", talk())
    seen: list[str] = []
    after = None
    while page := await knowledge.episodes("t", limit=4, after=after):
        seen += [each.name for each in page]
        after = page[-1].episode_id
    assert seen == [name for name, _, _ in _TALK]


_IDS = ("3f2a9c1e-ab12", "77-c0ffee41", "e5d1-9", "5b0d-ef77", "x-1", "c4-beef99")


@pytest.mark.req("AD-20")
@pytest.mark.parametrize(
    ("form", "is_timed"),
    [("D{session}:{turn}", True), ("session_{session}-turn-{turn}", False), ("conv-26-{place}", True), ("{id}", True)],
)
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (3, 0, 5, 2, 1, 4)])
async def test_turns_lie_in_sessions_as_they_were_said(
    knowledge: Knowledge, form: str, is_timed: bool, order: tuple[int, ...]
) -> None:
    """Whatever turns are called and however lines are ordered, times or numbers in names tell order and sessions."""
    lines: list[bytes] = []
    for place in range(6):
        session, turn = place // 3 + 1, place % 3 + 1
        name = form.format(session=session, turn=turn, place=place + 9, id=_IDS[place])
        at = f"2023-05-0{session}T13:0{turn}:00" if is_timed else None
        line = {"group_id": "g", "name": name, "content": f"turn {place}", "valid_at": at}
        lines.append(json.dumps(line).encode())
    await knowledge.import_lines("t", [lines[place] for place in order])
    stored = await knowledge.episodes("t", group_id="g")
    assert [(each.content, each.session) for each in stored] == [(f"turn {n}", n // 3) for n in range(6)]


async def test_lines_that_nothing_orders_stay_as_they_are(knowledge: Knowledge) -> None:
    """Ids that only look like numbers, without times, say nothing about the order."""
    names_given = ["id 48213", "id 17", "id 905"]
    lines = [json.dumps({"group_id": "g", "name": name, "content": "hello"}).encode() for name in names_given]
    await knowledge.import_lines("t", lines)
    assert [each.name for each in await knowledge.episodes("t", group_id="g")] == names_given


async def test_a_file_with_wrong_lines_is_imported_without_them(knowledge: Knowledge) -> None:
    """Each refused line is reported with its number and the field to mend; the others are stored."""
    good = {"group_id": "g", "name": "a", "content": "Ann: hello there", "valid_at": "2023-05-08"}
    wrong = (
        {**good, "name": "b", "valid_at": "8th of May"},
        {**good, "name": "c", "content": "nul \0"},
        {"name": "d", "content": "no group"},
        {**good, "name": "e", "content": "x" * 2_000_001},
    )
    lines = [json.dumps(each).encode() for each in (good, *wrong)]
    report = await knowledge.import_lines("t", [*lines, b"{not json", b"\n", b'{"group_id": "\\ud800"}'])
    assert report.done.added == 1
    assert [refusal.line for refusal in report.refusals] == [2, 3, 4, 5, 6, 8]
    assert ["valid_at" in report.refusals[0].reason, "NUL" in report.refusals[1].reason] == [True, True]
    stored = await knowledge.named_episode("t", "g", "a")
    assert (stored.speaker, stored.valid_at) == ("Ann", datetime(2023, 5, 8, tzinfo=UTC))


async def test_files_as_editors_write_them_are_read(knowledge: Knowledge) -> None:
    """A byte order mark, blank lines, carriage returns and fields of others do no harm; an empty question is named."""
    first, second = ({"group_id": "g", "name": name, "content": "hello there", "seen": [1]} for name in "ab")
    mark = b"\xef\xbb\xbf"
    report = await knowledge.import_lines(
        "t", [mark + json.dumps(first).encode(), b"\r\n", json.dumps(second).encode()]
    )
    assert (report.done.added, report.refused) == (2, 0)
    asked = {"id": 7, "group_id": "g", "query": "hello?", "answer": "x"}
    lines = [mark + json.dumps(asked).encode(), b"\n", json.dumps({**asked, "query": " "}).encode()]
    assert read_questions(lines[:2]) == [(7, "g", "hello?")]
    with pytest.raises(InvalidInput, match="line 3: query"):
        read_questions(lines)


@pytest.mark.parametrize(("text", "limit", "field"), [("", 5, "query"), ("x\0", 5, "query"), ("x", 0, "limit")])
async def test_a_wrong_search_names_its_field(knowledge: Knowledge, text: str, limit: int, field: str) -> None:
    """A search that cannot be carried out says which field is wrong."""
    with pytest.raises(InvalidInput) as refused:
        await knowledge.search("t", text, limit=limit)
    assert refused.value.details["field"] == field


async def test_a_search_finds_the_same_however_postings_are_packed(
    knowledge: Knowledge, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small blocks that are put together while a group grows hold what one large block holds."""
    turns = [NewEpisode("g", f"n{i}", f"word{i % 3} number{i} pottery", speaker="Ann") for i in range(21)]
    asked = [("g", f"word{i} number{i}") for i in range(21)]
    await knowledge.remember_all("t", turns)
    whole = await knowledge.search_all("t", asked, limit=30)
    monkeypatch.setattr("twinraven.knowledge.sql.BLOCK", 2)
    monkeypatch.setattr("twinraven.knowledge.sql.CHAPTER", 3)
    for turn in turns:
        await knowledge.remember_all("u", [turn])
    assert await knowledge.search_all("u", asked, limit=30) == whole
    sql = "SELECT block FROM knowledge_postings WHERE tenant_id = 'u' AND term = 'potteri'"
    rows = await database.read("u", lambda tx: tx.fetch_all(sql))
    assert sorted(row["block"] for row in rows) == [0, 3, 6, 9, 10]


async def test_many_questions_are_answered_like_one(knowledge: Knowledge) -> None:
    """Asked together, questions get the names that each gets alone."""
    await knowledge.remember_all("t", talk())
    asked = ["Where is the class?", "Who hiked to the lake?", "nothing of that: qwertz"]
    together = await knowledge.search_all("t", [("g", text) for text in asked], limit=5)
    assert together == [await names(knowledge, text, limit=5) for text in asked]
