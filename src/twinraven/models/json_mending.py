"""Mends JSON that a model wrote badly, without asking it again: a tolerant parser that says what it mended.

Prose and code fences around it, wrong or missing quotes, missing and superfluous commas and brackets, comments, words
of other languages for null, raw line breaks: such damage leaves no doubt about what was meant. Where an answer breaks
off, what is not whole is left out and `is_cut` says that something is missing: half a number is another number. The
parser goes through the text once and refuses what is longer or deeper than any honest answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from twinraven.connectors import without_thoughts
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, InvalidOutput

MAX_MENDED_CHARS: Final = 32_000
MAX_DEPTH: Final = 60
_MAX_STARTS: Final = 20

_QUOTES: Final = {'"': '"', "'": "'", "“": "”", "\u2018": "\u2019", "`": "`", "«": "»"}
_WORDS: Final[dict[str, Any]] = {
    "true": True,
    "false": False,
    "null": None,
    "none": None,
    "undefined": None,
    "nil": None,
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_NUMBER: Final = re.compile(r"[+-]?(?:\d[\d_]*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_BARE: Final = re.compile(r"[^,;:{}\[\]\n\"'“”`]+")
_PLAIN: Final = re.compile(r"[^\"'“”\u2018\u2019`«»\\\n\r\t]+")
_KEY: Final = re.compile(r"[A-Za-z_$][\w$.-]*")
_OPENING: Final = re.compile(r"[{\[]")
_SPACE: Final = re.compile(r"(?:\s|//[^\n]*|#[^\n]*|/\*.*?\*/|\ufeff|\.\.\.|…)+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MendedJson:
    """A value, what had to be mended to read it, and whether something of it is missing."""

    value: Any
    mends: tuple[str, ...] = ()
    is_cut: bool = False


def mend_json(text: str) -> MendedJson:
    """Return the JSON that a text was meant to hold; InvalidOutput where it holds none."""
    said = without_thoughts(text).strip()
    try:
        return MendedJson(parse_json(said, field="answer"))
    except InvalidInput:
        if len(text) > MAX_MENDED_CHARS:
            raise InvalidOutput(f"the answer has more than {MAX_MENDED_CHARS} characters and is not JSON") from None
    best = _longest(said)
    if best is None:
        raise InvalidOutput("the answer is not JSON and cannot be mended into it")
    return best


def _longest(text: str) -> MendedJson | None:
    """Return the value that takes the most of a text; none begins inside another, so the text is gone through once."""
    best, length, position = None, 0, 0
    for _ in range(_MAX_STARTS):
        opening = _OPENING.search(text, position)
        if opening is None:
            break
        reader = _Reader(text, opening.start())
        found = reader.read()
        if found is not None and reader.consumed > length:
            best, length = found, reader.consumed
        position = opening.start() + max(1, reader.consumed)
    return best


class _TooDeep(Exception):
    pass


class _Missing:
    """Stands for a value that was not there, or broke off."""


_MISSING: Final = _Missing()


class _Reader:
    """Reads one value from a place of a text, tolerantly."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = self._at = start
        self._mends: dict[str, None] = {"surroundings": None} if start else {}
        self._is_cut = False

    def read(self) -> MendedJson | None:
        try:
            value = self._value(0)
        except _TooDeep:
            return None
        if value is _MISSING or not isinstance(value, (dict, list)):
            return None
        if self._text[self._at :].strip():
            self._mend("surroundings")
        return MendedJson(value, tuple(self._mends), self._is_cut)

    @property
    def consumed(self) -> int:
        """The number of characters consumed."""
        return self._at - self._start

    def _mend(self, what: str) -> None:
        self._mends[what] = None

    def _space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        if found is not None:
            if not found[0].isspace():
                self._mend("comment")
            self._at = found.end()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _TooDeep
        self._space()
        mark = self._peek()
        if mark == "":
            self._is_cut = True
            return _MISSING
        if mark == "{":
            return self._object(depth)
        if mark == "[":
            return self._array(depth)
        if mark in _QUOTES:
            return self._string()
        return self._bare()

    def _object(self, depth: int) -> Any:
        self._at += 1
        found: dict[str, Any] = {}
        while self._continues("}", depth, has_members=bool(found)):
            key = self._key()
            if key is None:
                break
            self._space()
            if self._peek() in (":", "="):
                self._mend("separator") if self._peek() == "=" else None
                self._at += 2 if self._text[self._at : self._at + 2] in ("=>", "==") else 1
            elif self._peek() == "":
                self._is_cut = True
                break
            else:
                self._mend("separator")
            value = self._value(depth + 1)
            if value is not _MISSING:
                found[key] = value
        return found

    def _array(self, depth: int) -> Any:
        self._at += 1
        found: list[Any] = []
        while self._continues("]", depth, has_members=bool(found)):
            before = self._at
            value = self._value(depth + 1)
            if value is not _MISSING:
                found.append(value)
            elif self._at == before:
                break
        return found

    def _continues(self, closing: str, depth: int, *, has_members: bool) -> bool:
        """Step over what stands between members; False at the end of the container, however it is marked."""
        self._space()
        commas = 0
        while self._peek() in (",", ";"):
            commas += 1
            self._at += 1
            self._space()
        mark = self._peek()
        if mark == "":
            self._mend("closing bracket")
            # The last bracket is easily forgotten; where inner ones are open too, or a comma came last, more is lost.
            self._is_cut = self._is_cut or commas > 0 or depth > 0
            return False
        if mark in ("}", "]"):
            if mark == closing:
                self._at += 1
            else:
                # The other kind of bracket ends this container too, and stays there for the one around it.
                self._mend("closing bracket")
            if commas:
                self._mend("comma")
            return False
        if commas != (1 if has_members else 0):
            self._mend("comma")
        return True

    def _key(self) -> str | None:
        if self._peek() in _QUOTES:
            key = self._string()
            return key if isinstance(key, str) else None
        found = _KEY.match(self._text, self._at)
        if found is None:
            self._is_cut = True
            return None
        self._mend("quotes")
        self._at = found.end()
        return found[0]

    def _string(self) -> Any:
        opening = self._peek()
        closing = _QUOTES[opening]
        if opening != '"':
            self._mend("quotes")
        self._at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(self._text, self._at)
            if plain is not None:
                parts.append(plain[0])
                self._at = plain.end()
            mark = self._peek()
            if mark == "":
                self._is_cut = True
                return _MISSING
            if mark == "\\":
                parts.append(self._escape())
            elif mark in (closing, opening) and self._is_end():
                self._at += 1
                return _whole("".join(parts))
            else:
                if mark in "\n\r\t":
                    self._mend("line break")
                parts.append(mark)
                self._at += 1

    def _is_end(self) -> bool:
        """Return whether a quotation mark ends its string: what follows may follow a string."""
        rest = self._text[self._at + 1 : self._at + 200].lstrip()
        if rest == "" or rest[0] in ",:}];=" or rest.startswith(("//", "/*", "#")):
            return True
        # The next member, where the comma is missing.
        if rest[0] in _QUOTES and self._text[self._at + 1 : self._at + 2].isspace():
            self._mend("comma")
            return True
        self._mend("quotes")
        return False

    def _escape(self) -> str:
        mark = self._text[self._at + 1 : self._at + 2]
        if mark == "u":
            digits = self._text[self._at + 2 : self._at + 6]
            if len(digits) == 4 and all(each in "0123456789abcdefABCDEF" for each in digits):
                self._at += 6
                return chr(int(digits, 16))
        self._at += 2
        if mark not in '"\\/' and mark not in _ESCAPES:
            self._mend("escape")
        return _ESCAPES.get(mark, mark)

    def _bare(self) -> Any:
        found = _BARE.match(self._text, self._at)
        if found is None:
            self._mend("stray character")
            self._at += 1
            return _MISSING
        self._at = found.end()
        if self._peek() == "":
            self._is_cut = True
            return _MISSING
        word = found[0].strip()
        number = _NUMBER.fullmatch(word)
        if number is not None:
            return _number(word)
        if word.lower() in _WORDS:
            if word not in ("true", "false", "null"):
                self._mend("literal")
            return _WORDS[word.lower()]
        self._mend("quotes")
        return word


def _whole(text: str) -> str:
    """Return a text whose surrogate pairs, written as two escapes each, are characters; half a pair becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _number(word: str) -> Any:
    plain = word.replace("_", "").removeprefix("+")
    if any(mark in plain for mark in ".eE"):
        return float(plain)
    return int(plain) if len(plain) < 100 else plain
