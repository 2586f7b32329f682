"""Reads values out of text: JSON, alone or inside other words, and Python literals.

Written to be copied: a Python export of a definition carries the pieces that it uses, so this module imports nothing
but the standard library. Each reader is total: a text that is not of its kind, that is longer than `READ_CHARS`, nested
deeper than `READ_DEPTH` or has more than `READ_VALUES` values gives None.
"""

# Narrowed JSON has no types, and a reader of an export is better off without casts.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import math
import re
from typing import Any

# The most characters of a text that is read, the deepest nesting, and the most values in one JSON text.
READ_CHARS = 1_048_576
READ_DEPTH = 32
READ_VALUES = 50_000

# The most tokens of one Python literal, which is parsed here and not by a library.
_REPR_TOKENS = 16_000
# Integers of more bits have no canonical JSON.
_INTEGER_BITS = 8_192
# How often, and how far into the text, a value is looked for inside other words.
_TRIES = 16
_SENTENCE_CHARS = 65_536

_OPENING = re.compile(r"[\[{](?<![^\s:=`>(][\[{])(?!\])")
_FENCE = re.compile(r"```(?:json|JSON|jsonl|ndjson)?[ \t]*\r?\n")
_SURROGATE_ESCAPE = re.compile(r"\\[uU](?:0000)?[dD][89a-fA-F]")
_REPR_TOKEN = re.compile(
    r"""\s*+(?:(?P<open>[\[({])|(?P<close>[\])}])|(?P<mark>[,:])
    |(?P<text>[bBrRuU]{0,2}(?:'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"))
    |(?P<number>[-+]?(?:[0-9]{1,2400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,4})?)(?![\w.])
    |(?P<call>[A-Za-z_][\w.]{0,99}+\()|(?P<word>[A-Za-z_][\w.]{0,99}+))""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_REPR_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_REPR_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "\n": ""}
_REPR_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "datetime.timezone.utc": "+00:00"}
_CLOSINGS = {"[": "]", "(": ")", "{": "}"}


def read_json(text: str) -> Any:
    """Read JSON: the whole text, in a code fence, after a sentence, or one value a line."""
    if len(text) > READ_CHARS or text.count(",") > READ_VALUES:
        return None
    body = text.strip()
    if body[:1] in '{["-0123456789tf' and body:
        value = _json_value(body)
        if isinstance(value, str):
            inner = value.strip()
            nested = _json_value(inner) if inner[:1] in ("{", "[") else None
            return value if nested is None else nested
        if value is not None:
            return value
    if "{" not in body and "[" not in body:
        return None
    return _json_lines(body) or _json_inside(body)


def _json_value(text: str) -> Any:
    try:
        return _plain_json(json.loads(text, parse_constant=_no_constant), text)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _plain_json(value: Any, text: str) -> Any:
    """Return the value, or None if it is too deep, too large or has numbers that JSON cannot write."""
    level: list[Any] = [value]
    count = 0
    for _ in range(READ_DEPTH + 1):
        count += len(level)
        if count > READ_VALUES:
            return None
        deeper: list[Any] = []
        for member in level:
            if isinstance(member, dict):
                deeper += member.values()
            elif isinstance(member, list):
                deeper += member
            elif isinstance(member, (int, float)) and not _is_writable(member):
                return None
        if not deeper:
            return _whole_characters(value) if _SURROGATE_ESCAPE.search(text) else value
        level = deeper
    return None


def _is_writable(number: int | float) -> bool:
    return math.isfinite(number) if isinstance(number, float) else number.bit_length() <= _INTEGER_BITS


def _whole_characters(value: Any) -> Any:
    """Return the value with U+FFFD for each lone surrogate, which no UTF-8 text can hold."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def _json_lines(text: str) -> Any:
    """JSON lines: two or more lines, each an object or a list."""
    breaks = text.count("\n")
    if not breaks or text[0] not in "{[" or breaks + text.count(",") > READ_VALUES:
        return None
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    if not all(line.lstrip()[0] in "{[" and line.rstrip()[-1] in "}]" for line in lines):
        return None
    # One list instead of many parses; what is not one value a line fails at once, or later as a whole.
    values = _json_value(f"[{','.join(lines)}]")
    return values if isinstance(values, list) and len(values) == len(lines) else None


def _json_inside(text: str) -> Any:
    """Return the first complete object or list in a fence or after other words."""
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    fence = _FENCE.search(text, 0, _SENTENCE_CHARS)
    position, effort = fence.end() if fence else 0, 0
    for _ in range(_TRIES):
        found = _OPENING.search(text, position, _SENTENCE_CHARS)
        if found is None or effort > READ_CHARS:
            return None
        try:
            value, end = decoder.raw_decode(text, found.start())
        except json.JSONDecodeError as error:
            effort += error.pos - found.start()
            position = found.end()
            continue
        except (ValueError, RecursionError):
            return None
        return _plain_json(value, text[found.start() : end])
    return None


def read_repr(text: str) -> Any:
    """Read a Python literal: lists, tuples, sets, dicts and what they hold, alone or after a sentence."""
    if len(text) > READ_CHARS:
        return None
    body = text.strip()
    position = effort = 0
    if body.startswith(("[", "(", "{")):
        parser = _ReprParser(body, 0)
        value = parser.whole()
        if value is not None and (value or parser.position == len(body)):
            return value
        position, effort = 1, parser.count
    for _ in range(_TRIES):
        found = _OPENING.search(body, position, _SENTENCE_CHARS)
        if found is None or effort > _REPR_TOKENS:
            return None
        parser = _ReprParser(body, found.start())
        value = parser.whole()
        if value:
            return value
        effort += parser.count
        position = found.end()
    return None


class _ReprParser:
    """Recursive descent over Python literals, with bounded depth and a bounded number of words."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.count = 0

    def whole(self) -> Any:
        """Return the value that begins here, or None; `position` is then where it ends."""
        try:
            return self.value(*self.take(), 0)
        except (ValueError, OverflowError):
            return None

    def take(self) -> tuple[str, str]:
        """Return the kind and the text of the next word."""
        self.count += 1
        found = _REPR_TOKEN.match(self.text, self.position)
        if found is None or self.count > _REPR_TOKENS:
            raise ValueError("no word")
        self.position = found.end()
        kind = found.lastgroup or ""
        return kind, found[kind]

    def value(self, kind: str, word: str, depth: int) -> Any:
        """Return the value that a word begins; ValueError where it begins none."""
        if kind == "text":
            return _repr_text(word)
        if kind == "number":
            return _repr_number(word)
        if kind == "word" and word in _REPR_WORDS:
            return _REPR_WORDS[word]
        if depth >= READ_DEPTH or kind not in ("open", "call"):
            raise ValueError(word)
        if kind == "call":
            return self.called(word[:-1].rpartition(".")[2], depth + 1)
        return self.members(word, depth + 1)

    def members(self, opening: str, depth: int) -> Any:
        """Parse bracketed members: tuples and sets are lists, one value in parentheses is itself."""
        items: list[Any] = []
        keyed: dict[str, Any] = {}
        has_comma = False
        kind, word = self.take()
        while word != _CLOSINGS[opening]:
            value = self.value(kind, word, depth)
            kind, word = self.take()
            if word == ":" and opening == "{":
                keyed[_repr_key(value)] = self.value(*self.take(), depth)
                kind, word = self.take()
            else:
                items.append(value)
            has_comma = word == ","
            kind, word = self.take() if has_comma else (self.closing(kind), word)
        if items and keyed:
            raise ValueError("values with and without keys")
        if opening == "{" and not items:
            return keyed
        return items[0] if opening == "(" and len(items) == 1 and not has_comma else items

    def called(self, name: str, depth: int) -> Any:
        """Return a value that its class writes as a call."""
        values: list[Any] = []
        named: dict[str, Any] = {}
        kind, word = self.take()
        while word != ")":
            if kind == "word" and self.text.startswith("=", self.position):
                self.position += 1
                named[word] = self.value(*self.take(), depth)
            else:
                values.append(self.value(kind, word, depth))
            kind, word = self.take()
            kind, word = self.take() if word == "," else (self.closing(kind), word)
        return _repr_called(name, values, named)

    def closing(self, kind: str) -> str:
        """Return the kind, which must be that of a closing bracket."""
        if kind != "close":
            raise ValueError(kind)
        return kind


def _repr_called(name: str, values: list[Any], named: dict[str, Any]) -> Any:
    """Dates and times as ISO text, a difference as seconds, a zone as its offset, others as the one value they hold."""
    if name in ("datetime", "date", "time"):
        return _repr_moment(name, values, named.get("tzinfo", ""))
    if name == "timedelta":
        return named.get("days", 0) * 86_400 + named.get("seconds", 0)
    if name == "timezone" and values and isinstance(values[0], int):
        return f"{'-' if values[0] < 0 else '+'}{abs(values[0]) // 3600:02d}:{abs(values[0]) // 60 % 60:02d}"
    if name == "ZoneInfo" and [*values, *named.values()] == ["UTC"]:
        return "+00:00"
    if name in ("set", "frozenset") and not values:
        return []
    if len(values) != 1 or name == "ZoneInfo":
        raise ValueError(name)
    return values[0]


def _repr_moment(name: str, values: list[Any], zone: Any) -> str:
    day = [] if name == "time" else values[:3]
    clock = [*values[len(day) :], 0, 0, 0, 0][:4]
    fits = len(values) <= 7 and isinstance(zone, str) and (name == "time" or len(day) == 3)
    if not fits or not all(isinstance(number, int) and 0 <= number < 1_000_000 for number in values):
        raise ValueError(name)
    date = "{:04d}-{:02d}-{:02d}".format(*day) if day else ""
    if name == "date":
        return date
    fraction = f".{clock[3]:06d}" if clock[3] else ""
    return f"{date}{'T' if date else ''}{clock[0]:02d}:{clock[1]:02d}:{clock[2]:02d}{fraction}{zone}"


def _repr_text(token: str) -> str:
    prefix, _, body = token[:-1].partition(token[-1])
    if "\\" not in body or "r" in prefix.lower():
        return body
    return _whole_text(_REPR_ESCAPE.sub(_repr_escaped, body))


def _repr_escaped(found: re.Match[str]) -> str:
    body = found[1]
    if body[0] in "xuU" and len(body) > 1:
        number = int(body[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if body[0] in "01234567":
        return chr(int(body, 8))
    return _REPR_ESCAPES.get(body, body if body in "\\'\"" else found[0])


def _whole_text(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _repr_number(token: str) -> int | float:
    if all(mark not in token for mark in ".eE"):
        return int(token)
    number = float(token)
    if not math.isfinite(number):
        raise ValueError(token)
    return number


def _repr_key(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        raise ValueError("a key that is no text")  # noqa: TRY004 - one error means one thing: not a literal
    return str(value)
