"""Writes the table of common words (knowledge/common_words.txt): stems, from the most frequent in English on.

    python -m tools.common_words

The vocabulary of BERT (knowledge/wordpieces.txt, Apache 2.0) lists words by their frequency in books and Wikipedia; no
dialogue and no question had a part in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from twinraven.knowledge.stemming import stem
from twinraven.knowledge.words import is_stop_word

FOLDER: Final = Path(__file__).parent.parent / "src/twinraven/knowledge"
PIECES: Final = 10_000
"""How far the vocabulary is read: what comes later is no common word."""


def main() -> None:
    pieces = (FOLDER / "wordpieces.txt").read_text().splitlines()[:PIECES]
    words = [each for each in pieces if each.isascii() and each.isalpha() and len(each) > 1 and not is_stop_word(each)]
    (FOLDER / "common_words.txt").write_text("\n".join(dict.fromkeys(stem(each) for each in words)) + "\n")


if __name__ == "__main__":
    main()
