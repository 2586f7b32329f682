"""Defines the types of setting values and parses them.

A value comes typed from a file or as text from the environment; a kind turns either into the one form the program
sees, or says in words what it would have taken. YAML reads a bare `off` as false, so a choice that has an "off" takes
that too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar, cast

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_NONE = frozenset({"", "null", "none", "~"})
_USER_PASSWORD = re.compile(r"(://[^/?#:]*:)[^?#]*(?=@)")
_NAMED_PASSWORD = re.compile(r"\b((?:ssl)?pass(?:word|wd)?\s*=\s*)(?:'[^']*'|[^&\s]*)", re.IGNORECASE)

_Scalar = TypeVar("_Scalar", int, float)


class UnfitValue(Exception):
    """Its text is what would have been taken."""


class SettingKind(Protocol):
    """A type of setting; both parsers raise UnfitValue."""

    @property
    def name(self) -> str: ...

    def from_file(self, value: Any) -> Any: ...

    def from_text(self, text: str) -> Any: ...


class Flag:
    """True or false."""

    name = "true or false"

    def from_file(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise UnfitValue(self.name)
        return value

    def from_text(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in _TRUE | _FALSE:
            raise UnfitValue(self.name)
        return word in _TRUE


class Text:
    """Text that is not blank."""

    def __init__(self, *, optional: bool = False) -> None:
        self.name = "text or null" if optional else "text"
        self._optional = optional

    def from_file(self, value: Any) -> str | None:
        if self._optional and value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise UnfitValue(self.name)
        return value

    def from_text(self, text: str) -> str | None:
        return self.from_file(None if self._optional and text.strip().lower() in _NONE else text)


class TextList:
    """A list; in the environment its items are separated by commas, or it is an array of JSON."""

    name = "list of texts"

    def from_file(self, value: Any) -> tuple[str, ...]:
        items = tuple(cast("list[Any]", value)) if isinstance(value, list) else None
        if items is None or not all(isinstance(item, str) and item.strip() for item in items):
            raise UnfitValue(self.name)
        return items

    def from_text(self, text: str) -> tuple[str, ...]:
        if text.strip().startswith("["):
            import json

            # An address such as [::1] begins alike.
            with suppress(ValueError):
                return self.from_file(json.loads(text))
        return tuple(item.strip() for item in text.split(",") if item.strip())


class ObjectList:
    """A list of objects; in the environment, as JSON. Their fields are checked where they are used."""

    name = "list of objects"

    def from_file(self, value: Any) -> tuple[dict[str, Any], ...]:
        items = tuple(cast("list[Any]", value)) if isinstance(value, list) else None
        if items is None or not all(isinstance(item, dict) for item in items):
            raise UnfitValue(self.name)
        return items

    def from_text(self, text: str) -> tuple[dict[str, Any], ...]:
        import json

        try:
            return self.from_file(json.loads(text))
        except ValueError:
            raise UnfitValue(f"{self.name} as JSON") from None


class Choice:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.name = " | ".join(words)
        self._words = words

    def from_file(self, value: Any) -> str:
        return self.from_text("off" if value is False else value)

    def from_text(self, text: Any) -> str:
        if text not in self._words:
            raise UnfitValue(f"one of {', '.join(self._words)}")
        return text


class Integer:
    """A whole number within limits."""

    def __init__(self, least: int, most: int | None = None, *, optional: bool = False) -> None:
        self.name = _describe_range("whole number", least, most, optional=optional)
        self._least, self._most, self._optional = least, most, optional

    def from_file(self, value: Any) -> int | None:
        if self._optional and value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise UnfitValue(self.name)
        return _within(value, self._least, self._most, self.name)

    def from_text(self, text: str) -> int | None:
        if self._optional and text.strip().lower() in _NONE:
            return None
        return self.from_file(_converted(int, text, self.name))


class Number:
    """A number within limits."""

    def __init__(self, least: float, most: float | None = None, *, optional: bool = False) -> None:
        self.name = _describe_range("number", least, most, optional=optional)
        self._least, self._most, self._optional = least, most, optional

    def from_file(self, value: Any) -> float | None:
        if self._optional and value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise UnfitValue(self.name)
        number = _converted(float, value, self.name)
        if not math.isfinite(number):
            raise UnfitValue(self.name)
        return _within(number, self._least, self._most, self.name)

    def from_text(self, text: str) -> float | None:
        if self._optional and text.strip().lower() in _NONE:
            return None
        return self.from_file(_converted(float, text, self.name))


def mask_passwords(text: str) -> str:
    """Mask the password in the text of an address."""
    return _NAMED_PASSWORD.sub(r"\1***", _USER_PASSWORD.sub(r"\1***", text))


def _within(value: _Scalar, least: float, most: float | None, name: str) -> _Scalar:
    if value < least or (most is not None and value > most):
        raise UnfitValue(name)
    return value


def _converted(convert: Callable[[Any], _Scalar], value: Any, name: str) -> _Scalar:
    try:
        return convert(value)
    except (ValueError, OverflowError):
        raise UnfitValue(name) from None


def _describe_range(noun: str, least: float, most: float | None, *, optional: bool) -> str:
    limits = f"from {least:g}" if most is None else f"from {least:g} to {most:.15g}"
    return f"{noun} {limits}{' or null' if optional else ''}"
