"""Redacts log records, as a filter for handlers.

A process that is TwinRaven's own (a command, the gateway) logs by `clean_log`; a program that only uses TwinRaven keeps
its own handlers and adds the filter to them.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from twinraven.foundation.clock import iso
from twinraven.foundation.correlation import note_correlation

if TYPE_CHECKING:
    from twinraven.vault.redaction import Redactor

_logger = logging.getLogger(__name__)

_FORMAT = "%(levelname)s %(name)s [%(correlation_id)s] %(message)s"

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


@contextmanager
def clean_log(
    redactor: Callable[[], Redactor], stream: TextIO, *, level: str = "warning", as_json: bool = False
) -> Generator[None]:
    """Everything that this process logs goes to a stream, without secrets and with the id of its request.

    The handler stands at the root: a library that quotes a header in a warning passes through it as well, and so does
    what Python itself would write to stderr, warnings and the errors that end a thread. The redactor is asked for when
    there is something to say, because most commands say nothing.
    """

    def redact(record: logging.LogRecord) -> bool:
        return RedactingFilter(redactor()).filter(record)

    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonFormatter() if as_json else logging.Formatter(_FORMAT))
    handler.addFilter(note_correlation)
    handler.addFilter(redact)
    root = logging.getLogger()
    before = root.level
    root.setLevel(level.upper())
    root.addHandler(handler)
    hooks = threading.excepthook, sys.unraisablehook
    threading.excepthook, sys.unraisablehook = _log_end_of_thread, _log_unraisable
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        threading.excepthook, sys.unraisablehook = hooks
        root.removeHandler(handler)
        root.setLevel(before)


def _log_end_of_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is SystemExit:
        return
    name = "a thread" if args.thread is None else args.thread.name
    _logger.error("an error ended %s", name, exc_info=args.exc_value)


def _log_unraisable(args: sys.UnraisableHookArgs) -> None:
    # Its repr may fail, too, and at the end of the process.
    named = getattr(args.object, "__qualname__", type(args.object).__name__)
    _logger.error("%s %s", args.err_msg or "an error was passed over in", named, exc_info=args.exc_value)


class _JsonFormatter(logging.Formatter):
    """One JSON object a line, with whatever fields a caller added."""

    def format(self, record: logging.LogRecord) -> str:
        added = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        body: dict[str, Any] = {
            "time": iso(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **added,
        }
        if record.exc_text:
            body["exception"] = record.exc_text
        return json.dumps(body, default=str)


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
