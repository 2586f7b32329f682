"""What is read from turns and questions: stems, dates, marks, names, parts."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.knowledge.concepts import related
from twinraven.knowledge.dates import DaySpan, named_dates
from twinraven.knowledge.parts import split_content
from twinraven.knowledge.questions import play_participants_down, read_question
from twinraven.knowledge.reading import TurnMarks, names_in, read_turn, split_speaker
from twinraven.knowledge.stemming import stem
from twinraven.knowledge.words import terms

_SAID = date(2023, 5, 8)


def day(year: int, month: int, number: int) -> int:
    return date(year, month, number).toordinal()


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("last Friday", day(2023, 5, 5), day(2023, 5, 5)),
        ("yesterday", day(2023, 5, 7), day(2023, 5, 7)),
        ("two weeks ago", day(2023, 4, 21), day(2023, 4, 27)),
        ("on 3 March 2022", day(2022, 3, 3), day(2022, 3, 3)),
        ("July 4th, 2021", day(2021, 7, 4), day(2021, 7, 4)),
        ("in March", day(2023, 3, 1), day(2023, 3, 31)),
        ("last month", day(2023, 4, 1), day(2023, 4, 30)),
        ("last year", day(2022, 1, 1), day(2022, 12, 31)),
        ("last weekend", day(2023, 5, 6), day(2023, 5, 7)),
        ("next Tuesday", day(2023, 5, 9), day(2023, 5, 9)),
        ("2023-02", day(2023, 2, 1), day(2023, 2, 28)),
        ("before april", day(2023, 4, 1), day(2023, 4, 30)),
    ],
)
def test_dates_are_resolved_from_the_day_they_were_said(text: str, first: int, last: int) -> None:
    """A relative or partial date becomes the days it means."""
    assert named_dates(f"We met {text}!", _SAID) == [DaySpan(first, last)]


@pytest.mark.parametrize("text", ["I may come", "they march on", "99 March 2022", "0000-00-00", "nothing"])
def test_what_is_no_date_is_none(text: str) -> None:
    """Verbs and impossible dates name no day."""
    assert named_dates(text, _SAID) == []


@given(st.text(), st.dates())
def test_any_text_can_be_read(text: str, said_on: date) -> None:
    """Reading never fails, spans run forward, and the length is that of the counted terms."""
    reading = read_turn(text, said_on)
    assert all(span.first <= span.last for span in reading.dates)
    assert reading.length == sum(reading.counts.values()) == len(terms(text))
    read_question(text, ["Ann"])
    split_speaker(text)


@given(st.text(max_size=400), st.integers(min_value=2, max_value=50))
def test_parts_put_together_are_the_content(content: str, size: int) -> None:
    """Splitting loses nothing, and no part is longer than asked."""
    parts = split_content(content, size)
    assert "".join(parts) == content
    assert all(len(part) <= size for part in parts)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("hiking hiked hikes hike", "hike"),
        ("went going gone goes", "go"),
        ("children kids child", "child"),
        ("adoption adopted adopting", "adopt"),
        ("studies studied studying", "studi"),
        ("mothers mom mum", "mum"),
    ],
)
def test_forms_of_a_word_have_one_stem(words: str, expected: str) -> None:
    """Regular and irregular forms meet."""
    assert {stem(word) for word in words.split()} == {expected}


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", max_size=20))
def test_stemming_never_lengthens_much_or_fails(word: str) -> None:
    """A stem is at most one letter longer than its word, save irregular forms."""
    assert len(stem(word)) <= max(len(word) + 1, 12)


def test_a_turns_marks_say_what_it_is() -> None:
    """A turn that only asks, holds a time, a number or a place is marked so."""
    assert read_turn("Really? Where did you go?", None).marks & TurnMarks.ASKS
    assert not read_turn("I went to the lake with all my old friends. You?", None).marks & TurnMarks.ASKS
    assert read_turn("It was last Friday in Lisbon, we were three.", None).marks == (
        TurnMarks.TIMED | TurnMarks.NUMBERED | TurnMarks.PLACED | TurnMarks.PERSONAL
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Luckily I met Anna Bell in New York.", ["Anna Bell", "New York"]),
        ("Mrs. Pargeter told me. GPT-4 is out!", ["Mrs Pargeter", "GPT-4"]),
        ("What a day! So PROUDLY done, Bob.", ["Bob"]),
    ],
)
def test_names_are_not_what_begins_a_sentence(text: str, names: list[str]) -> None:
    """Capitalised words count as names unless they merely begin a sentence or shout."""
    assert list(names_in(text)) == names


@pytest.mark.parametrize(
    ("content", "speaker"),
    [
        ("Ann: hello", "Ann"),
        ("Ann Lee: hello", "Ann Lee"),
        ("https://x.org", None),
        ("see: this", None),
        ("Note: x", None),
        ("**Ann:** hello", "Ann"),
        ("[1:56 pm on 8 May, 2023] Ann Lee: hello", "Ann Lee"),
        ("Speaker 2: hello", "Speaker 2"),
        ("Day 3: we hiked", None),
        ("Update: we hiked", None),
    ],
)
def test_a_speaker_may_stand_before_the_words(content: str, speaker: str | None) -> None:
    """A capitalised name and a colon say who speaks, also bold or behind a time; an address or a heading does not."""
    assert split_speaker(content)[0] == speaker


def test_a_question_knows_whom_and_what_it_is_about() -> None:
    """Speakers are taken out of the words, the kind and the dates are read, and related words are known."""
    asked = read_question("How many children did Ann meet in March 2023?", ["Ann", "Bob Lee"])
    assert (asked.kind, asked.speakers) == ("number", frozenset({"ann"}))
    assert [term.term for term in asked.terms] == ["child", "meet", "march", "2023"]
    assert read_question("Where did Mel go?", ["Melanie", "Bob"]).speakers == {"melanie"}
    assert asked.dates == (DaySpan(day(2023, 3, 1), day(2023, 3, 31)),)
    assert stem("guitar") in related(stem("instrument"))
    assert stem("children") not in related(stem("guitar"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("what did mel's kids paint", {"melanie"}),
        ("what is melanies plan", {"melanie"}),
        ("What does Jo collect?", {"jolene park"}),
        ("What did Jolene Park eat?", {"jolene park"}),
        ("What did the Parks cook?", {"jolene park", "will park"}),
        ("What will Melanie mark?", {"melanie"}),
        ("Did Melanie see Mark and Will?", {"melanie", "mark", "will park"}),
        ("Can Bob swim?", set[str]()),
    ],
)
def test_a_question_names_speakers_as_people_write_them(text: str, named: set[str]) -> None:
    """Names count in lower case, shortened, possessive or in part; an ordinary word counts only with a capital."""
    speakers = ["Melanie", "Jolene Park", "Will Park", "Mark", "Candice"]
    assert read_question(text, speakers).speakers == named


def test_a_caption_behind_a_question_leaves_it_a_question() -> None:
    """Whether a turn asks is told by what is said, not by the picture beside it."""
    for text in ("What do you say? [photo: a dog by the lake]", "What do you say?\nImage: a dog by the lake"):
        assert (
            read_turn(text, None).marks & (TurnMarks.ASKS | TurnMarks.ENDS_ASKING)
            == TurnMarks.ASKS | TurnMarks.ENDS_ASKING
        )


def test_participants_weigh_less_where_nobody_is_named_as_speaker() -> None:
    """Who takes part is named by the others: the name alone must not decide, and a rare name still does."""
    question = read_question("What did Tessa say of Halvorsen's candles?", [])
    weighed = play_participants_down(question, {"tessa": 40, "halvorsen": 2, "candl": 60}, 600)
    weights = {each.word: each.weight for each in weighed.terms}
    assert weights["Tessa"] < weights["candles"] < weights["Halvorsen"]


def test_common_words_weigh_less_than_rare_ones() -> None:
    """A dialogue is too short to tell that "first" says less than "regatta"; a name keeps its weight."""
    weights = {each.word: each.weight for each in read_question("What was the first regatta of Baker?", ["Ann"]).terms}
    assert weights["first"] < 0.5 < weights["regatta"] == 1.0 < weights["Baker"]
