"""Muninn, memory: an append-only log of every tool call, and the sessions they form.

Calls enter through the `Collector` (or an importer) and are read through the `EventStore`. Nothing is ever changed:
links between events are derived, sessions are a projection, and a later verdict is a further record.

Names are resolved on first use: whoever only reads the log does not pay for the machinery that writes it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.muninn.collector import (
        Collector,
        SessionObserver,
        check_tags,
        clean_text,
        current_observer,
        encode_output,
        encode_params,
        has_odd_float,
        recordable_output,
        recordable_params,
    )
    from twinraven.muninn.exchange import Importer, ImportReport, LineError, export_json, open_lines
    from twinraven.muninn.formats.calls import parse_call
    from twinraven.muninn.model import (
        MAX_NAME,
        MAX_TENANT,
        MuninnEvent,
        Observation,
        Outcome,
        Session,
        check_name,
        check_turn,
    )
    from twinraven.muninn.observed import observed
    from twinraven.muninn.otlp_export import export_otlp
    from twinraven.muninn.parquet import export_parquet
    from twinraven.muninn.receipt import Receipt
    from twinraven.muninn.retention import Retention, RetentionNote, RetentionReport, RingSigner
    from twinraven.muninn.row import EncodingRules, Redact
    from twinraven.muninn.sql import SqlEventStore
    from twinraven.muninn.store import EventFilter, EventStore, ToolUse, Transition
    from twinraven.muninn.tagging import CACHED, FALLBACK, RETRY

__all__ = [
    "CACHED",
    "FALLBACK",
    "MAX_NAME",
    "MAX_TENANT",
    "RETRY",
    "Collector",
    "EncodingRules",
    "EventFilter",
    "EventStore",
    "ImportReport",
    "Importer",
    "LineError",
    "MuninnEvent",
    "Observation",
    "Outcome",
    "Receipt",
    "Redact",
    "Retention",
    "RetentionNote",
    "RetentionReport",
    "RingSigner",
    "Session",
    "SessionObserver",
    "SqlEventStore",
    "ToolUse",
    "Transition",
    "check_name",
    "check_tags",
    "check_turn",
    "clean_text",
    "current_observer",
    "encode_output",
    "encode_params",
    "export_json",
    "export_otlp",
    "export_parquet",
    "has_odd_float",
    "observed",
    "open_lines",
    "parse_call",
    "recordable_output",
    "recordable_params",
]

_HOMES = {
    "collector": (
        "Collector",
        "SessionObserver",
        "check_tags",
        "clean_text",
        "current_observer",
        "encode_output",
        "encode_params",
        "has_odd_float",
        "recordable_output",
        "recordable_params",
    ),
    "exchange": (
        "ImportReport",
        "Importer",
        "LineError",
        "export_json",
        "open_lines",
    ),
    "formats.calls": ("parse_call",),
    "model": (
        "MAX_NAME",
        "MAX_TENANT",
        "MuninnEvent",
        "Observation",
        "Outcome",
        "Session",
        "check_name",
        "check_turn",
    ),
    "observed": ("observed",),
    "otlp_export": ("export_otlp",),
    "parquet": ("export_parquet",),
    "receipt": ("Receipt",),
    "retention": ("Retention", "RetentionNote", "RetentionReport", "RingSigner"),
    "row": (
        "EncodingRules",
        "Redact",
    ),
    "sql": ("SqlEventStore",),
    "store": (
        "EventFilter",
        "EventStore",
        "ToolUse",
        "Transition",
    ),
    "tagging": (
        "CACHED",
        "FALLBACK",
        "RETRY",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'twinraven.muninn' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"twinraven.muninn.{_HOME_OF[name]}"), name)
    return value
