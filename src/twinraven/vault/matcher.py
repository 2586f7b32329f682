"""Matches many texts in one pass, at next to no cost when none is there.

Almost every text that is searched holds no secret, and it is searched on the path of every call. So each spelling is
represented by a window of four of its bytes, chosen to begin with a byte that is rare in JSON; a small set of such
bytes covers all spellings. One regular expression looks for the windows: it runs along the text by a bitmap of those
first bytes and hardly ever stops. Where a window is found, the spellings it stands for are compared in full.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_WINDOW = 4
_COMMON = b'etaoinsrhldcum":,0123456789 {}[]_\\fgpwybv./-'
"""Bytes in falling order of how often they occur in JSON that tools exchange; all others are rare."""


class Span(NamedTuple):
    """A place in a text, and what is to stand there."""

    start: int
    end: int
    token: bytes


class Matcher:
    """Finds every occurrence of every spelling, overlapping ones too."""

    def __init__(self, tokens: Mapping[bytes, bytes]) -> None:
        """`tokens` says for each spelling what replaces it; each has at least four bytes."""
        self._places: dict[bytes, list[tuple[bytes, int, bytes]]] = {}
        for spelling, offset in _choose_windows(tokens):
            window = spelling[offset : offset + _WINDOW]
            self._places.setdefault(window, []).append((spelling, offset, tokens[spelling]))
        pattern = _alternatives(self._places)
        self.search = re.compile(pattern, re.DOTALL).search
        """None if the text holds nothing; a hit is only a reason to look closely."""
        self._windows = re.compile(b"(?=(" + pattern + b"))", re.DOTALL)

    def spans(self, text: bytes) -> list[Span]:
        """Return the spans of all matches."""
        found: list[Span] = []
        for hit in self._windows.finditer(text):
            for spelling, offset, token in self._places[hit[1]]:
                start = hit.start() - offset
                if start >= 0 and text.startswith(spelling, start):
                    found.append(Span(start, start + len(spelling), token))
        return found


def replace_spans(text: bytes, spans: Iterable[Span]) -> bytes:
    """Return the text with each span replaced.

    Of spans inside others only the outer, of overlapping ones all tokens.
    """
    parts: list[bytes] = []
    end = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.end <= end:
            continue
        parts.append(text[end : max(span.start, end)])
        if span.start >= end or parts[-2:-1] != [span.token]:
            parts.append(span.token)
        end = span.end
    parts.append(text[end:])
    return b"".join(parts)


def _choose_windows(spellings: Iterable[bytes]) -> list[tuple[bytes, int]]:
    """For each spelling an offset whose byte belongs to a small set of rare first bytes."""
    pending = {spelling: set(spelling[: len(spelling) - _WINDOW + 1]) for spelling in spellings}
    chosen: list[tuple[bytes, int]] = []
    while pending:
        coverage = Counter(byte for firsts in pending.values() for byte in firsts)
        best = min(coverage, key=lambda byte: (_WEIGHTS[byte] / coverage[byte], byte))
        covered = [spelling for spelling, firsts in pending.items() if best in firsts]
        chosen.extend((spelling, spelling.index(best)) for spelling in covered)
        for spelling in covered:
            del pending[spelling]
    return chosen


def _weigh() -> list[float]:
    weights = [0.1] * 256
    for rank, byte in enumerate(_COMMON):
        weights[byte] = 60.0 / (rank + 5)
    return weights


_WEIGHTS = _weigh()


def _alternatives(texts: Iterable[bytes]) -> bytes:
    """Return a pattern for texts of equal length, branching byte by byte so that few branches are tried."""
    branches: dict[int, set[bytes]] = {}
    for text in texts:
        if text:
            branches.setdefault(text[0], set()).add(text[1:])
    parts = [re.escape(bytes([first])) + _group(rests) for first, rests in sorted(branches.items())]
    return b"|".join(parts)


def _group(rests: set[bytes]) -> bytes:
    if rests == {b""}:
        return b""
    if len(rests) == 1:
        return re.escape(next(iter(rests)))
    return b"(?:" + _alternatives(rests) + b")"
