"""Finds fields that a JSON Schema marks as secret: `x-secret`, `writeOnly`, or the format `password`.

A schema says it where the value is described, however deep: inside properties, items, alternatives or definitions. All
alternatives count, whether or not the value fits them, because hiding too much is the safer mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput

_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else", "not")
_DEEPEST = 64


def is_marked(schema: Any) -> bool:
    """Return whether a schema says of its own value that it is secret."""
    if not isinstance(schema, dict):
        return False
    rules = cast("dict[str, Any]", schema)
    return rules.get("x-secret") is True or rules.get("writeOnly") is True or rules.get("format") == "password"


def has_marks(schema: Any) -> bool:
    """Return whether a schema marks anything at all; most do not, and their values need not be walked."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if is_marked(part):
            return True
        pending.extend(_members(part).values() if isinstance(part, dict) else _items(part))
    return False


def replace_marked(schema: Any, value: Any, token: Callable[[bytes], str]) -> Any:
    """Return the value with every marked field replaced; what is not marked is passed on as it is."""
    return _Marks(schema, lambda marked: token(_text_of(marked).encode("utf-8", "replace"))).hide([schema], value, 0)


def marked_texts(schema: Any, value: Any) -> list[str]:
    """Return the texts in marked fields, whole and in parts, to find them in an answer or an error."""
    found: list[str] = []

    def note(marked: Any) -> str:
        found.append(_text_of(marked))
        found.extend(_text_of(leaf) for leaf in _leaves(marked) if leaf is not marked)
        return ""

    _Marks(schema, note).hide([schema], value, 0)
    return found


class _Marks:
    """Walks a value along all schemas that describe it."""

    def __init__(self, root: Any, replace: Callable[[Any], str]) -> None:
        self._root = root
        self._replace = replace

    def hide(self, schemas: list[Any], value: Any, depth: int) -> Any:
        if not schemas or value is None or depth > _DEEPEST:
            return value
        rules = [rule for schema in schemas for rule in self._expand(schema, set())]
        if any(is_marked(rule) for rule in rules):
            return self._replace(value)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {
                name: self.hide([below for rule in rules for below in _of_member(rule, name)], member, depth + 1)
                for name, member in members.items()
            }
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [
                self.hide([below for rule in rules for below in _of_item(rule, place)], item, depth + 1)
                for place, item in enumerate(items)
            ]
        return value

    def _expand(self, schema: Any, seen: set[str]) -> Iterator[dict[str, Any]]:
        """Yield a schema and everything else that speaks about the same value."""
        if not isinstance(schema, dict):
            return
        rule = cast("dict[str, Any]", schema)
        yield rule
        for word in _ALTERNATIVES:
            for below in _items(rule.get(word)):
                yield from self._expand(below, seen)
        for below in (*map(rule.get, _CONDITIONS), *_members(rule.get("dependentSchemas")).values()):
            yield from self._expand(below, seen)
        reference = rule.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            yield from self._expand(self._resolve(reference), seen | {reference})

    def _resolve(self, reference: str) -> Any:
        """Return a reference inside the same document; all others describe nothing here."""
        if not reference.startswith("#"):
            return None
        found = self._root
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdigit():
                listed = cast("list[Any]", found)
                found = listed[int(name)] if int(name) < len(listed) else None
            else:
                found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
        return found


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return canonical_json(value).decode()
    except InvalidInput:
        # Not JSON, so it will be refused, and the refusal quotes it as Python shows it.
        return repr(value)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for member in cast("dict[str, Any]", value).values():
            yield from _leaves(member)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _leaves(item)
    else:
        yield value


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _members(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _of_member(rule: dict[str, Any], name: str) -> Iterator[Any]:
    """Return what a schema says about one member of an object."""
    properties = _members(rule.get("properties"))
    patterns = _members(rule.get("patternProperties"))
    if name in properties:
        yield properties[name]
    else:
        # Patterns come with foreign definitions and may be made to run for ever, so none is tried: all of them count.
        yield from patterns.values()
        yield rule.get("additionalProperties")
        yield rule.get("unevaluatedProperties")


def _of_item(rule: dict[str, Any], place: int) -> Iterator[Any]:
    """Return what a schema says about one item of an array."""
    first = _items(rule.get("prefixItems")) or _items(rule.get("items"))
    if place < len(first):
        yield first[place]
    else:
        yield rule.get("items")
        yield rule.get("additionalItems")
        yield rule.get("unevaluatedItems")
    yield rule.get("contains")
