"""Reads the JSON and YAML documents that define services, tools and templates.

A definition that is silently misread is found in production. Here each field is known by name and kind; what is
missing, of the wrong kind or unknown is refused by its name. Both spellings of a name are understood
(`connectionSchema`, `connection_schema`); everything that TwinRaven writes uses the second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum, StrEnum
from typing import Any, Final, TypeVar, cast

from twinraven.foundation.errors import InvalidDefinition

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

LONGEST_NAME: Final = 200
LONGEST_DESCRIPTION: Final = 10_000

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class KeepField(Enum):
    """Says of a field that may be null that it stays as it is."""

    KEEP = "keep"


KEEP: Final = KeepField.KEEP


def kept(change: T | KeepField, before: T) -> T:
    """Return the value of a field after a change."""
    return before if isinstance(change, KeepField) else change


class Document:
    """One object of a file or of a request, read field by field."""

    def __init__(
        self, what: str, body: object, *, known: Collection[str], fixed: Collection[str] = (), where: str = ""
    ) -> None:
        """`fixed` are fields that exist but cannot be given here; `where` comes before the names in messages."""
        self._what = what
        self._where = where
        if not isinstance(body, dict):
            raise InvalidDefinition(f"{where.removesuffix('.') or what} must be an object", field=where or what)
        self.fields: dict[str, Any] = {}
        for written, value in cast("dict[object, Any]", body).items():
            name = plain_name(str(written))
            if name in fixed:
                raise self._invalid(name, f"never changes, so it cannot stand in a change of a {what}")
            if name not in known:
                raise self._unknown(str(written), known)
            if name in self.fields:
                raise self._invalid(name, "is given twice")
            self.fields[name] = value

    def has(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def text(self, name: str, *, limit: int = LONGEST_NAME) -> str:
        """Return a text that must be there and not be blank."""
        value = self.fields.get(name)
        if value is None:
            raise self._invalid(name, "is missing")
        if not isinstance(value, str) or not value.strip() or len(value) > limit:
            raise self._invalid(name, f"must be a text of 1 to {limit} characters")
        return value

    def optional_text(self, name: str, *, limit: int = LONGEST_NAME) -> str | None:
        return self.text(name, limit=limit) if self.has(name) else None

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.fields.get(name, default)
        if not isinstance(value, bool):
            raise self._invalid(name, "must be true or false")
        return value

    def optional_flag(self, name: str) -> bool | None:
        return self.flag(name, default=False) if name in self.fields else None

    def whole(self, name: str, *, most: int) -> int | None:
        """Return a whole number from 1, or nothing."""
        value = self.fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
            raise self._invalid(name, f"must be a whole number from 1 to {most}")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object that must be there."""
        value = self.fields.get(name)
        if value is None:
            raise self._invalid(name, "is missing")
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in cast("dict[object, Any]", value)):
            raise self._invalid(name, "must be an object")
        return cast("dict[str, Any]", value)

    def optional_mapping(self, name: str) -> dict[str, Any] | None:
        return self.mapping(name) if self.has(name) else None

    def choice(self, name: str, words: type[E]) -> E:
        """Return one word of an enumeration, which must be there."""
        value = self.text(name)
        try:
            return words(value)
        except ValueError:
            raise self._invalid(name, f"must be one of {', '.join(words)}, not {value!r}") from None

    def optional_choice(self, name: str, words: type[E]) -> E | None:
        return self.choice(name, words) if self.has(name) else None

    def change_of(self, name: str, read: Callable[[str], T]) -> T | KeepField:
        """Return a field that may be set to null: what stands there, or that nothing does."""
        return read(name) if name in self.fields else KEEP

    def _unknown(self, written: str, known: Collection[str]) -> InvalidDefinition:
        from difflib import get_close_matches

        near = get_close_matches(plain_name(written), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
        return self._invalid(written, f"is not a field of a {self._what}; {hint}")

    def _invalid(self, name: str, problem: str) -> InvalidDefinition:
        return InvalidDefinition(f"{self._where}{name} {problem}", field=f"{self._where}{name}")


def plain_name(written: str) -> str:
    """Return a field's name as TwinRaven writes it."""
    return _HUMP.sub("_", written).lower()


def refuse_nulls(what: str, body: Mapping[str, Any], nullable: Collection[str]) -> None:
    """In a change null means "no value"; a field that must have one cannot be set to it."""
    for written, value in body.items():
        name = plain_name(written)
        if value is None and name not in nullable:
            raise InvalidDefinition(f"{name} of a {what} cannot be null; leave it out to keep it", field=name)
