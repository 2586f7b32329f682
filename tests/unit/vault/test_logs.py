"""What passes the filter of a log handler holds no secret."""

from __future__ import annotations

import gc
import io
import logging
import sys
import threading
import warnings
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.unit.vault.fakes import HeldValues, make_redactor
from twinraven.foundation.correlation import current_correlation
from twinraven.vault import RedactingFilter, clean_log

_SECRET = "correct-horse-battery"


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(tmp_path: Path, output: io.StringIO) -> Generator[logging.Logger]:
    redactor = make_redactor(tmp_path, HeldValues(t=[_SECRET]))
    redactor.prepare("t")
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    handler.addFilter(RedactingFilter(redactor))
    logger = logging.getLogger("tests.redacting_filter")
    logger.propagate = False
    logger.handlers = [handler]
    yield logger
    logger.handlers = []


def test_messages_and_their_arguments_are_redacted(log: logging.Logger, output: io.StringIO) -> None:
    """It makes no difference whether the secret stands in the format or in an argument."""
    log.warning("password %s for %s", _SECRET, {"nested": [_SECRET]})
    log.warning(f"plain {_SECRET}")
    log.warning("%d broken", _SECRET)
    assert _SECRET not in output.getvalue()
    assert output.getvalue().count("[secret:") == 4


def test_tracebacks_are_redacted(log: logging.Logger, output: io.StringIO) -> None:
    """An exception whose message holds the secret is printed without it."""
    try:
        raise ValueError(f"cannot log in with {_SECRET}")
    except ValueError:
        log.exception("failed")
    assert "ValueError: cannot log in with [secret:" in output.getvalue()
    assert "Traceback" in output.getvalue()
    assert _SECRET not in output.getvalue()


def test_added_fields_are_redacted(log: logging.Logger, output: io.StringIO) -> None:
    """Fields for structured logs pass the same filter; what holds no secret keeps its type."""
    seen: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    log.addHandler(Keep())
    log.warning("x", extra={"header": f"Bearer {_SECRET}", "bag": {"k": _SECRET}, "count": 3, "plain": [1]})
    fields = vars(seen[0])
    assert _SECRET not in repr(fields)
    assert (fields["count"], fields["plain"]) == (3, [1])


def test_a_process_of_ours_logs_without_secrets(tmp_path: Path, output: io.StringIO) -> None:
    """Whatever any library logs in it is cleaned and names its request; afterwards logging is as it was."""
    redactor = make_redactor(tmp_path, HeldValues(t=[_SECRET]))
    before = list(logging.getLogger().handlers)
    with clean_log(lambda: redactor, output):
        redactor.revealed("t", _SECRET)
        current_correlation.set("request-1")
        logging.getLogger("some.library").warning("sent header %s", _SECRET)
        current_correlation.set(None)
        logging.getLogger("twinraven.muninn").error("lost")
    logging.getLogger("some.library").warning("not ours")
    token = redactor.token("t", _SECRET)
    assert output.getvalue().splitlines() == [
        f"WARNING some.library [request-1] sent header {token}",
        "ERROR twinraven.muninn [-] lost",
    ]
    assert logging.getLogger().handlers == before


@pytest.mark.filterwarnings("default")
def test_what_python_writes_itself_passes_the_log(tmp_path: Path, output: io.StringIO) -> None:
    """Warnings, the error that ends a thread and one that nobody can catch are redacted, and the hooks are put back."""

    class Careless:
        def __del__(self) -> None:
            raise ValueError(f"closing {_SECRET}")

    def fail() -> None:
        raise ValueError(f"working with {_SECRET}")

    redactor = make_redactor(tmp_path, HeldValues(t=[_SECRET]))
    redactor.prepare("t")
    before = threading.excepthook, sys.unraisablehook, warnings.showwarning
    with clean_log(lambda: redactor, output):
        warnings.warn(f"old use of {_SECRET}", stacklevel=1)
        thread = threading.Thread(target=fail, name="sender")
        thread.start()
        thread.join()
        threading.Thread(target=sys.exit).start()
        Careless()
        gc.collect()
    said = output.getvalue()
    assert "UserWarning: old use of [secret:" in said
    assert "an error ended sender" in said
    assert "ValueError: working with [secret:" in said
    assert "__del__" in said
    assert "ValueError: closing [secret:" in said
    assert _SECRET not in said
    assert (threading.excepthook, sys.unraisablehook, warnings.showwarning) == before
