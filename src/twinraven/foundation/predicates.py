"""Parses and evaluates predicates, the conditions of steps and aborts, such as `$.steps[0].output == null`.

    either     = both   { ("||" | "or")  both }
    both       = plain  { ("&&" | "and") plain }
    plain      = { "!" | "not" } comparison
    comparison = operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "contains") operand ]
    operand    = reference | null | true | false | number | 'text' | "text" | "(" either ")"
               | exists(reference) | length(reference) | is_empty(reference)

A condition decides whether an effect happens, so it has an answer for every input: what is missing is null, values of
different types are unequal and unordered (1 and 1.0 are both numbers, true is not one), and a bare value holds unless
it is null, false, 0, "", [] or {}. Nothing is evaluated by Python; texts are parsed once, into a tree of closures
whose depth is bounded, and evaluation takes time linear in what it looks at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, cast

from twinraven.foundation.references import Reference, invalid_expression, read_quoted_text, read_reference

MAX_PREDICATE_CHARS = 2_000
MAX_PREDICATE_DEPTH = 32

Scope = Mapping[str, Any]
_Term = Callable[[Scope], Any]

# Possessive, so that none of them can ever step back.
_NUMERAL = re.compile(r"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_SYMBOL = re.compile(r"==|!=|<=|>=|&&|\|\||[<>!()]")
_LITERALS: dict[str, bool | None] = {"null": None, "true": True, "false": False}
_SPELLINGS = {"&&": "and", "||": "or", "!": "not"}


@dataclass(frozen=True, slots=True)
class Predicate:
    """A parsed condition; two with the same text are equal."""

    text: str
    references: tuple[Reference, ...]
    _holds: _Term = field(repr=False, compare=False)

    def evaluate(self, scope: Scope) -> bool:
        return is_truthy(self._holds(scope))


@lru_cache(maxsize=1024)
def parse_predicate(text: str) -> Predicate:
    """Parse a condition, parsed once; errors name the position."""
    if len(text) > MAX_PREDICATE_CHARS:
        raise invalid_expression("predicate", f"is longer than {MAX_PREDICATE_CHARS} characters", text, 0)
    parser = _Parser(text)
    holds = parser.parse()
    return Predicate(text, tuple(dict.fromkeys(parser.references)), holds)


def is_truthy(value: Any) -> bool:
    """Return whether a bare value holds. NaN is not nothing, so it does."""
    return value is not None and value is not False and value != 0 and not _is_hollow(value)


def json_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: deep, 1 equals 1.0, true does not equal 1."""
    pending = [(left, right)]
    while pending:
        one, other = pending.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            members, others = cast("dict[Any, Any]", one), cast("dict[Any, Any]", other)
            if members.keys() != others.keys():
                return False
            pending.extend((value, others[key]) for key, value in members.items())
        elif isinstance(one, list) and isinstance(other, list):
            items, other_items = cast("list[Any]", one), cast("list[Any]", other)
            if len(items) != len(other_items):
                return False
            pending.extend(zip(items, other_items, strict=True))
        elif not _equal_scalars(one, other):
            return False
    return True


def _equal_scalars(one: Any, other: Any) -> bool:
    if isinstance(one, str) or _is_number(one):
        return _same_order(one, other) and one == other
    return one is other


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same_order(one: Any, other: Any) -> bool:
    """Return whether the two can be compared: both numbers or both texts."""
    return (isinstance(one, str) and isinstance(other, str)) or (_is_number(one) and _is_number(other))


def _is_hollow(value: Any) -> bool:
    return isinstance(value, (str, list, dict)) and not value


def _is_empty(value: Any) -> bool:
    return value is None or _is_hollow(value)


def _exists(value: Any) -> bool:
    return value is not None


def _length(value: Any) -> int | None:
    return len(cast("list[Any]", value)) if isinstance(value, (str, list, dict)) else None


def _is_in(member: Any, whole: Any) -> bool:
    if isinstance(whole, list):
        return any(json_equal(member, item) for item in cast("list[Any]", whole))
    return isinstance(whole, (str, dict)) and isinstance(member, str) and member in whole


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {"exists": _exists, "length": _length, "is_empty": _is_empty}

_KEYWORDS = frozenset({"and", "or", "not", "in", "contains", *_FUNCTIONS})

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": json_equal,
    "!=": lambda left, right: not json_equal(left, right),
    "<": lambda left, right: _same_order(left, right) and left < right,
    "<=": lambda left, right: _same_order(left, right) and left <= right,
    ">": lambda left, right: _same_order(left, right) and left > right,
    ">=": lambda left, right: _same_order(left, right) and left >= right,
    "in": _is_in,
    "contains": lambda whole, member: _is_in(member, whole),
}


class _Token(NamedTuple):
    """`kind` is the operator or word itself, or `value`, `reference` or `end`, whose meaning stands in `value`."""

    kind: str
    position: int
    value: Any = None


class _Parser:
    """Recursive descent with one token of look-ahead; only parentheses recurse, and they are counted."""

    def __init__(self, text: str) -> None:
        self.references: list[Reference] = []
        self._text = text
        self._position = 0
        self._depth = 0
        self._next = self._scan()

    def parse(self) -> _Term:
        term = self._either()
        if self._next.kind != "end":
            raise self._unexpected("and, or, or the end")
        return term

    def _either(self) -> _Term:
        terms = [self._both()]
        while self._take("or"):
            terms.append(self._both())
        return terms[0] if len(terms) == 1 else lambda scope: any(is_truthy(term(scope)) for term in terms)

    def _both(self) -> _Term:
        terms = [self._plain()]
        while self._take("and"):
            terms.append(self._plain())
        return terms[0] if len(terms) == 1 else lambda scope: all(is_truthy(term(scope)) for term in terms)

    def _plain(self) -> _Term:
        negations = 0
        while self._take("not"):
            negations += 1
        term = self._comparison()
        if not negations:
            return term
        negated = negations % 2 == 1
        return lambda scope: is_truthy(term(scope)) is not negated

    def _comparison(self) -> _Term:
        left = self._operand()
        compare = _COMPARISONS.get(self._next.kind)
        if compare is None:
            return left
        self._advance()
        right = self._operand()
        return lambda scope: compare(left(scope), right(scope))

    def _operand(self) -> _Term:
        token = self._advance()
        if token.kind == "value":
            return lambda _scope: token.value
        if token.kind == "reference":
            return self._reference(token)
        if token.kind in _FUNCTIONS:
            return self._function(_FUNCTIONS[token.kind])
        if token.kind != "(":
            raise self._unexpected("a value, a reference or (", token)
        self._depth += 1
        if self._depth > MAX_PREDICATE_DEPTH:
            problem = f"is nested deeper than {MAX_PREDICATE_DEPTH} levels"
            raise invalid_expression("predicate", problem, self._text, token.position)
        term = self._either()
        self._depth -= 1
        self._expect(")")
        return term

    def _function(self, function: Callable[[Any], Any]) -> _Term:
        self._expect("(")
        token = self._expect("reference")
        argument = self._reference(token)
        self._expect(")")
        return lambda scope: function(argument(scope))

    def _reference(self, token: _Token) -> _Term:
        reference = cast("Reference", token.value)
        self.references.append(reference)
        return reference.resolve

    def _take(self, kind: str) -> bool:
        found = self._next.kind == kind
        if found:
            self._advance()
        return found

    def _expect(self, kind: str) -> _Token:
        token = self._advance()
        if token.kind != kind:
            raise self._unexpected(f"a {kind}" if kind == "reference" else kind, token)
        return token

    def _advance(self) -> _Token:
        token = self._next
        self._next = self._scan() if token.kind != "end" else token
        return token

    def _unexpected(self, wanted: str, token: _Token | None = None) -> Exception:
        position = (token or self._next).position
        return invalid_expression("predicate", f"needs {wanted}", self._text, position)

    def _scan(self) -> _Token:
        text = self._text
        start = self._position
        while start < len(text) and text[start] in " \t\r\n":
            start += 1
        if start == len(text):
            return _Token("end", start)
        if text[start] in "'\"":
            value, self._position = read_quoted_text(text, start)
            return _Token("value", start, value)
        if text[start] in "${":
            segments, self._position = read_reference(text, start)
            return _Token("reference", start, Reference(segments, text[start : self._position]))
        found = _SYMBOL.match(text, start) or _WORD.match(text, start) or _NUMERAL.match(text, start)
        if found is None:
            raise invalid_expression("predicate", f"cannot contain {text[start]!r}", text, start)
        self._position = found.end()
        return self._classify(found[0], start)

    def _classify(self, word: str, start: int) -> _Token:
        if word in _LITERALS:
            return _Token("value", start, _LITERALS[word])
        if word[0] in "-0123456789":
            return _Token("value", start, self._number(word, start))
        kind = _SPELLINGS.get(word, word)
        if (word[0].isalpha() or word[0] == "_") and kind not in _KEYWORDS:
            known = ", ".join(sorted(_KEYWORDS | _LITERALS.keys()))
            raise invalid_expression("predicate", f"does not know {word[:40]!r} (it knows {known})", self._text, start)
        return _Token(kind, start)

    def _number(self, word: str, start: int) -> int | float:
        if not any(mark in word for mark in ".eE"):
            return int(word)
        number = float(word)
        if math.isinf(number):
            raise invalid_expression("predicate", "has a number out of range", self._text, start)
        return number
