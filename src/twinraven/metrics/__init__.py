"""Metrics: what services, tools, processes and conversations report, typed, never changed, summed up by time.

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
    MetricValue,
    MetricWish,
    Scope,
    SeriesWish,
)
from twinraven.metrics.service import Collected, Figure, Metrics

__all__ = [
    "AGGREGATIONS",
    "DATA_TYPES",
    "SCOPES",
    "Aggregation",
    "Collected",
    "DataType",
    "Figure",
    "MetricDefinition",
    "MetricPoint",
    "MetricValue",
    "MetricWish",
    "Metrics",
    "Scope",
    "SeriesWish",
]
