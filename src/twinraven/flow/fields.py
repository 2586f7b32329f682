"""Reads a definition's JSON field by field; every error names its field.

Definitions come from files, models and other people. Before anything else looks at one, its size and depth are
bounded without recursion; after that, each object is read through `Fields`, which refuses what has the wrong kind and,
at the end, what nobody asked for: an unknown field of something that will be executed is a misunderstanding.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final, cast

from twinraven.foundation.canonical import MAX_INTEGER_BITS, JsonObject
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import InvalidDefinition, InvalidInput

MAX_NESTING: Final = 64
MAX_VALUES: Final = 100_000
MAX_CHARACTERS: Final = 4_000_000

_REQUIRED: Final = object()


def invalid(where: str, problem: str, **details: Any) -> InvalidDefinition:
    """Return the one error of a definition: the place and what is wrong with it."""
    return InvalidDefinition(f"{where}: {problem}", field=where, **details)


def refuse_excess(body: Any, where: str = "definition") -> None:
    """Raise unless this is JSON of a sensible size."""
    values = characters = 0
    level: list[Any] = [body]
    for _ in range(MAX_NESTING):
        values += len(level)
        if values > MAX_VALUES:
            raise invalid(where, f"has more than {MAX_VALUES} values")
        deeper: list[Any] = []
        for value in level:
            characters += _size(value, where)
            deeper += _members(value, where)
        if characters > MAX_CHARACTERS:
            raise invalid(where, f"has more than {MAX_CHARACTERS} characters")
        if not deeper:
            return
        level = deeper
    raise invalid(where, f"is nested deeper than {MAX_NESTING} levels")


def _members(value: Any, where: str) -> list[Any]:
    if isinstance(value, list):
        return cast("list[Any]", value)
    if not isinstance(value, dict):
        return []
    members = cast("dict[Any, Any]", value)
    if not all(isinstance(key, str) for key in members):
        raise invalid(where, "has an object key that is not a string")
    return list(members.values())


def _size(value: Any, where: str) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(key)) for key in cast("dict[Any, Any]", value))
    if isinstance(value, float) and not math.isfinite(value):
        raise invalid(where, "has a number that JSON cannot write (NaN or infinite)")
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise invalid(where, f"has an integer of more than {MAX_INTEGER_BITS} bits")
    if value is None or isinstance(value, (bool, int, float, list)):
        return 1
    raise invalid(where, f"has a {type(value).__name__}, which is not JSON")


def as_object(value: Any, where: str) -> JsonObject:
    """Return the value, which must be an object."""
    if not isinstance(value, dict):
        raise invalid(where, f"must be an object, not {_kind(value)}")
    return cast("JsonObject", value)


def as_index(text: str, where: str) -> int:
    """Return a step index that stands as a key, where JSON allows only text."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 6 or str(int(text)) != text:
        raise invalid(where, f"{text[:40]!r} is not a step index like 0 or 1")
    return int(text)


class Fields:
    """One object being read."""

    def __init__(self, body: Any, where: str = "") -> None:
        self._members = dict(as_object(body, where or "definition"))
        self._where = where

    def place(self, name: str) -> str:
        """Return the path of a field in the whole definition."""
        return f"{self._where}.{name}" if self._where else name

    def has(self, name: str) -> bool:
        """Return whether a field is there and not null; a null is taken."""
        if self._members.get(name) is not None:
            return True
        self._members.pop(name, None)
        return False

    def take(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a field as it is."""
        value = self._members.pop(name, default)
        if value is _REQUIRED:
            raise invalid(self.place(name), "is missing")
        return value

    def text(self, name: str, default: Any = _REQUIRED) -> str:
        value = self.take(name, default)
        if not isinstance(value, str):
            raise invalid(self.place(name), f"must be a string, not {_kind(value)}")
        return value

    def text_or_null(self, name: str) -> str | None:
        return self.text(name) if self.has(name) else None

    def integer(self, name: str, default: Any = _REQUIRED) -> int:
        value = self.take(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise invalid(self.place(name), f"must be a whole number, not {_kind(value)}")
        return value

    def integer_or_null(self, name: str) -> int | None:
        return self.integer(name) if self.has(name) else None

    def array(self, name: str, default: Any = _REQUIRED) -> list[Any]:
        value = self.take(name, default)
        if not isinstance(value, list):
            raise invalid(self.place(name), f"must be a list, not {_kind(value)}")
        return cast("list[Any]", value)

    def object(self, name: str, default: Any = _REQUIRED) -> JsonObject:
        return as_object(self.take(name, default), self.place(name))

    def moment(self, name: str) -> datetime:
        try:
            return parse_iso(self.text(name), field=self.place(name))
        except (InvalidInput, OverflowError) as error:
            raise invalid(self.place(name), f"is not a time like 2026-01-15T10:30:00Z ({error})") from None

    def moment_or_null(self, name: str) -> datetime | None:
        return self.moment(name) if self.has(name) else None

    def finish(self) -> None:
        """Refuse what is left over."""
        if self._members:
            unknown = min(self._members)
            raise invalid(self.place(unknown[:80]), "is not a field of this object")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(cast("type[Any]", type(value)), "a number")
