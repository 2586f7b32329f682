"""Models metric definitions, values and time series. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, cast, get_args

from twinraven.foundation.clock import from_micros, iso, parse_iso, to_micros
from twinraven.foundation.errors import InvalidInput

Scope = Literal["service", "tool", "process", "conversation"]
Aggregation = Literal["sum", "avg", "min", "max", "count", "last"]
DataType = Literal["integer", "float", "boolean", "timestamp"]

SCOPES: Final[tuple[str, ...]] = get_args(Scope)
AGGREGATIONS: Final[tuple[str, ...]] = get_args(Aggregation)
DATA_TYPES: Final[tuple[str, ...]] = get_args(DataType)
LARGEST_INTEGER: Final = 2**53
"""Whole numbers beyond this would lose their last digits."""
MOST_DIMENSIONS: Final = 16
LONGEST_NAME: Final = 200
LONGEST_DESCRIPTION: Final = 2_000
_NEVER_SUMMED: Final = ("sum", "avg")


@dataclass(frozen=True, slots=True)
class MetricRequest:
    """A request to define a metric."""

    name: str
    scope: Scope
    aggregation: Aggregation
    data_type: DataType
    description: str = ""
    retention_days: int | None = None

    def __post_init__(self) -> None:
        check_label(self.name, field="name")
        for name, allowed in (("scope", SCOPES), ("aggregation", AGGREGATIONS), ("data_type", DATA_TYPES)):
            if getattr(self, name) not in allowed:
                raise InvalidInput(f"{name} must be one of {', '.join(allowed)}", field=name)
        if len(self.description) > LONGEST_DESCRIPTION or "\0" in self.description:
            raise InvalidInput(
                f"description has at most {LONGEST_DESCRIPTION} characters, without NUL", field="description"
            )
        check_retention(self.retention_days)
        check_aggregation(self.data_type, self.aggregation)


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric that services, tools, processes or conversations report."""

    metric_id: str
    name: str
    description: str
    scope: Scope
    aggregation: Aggregation
    data_type: DataType
    retention_days: int | None
    created_at: datetime
    updated_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "metric_id": self.metric_id,
            "name": self.name,
            "description": self.description,
            "scope": self.scope,
            "aggregation": self.aggregation,
            "data_type": self.data_type,
            "retention_days": self.retention_days,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One measurement of one service, tool, process or conversation."""

    value_id: str
    metric_id: str
    entity_id: str
    value: int | float | bool | str
    """Typed as the definition says; a timestamp is ISO 8601."""
    timestamp: datetime
    dimensions: Mapping[str, str] = field(default_factory=dict[str, str])

    def as_json(self) -> dict[str, Any]:
        return {
            "value_id": self.value_id,
            "metric_id": self.metric_id,
            "entity_id": self.entity_id,
            "value": self.value,
            "timestamp": iso(self.timestamp),
            "dimensions": dict(self.dimensions),
        }


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """The values of one stretch of time, summed up."""

    start: datetime
    value: int | float | bool | str
    count: int

    def as_json(self) -> dict[str, Any]:
        return {"start": iso(self.start), "value": self.value, "count": self.count}


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """A query for a time series, in buckets of so many seconds."""

    since: datetime
    until: datetime
    bucket_s: int
    entity_id: str | None = None
    dimensions: Mapping[str, str] = field(default_factory=dict[str, str])
    aggregation: Aggregation | None = None
    """Another than the definition's."""


def to_number(value: Any, data_type: DataType) -> float:
    """Return a value as it is stored, or InvalidInput where it is of another type."""
    if data_type == "boolean":
        if not isinstance(value, bool):
            raise InvalidInput("value must be true or false, as the metric's data_type is boolean", field="value")
        return float(value)
    if data_type == "timestamp":
        moment = value if isinstance(value, datetime) else parse_iso(_text(value), field="value")
        return float(to_micros(moment, field="value"))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"value must be a number, as the metric's data_type is {data_type}", field="value")
    if data_type == "integer" and (not isinstance(value, int) or abs(value) > LARGEST_INTEGER):
        raise InvalidInput(
            "value must be a whole number below 2^53, as the metric's data_type is integer", field="value"
        )
    if not math.isfinite(value):
        raise InvalidInput("value must be finite", field="value")
    return float(value)


def from_number(stored: float, data_type: DataType, aggregation: str) -> int | float | bool | str:
    """Return a stored or summed-up number in the form of its type."""
    if aggregation == "count":
        return int(stored)
    if aggregation == "avg":
        return stored
    if data_type == "boolean":
        return int(stored) if aggregation == "sum" else bool(stored)
    if data_type == "timestamp":
        return iso(from_micros(int(stored)))
    return int(stored) if data_type == "integer" else stored


def check_dimensions(given: Any) -> dict[str, str]:
    """Names and texts to filter by, such as a user's id."""
    if not isinstance(given, Mapping):
        raise InvalidInput("dimensions must be an object of texts", field="dimensions")
    found = cast("Mapping[Any, Any]", given)
    if len(found) > MOST_DIMENSIONS:
        raise InvalidInput(f"at most {MOST_DIMENSIONS} dimensions", field="dimensions")
    for name, value in found.items():
        check_label(name, field="dimensions")
        check_label(value, field=f"dimensions.{name}")
    return {str(name): str(value) for name, value in found.items()}


def check_label(value: Any, *, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{field} is empty or no text; give a string", field=field)
    if len(value) > LONGEST_NAME or "\0" in value:
        raise InvalidInput(f"{field} has at most {LONGEST_NAME} characters, without NUL", field=field)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field} holds a lone surrogate; remove it", field=field) from error
    return value


def check_retention(days: int | None) -> None:
    if days is not None and (isinstance(days, bool) or not 1 <= days <= 36_500):
        raise InvalidInput("retention_days must be 1 to 36500, or left out", field="retention_days")


def check_aggregation(data_type: str, aggregation: str) -> None:
    if data_type == "timestamp" and aggregation in _NEVER_SUMMED:
        raise InvalidInput(f"timestamps have no {aggregation}; choose min, max, count or last", field="aggregation")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput("value must be an ISO 8601 time, as the metric's data_type is timestamp", field="value")
    return value
