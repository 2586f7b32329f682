"""Evaluates the mapping operators that look into values: reading text, paths, joining, and going through lists.

All of them are total: what does not fit gives None. `mapping` parses them, and bounds how they nest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from twinraven.foundation.canonical import JsonObject, canonical_json
from twinraven.foundation.references import Reference

if TYPE_CHECKING:
    from twinraven.foundation.text_readers import Reader

MAX_MAPPED: Final = 1_000
"""The most elements of a list that `$map` goes through."""
MAX_JOINED_CHARS: Final = 262_144
VALUE_READERS: Final = frozenset({"json", "repr", "yaml"})
"""The readers that leave a value as it is that came without being written as text."""


def as_text(value: Any) -> str | None:
    """Give the text of a value: texts as they are, anything else as canonical JSON."""
    if value is None or isinstance(value, str):
        return value
    return canonical_json(value).decode()


def value_at(value: Any, path: Reference | None) -> Any:
    """Follow a path into an object or a list; no path is the value itself."""
    if path is None:
        return value
    return path.resolve(cast("JsonObject", value)) if isinstance(value, (dict, list)) else None


def read_value(value: Any, read: Reader, path: Reference | None, *, takes_values: bool) -> Any:
    """Read a text and follow a path into what was read."""
    if isinstance(value, str):
        return value_at(read(value), path)
    return value_at(value, path) if takes_values else None


def join_texts(parts: Iterable[Any]) -> str | None:
    """Join the texts of values, with one slash where two would meet; None if one is null or the whole is too long."""
    whole: list[str] = []
    length, ends_in_slash = 0, False
    for part in parts:
        text = as_text(part)
        if text is None:
            return None
        piece = text[1:] if ends_in_slash and text.startswith("/") else text
        whole.append(piece)
        length += len(piece)
        ends_in_slash = piece.endswith("/") if piece else ends_in_slash
    return "".join(whole) if length <= MAX_JOINED_CHARS else None


def map_items(items: Any, change: Callable[[Any], Any]) -> list[Any] | None:
    """Change each element of a list and leave out what became null; None if it is no list or too long a one."""
    if not isinstance(items, list) or len(cast("list[Any]", items)) > MAX_MAPPED:
        return None
    changed = (change(item) for item in cast("list[Any]", items))
    return [value for value in changed if value is not None]


def matching_items(whole: Any, path: Reference | None, wanted: Any) -> list[Any] | None:
    """Find the elements of a list, or the members of an object, whose value at a path equals the wanted one.

    Without a path an element is compared itself, and a member by its key. Null equals nothing. Where nothing is equal
    to a text, what differs from it in upper and lower case alone is.
    """
    if not isinstance(whole, (list, dict)):
        return None
    if wanted is None:
        return []
    from twinraven.foundation.predicates import json_equal

    compared = _compared(cast("list[Any] | JsonObject", whole), path)
    equal = [item for value, item in compared if json_equal(value, wanted)]
    if equal or not isinstance(wanted, str):
        return equal
    folded = wanted.casefold()
    return [item for value, item in compared if isinstance(value, str) and value.casefold() == folded]


def items_among(whole: Any, path: Reference | None, wanted: Any, most: Any = None) -> list[Any] | None:
    """Find the elements of a list, or the members of an object, whose value at a path is one of the wanted.

    They are compared as by `matching_items`, and stay in their order. Null wants the first ones, so many as `most`
    says, or all of them; what is no list wants none.
    """
    if not isinstance(whole, (list, dict)):
        return None
    compared = _compared(cast("list[Any] | JsonObject", whole), path)
    if wanted is None:
        is_count = isinstance(most, int) and not isinstance(most, bool) and most >= 0
        return [item for _, item in compared[: most if is_count else None]]
    texts = [_comparable(one) for one in cast("list[Any]", wanted)] if isinstance(wanted, list) else []
    present = {_comparable(value) for value, _ in compared}
    exact = set(texts) - {"null"}
    folded = {text.casefold() for text in exact if text not in present and text.startswith('"')}
    return [
        item
        for value, item in compared
        if (text := _comparable(value)) in exact or (text.startswith('"') and text.casefold() in folded)
    ]


def _comparable(value: Any) -> str:
    return canonical_json(value).decode()


def _compared(whole: list[Any] | JsonObject, path: Reference | None) -> list[tuple[Any, Any]]:
    """Return each element with its sort key: its value at the path, without a path itself, of a member its key."""
    if isinstance(whole, list):
        return [(value_at(item, path), item) for item in whole]
    return [(name if path is None else value_at(member, path), member) for name, member in whole.items()]


def reported_tokens(output: Any) -> int:
    """Count the tokens that an output says it took, in `tokens` or in a model's `usage`; else it took none."""
    members = cast("JsonObject", output) if isinstance(output, dict) else {}
    usage = members.get("usage")
    stated = cast("JsonObject", usage) if isinstance(usage, dict) else {}
    if "total_tokens" in stated:
        return _as_count(stated["total_tokens"])
    if stated:
        return _as_count(stated.get("input_tokens")) + _as_count(stated.get("output_tokens"))
    return _as_count(members.get("tokens"))


def _as_count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
