"""Turns numbers and truth values that a model wrote as strings into what a plain schema asks for.

Models write `"max_count": "2"`, and many servers take it. Where the schema of an argument plainly asks for a number or
a truth value and takes no string, the string is read as what it says; anything less plain stays and is refused as
always. The event of such a call is tagged.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

COERCED: Final = "coerced-arguments"
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?")
_TRUTH: Final = {"true": True, "True": True, "false": False, "False": False}

Arguments = dict[str, Any]


def coerced(schema: Any, arguments: Arguments) -> Arguments:
    """Return the arguments with such strings read as what they say; the very same where there are none."""
    members: Any = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    if not isinstance(members, dict):
        return arguments
    changed = {
        name: read
        for name, value in arguments.items()
        if isinstance(value, str) and (read := _read(cast("dict[str, Any]", members).get(name), value)) is not None
    }
    return {**arguments, **changed} if changed else arguments


def _read(schema: Any, text: str) -> Any:
    kinds = _kinds(schema)
    if kinds is None or "string" in kinds:
        return None
    if "boolean" in kinds and text in _TRUTH:
        return _TRUTH[text]
    if ("integer" in kinds or "number" in kinds) and _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if "number" in kinds and _NUMBER.fullmatch(text) else None


def _kinds(schema: Any) -> set[str] | None:
    """Return the types that a schema allows, where it says so in plain words."""
    if not isinstance(schema, dict):
        return None
    members = cast("dict[str, Any]", schema)
    for choice in ("anyOf", "oneOf"):
        if choice in members:
            found = [_kinds(each) for each in cast("list[Any]", members[choice])]
            return None if any(kinds is None for kinds in found) else {kind for kinds in found for kind in kinds or ()}
    stated: Any = members.get("type")
    if isinstance(stated, list):
        return {str(kind) for kind in cast("list[Any]", stated)}
    return {stated} if isinstance(stated, str) else None
