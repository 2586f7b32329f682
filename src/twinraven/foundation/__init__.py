"""What every context stands on and what itself stands on nothing: ids, time, JSON and its hashes, schemas, references,
predicates, readers of text, settings, errors.

All of it is synchronous and needs no server. The names below are resolved on first use, so that importing this package
costs nothing; importing one of its modules by name is just as good.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.foundation.canonical import (
        MAX_DEPTH,
        JsonObject,
        canonical_json,
        content_hash,
        input_hash,
        parse_json,
        to_json_value,
    )
    from twinraven.foundation.clock import Clock, from_micros, iso, now_micros, parse_iso, to_micros, utc_now
    from twinraven.foundation.errors import (
        Actor,
        AppendOnly,
        CallInProgress,
        Conflict,
        EffectUnknown,
        IdempotencyConflict,
        IllegalTransition,
        InvalidDefinition,
        InvalidExpression,
        InvalidInput,
        InvalidOutput,
        InvalidSchema,
        InvalidSetting,
        NotFound,
        PolicyViolation,
        SchemaOutdated,
        StaleState,
        StorageBusy,
        StorageCorrupt,
        StorageError,
        StorageFull,
        StorageReadOnly,
        StorageUnavailable,
        ToolError,
        ToolTimeout,
        ToolUnavailable,
        TwinRavenError,
    )
    from twinraven.foundation.ids import new_id, new_uuid
    from twinraven.foundation.json_schema import Schema, compile_schema, infer_schema
    from twinraven.foundation.predicates import Predicate, json_equal, parse_predicate
    from twinraven.foundation.references import (
        Reference,
        Template,
        is_reference,
        parse_reference,
        parse_template,
        resolve_template,
    )
    from twinraven.foundation.settings import (
        SettingDescription,
        SettingRow,
        Settings,
        describe_settings,
        find_home,
        load_settings,
        settings_as_rows,
    )
    from twinraven.foundation.text_readers import READERS, read_text, readings

__all__ = [
    "MAX_DEPTH",
    "READERS",
    "Actor",
    "AppendOnly",
    "CallInProgress",
    "Clock",
    "Conflict",
    "EffectUnknown",
    "IdempotencyConflict",
    "IllegalTransition",
    "InvalidDefinition",
    "InvalidExpression",
    "InvalidInput",
    "InvalidOutput",
    "InvalidSchema",
    "InvalidSetting",
    "JsonObject",
    "NotFound",
    "PolicyViolation",
    "Predicate",
    "Reference",
    "Schema",
    "SchemaOutdated",
    "SettingDescription",
    "SettingRow",
    "Settings",
    "StaleState",
    "StorageBusy",
    "StorageCorrupt",
    "StorageError",
    "StorageFull",
    "StorageReadOnly",
    "StorageUnavailable",
    "Template",
    "ToolError",
    "ToolTimeout",
    "ToolUnavailable",
    "TwinRavenError",
    "canonical_json",
    "compile_schema",
    "content_hash",
    "describe_settings",
    "find_home",
    "from_micros",
    "infer_schema",
    "input_hash",
    "is_reference",
    "iso",
    "json_equal",
    "load_settings",
    "new_id",
    "new_uuid",
    "now_micros",
    "parse_iso",
    "parse_json",
    "parse_predicate",
    "parse_reference",
    "parse_template",
    "read_text",
    "readings",
    "resolve_template",
    "settings_as_rows",
    "to_json_value",
    "to_micros",
    "utc_now",
]

# Asked in this order; what stands first is cheapest and most used.
_MODULES = (
    "errors",
    "clock",
    "ids",
    "canonical",
    "references",
    "predicates",
    "json_schema",
    "text_readers",
    "settings",
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            members = vars(import_module(f"{__name__}.{module}"))
            if name in members:
                globals()[name] = members[name]
                return members[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
