"""Parses and evaluates the mapping language, in which a step says where its inputs come from.

    "$.steps[0].output.id"                                  a reference; what is missing is null
    {"ids": ["$.item.id"], "limit": 5}                      objects and lists of such values
    "plain text", 7, true, null                             literals
    "$$.not a reference"                                    a literal that begins with "$." or "$[": one $ is dropped
    {"$literal": …}                                         a literal, whatever it looks like
    {"$string": v}, {"$integer": v}                         a cast
    {"$affix": {"of": v, "before": "#", "after": ""}}       text around a value
    {"$part": {"of": v, "separator": "-", "index": 0}}      one piece of a text; with "count": n, so many in a row
    {"$read": {"of": v, "as": "json", "at": "$.items[0]"}}  a value out of text, by a reader (docs/text.md)
    {"$at": {"of": v, "path": "$.a[0]"}}                    a path into a mapped value
    {"$join": [v, "/", w]}                                  texts joined
    {"$map": {"over": v, "to": {"id": "$.item.id"}}}        each element of a list, changed
    {"$where": {"of": v, "at": "$.tag", "equals": w}}       the elements that match; with "first": true, the first
    {"$where": {"of": v, "at": "$.id", "among": w}}         the elements that match one of a list; all, if it is null
    {"$where": {"of": v, "at": "$.id", "among": w, "most": n}}    the same, and the first n if the list is null
    {"$render": {"template": "{{a}}", "with": {"a": v}}}    text by a Handlebars template
    {"$after": {"states": [v, w], "of": x}}                 x, or null where a step of these states failed or none ran
    {"$tokens": [v, w]}                                     the tokens that these outputs say they took, together

In a `to`, `$.item` is the element, and what reads or goes through lists looks only into that element, so that the work
is never more than the data. A path in `at` and `path` begins at the value: `$` alone is all of it.

Like references, all of it is total: a change that does not fit its value gives null, and the tool's own schema says
whether null will do. Only a template that grows without end is an error. An input that is just `$.parameters.x` is left
out when the caller left x out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from twinraven.flow.fields import Fields, invalid, refuse_excess
from twinraven.flow.operators import (
    VALUE_READERS,
    as_text,
    items_among,
    join_texts,
    map_items,
    matching_items,
    read_value,
    reported_tokens,
    value_at,
)
from twinraven.foundation.canonical import JsonObject, canonical_json
from twinraven.foundation.errors import InvalidExpression
from twinraven.foundation.references import Reference, parse_reference

if TYPE_CHECKING:
    from twinraven.foundation.predicates import Predicate, Scope

MAX_LITERAL_BYTES: Final = 64 * 1024

_SHORT_TEXT = MAX_LITERAL_BYTES // 8  # no character takes more than six bytes
_SMALL_INTEGER = 2**53
_ESCAPED_TEXT = re.compile(r"\$\$+[.\[]")
_NEEDS_ESCAPE = re.compile(r"\$+[.\[]")
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")

Source: TypeAlias = "Callable[[Scope], Any]"


@dataclass(slots=True)
class MappedValue:
    """A value to be, and what it refers to."""

    resolve: Source
    references: tuple[Reference, ...]


@dataclass(slots=True)
class MappedInputs:
    """The inputs of one call."""

    members: tuple[tuple[str, Source, str | None], ...]
    """Name, source and, where the source is a bare parameter, that parameter's name."""
    references: tuple[Reference, ...]

    def resolve(self, scope: Scope) -> JsonObject:
        """Return the arguments of the call; they share their containers with the scope."""
        given = scope["parameters"]
        inputs: JsonObject = {}
        for name, source, parameter in self.members:
            if parameter is None:
                inputs[name] = source(scope)
            elif parameter in given:
                inputs[name] = given[parameter]
        return inputs


def literal(value: Any) -> Any:
    """Return the mapping that yields exactly this value."""
    if isinstance(value, str):
        return f"${value}" if _NEEDS_ESCAPE.match(value) else value
    return {"$literal": cast("Any", value)} if isinstance(value, (dict, list)) else value


def is_operator(value: Any) -> bool:
    """Return whether this object is an operator applied to values, not a literal."""
    members = cast("JsonObject", value) if isinstance(value, dict) else {}
    return len(members) == 1 and next(iter(members)) in _OPERATORS.keys() - {"$literal"}


def compile_inputs(mapping: JsonObject, where: str) -> MappedInputs:
    """Compile the mapping of one step, parsed once."""
    members: list[tuple[str, Source, str | None]] = []
    references: list[Reference] = []
    for name, value in mapping.items():
        mapped = compile_value(value, f"{where}.{name[:80]}")
        references += mapped.references
        members.append((name, mapped.resolve, _bare_parameter(value, mapped)))
    return MappedInputs(tuple(members), tuple(references))


def compile_value(value: Any, where: str) -> MappedValue:
    """Compile one mapped value, parsed once; errors name the place."""
    if not _is_small(value):
        refuse_excess(value, where)
        if len(canonical_json(value)) > MAX_LITERAL_BYTES:
            raise invalid(where, f"is larger than {MAX_LITERAL_BYTES} bytes; pass such values as parameters")
    compiler = _ValueCompiler(where)
    source = compiler.compile(value)
    return MappedValue(source, tuple(compiler.references))


def compile_reference(text: str, where: str) -> Reference:
    """Compile a place where only a reference may stand."""
    try:
        return parse_reference(text)
    except InvalidExpression as error:
        raise invalid(where, error.message) from None


def compile_predicate(text: str, where: str) -> Predicate:
    """Compile a condition, with the place it stands at in its errors."""
    # Most flows have no conditions, and importing their parser costs every worker a tenth of its start.
    from twinraven.foundation.predicates import parse_predicate

    try:
        return parse_predicate(text)
    except InvalidExpression as error:
        raise invalid(where, error.message) from None


def _is_small(value: Any) -> bool:
    """Return whether a value is so plain that no bound can refuse it, as most are: a reference, a word, a number."""
    if type(value) is str:
        return len(value) <= _SHORT_TEXT
    if type(value) is int:
        return -_SMALL_INTEGER <= value <= _SMALL_INTEGER
    return value is None or type(value) is bool


def _bare_parameter(value: Any, mapped: MappedValue) -> str | None:
    if not isinstance(value, str) or len(mapped.references) != 1:
        return None
    segments = mapped.references[0].segments
    return str(segments[1]) if len(segments) == 2 and segments[0] == "parameters" else None


class _ValueCompiler:
    """Turns one value into a closure and gathers its references; depth is bounded before it is asked."""

    def __init__(self, where: str) -> None:
        self.references: list[Reference] = []
        self._where = where
        self._is_in_map = False

    def compile(self, value: Any) -> Source:
        if isinstance(value, str):
            return self._compile_text(value)
        if isinstance(value, list):
            sources = [self.compile(item) for item in cast("list[Any]", value)]
            return lambda scope: [source(scope) for source in sources]
        if isinstance(value, dict):
            members = cast("JsonObject", value)
            if len(members) == 1 and (operator := next(iter(members))) in _OPERATORS:
                return _OPERATORS[operator](self, members[operator], f"{self._where}.{operator}")
            named = {name: self.compile(member) for name, member in members.items()}
            return lambda scope: {name: source(scope) for name, source in named.items()}
        return lambda _: value

    def _compile_text(self, text: str) -> Source:
        if text.startswith(("$.", "$[")):
            reference = compile_reference(text, self._where)
            self.references.append(reference)
            return reference.resolve
        plain = text[1:] if _ESCAPED_TEXT.match(text) else text
        return lambda _: plain

    def literal(self, value: Any, where: str) -> Source:
        del where
        return lambda _: value

    def string(self, value: Any, where: str) -> Source:
        del where
        source = self.compile(value)
        return lambda scope: as_text(source(scope))

    def integer(self, value: Any, where: str) -> Source:
        del where
        source = self.compile(value)
        return lambda scope: _as_integer(source(scope))

    def affix(self, value: Any, where: str) -> Source:
        fields = Fields(value, where)
        source = self.compile(fields.take("of"))
        before, after = fields.text("before", ""), fields.text("after", "")
        fields.finish()

        def resolve(scope: Scope) -> str | None:
            text = as_text(source(scope))
            return None if text is None else f"{before}{text}{after}"

        return resolve

    def part(self, value: Any, where: str) -> Source:
        fields = Fields(value, where)
        source = self.compile(fields.take("of"))
        separator, index = fields.text("separator"), fields.integer("index", 0)
        count = fields.integer("count", 1)
        fields.finish()
        if not separator:
            raise invalid(where, "needs a separator that is not empty")
        if count < 1:
            raise invalid(f"{where}.count", "must be at least 1")

        def resolve(scope: Scope) -> str | None:
            text = source(scope)
            pieces: list[str] = text.split(separator) if isinstance(text, str) else []
            start = index if index >= 0 else len(pieces) + index
            return separator.join(pieces[start : start + count]) if 0 <= start <= len(pieces) - count else None

        return resolve

    def read(self, value: Any, where: str) -> Source:
        fields = Fields(value, where)
        source = self._looked_into(fields.take("of"), f"{where}.of")
        kind, path = fields.text("as"), _path(fields.text("at", "$"), f"{where}.at")
        fields.finish()
        from twinraven.foundation.text_readers import READERS

        if kind not in READERS:
            raise invalid(f"{where}.as", f"{kind[:40]!r} is not a reader; use one of {', '.join(READERS)}")
        reader, takes_values = READERS[kind], kind in VALUE_READERS
        return lambda scope: read_value(source(scope), reader, path, takes_values=takes_values)

    def at(self, value: Any, where: str) -> Source:
        fields = Fields(value, where)
        source, path = self.compile(fields.take("of")), _path(fields.text("path"), f"{where}.path")
        fields.finish()
        return lambda scope: value_at(source(scope), path)

    def join(self, value: Any, where: str) -> Source:
        if not isinstance(value, list) or not value:
            raise invalid(where, "must be a list of the values to join")
        sources = [self.compile(part) for part in cast("list[Any]", value)]
        return lambda scope: join_texts(source(scope) for source in sources)

    def map(self, value: Any, where: str) -> Source:
        fields = Fields(value, where)
        source = self._looked_into(fields.take("over"), f"{where}.over")
        change = self._each(fields.take("to", "$.item"))
        fields.finish()
        return lambda scope: map_items(source(scope), lambda item: change({**scope, "item": item}))

    def where(self, value: Any, where: str) -> Source:
        fields = Fields(value, where)
        source = self._looked_into(fields.take("of"), f"{where}.of")
        path = _path(fields.text("at", "$"), f"{where}.at")
        if fields.has("among"):
            among = self._looked_into(fields.take("among"), f"{where}.among")
            most = self.compile(fields.take("most", None))
            fields.finish()
            return lambda scope: items_among(source(scope), path, among(scope), most(scope))
        wanted = self.compile(fields.take("equals"))
        takes_first = fields.take("first", False)
        fields.finish()
        if not isinstance(takes_first, bool):
            raise invalid(f"{where}.first", "must be true or false")

        def resolve(scope: Scope) -> Any:
            found = matching_items(source(scope), path, wanted(scope))
            return next(iter(found or ()), None) if takes_first else found

        return resolve

    def render(self, value: Any, where: str) -> Source:
        fields = Fields(value, where)
        text, members = fields.text("template"), fields.object("with", {})
        fields.finish()
        from twinraven.foundation.templates import parse_handlebars

        try:
            template = parse_handlebars(text)
        except InvalidExpression as error:
            raise invalid(f"{where}.template", error.message) from None
        named = {name: self.compile(member) for name, member in members.items()}
        return lambda scope: template.render({name: source(scope) for name, source in named.items()})

    def after(self, value: Any, where: str) -> Source:
        fields = Fields(value, where)
        states = [self.compile(state) for state in fields.array("states")]
        source = self.compile(fields.take("of"))
        fields.finish()

        def resolve(scope: Scope) -> Any:
            known = [state(scope) for state in states]
            has_come = "failed" not in known and any(state in ("ran", "fallback") for state in known)
            return source(scope) if has_come else None

        return resolve

    def tokens(self, value: Any, where: str) -> Source:
        if not isinstance(value, list):
            raise invalid(where, "must be a list of the outputs to count")
        sources = [self.compile(part) for part in cast("list[Any]", value)]
        return lambda scope: sum(reported_tokens(source(scope)) for source in sources)

    def _looked_into(self, value: Any, where: str) -> Source:
        """Return what an operator reads or goes through; inside a `$map` only what belongs to the element."""
        known = len(self.references)
        source = self.compile(value)
        if self._is_in_map and any(other.segments[0] != "item" for other in self.references[known:]):
            raise invalid(where, "inside a $map it must come from $.item; put the rest into internal_wiring")
        return source

    def _each(self, value: Any) -> Source:
        """Return the change of each element, for which `$.item` is that element and no need of the whole."""
        known, before = len(self.references), self._is_in_map
        self._is_in_map = True
        source = self.compile(value)
        self._is_in_map = before
        self.references[known:] = [other for other in self.references[known:] if other.segments[0] != "item"]
        return source


_OPERATORS: dict[str, Callable[[_ValueCompiler, Any, str], Source]] = {
    "$literal": _ValueCompiler.literal,
    "$string": _ValueCompiler.string,
    "$integer": _ValueCompiler.integer,
    "$affix": _ValueCompiler.affix,
    "$part": _ValueCompiler.part,
    "$read": _ValueCompiler.read,
    "$at": _ValueCompiler.at,
    "$join": _ValueCompiler.join,
    "$map": _ValueCompiler.map,
    "$where": _ValueCompiler.where,
    "$render": _ValueCompiler.render,
    "$after": _ValueCompiler.after,
    "$tokens": _ValueCompiler.tokens,
}


def _path(text: str, where: str) -> Reference | None:
    """Return a path that begins at a value; `$` alone is the value itself."""
    if not text.startswith("$"):
        raise invalid(where, f"{text[:40]!r} is not a path; it must begin with $, like $.items[0].id")
    return None if text == "$" else compile_reference(text, where)


def _as_integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else None
