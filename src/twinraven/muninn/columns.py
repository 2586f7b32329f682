"""Derives the columns of the log from an event's fields, in the order in which rows are written; and the blobs' own."""

from __future__ import annotations

from typing import Any, Final

from twinraven.muninn.model import EVENT_FIELDS

COLUMNS: Final = ("tenant_id", *(each.name for each in EVENT_FIELDS if each.is_stored and each.name != "tenant_id"))
"""The tenant and the event's id come first: a batch is sorted by the one and looked up by the other."""

BLOB_COLUMNS: Final = ("tenant_id", "hash", "body")

Row = tuple[Any, ...]
