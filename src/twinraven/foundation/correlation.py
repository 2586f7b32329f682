"""Carries the correlation id of a request, the same in its events, audit entries and log lines.

It follows the call through tasks and threads as a context variable, so code that logs need not know of it. A handler
that has `note_correlation` as its filter can print `%(correlation_id)s`.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from twinraven.foundation.ids import new_id

if TYPE_CHECKING:
    import logging

current_correlation: ContextVar[str | None] = ContextVar("twinraven_correlation", default=None)


def correlation_or_new() -> str:
    """Return the id of the request that is being served, or mint one where nothing was asked from outside."""
    return current_correlation.get() or new_id()


def note_correlation(record: logging.LogRecord) -> bool:
    """Return a filter that lets every record pass and tells it which request it belongs to."""
    record.correlation_id = current_correlation.get() or "-"
    return True
