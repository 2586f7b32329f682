"""Splits long content into parts, where a paragraph or a sentence ends if one does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from twinraven.knowledge.model import PART_SIZE

_BREAKS: Final = ("\n\n", "\n", ". ", "? ", "! ", " ")


def split_content(content: str, size: int = PART_SIZE) -> list[str]:
    """Return the parts of a content; put together they are the content again."""
    return list(_parts(content, size)) or [content]


def _parts(content: str, size: int) -> Iterator[str]:
    begin = 0
    while len(content) - begin > size:
        end = _break_before(content, begin + size // 2, begin + size)
        yield content[begin:end]
        begin = end
    if begin < len(content):
        yield content[begin:]


def _break_before(content: str, earliest: int, latest: int) -> int:
    for mark in _BREAKS:
        found = content.rfind(mark, earliest, latest)
        if found >= 0:
            return found + len(mark)
    return latest
