"""Reads structured values out of text: the readers by name, and all readings of one text.

Tools answer in text: JSON after a sentence, Python literals, `Key: value` lines, tables, bullets, links, identifiers.
A definition takes values out of such text by naming a reader (`$read` in `flow.mapping`). A reader is total and
deterministic, never raises, and its time is linear in a text of bounded size; docs/text.md has an example of each.

    READERS                     every reader by its name
    read_text(kind, text)       what one reader makes of a text; None where the text is not of that kind
    readings(text)              all that apply, values first, then lines, then shapes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from twinraven.foundation.text_lines import (
    read_bullets,
    read_fields,
    read_lines,
    read_list,
    read_records,
    read_tagged,
)
from twinraven.foundation.text_shapes import SHAPE_READERS
from twinraven.foundation.text_tables import read_table
from twinraven.foundation.text_values import read_json, read_repr
from twinraven.foundation.text_yaml import read_yaml

Reader = Callable[[str], Any]

READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        "json": read_json,
        "repr": read_repr,
        "yaml": read_yaml,
        "records": read_records,
        "fields": read_fields,
        "table": read_table,
        "tagged": read_tagged,
        "bullets": read_bullets,
        "list": read_list,
        "lines": read_lines,
        **SHAPE_READERS,
    }
)


def read_text(kind: str, text: str) -> Any:
    """Read a text by one reader: a value, or None where the text is not of that kind or there is no such reader."""
    reader = READERS.get(kind)
    return None if reader is None else reader(text)


def readings(text: str) -> Iterator[tuple[str, Any]]:
    """Yield every reading of a text as (kind, value), always in the order of `READERS`."""
    for kind, reader in READERS.items():
        value = reader(text)
        if value is not None:
            yield kind, value


__all__ = ["READERS", "Reader", "read_text", "readings"]
