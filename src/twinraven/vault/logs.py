"""Logs without secrets: a filter for handlers, so that whatever is logged by whomever passes through it."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from twinraven.vault.redaction import Redactor

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class RedactingFilter(logging.Filter):
    """Redacts the message, the traceback and every field a caller added. Add it to handlers, not to loggers."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        clean = self._redactor.redact_text
        record.msg = clean(_message_of(record))
        record.args = None
        if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        if record.exc_text:
            # A formatter prints this text and does not look at the exception again.
            record.exc_text = clean(record.exc_text)
        if record.stack_info:
            record.stack_info = clean(record.stack_info)
        for name, value in list(vars(record).items()):
            if name not in _STANDARD:
                setattr(record, name, _cleaned(value, self._redactor))
        return True


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        # A message that does not fit its arguments: show both rather than neither.
        return f"{record.msg} {record.args!r}"


def _cleaned(value: Any, redactor: Redactor) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return redactor.redact_text(value)
    text = repr(value)
    cleaned = redactor.redact_text(text)
    return value if cleaned == text else cleaned
