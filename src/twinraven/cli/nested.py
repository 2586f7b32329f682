"""Prints one thing with all that is in it, indented, for people who decide on it: nothing is cut or left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from twinraven.cli.output import cell_text, clean, pad, print_lines, show_json, text_width


def show_nested(form: str, fields: Mapping[str, Any]) -> None:
    """Print one thing, a field a line, and what is inside a field below it."""
    if form == "json":
        show_json(dict(fields))
    else:
        print_lines(_lines(fields))


def _lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each plain field, with the values below each other.

    What is nested follows its name, indented.
    """
    plain = [clean(name) for name, value in fields.items() if not _is_nested(value)]
    width = max(map(text_width, plain), default=0)
    for name, value in fields.items():
        if not _is_nested(value):
            yield f"{pad(clean(name), width)}  {_plain(value)}"
        elif isinstance(value, Mapping):
            yield clean(name)
            yield from (f"  {line}" for line in _lines(cast("Mapping[str, Any]", value)))
        else:
            yield clean(name)
            yield from (f"  {line}" for item in value for line in _item(item))


def _item(value: Any) -> Iterator[str]:
    """Yield an item of a list: its first line has a dash, the rest stands below it."""
    inside = _lines(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else iter([_plain(value)])
    for number, line in enumerate(inside):
        yield f"{'  ' if number else '- '}{line}"


def _is_nested(value: Any) -> bool:
    """Return whether a value needs lines of its own: objects do, and lists that have any."""
    if isinstance(value, Mapping):
        return bool(cast("Mapping[str, Any]", value))
    return isinstance(value, (list, tuple)) and any(map(_is_nested, cast("list[Any]", value)))


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_listed(cell_text(item)) for item in cast("list[Any]", value)) or "-"
    return clean(cell_text(value))


def _listed(text: str) -> str:
    """Return one item of a list on a line; quoted where it could be taken for two."""
    return clean(f'"{text}"' if "," in text else text)
