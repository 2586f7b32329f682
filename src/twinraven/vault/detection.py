"""Detects credentials that were never registered: by the formats of providers, and by entropy.

Forms first (prefixed tokens, JSON web tokens, private keys): they are certain. Then any run of at least twenty token
characters that mixes lower case, upper case and digits in the irregular way that only random generators do. Hexadecimal
texts (hashes, UUIDs), numbers, words, slugs and dates mix them otherwise and are left alone, because identifiers are
what the record is about.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

DEFAULT_ENTROPY = 3.5
"""Bits per character; a random token of twenty characters has about four."""

_LONGEST_RANDOM = 256
_LEAST_CHANGES = 0.35
_KNOWN_FORMS = re.compile(
    rb"""
    (?<![A-Za-z0-9])(?:
        sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}
      | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}
      | (?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])
      | gh[pousr]_[A-Za-z0-9]{20,}
      | github_pat_[A-Za-z0-9_]{20,}
      | glpat-[A-Za-z0-9_-]{16,}
      | xox[abeprs]-[A-Za-z0-9-]{10,}
      | AIza[0-9A-Za-z_-]{30,}
      | tr_[A-Za-z0-9_-]{43}
      | eyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*
    )
    | -----BEGIN\ (?:[A-Z0-9]+\ )*PRIVATE\ KEY-----
      (?:[A-Za-z0-9+/=\s]|\\+[nrt]|(?:Proc-Type|DEK-Info):[A-Z0-9a-z,\ -]*)*
      (?:-----END\ (?:[A-Z0-9]+\ )*PRIVATE\ KEY-----)?
    """,
    re.VERBOSE,
)
_CANDIDATE = re.compile(rb"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}={0,2}")
_HEXADECIMAL = re.compile(rb"[0-9a-fA-F_-]+")


def find_credentials(text: bytes, *, entropy: float = DEFAULT_ENTROPY) -> Iterator[tuple[int, int]]:
    """Find texts that look like credentials."""
    for hit in _KNOWN_FORMS.finditer(text):
        yield hit.span()
    for hit in _CANDIDATE.finditer(text):
        if looks_random(hit[0], entropy=entropy):
            yield hit.span()


def looks_random(text: bytes, *, entropy: float = DEFAULT_ENTROPY) -> bool:
    """Return whether a run of token characters was drawn rather than written."""
    if len(text) > _LONGEST_RANDOM or _HEXADECIMAL.fullmatch(text):
        return False
    kinds = [_kind(byte) for byte in text.rstrip(b"=")]
    if not {"lower", "upper", "digit"} <= set(kinds):
        return False
    # A path or a slug changes kind at its marks; a random text changes between letters and digits themselves.
    changes = sum(before != after and "mark" not in (before, after) for before, after in pairwise(kinds))
    return changes >= _LEAST_CHANGES * len(kinds) and _bits_per_byte(text) >= entropy


def _kind(byte: int) -> str:
    sign = chr(byte)
    if sign.isdigit():
        return "digit"
    return "lower" if sign.islower() else "upper" if sign.isupper() else "mark"


def _bits_per_byte(text: bytes) -> float:
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)
