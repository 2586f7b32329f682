"""Computes what an agent knew at a point of a session: everything said, passed or answered before.

A parameter of a learned tool is honest only if the caller could have filled it in when the chain starts. Knowledge is
literal: the value stood in the user's words, in an earlier output (also inside a text there) or in an earlier input.
"""

from __future__ import annotations

import re
from typing import Any, cast

from twinraven.huginn.traces import SessionTrace

_WORD = re.compile(r"\w+")
_SHORT = 3
_LONG = 24
"""Longer values are texts that may hold others."""
_NEVER = 1 << 60


class SessionKnowledge:
    """For each value, the first call before which it was known."""

    def __init__(self, session: SessionTrace) -> None:
        self._texts: list[tuple[int, str]] = []
        self._since: dict[str, int] = {}
        self._given: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._answers: dict[str, int] = {}
        self._mentioned: dict[str, int] = {}
        self._hears_nobody = not any(call.outside_input for call in session.calls)
        for position, call in enumerate(session.calls):
            if call.outside_input:
                self._texts.append((position, call.outside_input))
            for value in _leaves(call.params):
                self._since.setdefault(value, position + 1)
                self._given.setdefault(value, position)
            for value in _leaves(call.output):
                self._since.setdefault(value, position + 1)
                self._told.setdefault(value, position + 1)
                if len(value) > _LONG:
                    self._texts.append((position + 1, value))

    def knows(self, value: Any, before: int, *, brought: bool = False) -> bool:
        """Return whether every leaf of a value was known before the call at this position.

        With `brought`, a value counts too that the agent gave without any answer having named it or a word of it, in
        a session where nobody hears the user: the caller brought it along.
        """
        leaves = _leaves(value, keys=False)
        if all(self._first(leaf) <= before for leaf in leaves):
            return True
        return brought and self._hears_nobody and all(self._first(leaf) <= before or self._own(leaf) for leaf in leaves)

    def knows_with(self, value: Any, call: int) -> bool:
        """Return whether a caller knew every leaf of a value at this position, or gave it there."""
        return all(
            self._given.get(leaf, _NEVER) <= call or self._first(leaf) <= call for leaf in _leaves(value, keys=False)
        )

    def was_told(self, value: Any, before: int) -> bool:
        """Return whether answers before the call at this position named every leaf of a value."""
        return all(self._told.get(leaf, _NEVER) <= before for leaf in _leaves(value, keys=False))

    def is_unheard_of(self, value: Any, before: int) -> bool:
        """Return whether part of a value stands nowhere in what came before the call at this position, not by a word.

        Such a value says nothing about where the agent takes others from: it was made up, or mistaken.
        """
        said = [text for position, text in self._texts if position <= before]
        return any(
            self._first(leaf) > before
            and self._own(leaf)
            and not any(_stands_in(word, text) for word in _words(leaf) for text in said)
            for leaf in _leaves(value, keys=False)
        )

    def since(self, value: Any) -> int:
        """Return the first position before which every leaf of a value was known; far beyond any if never."""
        return max((self._first(leaf) for leaf in _leaves(value, keys=False)), default=0)

    def mentions(self, name: str, before: int) -> bool:
        """Return whether a name was said or answered before the call at this position, in whatever case."""
        folded = name.casefold()
        first = self._mentioned.get(folded)
        if first is None:
            said = (position for position, text in self._texts if folded in text.casefold())
            told = (position for text, position in self._since.items() if folded == text.casefold())
            first = self._mentioned[folded] = min((*said, *told), default=_NEVER)
        return first <= before

    def _own(self, leaf: str) -> bool:
        """Return whether no answer before its first use names a value, or a word of it new to the agent."""
        given = self._given.get(leaf, _NEVER)
        used = [text for text, position in self._given.items() if position < given]
        words = [leaf, *(word for word in _words(leaf) if not any(_stands_in(word, text) for text in used))]
        told = [(position, text) for text, position in self._told.items() if position <= given]
        return not any(_stands_in(word, text) for word in words for _, text in told)

    def _first(self, leaf: str) -> int:
        first = self._answers.get(leaf)
        if first is None:
            first = self._since.get(leaf, _NEVER)
            for position, text in self._texts:
                if position >= first:
                    break
                if _stands_in(leaf, text):
                    first = position
                    break
            self._answers[leaf] = first
        return first


def _words(leaf: str) -> list[str]:
    """Return the words of a value that tell it from others."""
    return [word for word in _WORD.findall(leaf) if len(word) > _SHORT or any(map(str.isdigit, word))]


def _stands_in(leaf: str, text: str) -> bool:
    if leaf not in text:
        return False
    return len(leaf) > _SHORT or leaf in _WORD.findall(text)


def _leaves(value: Any, *, keys: bool = True) -> set[str]:
    """Return the scalars of a value as text (and the keys of objects, which often are ids)."""
    found: set[str] = set()
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            members = cast("dict[str, Any]", item)
            pending.extend(members.values())
            if keys:
                found.update(members)
        elif isinstance(item, list):
            pending.extend(cast("list[Any]", item))
        elif item is not None:
            found.add(item if isinstance(item, str) else str(item))
    return found
