"""Counts tokens exactly, offline: the vocabulary of o200k_base lies in the wheel of the tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from twinraven.foundation.errors import InvalidSetting

ENCODING = "o200k_base"


def count_tokens(text: str) -> int:
    """Count the tokens of a text; markers such as <|endoftext|> are text like any other."""
    return len(_encoder()(text))


@cache
def _encoder() -> Callable[[str], list[int]]:
    try:
        import splintr  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            f"conversations count tokens with {error.name}, which is not installed", fix="pip install 'twinraven[chat]'"
        ) from error
    made: Any = splintr.Tokenizer.from_pretrained(ENCODING)
    return made.encode_ordinary
