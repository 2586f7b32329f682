"""Parses and resolves references: pointers of a definition to values that exist only when it runs.

    $.parameters.q                     a parameter of the caller
    $.steps[0].output.items[0].id      what an earlier step gave
    $.internal_wiring.0.url            a number between dots: an index into a list, a key of an object
    $.item.id                          the element that a for_each step is working on
    $['a b']["x"]                      any other key, quoted
    {step.searchResults}               the same grammar in braces, which may also stand inside text

Definitions come from files, from models and from other people, so this is a path and nothing more: it indexes objects
and lists, it never touches an attribute or calls anything, what is missing is null, and its size is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidExpression

MAX_REFERENCE_CHARS = 1_000
MAX_SEGMENTS = 64
MAX_TEMPLATE_CHARS = 1_000_000

_MAX_INDEX_DIGITS = 9
_CACHED_TEMPLATE_CHARS = 4_000
_QUOTED_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}

Segments = tuple[str | int, ...]
_member: Any = dict.get  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - of any dictionary


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed path; `segments` are its steps, numbers where a list could be indexed."""

    segments: Segments
    text: str
    _path: tuple[tuple[str, int], ...] = field(init=False, repr=False, compare=False)
    _keys: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The path where it leads through objects alone, as most do; else nothing."""

    def __post_init__(self) -> None:
        # Each step as the key it has in an object and the index it has in a list, -1 where it cannot be one.
        path = tuple((str(step), step if isinstance(step, int) else -1) for step in self.segments)
        object.__setattr__(self, "_path", path)
        # The first number names a step; any other is an index, most likely.
        has_index = any(isinstance(step, int) for step in self.segments[2:])
        object.__setattr__(self, "_keys", () if has_index else tuple(key for key, _ in path))

    def resolve(self, scope: Mapping[str, Any]) -> Any:
        """Return the value this points at, or None where there is none."""
        if self._keys:
            try:
                return reduce(_member, self._keys, scope)
            except TypeError:
                pass  # something on the way is no object
        value: Any = scope
        for key, index in self._path:
            kind = type(value)  # pyright: ignore[reportUnknownVariableType] - faster than narrowing with casts
            if kind is dict or issubclass(kind, dict):
                value = value.get(key)
            elif issubclass(kind, list):
                if not 0 <= index < len(value):
                    return None
                value = value[index]
            elif value is scope:
                value = scope.get(key)
            else:
                return None
        return value


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """Text with references in it; `whole` is the reference when there is nothing else."""

    parts: tuple[str | Reference, ...]
    whole: Reference | None

    @property
    def references(self) -> tuple[Reference, ...]:
        return tuple(part for part in self.parts if isinstance(part, Reference))

    def resolve(self, scope: Mapping[str, Any]) -> Any:
        """Return the typed value of a whole reference; otherwise the text, where null leaves nothing behind."""
        if self.whole is not None:
            return self.whole.resolve(scope)
        return "".join(part if isinstance(part, str) else _as_text(part.resolve(scope)) for part in self.parts)


def is_reference(text: str) -> bool:
    """Return whether this was meant as a reference, which is decided by how it begins.

    `parse_reference` says if it is one.
    """
    if text.startswith("{"):
        return text.endswith("}") and _opens_placeholder(text, 0)
    return text.startswith(("$.", "$["))


@lru_cache(maxsize=4096)
def parse_reference(text: str) -> Reference:
    """Parse a text that is one reference and nothing else."""
    if len(text) > MAX_REFERENCE_CHARS:
        raise invalid_expression("reference", f"is longer than {MAX_REFERENCE_CHARS} characters", text, 0)
    segments, end = read_reference(text, 0)
    if end != len(text):
        raise invalid_expression("reference", f"goes on with {text[end]!r} after its end", text, end)
    return Reference(segments, text)


def parse_template(text: str) -> TextTemplate:
    """Parse a text in which `{step.x}` and `{$.x}` stand for values; double braces are left for Handlebars."""
    return _cached_template(text) if len(text) <= _CACHED_TEMPLATE_CHARS else _split_template(text)


def resolve_template(text: str, scope: Mapping[str, Any]) -> Any:
    """Parse and resolve; a text without references is itself."""
    if "{" not in text and not text.startswith("$"):
        return text
    return parse_template(text).resolve(scope)


def read_reference(text: str, start: int) -> tuple[Segments, int]:
    """Read the reference that begins at `start`, and where it ends; for grammars that contain this one."""
    if text.startswith("$", start):
        return _read_segments(text, start, start + 1)
    if not text.startswith("{", start):
        raise invalid_expression("reference", "must begin with $ or {", text, start)
    segments, end = _read_braced(text, start)
    if not text.startswith("}", end):
        raise invalid_expression("reference", "has no closing }", text, end)
    return segments, end + 1


def read_quoted_text(text: str, start: int) -> tuple[str, int]:
    """Read the quoted text that begins at `start`, and where it ends."""
    quote, position, pieces = text[start], start + 1, list[str]()
    while position < len(text):
        character = text[position]
        if character == quote:
            return "".join(pieces), position + 1
        if character == "\\":
            position += 1
            character = _QUOTED_ESCAPES.get(text[position : position + 1], "")
            if not character:
                raise invalid_expression("text", "has an unknown escape; use \\\\ \\' \\\" \\n \\r \\t", text, position)
        pieces.append(character)
        position += 1
    raise invalid_expression("text", f"has no closing {quote}", text, start)


def invalid_expression(what: str, problem: str, text: str, position: int) -> InvalidExpression:
    """Return the one error of both grammars: what is wrong, and where."""
    excerpt = text if len(text) <= 80 else text[:77] + "..."
    message = f"{what} {problem}, at position {position} of {excerpt!r}"
    return InvalidExpression(message, expression=excerpt, position=position)


def _read_braced(text: str, start: int) -> tuple[Segments, int]:
    if text.startswith("$", start + 1):
        return _read_segments(text, start, start + 2)
    end = _skip_name(text, start + 1)
    if text[start + 1 : end] != "step":
        raise invalid_expression("reference", "in braces must be {step.name} or {$.name}", text, start + 1)
    return _read_segments(text, start, end, ("step",))


def _read_segments(text: str, start: int, position: int, head: Segments = ()) -> tuple[Segments, int]:
    segments: list[str | int] = list(head)
    while position < len(text) and text[position] in ".[":
        read = _read_dotted if text[position] == "." else _read_bracketed
        segment, position = read(text, position)
        segments.append(segment)
        if len(segments) > MAX_SEGMENTS:
            raise invalid_expression("reference", f"has more than {MAX_SEGMENTS} steps", text, position)
        if position - start > MAX_REFERENCE_CHARS:
            raise invalid_expression("reference", f"is longer than {MAX_REFERENCE_CHARS} characters", text, start)
    if len(segments) == len(head):
        raise invalid_expression("reference", "must go on with .name or [index]", text, position)
    return tuple(segments), position


def _read_dotted(text: str, position: int) -> tuple[str | int, int]:
    end = _skip_name(text, position + 1)
    name = text[position + 1 : end]
    if not name:
        raise invalid_expression("reference", "has no name after the dot; quote unusual keys as ['key']", text, end)
    # "007" and "٣" are keys: only what is written like an index is one.
    is_index = name == "0" or (name.isascii() and name.isdecimal() and name[0] != "0")
    return (int(name) if is_index and len(name) <= _MAX_INDEX_DIGITS else name), end


def _read_bracketed(text: str, position: int) -> tuple[str | int, int]:
    inside = position + 1
    segment: str | int
    if text.startswith(("'", '"'), inside):
        segment, end = read_quoted_text(text, inside)
    else:
        end = inside
        while end < len(text) and text[end] in "0123456789":
            end += 1
        if not 0 < end - inside <= _MAX_INDEX_DIGITS:
            raise invalid_expression("reference", "needs an index like [0] or a key like ['key']", text, inside)
        segment = int(text[inside:end])
    if not text.startswith("]", end):
        raise invalid_expression("reference", "has no closing ]", text, end)
    return segment, end + 1


def _skip_name(text: str, position: int) -> int:
    while position < len(text) and (text[position].isalnum() or text[position] in "_-"):
        position += 1
    return position


def _opens_placeholder(text: str, position: int) -> bool:
    return text.startswith(("{step.", "{step[", "{$.", "{$["), position)


@lru_cache(maxsize=1024)
def _cached_template(text: str) -> TextTemplate:
    return _split_template(text)


def _split_template(text: str) -> TextTemplate:
    if len(text) > MAX_TEMPLATE_CHARS:
        raise invalid_expression("template", f"is longer than {MAX_TEMPLATE_CHARS} characters", text, 0)
    if text.startswith("$") and is_reference(text):
        reference = parse_reference(text)
        return TextTemplate((reference,), reference)
    parts: list[str | Reference] = []
    copied = 0
    position = text.find("{")
    while position >= 0:
        if text.startswith("{{", position):
            position = text.find("{", _skip_braces(text, position))
            continue
        end = position + 1
        if _opens_placeholder(text, position):
            segments, end = read_reference(text, position)
            parts += [text[copied:position], Reference(segments, text[position:end])]
            copied = end
        position = text.find("{", end)
    parts.append(text[copied:])
    kept = tuple(part for part in parts if part != "")
    only = kept[0] if len(kept) == 1 else None
    return TextTemplate(kept, only if isinstance(only, Reference) else None)


def _skip_braces(text: str, position: int) -> int:
    while text.startswith("{", position):
        position += 1
    return position


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical_json(value).decode()
