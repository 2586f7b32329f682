"""Writes JSON values as canonical text (RFC 8785) and hashes them.

Equal values must hash equally in every process and on every platform, so there is exactly one text for each value:
keys sorted by UTF-16 code units, no white space, numbers as ECMAScript prints them. orjson writes that text for most
values and is fifty times faster than Python, so it is tried first; what it would write differently (whole and very
large or small floats, keys beyond the basic plane) is recognised by its bytes, what it refuses (integers beyond 64
bits, lone surrogates) by its error, and both are written by the slower, exact encoder.

Two things JSON cannot say are settled here, alike for every store: `NaN` and the infinities become the strings
"NaN", "Infinity", "-Infinity", and a lone surrogate becomes U+FFFD. Integers of any size keep all their digits.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from enum import Enum
from typing import Any, Final, cast

import orjson
import xxhash

from twinraven.foundation.errors import InvalidInput

JsonObject = dict[str, Any]

MAX_DEPTH = 254
"""Deeper nesting is refused: it is where orjson stops, and the exact encoder stops at the same level."""

MAX_INTEGER_BITS = 8192

NULL: Final = b"null"
"""What orjson writes for None and for what is no number. Texts are asked where it is (`find`), not whether (`in`): for
bytes the latter raises and drops an exception each time."""

# A number that ends in ".0" or in an exponent, or a character beyond the basic plane (where the order by UTF-16 and by
# code point part ways). A hit inside a string merely costs time. Each begins with a certain byte, for which a text is
# looked through many times faster than for any of several.
_WHOLE_FLOAT = re.compile(rb"\.0(?:[,\]}]|\Z)")
_EXPONENT = re.compile(rb"e[+-]?[0-9]+(?:[,\]}]|\Z)")
_BEYOND_BASIC = re.compile(rb"[\xf0-\xf4]")
_AS_TEXT = orjson.OPT_NON_STR_KEYS
_STRICT = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_ESCAPED = re.compile('[\x00-\x1f"\\\\]')
_SURROGATE = re.compile("[\ud800-\udfff]")
# orjson reads an integer beyond 64 bits as a float. Such a number has twenty digits, or nineteen and a minus; to look
# for that many in a row costs a tenth of parsing, and a hit inside a string merely time.
_DIGITS = bytes(ord("1") if byte in b"-0123456789" else ord(" ") for byte in range(256))
_LONG_RUN = b"1" * 20
_LONG_NUMBER = re.compile(rb"(?:^|[\s:,\[])-?[0-9]{19}")
_FINITE = json.JSONEncoder(allow_nan=False, check_circular=False)
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def canonical_json(value: Any) -> bytes:
    """Return the one text of a JSON value."""
    try:
        fast = orjson.dumps(value, option=_STRICT)
    except (TypeError, RecursionError):
        fast = None
    if fast is not None and _is_canonical(fast) and (fast.find(NULL) < 0 or _is_finite(value)):
        return fast
    parts: list[str] = []
    _write(value, parts, 0)
    return "".join(parts).encode()


def _is_canonical(text: bytes) -> bool:
    """Return whether orjson's text has nothing in it that must be written otherwise."""
    if (text.find(b".0") >= 0 and _WHOLE_FLOAT.search(text) is not None) or _EXPONENT.search(text) is not None:
        return False
    return text.isascii() or _BEYOND_BASIC.search(text) is None


def input_hash(value: Any) -> str:
    """XXH64 of the canonical text, as 16 hex digits."""
    return xxhash.xxh64_hexdigest(canonical_json(value))


def content_hash(body: bytes) -> str:
    """SHA-256 of bytes, the name of a blob."""
    return hashlib.sha256(body).hexdigest()


def parse_json(text: bytes | str, *, field: str = "value") -> Any:
    """Decode JSON; integers of any size stay integers, and an error says where."""
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if len(raw) > 18 and has_long_number(raw):
        return _parse_exactly(text, field)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _parse_exactly(text, field)


def has_long_number(raw: bytes) -> bool:
    """Return whether a JSON text may hold a number of more digits than orjson keeps.

    Ids and hashes have long runs of digits and dashes, too, in nearly every list of calls; only the character before
    each run is looked at, because a search for the pattern goes through the whole text.
    """
    marks = raw.translate(_DIGITS)
    at = marks.find(_LONG_RUN)
    while at >= 0:
        if _LONG_NUMBER.match(raw, max(at - 1, 0)) is not None:
            return True
        end = marks.find(b" ", at)
        at = -1 if end < 0 else marks.find(_LONG_RUN, end)
    return False


def to_json_value(value: Any) -> Any:
    """Any Python value as the JSON value that stands for it, detached from the original."""
    # What `plain_json` does, without a call for it: every argument and answer of a flow comes through here. With keys
    # that are no texts orjson writes others slower, too.
    try:
        encoded = orjson.dumps(value, _stand_in)
    except (TypeError, RecursionError):
        plain = plain_json(value)
        return _convert(value, 0) if plain is None else orjson.loads(plain)
    if encoded.find(NULL) >= 0 and not _is_finite(value):
        return _convert(value, 0)
    return orjson.loads(encoded)


def plain_json(value: Any) -> bytes | None:
    """Return the text of the JSON value that stands for a Python value, keys in their order.

    None where only Python can say.

    Floats stay floats, so the text reads back as the value was.
    """
    try:
        encoded = orjson.dumps(value, _stand_in, _AS_TEXT)
    except (TypeError, RecursionError):
        return None
    return None if encoded.find(NULL) >= 0 and not _is_finite(value) else encoded


def _is_finite(value: Any) -> bool:
    """Return whether this is JSON without NaN and infinities, so that each `null` orjson wrote was a None.

    Python's own encoder refuses them, and anything that is no JSON; it goes through a value many times faster than
    Python code could.
    """
    try:
        _FINITE.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _write(value: Any, parts: list[str], depth: int) -> None:
    if value is None:
        parts.append("null")
    elif value is True:
        parts.append("true")
    elif value is False:
        parts.append("false")
    elif isinstance(value, str):
        parts.append(_quote(value))
    elif isinstance(value, int):
        parts.append(_digits(value))
    elif isinstance(value, float):
        parts.append(_number(value))
    elif isinstance(value, dict):
        _write_object(cast("dict[Any, Any]", value), parts, depth)
    elif isinstance(value, (list, tuple)):
        _write_array(cast("list[Any]", value), parts, depth)
    elif isinstance(value, Enum):
        _write(value.value, parts, depth)
    else:
        parts.append(_write_foreign(value))


def _write_foreign(value: Any) -> str:
    # orjson also writes UUIDs; whether a value is accepted must not depend on which encoder meets it.
    try:
        return orjson.dumps(value, option=_STRICT).decode()
    except TypeError:
        raise InvalidInput(f"a {type(value).__name__} is not a JSON value") from None


def _write_array(items: list[Any], parts: list[str], depth: int) -> None:
    _refuse_depth(depth)
    opening = "["
    for item in items:
        parts.append(opening)
        _write(item, parts, depth + 1)
        opening = ","
    parts.append("]" if items else "[]")


def _write_object(members: dict[Any, Any], parts: list[str], depth: int) -> None:
    _refuse_depth(depth)
    opening = "{"
    for key in sorted(members, key=_utf16):
        parts.append(f"{opening}{_quote(key)}:")
        _write(members[key], parts, depth + 1)
        opening = ","
    parts.append("}" if members else "{}")


def _refuse_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise InvalidInput(f"value is nested deeper than {MAX_DEPTH} levels")


def _utf16(key: Any) -> bytes:
    if not isinstance(key, str):
        raise InvalidInput(f"object key {key!r} is a {type(key).__name__}; JSON keys are strings")
    return key.encode("utf-16-be", "surrogatepass")


def _quote(text: str) -> str:
    cleaned = _SURROGATE.sub("\ufffd", text)
    return '"' + _ESCAPED.sub(lambda hit: _ESCAPES.get(hit[0]) or f"\\u{ord(hit[0]):04x}", cleaned) + '"'


def _digits(value: int) -> str:
    if value.bit_length() > MAX_INTEGER_BITS:
        raise InvalidInput(f"an integer of more than {MAX_INTEGER_BITS} bits is not a sensible argument")
    return str(int(value))


def _number(value: float) -> str:
    """Return a double as ECMAScript's Number::toString prints it, which is what RFC 8785 asks for."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0:
        return "0"
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    if text[-5:-3] == "e+":
        return text
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = text.removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return sign + _place(digits, point)


def _place(digits: str, point: int) -> str:
    """Digits with the decimal point after `point` of them, in plain or exponent form."""
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    tail = f".{digits[1:]}" if count > 1 else ""
    power = point - 1
    return f"{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"


def _convert(value: Any, depth: int) -> Any:
    """Return what `to_json_value` gives, for the values that orjson refuses or would write otherwise."""
    if isinstance(value, Enum):
        return _convert(value.value, depth)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, int):
        return int(_digits(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _number(value).strip('"')
    _refuse_depth(depth)
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {_convert_key(key): _convert(member, depth + 1) for key, member in members.items()}
    if isinstance(value, (list, tuple)):
        return [_convert(item, depth + 1) for item in cast("list[Any]", value)]
    fields = None if isinstance(value, type) else getattr(value, "__dataclass_fields__", None)
    if isinstance(fields, dict):
        names = [name for name in cast("dict[str, Any]", fields) if not name.startswith("_")]
        return {name: _convert(getattr(value, name), depth + 1) for name in names}
    try:
        return orjson.loads(orjson.dumps(value))
    except TypeError:
        return _convert(_stand_in(value), depth + 1)


def _clean(text: str) -> str:
    # A subclass may have a __str__ of its own; what counts is the text it holds.
    return _SURROGATE.sub("\ufffd", str.__str__(text))


def _convert_key(key: Any) -> str:
    if isinstance(key, str) and not isinstance(key, Enum):
        return _clean(key)
    try:
        return next(iter(orjson.loads(orjson.dumps({key: None}, option=orjson.OPT_NON_STR_KEYS))))
    except TypeError:
        return _clean(str(key))


def _stand_in(value: Any) -> Any:
    """Return what a Python object that is not JSON is recorded as: its own dump if it has one, else its text."""
    if isinstance(value, (set, frozenset)):
        return sorted(cast("set[Any]", value), key=repr)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(cast("bytes", value)).decode("utf-8", "replace")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return _clean(value)
    try:
        return _dump(value)
    except Exception:  # noqa: BLE001 - foreign code: an object that cannot describe itself must not lose the record
        return f"<{type(value).__qualname__}>"


def _dump(value: Any) -> Any:
    for method in ("model_dump", "_asdict"):
        dump = getattr(value, method, None)
        if callable(dump) and not isinstance(value, type):
            return dump()
    return _clean(str(value))


def _parse_exactly(text: bytes | str, field: str) -> Any:
    """Return what orjson rounds or refuses and JSON allows in practice: huge integers, NaN, lone surrogates."""
    import json

    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    try:
        return to_json_value(json.loads(decoded))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{field} is not JSON: {error}", field=field) from None
