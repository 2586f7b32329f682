"""Maps errors to exit codes that scripts can rely on, and to messages with a fix.

    0    done
    1    it was tried and failed (a tool failed, a check found something broken)
    2    it could not be tried: bad input, bad usage, not there
    3    trouble with the store
    130  stopped by Ctrl-C
    141  whoever read the output has gone

An error is one line and, where a fix is known, a second one; with `--output json` it is one JSON object. A traceback is
for those who ask for it with TWINRAVEN_TRACEBACK=1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from twinraven.cli.interrupts import INTERRUPTED
from twinraven.cli.output import encode_json, paint, prose
from twinraven.foundation.errors import InvalidInput, NotFound, SchemaOutdated, StorageError, TwinRavenError

DONE, FAILED, BAD_INPUT, STORAGE, NO_READER = 0, 1, 2, 3, 141

_ERROR: Final = "twinraven: error:"
_UPGRADE = "twinraven db upgrade"
LISTS: Final = {
    "campaign": "campaigns list",
    "conversation_id": "conversations list",
    "decision": "decisions list",
    "entity_id": "entities list",
    "entry_id": "audit show",
    "episode_id": "episodes list",
    "event_id": "events list",
    "goal": "goals list",
    "metric_id": "metrics list",
    "process_id": "process list",
    "run_id": "runs list",
    "session_id": "sessions list",
    "summary_id": "summaries list",
    "task": "tasks list",
    "tool_id": "tools list",
    "wallet": "wallets list",
}
"""Which command lists what an error of something that is not there names, by the field or the subject it carries."""


def guarded(arguments: Sequence[str], run: Callable[[], int]) -> int:
    """Run a command at the edge of the process: whatever happens inside `run` becomes an exit code."""
    as_json = wants_json(arguments)
    try:
        code = _until_exit(run)
        sys.stdout.flush()
    except TwinRavenError as error:
        return report(error, as_json=as_json)
    except KeyboardInterrupt:
        print("twinraven: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_output()
        return NO_READER
    except OSError as error:
        # What a command cannot read or store it names itself; what is left is the output that cannot be written.
        _abandon_output()
        return report(TwinRavenError(f"the system refused it: {error}"), as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the process's edge: a person gets a sentence, not a traceback
        return _report_fault(error, as_json=as_json)
    return code


def _until_exit(run: Callable[[], int]) -> int:
    try:
        return run()
    except SystemExit as done:  # how argparse ends after --help and --version
        return done.code if isinstance(done.code, int) else DONE


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the caller is a program, known before the arguments are understood."""
    forms = (("--output", "json"), ("-o", "json"))
    whole = ("--output=json", "-ojson", "--json")
    return any(word in whole for word in arguments) or any(pair in forms for pair in pairwise(arguments))


def report(error: TwinRavenError, *, as_json: bool) -> int:
    """Say on stderr what went wrong, and how the command ends."""
    fix = _fix(error)
    if as_json:
        details = {name: value for name, value in error.details.items() if name != "fix"}
        body = {**error.as_json(), "details": details, "fix": fix}
        print(encode_json({"error": body}, indent=False).decode(), file=sys.stderr)
    else:
        said = "\n".join(prose(f"{_ERROR} {error.message}", stream=sys.stderr))
        print(said.replace(_ERROR, paint(_ERROR, "red", sys.stderr), 1), file=sys.stderr)
        if fix is not None:
            print(f"{paint('fix:', 'green', sys.stderr)} {fix}", file=sys.stderr)
    return exit_code(error.code)


def exit_code(error_code: str) -> int:
    """Return the exit code for one of the stable error codes."""
    if error_code in _codes_of(InvalidInput) | _codes_of(NotFound):
        return BAD_INPUT
    return STORAGE if error_code in _codes_of(StorageError) else FAILED


def _codes_of(kind: type[TwinRavenError]) -> set[str]:
    return {kind.code}.union(*(_codes_of(below) for below in kind.__subclasses__()))


def _fix(error: TwinRavenError) -> str | None:
    fix = error.details.get("fix")
    if fix is None and isinstance(error, NotFound):
        named = (error.details.get("subject"), error.details.get("field"), *error.details)
        fix = next((f"twinraven {LISTS[name]}" for name in named if name in LISTS), None)
    return _UPGRADE if fix is None and isinstance(error, SchemaOutdated) else fix


def _report_fault(error: Exception, *, as_json: bool) -> int:
    if os.environ.get("TWINRAVEN_TRACEBACK"):
        raise error
    fault = TwinRavenError(
        f"a fault inside TwinRaven: {type(error).__name__}: {error}",
        fix="run it again with TWINRAVEN_TRACEBACK=1 and report what it prints",
    )
    return report(fault, as_json=as_json)


def _abandon_output() -> None:
    """Let the interpreter's last flush go nowhere instead of failing once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
