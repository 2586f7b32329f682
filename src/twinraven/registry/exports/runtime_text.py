"""What an exported function needs to read text and to go through lists, written to be copied into it like `runtime`.

The readers themselves are copied from `foundation`, only those that a function names.
"""

# Narrowed JSON has no types, and a reader of an export is better off without casts.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinraven.registry.exports.runtime import as_text, at, equal


def from_text(read: Callable[[str], Any], value: Any) -> Any:
    """What a reader makes of a text, and None for anything else."""
    return read(value) if isinstance(value, str) else None


def from_text_or_value(read: Callable[[str], Any], value: Any) -> Any:
    """What a reader makes of a text; a value that came without being written as text stays as it is."""
    return read(value) if isinstance(value, str) else value


def join_texts(*parts: Any) -> str | None:
    """The texts of values in a row, with one slash where two would meet; None if one is missing or all are too long."""
    whole = ""
    for value in parts:
        text = as_text(value)
        if text is None:
            return None
        whole += text[1:] if whole.endswith("/") and text.startswith("/") else text
    return whole if len(whole) <= 262_144 else None


def map_items(items: Any, change: Callable[[Any], Any]) -> list[Any] | None:
    """Each element of a list changed, without those that became None; None if it is no list or has over 1,000."""
    if not isinstance(items, list) or len(items) > 1_000:
        return None
    return [value for value in map(change, items) if value is not None]


def matching_items(whole: Any, wanted: Any, *path: str | int) -> list[Any] | None:
    """The elements or members whose value at a path is the wanted one; without a path, members are found by key."""
    if not isinstance(whole, (list, dict)):
        return None
    if wanted is None:
        return []
    if isinstance(whole, dict):
        compared = [(at(member, *path) if path else name, member) for name, member in whole.items()]
    else:
        compared = [(at(member, *path), member) for member in whole]
    found = [member for value, member in compared if equal(value, wanted)]
    if found or not isinstance(wanted, str):
        return found
    folded = wanted.casefold()
    return [member for value, member in compared if isinstance(value, str) and value.casefold() == folded]


def first_item(items: list[Any] | None) -> Any:
    """The first element, or None if there is none."""
    return items[0] if items else None
