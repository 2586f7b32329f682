"""Shortens names and descriptions to the limits of other programs; a shortened one ends with a hash of the whole."""

from __future__ import annotations

import re

from twinraven.foundation.canonical import content_hash

_MARK = 8


def shortened(name: str, limit: int, *, joint: str) -> str:
    """Return a name of at most so many characters; a cut one ends in a mark, so that two long names stay two."""
    if len(name) <= limit:
        return name
    return name[: limit - _MARK - len(joint)].rstrip(joint) + joint + content_hash(name.encode())[:_MARK]


def one_line(text: str) -> str:
    """Return a text without line breaks and without characters that cannot be seen."""
    seen = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(seen.split())


def clipped(text: str, limit: int) -> str:
    """Return a text of at most so many characters, cut between words."""
    if len(text) <= limit:
        return text
    return re.sub(r"\s+\S*$", "", text[: limit - 1]).rstrip() + "…"
