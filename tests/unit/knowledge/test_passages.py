"""Passages: what a turn, those beside it and its session have of a question, by words and by what they mean."""

from __future__ import annotations

import pytest

from twinraven.knowledge.passages import PassageFit, best_passages, fit_passages, similar_words
from twinraven.knowledge.questions import read_question
from twinraven.knowledge.turn_features import TurnWords
from twinraven.knowledge.word_vectors import has_vector, nearest_stems, word_vectors
from twinraven.knowledge.words import terms

NO_FIT = PassageFit(0.0, 0.0, 0.0)


def fits(question: str, *sessions: list[str]) -> list[PassageFit]:
    """How well each turn fits, in order; every word counts alike."""
    told = [(number, text) for number, texts in enumerate(sessions) for text in texts]
    turns = {seq: TurnWords(session, tuple(terms(text))) for seq, (session, text) in enumerate(told)}
    asked = read_question(question, [])
    found = fit_passages(asked, [1.0] * len(asked.terms), turns)
    return [found.get(seq, NO_FIT) for seq in turns]


def test_a_passage_has_the_words_of_the_turns_beside_it() -> None:
    """Half of the question stands in the turn before; in another session it does not count."""
    together = fits("regatta trophy", ["The regatta!", "A trophy of brass.", "Rain."], ["Fog.", "Hail."])
    apart = fits("regatta trophy", ["Rain.", "The regatta!"], ["A trophy of brass.", "Fog."])
    assert [each.near for each in together[:2]] == [1.0, 1.0]
    assert together[3].near < 0.5
    # Neither turn has both, so both are the best there are, and as good as each other.
    assert apart[1].near == pytest.approx(apart[2].near, abs=0.2)


def test_words_that_are_alike_count_in_part() -> None:
    """A surgeon is near a hospital, a fence is not; the same word counts most, and a name only as itself."""
    ward, fence, itself = (
        fits("hospital", [text], ["The hospital."])[0] for text in ("A surgeon.", "A fence.", "The hospital.")
    )
    assert fence.near < ward.near < itself.near == 1.0
    assert fits("for Surgeon", ["A nurse."], ["The Surgeon."])[0].near == 0.0


def test_a_theme_is_that_of_the_passage_and_of_its_session() -> None:
    """Talk of the sick bed is nearer to a question of health than talk of a garden, turn by turn and as a whole."""
    found = fits(
        "What illness did the doctor find?",
        ["The nurse took blood.", "They gave him tablets for the fever."],
        ["We planted beans.", "The roses need water."],
        ["The car broke down.", "A new engine is dear."],
    )
    assert min(each.theme for each in found[:2]) > max(each.theme for each in found[2:])
    assert min(each.session_theme for each in found[:2]) == 1.0
    assert max(each.session_theme for each in found[2:]) < 0.5


def test_turns_without_words_fit_nothing() -> None:
    """Stop words and signs alone are no passage, and a question of unknown words has no theme."""
    assert fits("hospital", ["Oh!", "..."]) == [NO_FIT, NO_FIT]
    assert fits("hospital", []) == []
    assert [each.theme for each in fits("Zxqw", ["A nurse.", "A fence."])] == [0.0, 0.0]


def test_the_best_passages_are_those_that_a_filter_lets_through() -> None:
    """They come best first, and without those that are not allowed."""
    found = {0: PassageFit(0.1, 0.0, 0.0), 1: PassageFit(0.9, 0.5, 0.0), 2: PassageFit(0.9, 0.9, 0.0)}
    assert best_passages(found, None) == [2, 1, 0]


def test_a_hit_can_name_the_word_that_came_nearest() -> None:
    """The nearest word of the passage is named, and none where nothing has anything in common."""
    terms = read_question("hospital piano", []).terms
    assert similar_words(terms, ["fenc", "surgeon", "violin"]) == {"hospital": "surgeon", "piano": "violin"}
    assert similar_words(terms, ["surgeon"]) == {"hospital": "surgeon"}
    assert similar_words(terms, ["fenc"]) == {}
    assert similar_words(terms, []) == {}


def test_the_table_knows_common_words_and_no_others() -> None:
    """A stem outside the table has no vector, no neighbours, and a row of zeros."""
    assert "pianist" in dict(nearest_stems("piano"))
    assert all(0.45 <= alike <= 1 for _, alike in nearest_stems("piano"))
    assert (nearest_stems("zxqw"), has_vector("zxqw")) == ([], False)
    assert (word_vectors(["zxqw", "piano"])[0] == 0).all()
