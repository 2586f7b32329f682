"""Merges two key rings, for a home that receives a database from elsewhere together with its keys.

The ring that comes with the database leads, because what is in the database was made with it. Keys that only the other
ring has are kept, retired: nothing that could be opened before must become unreadable by adding keys.
"""

from __future__ import annotations

import json
from typing import Any

from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import InvalidInput


def merge_key_files(present: bytes, arriving: bytes) -> bytes:
    """Return the contents of a key file that serves both; the arriving ring's active key is active."""
    kept, leading = _generations(present), _generations(arriving)
    known = {row["id"] for row in leading}
    now = now_micros()
    retired = [{**row, "retired_at": row["retired_at"] or now} for row in kept if row["id"] not in known]
    return json.dumps({"format": 1, "generations": [*leading, *retired]}, indent=1).encode()


def _generations(body: bytes) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads(body)["generations"]
        if all(isinstance(row["id"], str) and isinstance(row["key"], str) and "retired_at" in row for row in rows):
            return rows
    except (ValueError, KeyError, TypeError):
        pass
    raise InvalidInput("a key file of the home or of the backup is damaged; move it away to go on", field="keys")
