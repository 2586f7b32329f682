"""Finds all pieces of a text that have one shape: links, URLs, paths, identifiers, numbers, dates and the like.

Written to be copied, like `text_values`. Each reader looks at the first `SHAPE_CHARS` characters and gives each piece
once, in the order in which it stands there, at most `SHAPE_ITEMS` of them, or None where there is none. The patterns
take linear time: what repeats is possessive, and no match can begin inside a run that another one has refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

SHAPE_CHARS = 65_536
SHAPE_ITEMS = 4_000

_URL = re.compile(
    r"(?<![A-Za-z])(?:https?|ftp|wss?|file|s3|gs)://[^\s<>\"'`\\()\[\]{}|]++(?:\([^\s<>\"'`\\()]*+\)[^\s<>\"'`\\()\[\]{}|]*+)*+"
)
_LINK = re.compile(
    r"\[([^\[\]\n]{0,300}+)\]\(<?([^\s()<>]{1,2000}+(?:\([^\s()<>]{0,200}+\)[^\s()<>]{0,200}+){0,4}+)[^()\n]{0,200}+\)"
)
_EMAIL = re.compile(r"(?<![\w.%+-])[A-Za-z0-9_][\w.%+-]*+@(?:[A-Za-z0-9-]++\.)++[A-Za-z]{2,24}(?![\w-])", re.ASCII)
_PATH = re.compile(r"(?<![\w./\\~@+-])(?!//)(?:[A-Za-z]:(?=[\\/]))?[\w~@+-]*+(?:[./\\]++[\w~@+-]*+)++")
_EXTENSION = re.compile(r"[^/\\]\.[A-Za-z][A-Za-z0-9]{0,9}\Z")
_UUID = re.compile(r"(?<![\w-])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![\w-])")
_HEX = re.compile(r"(?<![\w-])[0-9a-fA-F]{7,64}+(?![\w-])")
_ID = re.compile(r"(?<![\w#-])(?:[A-Za-z0-9]++(?:[-_#][A-Za-z0-9]++)++|#[A-Za-z0-9]++(?:[-_][A-Za-z0-9]++)*+)(?![\w-])")
_CODE = re.compile(r"(?<![\w#@-])[A-Za-z0-9]{2,64}+(?![\w-])")
_HANDLE = re.compile(r"(?<![\w.@/+-])@([A-Za-z0-9_](?:[\w.-]{0,62}[\w])?)(?![\w@/-])", re.ASCII)
_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")
_NUMBER = re.compile(
    r"(?<![\w./-])(?<![0-9][:,])[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})++|[0-9]{1,30}+)(?:\.[0-9]{1,30}+)?(?!\w|[:/.,-][0-9])",
    re.ASCII,
)
_DATE = re.compile(r"(?<![0-9])[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])(?![0-9])")
_TIME = re.compile(
    r"(?<![0-9:])(?<![0-9]\+)(?<!:[0-9]{2}:[0-9]{2}-)(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?(?![0-9:])"
)
_QUOTED = re.compile(r"\"([^\"\n]{1,500}+)\"|(?<!\w)'([^'\n]{1,500}+)'(?!\w)|`([^`\n]{1,500}+)`")


def _pieces_of(pattern: re.Pattern[str], text: str, trim: Callable[[str], str]) -> list[str] | None:
    """Return each trimmed match once, of the first `SHAPE_ITEMS`; what is trimmed to nothing is left out."""
    found: dict[str, None] = {}
    for number, match in enumerate(pattern.finditer(text, 0, SHAPE_CHARS), start=1):
        piece = trim(match[match.lastindex or 0])
        if piece:
            found[piece] = None
        if number >= SHAPE_ITEMS:
            break
    return list(found) or None


def _as_it_is(piece: str) -> str:
    return piece


def _without_stop(piece: str) -> str:
    return piece.rstrip(".,;:!?*")


def read_links(text: str) -> list[dict[str, str]] | None:
    """Find Markdown links and bare URLs; a bare one has no text."""
    if "](" not in text and "://" not in text:
        return None
    found: list[dict[str, str]] = []
    position = 0
    for link in _LINK.finditer(text, 0, SHAPE_CHARS):
        found += _bare_links(text, position, link.start())
        found.append({"text": link[1].strip(), "url": link[2]})
        position = link.end()
        if len(found) >= SHAPE_ITEMS:
            return found[:SHAPE_ITEMS]
    found += _bare_links(text, position, SHAPE_CHARS)
    return found[:SHAPE_ITEMS] or None


def _bare_links(text: str, start: int, end: int) -> list[dict[str, str]]:
    return [{"text": "", "url": _without_stop(found[0])} for found in _URL.finditer(text, start, end)]


def read_urls(text: str) -> list[str] | None:
    """Find URLs, without the punctuation that ends a sentence."""
    return _pieces_of(_URL, text, _without_stop) if "://" in text else None


def read_emails(text: str) -> list[str] | None:
    """Find e-mail addresses."""
    return _pieces_of(_EMAIL, text, _as_it_is) if "@" in text else None


def read_paths(text: str) -> list[str] | None:
    """Find file paths: absolute, relative with a slash, Windows, and names with an extension."""
    return _pieces_of(_PATH, text, _path_of) if "/" in text or "." in text or "\\" in text else None


def _path_of(piece: str) -> str:
    path = piece.rstrip(".")
    if "/" in path or "\\" in path:
        return path if path.strip("/\\.~") else ""
    return path if _EXTENSION.search(path) and "@" not in path else ""


def read_uuids(text: str) -> list[str] | None:
    """Find UUIDs."""
    return _pieces_of(_UUID, text, _as_it_is) if "-" in text else None


def read_hexes(text: str) -> list[str] | None:
    """Find hexadecimal words, such as commit hashes: 7 to 64 digits, with a letter and a digit if under 32."""
    return _pieces_of(_HEX, text, _hex_of)


def _hex_of(piece: str) -> str:
    return piece if len(piece) >= 32 or (_DIGIT.search(piece) and _LETTER.search(piece)) else ""


def read_ids(text: str) -> list[str] | None:
    """Find identifiers such as cus_1, ABC-123 and #W123: letters and digits with -, _ or # inside or # before."""
    return _pieces_of(_ID, text, _id_of) if "-" in text or "_" in text or "#" in text else None


def _id_of(piece: str) -> str:
    is_id = _DIGIT.search(piece) and (piece[0] == "#" or _LETTER.search(piece)) and not _DATE.match(piece)
    return piece if is_id else ""


def read_codes(text: str) -> list[str] | None:
    """Find words of letters and digits without anything between them, such as W1204, FL20 and bk77."""
    return _pieces_of(_CODE, text, _code_of)


def _code_of(piece: str) -> str:
    return piece if _DIGIT.search(piece) and _LETTER.search(piece) else ""


def read_handles(text: str) -> list[str] | None:
    """Find names behind an @, without it; e-mail addresses and names of packages are none."""
    return _pieces_of(_HANDLE, text, _as_it_is) if "@" in text else None


def read_numbers(text: str) -> list[str] | None:
    """Find numbers as text, without separators of thousands; parts of dates, times and words are none."""
    return _pieces_of(_NUMBER, text, _number_of)


def _number_of(piece: str) -> str:
    return piece.replace(",", "")


def read_dates(text: str) -> list[str] | None:
    """Find ISO dates, also at the beginning of a date with time."""
    return _pieces_of(_DATE, text, _as_it_is) if "-" in text else None


def read_times(text: str) -> list[str] | None:
    """Find times of day, HH:MM or HH:MM:SS, also inside ISO dates with time; offsets of time zones are none."""
    return _pieces_of(_TIME, text, _as_it_is) if ":" in text else None


def read_quoted(text: str) -> list[str] | None:
    """Find what stands in double quotes, single quotes or backticks on one line."""
    return _pieces_of(_QUOTED, text, _as_it_is) if '"' in text or "'" in text or "`" in text else None


SHAPE_READERS: dict[str, Callable[[str], Any]] = {
    "links": read_links,
    "urls": read_urls,
    "emails": read_emails,
    "paths": read_paths,
    "uuids": read_uuids,
    "hexes": read_hexes,
    "ids": read_ids,
    "codes": read_codes,
    "handles": read_handles,
    "numbers": read_numbers,
    "dates": read_dates,
    "times": read_times,
    "quoted": read_quoted,
}
