"""Reads text line by line: lines, tagged lines, `Key: value` fields and records, bullet lists, comma lists.

Written to be copied, like `text_values`. Each reader looks at the first `LINE_ITEMS` lines within the first
`LINE_CHARS` characters, and gives None where the text is not of its kind.
"""

from __future__ import annotations

import itertools
import re

LINE_CHARS = 262_144
LINE_ITEMS = 4_000

# The longest key of a field, and the longest value in a list on one line.
_KEY_CHARS = 60
_VALUE_CHARS = 80
_VALUE_WORDS = 8

_LINE = re.compile(r"[^\r\n]++")
_BLANK_LINE = re.compile(r"\r\r|\n\r?\n")
_BULLET = re.compile(r"[ \t]{0,40}+(?:[-*+•‣◦–]|[0-9]{1,4}+[.)])[ \t]++(?=\S)")
_FIELD_MARK = re.compile(r"(?:#{1,6}+[ \t]++)?(?:[^\w\s\x00-\x7f]{1,4}+[ \t]*+)?")
_FIELD_KEY = re.compile(r"[^\W\d_](?:[\w.()/#&'’-]| (?=\S))*+")
_PLAIN_KEY = re.compile(r"[^\W\d][\w.-]*+")
_BRACKET_TAG = re.compile(r"[ \t]{0,40}+(?:[-*+•][ \t]++)?\[([^\[\]]{1,20}+)\][ \t]++(?=\S)")
_LETTER_TAG = re.compile(
    r"[ ]?((?:[MADRCUT][0-9]{0,3}|[MADRCUT?!]{2}|[A-Z]{3,10}|(?![•‣◦–])[^\w\s\x00-\x7f]{1,2}+)(?=[ \t]))[ \t]++(?=\S)"
)
_STAR_TAG = re.compile(r"([*+])[ ](?=\S)")
_QUOTES = ('"', "'", "`")


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank, as they stand."""
    found = itertools.islice(_LINE.finditer(text, 0, LINE_CHARS), LINE_ITEMS)
    return [line for match in found if not (line := match[0]).isspace()]


def unquoted(value: str) -> str:
    """Return a value without white space, marks of emphasis and one pair of quotes around it."""
    bare = value.strip()
    if bare.startswith("**") and bare.endswith("**") and len(bare) > 4:
        bare = bare[2:-2].strip()
    return bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in _QUOTES else bare


def read_lines(text: str) -> list[str] | None:
    """Read the lines that are not blank, without white space around them."""
    return [line.strip() for line in lines_of(text)] or None


def read_tagged(text: str) -> list[dict[str, str]] | None:
    """Read lines that begin with a tag, such as `[FILE] name`, `?? file` or `* branch`, if most of them do."""
    lines = lines_of(text)
    if not lines:
        return None
    starred = _starred(lines)
    if starred is not None:
        return starred
    for pattern in (_BRACKET_TAG, _LETTER_TAG):
        found = [(tag, line) for line in lines if (tag := pattern.match(line))]
        if len(found) * 2 > len(lines):
            return [{"tag": tag[1].strip(), "text": line[tag.end() :].rstrip()} for tag, line in found]
    return None


def _starred(lines: list[str]) -> list[dict[str, str]] | None:
    """Lines of which some are marked by a star and the others stand as far in, as `git branch` writes them."""
    marks = [_STAR_TAG.match(line) for line in lines]
    others = [line for line, mark in zip(lines, marks, strict=True) if mark is None]
    if len(others) == len(lines) or not all(line.startswith("  ") and line[2:3] != " " for line in others):
        return None
    pairs = zip(lines, marks, strict=True)
    return [{"tag": mark[1] if mark else "", "text": line[2:].rstrip()} for line, mark in pairs]


def field_of(line: str) -> tuple[str, str] | None:
    """Return the key and the value of a line such as `Key: value`, `- **Key:** value` or `key = value`."""
    if ":" not in line and "=" not in line:
        return None
    bullet = _BULLET.match(line)
    body = line[bullet.end() if bullet else 0 :].strip()
    if body[:1] > "z" or body[:1] == "#":
        mark = _FIELD_MARK.match(body)
        body = body[mark.end() if mark else 0 :]
    if body[:2] == "**":
        key, end, value = body[2:].partition("**")
        if end and len(key) <= _KEY_CHARS and (key.endswith(":") or value.startswith(":")):
            return key.rstrip(": "), unquoted(value.removeprefix(":"))
        return None
    colon, equals = body.find(":", 0, _KEY_CHARS + 4), body.find("=", 0, _KEY_CHARS + 4)
    if equals > 0 and (colon < 0 or equals < colon):
        key = unquoted(body[:equals])
        return (key, unquoted(body[equals + 1 :])) if _PLAIN_KEY.fullmatch(key) else None
    key, rest = unquoted(body[: max(colon, 0)]), body[colon + 1 :]
    if not _FIELD_KEY.fullmatch(key) or rest.startswith(("//", "\\", ":")):
        return None
    if rest and not rest[0].isspace() and not _PLAIN_KEY.fullmatch(key):
        return None
    return key, unquoted(rest)


def read_fields(text: str) -> dict[str, str] | None:
    """Read `Key: value` lines as one object; the first of two equal keys counts, other lines are passed over."""
    if ":" not in text and "=" not in text:
        return None
    fields: dict[str, str] = {}
    for line in lines_of(text):
        field = field_of(line)
        if field is not None:
            fields.setdefault(*field)
    return fields or None


def read_records(text: str) -> list[dict[str, str]] | None:
    """Read repeated blocks of `Key: value` lines; a block ends at a blank line or where its first key comes again."""
    if ":" not in text and "=" not in text:
        return None
    found = _spaced_fields(text)
    counts: dict[str, int] = {}
    for key, _, _ in found:
        counts[key] = counts.get(key, 0) + 1
    first = next((key for key, count in counts.items() if count > 1), None)
    if first is None:
        first = next((key for key, value, _ in found if value), None)
    records: list[dict[str, str]] = []
    for key, value, is_apart in found:
        if key == first or (is_apart and records and key in records[-1]):
            records.append({})
        if records:
            records[-1].setdefault(key, value)
    return records if any(len(record) > 1 for record in records) else None


def _spaced_fields(text: str) -> list[tuple[str, str, bool]]:
    """Keys and values, and whether a blank line stands before them."""
    found: list[tuple[str, str, bool]] = []
    end, is_apart = 0, False
    for match in itertools.islice(_LINE.finditer(text, 0, LINE_CHARS), LINE_ITEMS):
        line = match[0]
        start = match.start()
        if start - end > 1 and _BLANK_LINE.search(text, end, start):
            is_apart = True
        end = match.end()
        field = field_of(line)
        if field is not None:
            found.append((*field, is_apart))
            is_apart = False
        elif line.isspace():
            is_apart = True
    return found


def read_bullets(text: str) -> list[str] | None:
    """Read the items of bulleted and numbered lists; indented lines after an item belong to it."""
    items: list[list[str]] = []
    is_open = False
    for match in itertools.islice(_LINE.finditer(text, 0, LINE_CHARS), LINE_ITEMS):
        line = match[0]
        bullet = _BULLET.match(line)
        if bullet:
            items.append([line[bullet.end() :].rstrip()])
            is_open = True
        elif is_open and line[0] in " \t" and not line.isspace():
            items[-1].append(line.strip())
        else:
            is_open = False
    return [" ".join(item) for item in items] or None


def read_list(text: str) -> list[str] | None:
    """Read one line of short values between commas or semicolons, also after `Label: `."""
    lines = lines_of(text)
    for line in lines[:100]:
        field = field_of(line)
        values = _short_values(line if field is None else field[1])
        if values is not None and (len(lines) == 1 or (field is not None and len(values) > 1)):
            return values
    return None


def _short_values(line: str) -> list[str] | None:
    body = line.strip().removesuffix(".")
    if body[:1] == "[" and body[-1:] == "]":
        body = body[1:-1]
    pieces = body.split(";" if ";" in body else ",", LINE_ITEMS)[:LINE_ITEMS]
    if len(pieces) > 1 and pieces[-1].lstrip().startswith(("and ", "or ")):
        pieces[-1] = pieces[-1].lstrip().partition(" ")[2]
    elif len(pieces) > 1 and " and " in pieces[-1]:
        pieces[-1:] = pieces[-1].split(" and ", 1)
    values: list[str] = []
    for piece in pieces:
        value = unquoted(piece)
        if not 0 < len(value) <= _VALUE_CHARS or value.count(" ") >= _VALUE_WORDS:
            return None
        values.append(value)
    return values
