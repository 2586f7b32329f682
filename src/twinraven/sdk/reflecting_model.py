"""Models summaries, notes and metrics, as a client reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from twinraven.sdk.model import JsonObject

MetricScope = Literal["service", "tool", "process", "conversation"]
MetricAggregation = Literal["sum", "avg", "min", "max", "count", "last"]
MetricType = Literal["integer", "float", "boolean", "timestamp"]


@dataclass(frozen=True, slots=True)
class CompressionInfo:
    """Work that makes a summary, under way or done."""

    compression_id: str
    group_id: str
    number: int
    state: str
    created_at: datetime
    summary_id: str | None = None
    error: str | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SummaryInfo:
    """A compressed form of several episodes."""

    summary_id: str
    group_id: str
    level: int
    content: str
    token_count: int
    process_id: str
    process_version: int
    created_at: datetime
    sources: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    covers_up_to_turn: str | None = None
    covers_up_to_alternative: str | None = None
    run_id: str | None = None
    created_by: str | None = None
    deleted_at: datetime | None = None
    contents: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class IntrospectionInfo:
    """A note about a user, in its place of the carousel or archived."""

    introspection_id: str
    user_id: str
    position: int
    number: int
    content: str
    made_by: str
    created_at: datetime
    conversation_context: str | None = None
    archived_at: datetime | None = None
    archived_because: str | None = None
    contents: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class ReflectionInfo:
    """The report of a reflection."""

    reflection_id: str
    user_id: str
    group_id: str
    first_compression: int
    last_compression: int
    replaces: int
    state: str
    created_at: datetime
    error: str | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric definition."""

    metric_id: str
    name: str
    description: str
    scope: str
    aggregation: str
    data_type: str
    created_at: datetime
    updated_at: datetime
    retention_days: int | None = None


@dataclass(frozen=True, slots=True)
class MetricValueInfo:
    """One measurement."""

    value_id: str
    metric_id: str
    entity_id: str
    value: Any
    timestamp: datetime
    dimensions: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class MetricPointInfo:
    """The values of one stretch of time, summed up."""

    start: datetime
    value: Any
    count: int
