"""Sorts imported turns into the order in which they were said, and tells where a session ends.

Neighbours are a signal of the search, and exports list turns newest first, by id, or not at all in order. Times
decide, then numbers in the names ("D2:10" is behind "D2:9"); what neither tells apart stays in the order of its lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from twinraven.knowledge.model import NewEpisode

Numbers = tuple[int, ...]

_DIGITS: Final = re.compile(r"[0-9]+")
_IN_SESSION: Final = re.compile(r"(.*\d.*?)[:/_.#-]\D{0,8}\d+\Z")
_CLOCK: Final = re.compile(r"\d:\d\d:\d\d")
_GAP_MICROS: Final = 3600 * 1_000_000
_SAME_KEY_GAP_MICROS: Final = 6 * _GAP_MICROS
"""A name that begins alike outweighs a pause; "conv-26-17" begins alike in a whole dialogue, so not any pause."""


def in_spoken_order(listed: Sequence[NewEpisode]) -> list[NewEpisode]:
    """Return the episodes of one group as they were said, as far as times and names tell."""
    numbers = _numbers([each.name for each in listed]) or [()] * len(listed)
    times = [each.valid_at.timestamp() for each in listed if each.valid_at is not None]
    if len(times) < len(listed):
        times = [0.0] * len(listed)
    order = sorted(range(len(listed)), key=lambda place: (times[place], numbers[place]))
    return [listed[place] for place in order]


def _numbers(names: Sequence[str]) -> list[Numbers] | None:
    """Return the numbers in names of one form that count turns; ids that only look like numbers leave gaps."""
    if len({_DIGITS.sub("#", name) for name in names}) != 1:
        return None
    found = [tuple(int(each) for each in _DIGITS.findall(name)) for name in names]
    counted: dict[Numbers, list[int]] = {}
    for each in found:
        counted.setdefault(each[:-1], []).append(each[-1] if each else 0)
    is_dense = all(max(some) - min(some) < 2 * len(some) + 2 for some in counted.values())
    return found if is_dense and len(set(found)) == len(found) else None


def session_key(name: str) -> str:
    """Return the session that a name states ("D2:14" is of "D2"), else nothing; a clock time states none."""
    match = None if _CLOCK.search(name) else _IN_SESSION.fullmatch(name)
    return match[1] if match else ""


def begins_session(key: str, last_key: str, at: int | None, last_at: int | None) -> bool:
    """Return whether a turn begins another session: by a pause, or by another number in its name."""
    if at is not None and last_at is not None:
        most = _SAME_KEY_GAP_MICROS if key and key == last_key else _GAP_MICROS
        if abs(at - last_at) > most:
            return True
    # Random ids have keys as well, by chance, but hardly ever two of one form.
    return bool(key) and key != last_key and _DIGITS.sub("#", key) == _DIGITS.sub("#", last_key)
