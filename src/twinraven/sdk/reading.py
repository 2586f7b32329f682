"""Decodes JSON into frozen dataclasses, by the types of their fields.

What the server says besides is left alone, because contracts grow by addition; what it leaves out, although a field
needs it, is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import InvalidInput
from twinraven.sdk.errors import RemoteError

T = TypeVar("T")
Reader = Callable[[Any], Any]

WIRE = "wire"
"""The metadata of a field that the wire calls otherwise."""


class _Field(NamedTuple):
    name: str
    wire: str
    reader: Reader | None
    is_needed: bool


def read(kind: type[T], body: object) -> T:
    """Read the body as a `kind`."""
    if not isinstance(body, Mapping):
        raise RemoteError(f"the server sent no {kind.__name__} but {type(body).__name__}")
    members = cast("Mapping[str, Any]", body)
    values: dict[str, Any] = {}
    for each in _fields(kind):
        if each.wire in members:
            values[each.name] = _converted(kind, each, members[each.wire])
        elif each.is_needed:
            raise RemoteError(f"the server sent a {kind.__name__} without {each.wire}", field=each.wire)
    return kind(**values)


def _converted(kind: type, each: _Field, value: Any) -> Any:
    if each.reader is None or value is None:
        return value
    try:
        return each.reader(value)
    except (TypeError, ValueError, AttributeError, InvalidInput) as error:
        raise RemoteError(
            f"the server sent a {kind.__name__} whose {each.wire} cannot be read", field=each.wire
        ) from error


@cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    return tuple(
        _Field(
            each.name,
            each.metadata.get(WIRE, each.name),
            _reader_of(hints[each.name]),
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
    )


def _reader_of(hint: Any) -> Reader | None:
    """Return how a value of this type is read; None where it is as it came."""
    if get_origin(hint) is UnionType:
        hint = next(part for part in get_args(hint) if part is not NoneType)
    if hint is datetime:
        return parse_iso
    if hint is UUID:
        return UUID
    if get_origin(hint) is tuple:
        return partial(_read_list, _reader_of(get_args(hint)[0]))
    return partial(read, cast("type[Any]", hint)) if is_dataclass(hint) else None


def _read_list(reader: Reader | None, items: list[Any]) -> tuple[Any, ...]:
    return tuple(items) if reader is None else tuple(map(reader, items))
