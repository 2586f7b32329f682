"""Bounds what matching a regular expression of a JSON Schema can cost, by reading it; nothing is matched here.

Matching holds the interpreter, and whoever may define a tool chooses pattern and text. Without look-around the engine
walks the text once, but with every position of the pattern that the text read so far allows: `(?:.?){800}x` has 800 of
them. With look-around or back-references it backtracks: up to `MAX_BACKTRACKS` times for one text, and anew over the
text each time where what is looked for ahead has no end.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_BACKTRACKS: Final = 20_000

_LONGEST: Final = 10_000
"""Characters of a pattern that are read; of a longer one the worst is assumed."""
_MANY: Final = 1_000_000_000
_BACKTRACK: Final = 0.7
"""What one costs, in checks."""
_READ: Final = 0.08
"""What a character costs that is read again."""
_PART: Final = re.compile(
    r"\\(?:[pPxu]\{[^}]*\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|.)"  # an escape
    r"|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\[.*"  # a class; one that does not end is looked for once
    r"|\((?:\?(?:<?[=!]|>|P?<\w+>|[a-zA-Z-]*:?|\())?"  # the beginning of a group
    r"|(?:[*+?]|\{[0-9]{1,9}(?:,[0-9]{0,9})?\})[?+]?|.",  # a repetition, `)`, `|` or a character
    re.DOTALL,
)
_COUNTS: Final = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")
_BACKWARD: Final = re.compile(r"\\[1-9k]")
_AROUND: Final = ("(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(")


class PatternCost(NamedTuple):
    """What a text costs: `positions` for each character; and what each text costs that is matched by backtracking."""

    positions: int = 0
    backtracking: int = 0
    """How many patterns backtrack."""
    looking_far: int = 0
    """How many of them may read the rest of the text at each step."""

    def plus(self, other: PatternCost) -> PatternCost:
        """Add the cost of another pattern that meets the same text."""
        return PatternCost(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def checks(self, texts: list[int]) -> float:
        """Return the cost of texts of these lengths, in checks of a plain keyword."""
        cost = float(self.positions * sum(texts))
        if self.backtracking:
            cost += self.backtracking * _BACKTRACK * MAX_BACKTRACKS * len(texts)
        if self.looking_far:
            cost += self.looking_far * _READ * sum(length * min(length, MAX_BACKTRACKS) for length in texts)
        return cost


class _Group:
    """What was read of a group: how many positions of it can be reached at once, and how many there are."""

    def __init__(self, opening: str, *, is_loose: bool) -> None:
        self.is_around = opening in _AROUND
        self.began_loose = self.is_loose = is_loose
        """Whether the text allows several positions here, because something before could end sooner or later."""
        self.size = self.open = 0
        self.has_alternatives = self.is_endless = False
        self.last = (0, 0, False)
        """Size and open positions of the last part, and whether it can end sooner or later itself."""

    def add(self, size: int, reachable: int, *, varies: bool = False) -> None:
        self.size += size
        self.open += reachable
        self.last = (size, reachable, varies)
        self.is_loose |= varies

    def repeat(self, least: int, most: int | None) -> None:
        """Count the last part as often as it may be repeated."""
        size, reachable, varied = self.last
        times = max(least, most or least, 1)
        self.is_endless |= most is None
        is_wide = self.is_loose or varied
        more = max(reachable, size) * times if is_wide else min(size, 1)
        self.size = min(self.size + size * (times - 1), _MANY)
        self.open = min(self.open + more - reachable, _MANY)
        self.is_loose |= least != most
        self.last = (min(size * times, _MANY), more, True)


def pattern_cost(pattern: str) -> PatternCost:
    """Return the cost of matching a pattern; one that no engine reads costs nothing, it is refused elsewhere."""
    if len(pattern) > _LONGEST:
        return unread(pattern)
    is_anchored = pattern.startswith("^")
    stack = [_Group("", is_loose=not is_anchored)]
    backtracks = far = False
    is_beginning = is_anchored
    for part in _PART.findall(pattern):
        group = stack[-1]
        if part.startswith("("):
            is_beginning &= len(stack) > 1 or part in _AROUND
            backtracks |= (part in _AROUND and not is_beginning) or part in ("(?>", "(?(")
            stack.append(_Group(part, is_loose=group.is_loose))
        elif part == ")" and len(stack) > 1:
            ended = stack.pop()
            far |= ended.is_around and ended.is_endless and not is_beginning
            outer = stack[-1]
            outer.is_endless |= ended.is_endless and not ended.is_around
            varies = not ended.is_around and (ended.has_alternatives or ended.is_loose != ended.began_loose)
            outer.add(ended.size, ended.open, varies=varies)
        elif part == "|":
            group.has_alternatives, group.is_loose = True, group.began_loose
            is_beginning &= len(stack) > 1
        elif part[0] in "*+?" or (part[0] == "{" and len(part) > 1):
            group.repeat(*_times(part))
            backtracks |= part.endswith("+") and len(part) > 1
        elif part != "^":
            is_beginning &= len(stack) > 1
            backtracks |= _BACKWARD.match(part) is not None
            group.add(1, 1 if group.is_loose else 0)
    whole = stack[0]
    return PatternCost(max(whole.open, 1), int(backtracks), int(backtracks and far))


def unread(pattern: str) -> PatternCost:
    """Return the worst that a pattern can cost that nobody reads."""
    return PatternCost(len(pattern), 1, 1)


def _times(repetition: str) -> tuple[int, int | None]:
    counts = _COUNTS.match(repetition)
    if counts is None:
        return (1 if repetition[0] == "+" else 0), (1 if repetition[0] == "?" else None)
    least, comma, most = counts.groups()
    return int(least), int(most) if most else (None if comma else int(least))
