"""Vectors of episodes: what they add to a search, and how a text is cut into the pieces that a model reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from twinraven.knowledge import EpisodeFilter, Knowledge, NewEpisode
from twinraven.knowledge.embedding import Vectors, word_pieces
from twinraven.storage import Database

_MEANT = {"blorp": 0, "snarfle": 0, "fence": 1, "pasta": 2}


class TableEmbedder:
    """Means by a table: texts with a word of one row are alike."""

    name = "table"

    width = 2

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.full((len(texts), 4), 0.1, dtype=np.float32)
        for place, text in enumerate(texts):
            for word, column in _MEANT.items():
                rows[place, column] += word in text.lower()
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


async def test_meaning_finds_what_words_do_not(sqlite_database: Database) -> None:
    """A turn that shares no word with the question is found by its vector, says so, and obeys the filters."""
    knowledge = Knowledge(sqlite_database, embedder=TableEmbedder())
    texts = ("The blorp came by.", "We repainted the fence.", "Dinner was pasta again.")
    for number, text in enumerate(texts):
        await knowledge.remember("default", NewEpisode("g", f"n{number}", text, speaker="Ann"))
    found = await knowledge.search("default", "snarfle", group_id="g", limit=1)
    assert [hit.content for hit in found] == [texts[0]]
    assert found[0].why["similarity"] > 0.9
    assert found[0].why["signals"]["meaning"] > 0
    await knowledge.remember("default", NewEpisode("g", "n3", "Another blorp called.", speaker="Bob"))
    only_bob = await knowledge.search("default", "snarfle", group_id="g", wanted=EpisodeFilter(speaker="Bob"))
    assert [hit.name for hit in only_bob] == ["n3"]
    [names] = await knowledge.search_all("default", [("g", "snarfle")], limit=2)
    assert set(names) == {"n0", "n3"}
    assert await Knowledge(sqlite_database).search("default", "snarfle", group_id="g") == []


@pytest.mark.parametrize("question", ["?", '"', "Who was it?"])
async def test_a_question_without_a_word_of_weight_is_answered_by_meaning(
    question: str, sqlite_database: Database
) -> None:
    """Of signs alone no turn has a score by words, and those that mean the nearest are found."""
    knowledge = Knowledge(sqlite_database, embedder=TableEmbedder())
    for number, text in enumerate(("The blorp came by.", "We repainted the fence.")):
        await knowledge.remember("default", NewEpisode("g", f"n{number}", text, speaker="Ann"))
    found = await knowledge.search("default", question, group_id="g")
    assert {hit.name for hit in found} == {"n0", "n1"}
    assert all(hit.why["signals"]["words"] == 0 for hit in found if "words" in hit.why["signals"])


def test_a_text_is_cut_as_the_model_was_trained_to_read_it() -> None:
    """Accents fall away, signs stand alone, long words are cut into known pieces, and nothing is longer than 128."""
    assert word_pieces("Café!") == word_pieces("cafe !")
    assert word_pieces("hello world") == [101, 7592, 2088, 102]
    assert len(word_pieces("hello world " * 200)) == 128
    assert word_pieces("x" * 300) == [101, 100, 102]
