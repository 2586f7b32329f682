"""Renders JSON documents whose strings are templates.

A text that is one variable and nothing else becomes the value itself, whatever its type; any other text is rendered. A
member or element that is one variable which the caller did not give is left out, so that what is optional for the
caller is optional in the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from twinraven.foundation.errors import InvalidDefinition, InvalidExpression
from twinraven.foundation.templates import Handlebars, parse_handlebars

MAX_DEPTH: Final = 100

_LEFT_OUT: Final = object()


def parse_text(text: str, field: str) -> Handlebars:
    """Parse the template, or an error that names the field it stands in."""
    try:
        return parse_handlebars(text)
    except InvalidExpression as error:
        raise InvalidDefinition(f"{field}: {error.message}", field=field, **error.details) from None


def check_templates(value: Any, field: str) -> None:
    """Raise unless every text in a JSON value is a template that can be understood."""
    for place, text in _texts(value, field, 0):
        parse_text(text, place)


def json_variables(value: Any) -> tuple[str, ...]:
    """Return the variables that the texts of a JSON value use, each once, in order of appearance."""
    names = (name for _, text in _texts(value, "", 0) for name in parse_handlebars(text).variables)
    return tuple(dict.fromkeys(names))


def fill_json(value: Any, params: Mapping[str, Any]) -> Any:
    """Return the value with its variables put in."""
    filled = _fill(value, params)
    return None if filled is _LEFT_OUT else filled


def _fill(value: Any, params: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        template = parse_handlebars(value)
        variables = template.variables
        is_absent = len(variables) == 1 and variables[0] not in params
        filled = template.resolve(params)
        return _LEFT_OUT if filled is None and is_absent else filled
    if isinstance(value, dict):
        members = ((key, _fill(member, params)) for key, member in cast("dict[str, Any]", value).items())
        return {key: member for key, member in members if member is not _LEFT_OUT}
    if isinstance(value, list):
        elements = (_fill(element, params) for element in cast("list[Any]", value))
        return [element for element in elements if element is not _LEFT_OUT]
    return value


def _texts(value: Any, place: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > MAX_DEPTH:
        raise InvalidDefinition(f"{place[:80]}… is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            yield from _texts(member, f"{place}.{key}", depth + 1)
    elif isinstance(value, list):
        for index, element in enumerate(cast("list[Any]", value)):
            yield from _texts(element, f"{place}[{index}]", depth + 1)
