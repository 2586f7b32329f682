"""A definition's small languages as Python expressions: references, mapped values and conditions.

Where a reference's root lives differs between a plain function and one with a `Run`, so both hand in `find`, which
gives the Python name for the beginning of a reference and what is left of its path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from twinraven.flow import VALUE_READERS
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.references import Segments, parse_reference, read_quoted, read_reference
from twinraven.registry.exports.layout import Group, Node, Text, call_of, flat, literal_of, object_of, prefixed, quoted

Find = Callable[[Segments], tuple[Node, Segments]]

_ESCAPED: Final = re.compile(r"\$\$+[.\[]")
_TOKEN: Final = re.compile(
    r"==|!=|<=|>=|&&|\|\||[<>!()]|[A-Za-z_][A-Za-z0-9_]*"
    r"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
)
_SPELLINGS: Final = {"&&": "and", "||": "or", "!": "not"}
_WORDS: Final = {"null": "None", "true": "True", "false": "False"}
_COMPARISONS: Final = {
    "==": "equal({0}, {1})",
    "!=": "not equal({0}, {1})",
    "<": "less({0}, {1})",
    "<=": "at_most({0}, {1})",
    ">": "less({1}, {0})",
    ">=": "at_most({1}, {0})",
    "in": "contains({1}, {0})",
    "contains": "contains({0}, {1})",
}
_FUNCTIONS: Final = {"exists": "{} is not None", "length": "length({})", "is_empty": "is_empty({})"}


class Expressions:
    """Writes expressions in one place of a function."""

    def __init__(self, find: Find, optional: Mapping[str, str]) -> None:
        self._find = find
        self._optional = optional
        """The Python names of parameters that may be left out, by parameter."""

    def inputs(self, mapping: JsonObject) -> Node:
        """The arguments of a call; a bare parameter that was left out is left out here."""
        members: list[tuple[str, Node]] = []
        drops = False
        for name, value in mapping.items():
            bare = self._bare_optional(value)
            drops |= bare is not None
            members.append((name, bare or self.value(value)))
        written = object_of(members)
        return call_of("given", written) if drops else written

    def value(self, value: Any) -> Node:
        if isinstance(value, str):
            if value.startswith(("$.", "$[")):
                return self.reference(parse_reference(value).segments)
            return Text(value[1:] if _ESCAPED.match(value) else value)
        if isinstance(value, list):
            return Group("[", tuple(self.value(item) for item in cast("list[Any]", value)), "]")
        if not isinstance(value, dict):
            return literal_of(value)
        members = cast("JsonObject", value)
        if len(members) == 1 and (operator := next(iter(members))) in _OPERATORS:
            return _OPERATORS[operator](self, members[operator])
        return object_of((name, self.value(member)) for name, member in members.items())

    def reference(self, segments: Segments) -> Node:
        base, rest = self._find(segments)
        return _inside(base, _path(rest))

    def condition(self, text: str) -> str:
        """A condition that is known to parse, as an expression that is true or false."""
        return _Conditions(self, text).written()

    def _bare_optional(self, value: Any) -> str | None:
        if not isinstance(value, str) or not value.startswith(("$.", "$[")):
            return None
        segments = parse_reference(value).segments
        return self._optional.get(str(segments[1])) if len(segments) == 2 and segments[0] == "parameters" else None

    def _affix(self, body: Any) -> Node:
        return call_of("affix", Text(body.get("before", "")), self.value(body["of"]), Text(body.get("after", "")))

    def _part(self, body: Any) -> Node:
        return call_of("part", self.value(body["of"]), quoted(body["separator"]), str(body.get("index", 0)))

    def _read(self, body: Any) -> Node:
        kind = str(body["as"])
        function = "from_text_or_value" if kind in VALUE_READERS else "from_text"
        return _inside(call_of(function, f"read_{kind}", self.value(body["of"])), _path_of(body.get("at", "$")))

    def _at(self, body: Any) -> Node:
        return _inside(self.value(body["of"]), _path_of(body["path"]))

    def _map(self, body: Any) -> Node:
        return call_of(
            "map_items", self.value(body["over"]), prefixed("lambda item: ", self.value(body.get("to", "$.item")))
        )

    def _where(self, body: Any) -> Node:
        path = _path_of(body.get("at", "$"))
        found = call_of("matching_items", self.value(body["of"]), self.value(body["equals"]), *path)
        return call_of("first_item", found) if body.get("first") else found


_OPERATORS: Final[dict[str, Callable[[Expressions, Any], Node]]] = {
    "$literal": lambda _, body: literal_of(body),
    "$string": lambda here, body: call_of("as_text", here.value(body)),
    "$integer": lambda here, body: call_of("as_integer", here.value(body)),
    "$affix": Expressions._affix,  # pyright: ignore[reportPrivateUsage] - the table of this class's own operators
    "$part": Expressions._part,  # pyright: ignore[reportPrivateUsage]
    "$read": Expressions._read,  # pyright: ignore[reportPrivateUsage]
    "$at": Expressions._at,  # pyright: ignore[reportPrivateUsage]
    "$join": lambda here, body: call_of("join_texts", *map(here.value, body)),
    "$map": Expressions._map,  # pyright: ignore[reportPrivateUsage]
    "$where": Expressions._where,  # pyright: ignore[reportPrivateUsage]
}


def _path_of(text: str) -> tuple[str, ...]:
    return () if text == "$" else _path(parse_reference(text).segments)


def _path(segments: Segments) -> tuple[str, ...]:
    return tuple(quoted(key) if isinstance(key, str) else str(key) for key in segments)


def _inside(base: Node, path: tuple[str, ...]) -> Node:
    """What lies at a path inside a value; a path into what has one already makes that longer."""
    if not path:
        return base
    if isinstance(base, Group) and base.opening.startswith(("at(", "run.seen(")):
        return Group(base.opening, (*base.items, *path), base.closing)
    return call_of("at", base, *path)


class _Conditions:
    """Recursive descent over a condition; terms are written with whether they are already true or false."""

    def __init__(self, expressions: Expressions, text: str) -> None:
        self._expressions = expressions
        self._text = text
        self._position = 0
        self._next = ""
        self._operand_text: str | None = None
        self._advance()

    def written(self) -> str:
        text, is_bool = self._either()
        return text if is_bool else f"holds({text})"

    def _either(self) -> tuple[str, bool]:
        return self._joined("or", lambda: self._joined("and", self._plain))

    def _joined(self, word: str, read: Callable[[], tuple[str, bool]]) -> tuple[str, bool]:
        terms = [read()]
        while self._next == word:
            self._advance()
            terms.append(read())
        if len(terms) == 1:
            return terms[0]
        return f"({f' {word} '.join(_as_bool(term) for term in terms)})", True

    def _plain(self) -> tuple[str, bool]:
        negations = 0
        while self._next == "not":
            self._advance()
            negations += 1
        term = self._comparison()
        if not negations:
            return term
        return (f"(not {_as_bool(term)})" if negations % 2 else _as_bool(term)), True

    def _comparison(self) -> tuple[str, bool]:
        left = self._operand()
        if self._next not in _COMPARISONS:
            return left
        operator = self._next
        self._advance()
        right = self._operand()[0]
        if right == "None" and operator in {"==", "!="}:
            return f"({left[0]} is {'not ' if operator == '!=' else ''}None)", True
        written = _COMPARISONS[operator].format(left[0], right)
        return (f"({written})" if written.startswith("not ") else written), True

    def _operand(self) -> tuple[str, bool]:
        word, operand = self._next, self._operand_text
        self._advance()
        if operand is not None:
            return operand, False
        if word in _FUNCTIONS:
            self._advance()
            argument = self._operand_text or ""
            self._advance()
            self._advance()
            written = _FUNCTIONS[word].format(argument)
            return (f"({written})" if word == "exists" else written), word != "length"
        inner = self._either()
        self._advance()
        return inner

    def _advance(self) -> None:
        """Read the next token: an operator or word into `_next`, a value into `_operand_text`."""
        text = self._text
        while self._position < len(text) and text[self._position] in " \t\r\n":
            self._position += 1
        self._next, self._operand_text = "", None
        if self._position >= len(text):
            return
        if text[self._position] in "'\"":
            value, self._position = read_quoted(text, self._position)
            self._operand_text = quoted(value)
        elif text[self._position] in "${":
            segments, self._position = read_reference(text, self._position)
            self._operand_text = flat(self._expressions.reference(segments))
        else:
            self._take_word()

    def _take_word(self) -> None:
        found = _TOKEN.match(self._text, self._position)
        word = found[0] if found else ""
        self._position += len(word)
        if word in _WORDS:
            self._operand_text = _WORDS[word]
        elif word[:1] in "-0123456789":
            self._operand_text = repr(float(word) if any(mark in word for mark in ".eE") else int(word))
        else:
            self._next = _SPELLINGS.get(word, word)


def _as_bool(term: tuple[str, bool]) -> str:
    return term[0] if term[1] else f"holds({term[0]})"
