"""Keeps metrics that services, tools, processes and conversations report: typed, immutable, aggregated by time.

The system's own figures (calls, turns saved, run and queue times, tokens, cost) are metrics like any other: whoever
measures them is a source, read from where it was left, so that nothing is counted twice and no call waits for it.
"""

from __future__ import annotations

from twinraven.metrics.model import (
    AGGREGATIONS,
    DATA_TYPES,
    SCOPES,
    Aggregation,
    DataType,
    MetricDefinition,
    MetricPoint,
    MetricRequest,
    MetricValue,
    Scope,
    SeriesQuery,
)
from twinraven.metrics.service import CollectedMeasurements, Metrics, SystemMeasurement, check_series

__all__ = [
    "AGGREGATIONS",
    "DATA_TYPES",
    "SCOPES",
    "Aggregation",
    "CollectedMeasurements",
    "DataType",
    "MetricDefinition",
    "MetricPoint",
    "MetricRequest",
    "MetricValue",
    "Metrics",
    "Scope",
    "SeriesQuery",
    "SystemMeasurement",
    "check_series",
]
