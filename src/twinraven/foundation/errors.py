"""Defines every error that TwinRaven raises on purpose, as one tree.

A caller decides by class or by `code`; people read `message`; programs read `details`. `code` is stable and documented
in docs/errors.md. `acts` says who has to do something about it, and `retryable` whether the same request may simply be
sent again.

    TwinRavenError              INTERNAL                a fault inside TwinRaven
    ├── InvalidInput            VALIDATION_FAILED       the caller sent something that cannot be accepted
    │   ├── InvalidSetting      CONFIG_INVALID          twinraven.yaml or the environment is wrong
    │   ├── InvalidSchema       SCHEMA_INVALID          a JSON Schema is not one
    │   ├── InvalidExpression   EXPRESSION_INVALID      a reference or predicate does not parse
    │   └── InvalidDefinition   DEFINITION_INVALID      a tool or flow definition contradicts itself
    ├── NotFound                NOT_FOUND               not there, or not yours: the two are one answer
    ├── Conflict                CONFLICT                it conflicts with the current state, such as a taken name
    │   ├── IdempotencyConflict IDEMPOTENCY_CONFLICT    same key, other body
    │   ├── CallInProgress      CALL_IN_PROGRESS        same key, still running
    │   ├── StaleState          OCC_CONFLICT            somebody else changed it first
    │   └── IllegalTransition   ILLEGAL_TRANSITION      that status cannot follow this one
    ├── PolicyViolation         POLICY_VIOLATION        a rule forbids it; never retried blindly
    │   ├── ApprovalPending     APPROVAL_PENDING        somebody must approve it first: make the same call again then
    │   └── ApprovalDenied      APPROVAL_DENIED         somebody said no
    ├── ToolError               TOOL_FAILED             the tool ran and failed
    │   ├── ToolUnavailable     TOOL_UNAVAILABLE        it could not be reached
    │   ├── ToolTimeout         TOOL_TIMEOUT            it did not answer in time
    │   ├── InvalidOutput       OUTPUT_INVALID          it answered something its own schema forbids
    │   ├── InputRequired       INPUT_REQUIRED          it asks its caller something first: answer, and call again
    │   ├── ScriptFailed        SCRIPT_FAILED           a script raised, does not parse or returned what is no JSON
    │   ├── ScriptStopped       SCRIPT_STOPPED          a script went beyond one of its limits and was ended
    │   └── EffectUnknown       EFFECT_UNKNOWN          it may or may not have happened: a person must look
    └── StorageError            STORAGE_FAILED          the store failed for a reason that is none of these
        ├── StorageUnavailable  STORAGE_UNAVAILABLE     cannot be reached right now
        ├── StorageBusy         STORAGE_BUSY            somebody held the lock for too long
        ├── StorageFull         STORAGE_FULL            no space left
        ├── StorageReadOnly     STORAGE_READ_ONLY       no permission to write
        ├── StorageCorrupt      STORAGE_CORRUPT         the file is damaged or not a database
        ├── SchemaOutdated      STORAGE_OUTDATED        the tables are too old: run `twinraven db upgrade`
        └── AppendOnly          APPEND_ONLY             history does not change
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

Actor = Literal["caller", "operator", "model", "nobody"]


class TwinRavenError(Exception):
    """The root. `details` carries ids and field names; they never carry secrets."""

    code: str = "INTERNAL"
    acts: Actor = "operator"
    retryable: bool = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if details.get("fix"):
            # A traceback prints notes, so that whoever uses the library sees what the command line says.
            self.add_note(f"fix: {details['fix']}")

    def as_json(self) -> dict[str, Any]:
        """Return the error object of every envelope and every HTTP answer."""
        return {"code": self.code, "message": self.message, "retryable": self.retryable, "details": self.details}

    def as_record(self) -> dict[str, Any]:
        """Return the error object with who acts, for a store from which `error_from_json` reads it back."""
        return {**self.as_json(), "acts": self.acts}


class InvalidInput(TwinRavenError):
    code = "VALIDATION_FAILED"
    acts = "caller"


class InvalidSetting(InvalidInput):
    code = "CONFIG_INVALID"
    acts = "operator"


class InvalidSchema(InvalidInput):
    code = "SCHEMA_INVALID"


class InvalidExpression(InvalidInput):
    code = "EXPRESSION_INVALID"


class InvalidDefinition(InvalidInput):
    code = "DEFINITION_INVALID"


class NotFound(TwinRavenError):
    code = "NOT_FOUND"
    acts = "caller"


class Conflict(TwinRavenError):
    code = "CONFLICT"
    acts = "caller"


class IdempotencyConflict(Conflict):
    code = "IDEMPOTENCY_CONFLICT"


class CallInProgress(Conflict):
    code = "CALL_IN_PROGRESS"
    acts = "nobody"
    retryable = True


class StaleState(Conflict):
    code = "OCC_CONFLICT"


class IllegalTransition(Conflict):
    code = "ILLEGAL_TRANSITION"


class PolicyViolation(TwinRavenError):
    code = "POLICY_VIOLATION"
    acts = "operator"


class ApprovalPending(PolicyViolation):
    """Not retryable: until a person has decided, sending it again changes nothing, and no loop may wait for people."""

    code = "APPROVAL_PENDING"


class ApprovalDenied(PolicyViolation):
    code = "APPROVAL_DENIED"


class ToolError(TwinRavenError):
    code = "TOOL_FAILED"
    acts = "model"


class ToolUnavailable(ToolError):
    code = "TOOL_UNAVAILABLE"
    acts = "nobody"
    retryable = True


class ToolTimeout(ToolError):
    code = "TOOL_TIMEOUT"
    acts = "nobody"
    retryable = True


class InvalidOutput(ToolError):
    code = "OUTPUT_INVALID"
    acts = "operator"


class InputRequired(ToolError):
    code = "INPUT_REQUIRED"
    acts = "caller"


class ScriptFailed(ToolError):
    code = "SCRIPT_FAILED"


class ScriptStopped(ToolError):
    code = "SCRIPT_STOPPED"


class EffectUnknown(ToolError):
    code = "EFFECT_UNKNOWN"
    acts = "operator"


class StorageError(TwinRavenError):
    code = "STORAGE_FAILED"


class StorageUnavailable(StorageError):
    code = "STORAGE_UNAVAILABLE"
    acts = "nobody"
    retryable = True


class StorageBusy(StorageError):
    code = "STORAGE_BUSY"
    acts = "nobody"
    retryable = True


class StorageFull(StorageError):
    code = "STORAGE_FULL"


class StorageReadOnly(StorageError):
    code = "STORAGE_READ_ONLY"


class StorageCorrupt(StorageError):
    code = "STORAGE_CORRUPT"


class SchemaOutdated(StorageError):
    code = "STORAGE_OUTDATED"


class AppendOnly(StorageError):
    code = "APPEND_ONLY"


def error_from_json(body: Mapping[str, Any]) -> TwinRavenError:
    """Read an error back from `as_record` or `as_json`: of the class of its code, else of the root with that code."""
    code = str(body.get("code", TwinRavenError.code))
    error = _by_code().get(code, TwinRavenError)(str(body.get("message", "")))
    error.details = dict(body.get("details") or {})
    error.code = code
    error.acts = body.get("acts", error.acts)
    error.retryable = bool(body.get("retryable", error.retryable))
    return error


@cache
def _by_code() -> dict[str, type[TwinRavenError]]:
    """Return the classes of this tree, without those that have a constructor of their own."""
    found: dict[str, type[TwinRavenError]] = {}
    pending = [TwinRavenError]
    while pending:
        each = pending.pop()
        found[each.code] = each
        pending += [child for child in each.__subclasses__() if _is_plain(child)]
    return found


def _is_plain(kind: type[TwinRavenError]) -> bool:
    return kind.__module__ == __name__ and kind.__init__ is TwinRavenError.__init__
