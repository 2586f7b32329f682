"""Reads YAML as tools print it: keys and lists nested by indentation, plain and quoted scalars, block texts.

Written to be copied, like `text_values`. It is the part of YAML that answers are made of, and no more: a text with
anchors, tags, several documents, two equal keys or a line that fits nowhere gives None, as does one that nests nothing.
"""

# Narrowed JSON has no types, and a reader of an export is better off without casts.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import re
from typing import Any

from twinraven.foundation.text_lines import LINE_CHARS, LINE_ITEMS

_YAML_DEPTH = 24

_YAML_KEY = re.compile(r"""(?:"([^"\\\n]{1,80}+)"|'([^'\n]{1,80}+)'|([\w./$@-][\w./$@ -]{0,79}))[ ]*:(?=[ ]|\Z)""")
_YAML_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?", re.ASCII)
_YAML_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}
_YAML_BLOCKS = ("|", ">", "|-", ">-", "|+", ">+")

YamlLine = tuple[int, str]
"""How far a line stands in, and what stands there."""


def read_yaml(text: str) -> Any:
    """Read the whole text as nested keys and lists; None where it is none, or has no list and nothing nested."""
    if ":" not in text or len(text) > LINE_CHARS:
        return None
    lines = _yaml_lines(text)
    if lines is None or len(lines) < 2:
        return None
    try:
        value, end = _yaml_block(lines, 0, 0)
    except ValueError:
        return None
    if end < len(lines):
        return None
    members = value.values() if isinstance(value, dict) else value
    return value if any(isinstance(member, (dict, list)) for member in members) else None


def _yaml_lines(text: str) -> list[YamlLine] | None:
    found: list[YamlLine] = []
    for number, line in enumerate(text.splitlines()):
        body = line.strip()
        if not body or body[0] == "#" or (body == "---" and not found):
            continue
        if number >= LINE_ITEMS or "\t" in line[: len(line) - len(line.lstrip())]:
            return None
        found.append((len(line) - len(line.lstrip(" ")), body))
    return found


def _yaml_block(lines: list[YamlLine], place: int, depth: int) -> tuple[Any, int]:
    """Read the list or the object that begins here; what does not fit raises ValueError."""
    if depth > _YAML_DEPTH:
        raise ValueError("nested too deep")
    return (_yaml_list if _is_item(lines[place][1]) else _yaml_object)(lines, place, depth)


def _is_item(body: str) -> bool:
    return body == "-" or body.startswith("- ")


def _yaml_list(lines: list[YamlLine], place: int, depth: int) -> tuple[list[Any], int]:
    indent, items = lines[place][0], list[Any]()
    while place < len(lines) and lines[place][0] == indent and _is_item(lines[place][1]):
        body = lines[place][1][1:]
        inner = body.lstrip(" ")
        if inner and (_is_item(inner) or _YAML_KEY.match(inner)):
            # The rest of the line begins a block of its own, as far in as it stands.
            lines[place] = (indent + 1 + len(body) - len(inner), inner)
            value, place = _yaml_block(lines, place, depth + 1)
        else:
            value, place = _yaml_value(lines, place, inner, depth)
        items.append(value)
    return items, place


def _yaml_object(lines: list[YamlLine], place: int, depth: int) -> tuple[dict[str, Any], int]:
    indent, members = lines[place][0], dict[str, Any]()
    while place < len(lines) and lines[place][0] == indent and not _is_item(lines[place][1]):
        found = _YAML_KEY.match(lines[place][1])
        key = "" if found is None else (found[1] or found[2] or found[3]).rstrip()
        if found is None or key in members:
            raise ValueError("no key, or one that was there before")
        members[key], place = _yaml_value(lines, place, lines[place][1][found.end() :].strip(), depth)
    return members, place


def _yaml_value(lines: list[YamlLine], place: int, written: str, depth: int) -> tuple[Any, int]:
    """Read what stands behind a key or a dash, on its line or in the lines below it."""
    indent, below = lines[place][0], place + 1
    if written in _YAML_BLOCKS:
        end = below
        while end < len(lines) and lines[end][0] > indent:
            end += 1
        return ("\n" if written[0] == "|" else " ").join(body for _, body in lines[below:end]), end
    if not written and below < len(lines):
        deeper, body = lines[below]
        if deeper > indent or (deeper == indent and _is_item(body) and not _is_item(lines[place][1])):
            return _yaml_block(lines, below, depth + 1)
    return _yaml_scalar(written), below


def _yaml_scalar(written: str) -> Any:
    if written[:1] in ("&", "*", "!", "%", "`"):
        raise ValueError("more than plain YAML")
    if written[:1] in ('"', "[", "{"):
        try:
            return json.loads(written)
        except (ValueError, RecursionError):
            is_list = written[0] == "[" and written[-1] == "]" and written.count("[") == 1
            return [_yaml_scalar(piece.strip()) for piece in written[1:-1].split(",")] if is_list else written
    if written[:1] == "'" and written[-1:] == "'" and len(written) > 1:
        return written[1:-1].replace("''", "'")
    plain = written.partition(" #")[0].rstrip()
    if plain in _YAML_WORDS:
        return _YAML_WORDS[plain]
    if _YAML_NUMBER.fullmatch(plain):
        return float(plain) if "." in plain else int(plain)
    return plain
