"""Remembers tool calls (Muninn, memory): an append-only event log, and the sessions that events form.

Calls enter through the `Collector` (or an importer) and are read through the `EventStore`. Nothing is ever changed:
links between events are derived, sessions are a projection, and a later verdict is a further record.

Names are resolved on first use: whoever only reads the log does not pay for the machinery that writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.muninn.activity import ActivityBucket, SqlActivity, TimeSpan
    from twinraven.muninn.collector import (
        Collector,
        SessionObserver,
        check_tags,
        clean_text,
        current_observer,
        encode_output,
        encode_params,
        has_odd_float,
        place_of,
        recordable_output,
        recordable_params,
    )
    from twinraven.muninn.exchange import Importer, ImportReport, export_json, open_lines
    from twinraven.muninn.formats import LineError, TraceReader
    from twinraven.muninn.formats.calls import parse_call
    from twinraven.muninn.formats.otlp_protobuf import decode_request, encode_response
    from twinraven.muninn.link_sql import LinkedEvent, event_of, events_below, events_of_session, events_of_task
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
    from twinraven.muninn.observing import observed
    from twinraven.muninn.otlp_export import export_otlp
    from twinraven.muninn.parquet import export_parquet
    from twinraven.muninn.parquet_read import CallArrays, ParquetPart, plan_parts, read_part
    from twinraven.muninn.receipt import Receipt
    from twinraven.muninn.recent_sql import RecentSession, SessionFilter
    from twinraven.muninn.retention import Retention, RetentionNote, RetentionReport, RingSigner
    from twinraven.muninn.row import EncodingRules, Redact
    from twinraven.muninn.settings import MuninnSettings, RetentionSettings
    from twinraven.muninn.span_receiver import ReceivedSpans, SpanReceiver
    from twinraven.muninn.sql import SqlEventStore
    from twinraven.muninn.store import EventFilter, EventStore, ToolHour, ToolTransition, ToolUsage
    from twinraven.muninn.tagging import CACHED, FALLBACK, RETRY
    from twinraven.muninn.tail import EventBatch, EventFollower, EventTail
    from twinraven.muninn.tool_use import count_calls, latest_uses
    from twinraven.muninn.trace_files import TraceFile, find_traces
    from twinraven.muninn.transactional_events import TransactionalEvent

__all__ = [
    "CACHED",
    "FALLBACK",
    "MAX_NAME",
    "MAX_TENANT",
    "RETRY",
    "ActivityBucket",
    "CallArrays",
    "Collector",
    "EncodingRules",
    "EventBatch",
    "EventFilter",
    "EventFollower",
    "EventStore",
    "EventTail",
    "ImportReport",
    "Importer",
    "LineError",
    "LinkedEvent",
    "MuninnEvent",
    "MuninnSettings",
    "Observation",
    "Outcome",
    "ParquetPart",
    "Receipt",
    "ReceivedSpans",
    "RecentSession",
    "Redact",
    "Retention",
    "RetentionNote",
    "RetentionReport",
    "RetentionSettings",
    "RingSigner",
    "Session",
    "SessionFilter",
    "SessionObserver",
    "SpanReceiver",
    "SqlActivity",
    "SqlEventStore",
    "TimeSpan",
    "ToolHour",
    "ToolTransition",
    "ToolUsage",
    "TraceFile",
    "TraceReader",
    "TransactionalEvent",
    "check_name",
    "check_tags",
    "check_turn",
    "clean_text",
    "count_calls",
    "current_observer",
    "decode_request",
    "encode_output",
    "encode_params",
    "encode_response",
    "event_of",
    "events_below",
    "events_of_session",
    "events_of_task",
    "export_json",
    "export_otlp",
    "export_parquet",
    "find_traces",
    "has_odd_float",
    "latest_uses",
    "observed",
    "open_lines",
    "parse_call",
    "place_of",
    "plan_parts",
    "read_part",
    "recordable_output",
    "recordable_params",
]


__getattr__ = lazy_names(__name__)
