"""Makes and hashes API keys: 256 random bits with a recognisable prefix.

A key is as long as a cryptographic key, so its plain SHA-256 cannot be searched for, and a slow password hash would
only slow every request down. The key says nothing of its tenant: whoever finds one learns no more than that it is ours.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re

PREFIX = "tr_"
_SHOWN = len(PREFIX) + 8
_FORM = re.compile(r"tr_[A-Za-z0-9_-]{43}")


def new_key() -> str:
    return PREFIX + base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode()


def is_key(text: str) -> bool:
    return _FORM.fullmatch(text) is not None


def hash_key(clear: str) -> str:
    return hashlib.sha256(clear.encode()).hexdigest()


def shown_prefix(clear: str) -> str:
    """Return the prefix of a key that lists may show: it leaves more than 200 bits unknown."""
    return clear[:_SHOWN]
