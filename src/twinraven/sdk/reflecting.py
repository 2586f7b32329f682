"""Requests summaries, introspection notes and metrics."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any

from twinraven.foundation.clock import iso
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.reading import read
from twinraven.sdk.recalling_model import ListBody
from twinraven.sdk.reflecting_model import (
    CompressionInfo,
    IntrospectionInfo,
    MetricAggregation,
    MetricInfo,
    MetricPointInfo,
    MetricScope,
    MetricType,
    MetricValueInfo,
    ReflectionInfo,
    SummaryInfo,
)
from twinraven.sdk.server_requests import ServerRequests, stated


class ReflectionOperations(ServerRequests):
    """Summaries, introspection and metrics."""

    async def compress(
        self,
        group_id: str,
        episode_ids: Sequence[str],
        *,
        covers_up_to_turn: str | None = None,
        covers_up_to_alternative: str | None = None,
    ) -> CompressionInfo:
        """Let the process that compresses sum episodes up."""
        more = {"covers_up_to_turn": covers_up_to_turn, "covers_up_to_alternative": covers_up_to_alternative}
        body = {"group_id": group_id, "episode_ids": list(episode_ids), **stated(more)}
        return await self._make(CompressionInfo, body, "compressions")

    async def compression(self, compression_id: str) -> CompressionInfo:
        """Return the progress of a compression."""
        return read(CompressionInfo, await self._get("compressions", compression_id))

    def summaries(self, *, group_id: str | None = None, with_deleted: bool = False) -> AsyncGenerator[SummaryInfo]:
        """Summaries in the order in which they were made."""
        return self._list(SummaryInfo, "summaries", group_id=group_id, with_deleted=with_deleted)

    async def summary(self, summary_id: str) -> SummaryInfo:
        """Return one summary with its sources and contents."""
        return read(SummaryInfo, await self._get("summaries", summary_id))

    async def write_summary(
        self,
        group_id: str,
        episode_ids: Sequence[str],
        content: str,
        *,
        covers_up_to_turn: str | None = None,
        covers_up_to_alternative: str | None = None,
    ) -> SummaryInfo:
        """Write a summary by hand; for administrators."""
        more = {"covers_up_to_turn": covers_up_to_turn, "covers_up_to_alternative": covers_up_to_alternative}
        body = {"group_id": group_id, "episode_ids": list(episode_ids), "content": content, **stated(more)}
        return await self._make(SummaryInfo, body, "summaries")

    async def repair_summary(self, summary_id: str, content: str) -> SummaryInfo:
        """Bind a corrected content; for administrators."""
        return read(SummaryInfo, await self._post({"content": content}, "summaries", summary_id, "repair"))

    async def state_coverage(
        self, summary_id: str, covers_up_to_turn: str, *, covers_up_to_alternative: str | None = None
    ) -> SummaryInfo:
        """State how far a summary covers, where that is missing; for administrators."""
        more = stated({"covers_up_to_alternative": covers_up_to_alternative})
        body = {"covers_up_to_turn": covers_up_to_turn, **more}
        return read(SummaryInfo, await self._post(body, "summaries", summary_id, "coverage"))

    async def delete_summary(self, summary_id: str, *, recompress: bool = False) -> CompressionInfo | None:
        """Take a summary out of its dialogue; on request its sources are summed up again."""
        found = await self._post({"recompress": recompress}, "summaries", summary_id, "delete")
        return None if found["compression"] is None else read(CompressionInfo, found["compression"])

    def introspections(
        self, *, user_id: str | None = None, with_archived: bool = False
    ) -> AsyncGenerator[IntrospectionInfo]:
        """Return the notes of a carousel."""
        return self._list(IntrospectionInfo, "introspections", user_id=user_id, with_archived=with_archived)

    async def introspection(self, introspection_id: str) -> IntrospectionInfo:
        """Return one note with all its contents."""
        return read(IntrospectionInfo, await self._get("introspections", introspection_id))

    async def add_introspection(
        self,
        content: str,
        *,
        user_id: str | None = None,
        position: int | None = None,
        conversation_context: str | None = None,
    ) -> IntrospectionInfo:
        """Add a note by hand; what stood in its place is archived."""
        more = {"user_id": user_id, "position": position, "conversation_context": conversation_context}
        return await self._make(IntrospectionInfo, {"content": content, **stated(more)}, "introspections")

    async def correct_introspection(self, introspection_id: str, content: str) -> IntrospectionInfo:
        """Bind a corrected content to a note."""
        found = await self._post({"content": content}, "introspections", introspection_id, "correct")
        return read(IntrospectionInfo, found)

    async def delete_introspection(self, introspection_id: str) -> IntrospectionInfo:
        """Take a note out of its carousel; it is archived."""
        ask = RequestSpec("POST", path_of("introspections", introspection_id, "delete"))
        return read(IntrospectionInfo, await self._exchange.json(ask))

    async def reflections(self, *, user_id: str | None = None) -> list[ReflectionInfo]:
        """Return the reflections of the agent for a user."""
        ask = RequestSpec("GET", path_of("reflections"), stated({"user_id": user_id}))
        return [read(ReflectionInfo, item) for item in read(ListBody, await self._exchange.json(ask)).items]

    def metrics(self, *, scope: MetricScope | None = None) -> AsyncGenerator[MetricInfo]:
        """List the metric definitions."""
        return self._list(MetricInfo, "metric-definitions", scope=scope)

    async def metric(self, metric_id: str) -> MetricInfo:
        """Return one definition."""
        return read(MetricInfo, await self._get("metric-definitions", metric_id))

    async def define_metric(
        self,
        name: str,
        *,
        scope: MetricScope,
        aggregation: MetricAggregation,
        data_type: MetricType,
        description: str | None = None,
        retention_days: int | None = None,
    ) -> MetricInfo:
        """Define a metric; for administrators."""
        more = stated({"description": description, "retention_days": retention_days})
        body = {"name": name, "scope": scope, "aggregation": aggregation, "data_type": data_type, **more}
        return await self._make(MetricInfo, body, "metric-definitions")

    async def change_metric(
        self,
        metric_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        aggregation: MetricAggregation | None = None,
        retention_days: int | None = None,
    ) -> MetricInfo:
        """Change a definition; for administrators."""
        given = {
            "name": name,
            "description": description,
            "aggregation": aggregation,
            "retention_days": retention_days,
        }
        return read(MetricInfo, await self._post(stated(given), "metric-definitions", metric_id, "change"))

    async def delete_metric(self, metric_id: str, *, cascade: bool = False) -> int:
        """Delete a definition, with its values only where asked for; says how many values went along."""
        return (await self._post({"cascade": cascade}, "metric-definitions", metric_id, "delete"))["values"]

    async def report_metric(
        self,
        metric_id: str,
        entity_id: str,
        value: float | bool | datetime,
        *,
        timestamp: datetime | None = None,
        dimensions: Mapping[str, str] | None = None,
    ) -> MetricValueInfo:
        """Append a value."""
        more = stated({"timestamp": None if timestamp is None else iso(timestamp), "dimensions": dimensions})
        told = iso(value) if isinstance(value, datetime) else value
        body = {"entity_id": entity_id, "value": told, **more}
        return await self._make(MetricValueInfo, body, "metrics", metric_id, "values")

    def metric_values(
        self,
        metric_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        entity_id: str | None = None,
        dimensions: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[MetricValueInfo]:
        """Values as they were reported."""
        window = _window(since, until, entity_id, dimensions)
        return self._list(MetricValueInfo, "metrics", metric_id, "values", **window)

    async def metric_series(
        self,
        metric_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        bucket_s: int = 3600,
        entity_id: str | None = None,
        dimensions: Mapping[str, str] | None = None,
        aggregation: MetricAggregation | None = None,
    ) -> list[MetricPointInfo]:
        """Return the values summed up by stretches of time."""
        window = _window(since, until, entity_id, dimensions)
        query = stated({**window, "bucket_s": bucket_s, "aggregation": aggregation})
        ask = RequestSpec("GET", path_of("metrics", metric_id, "series"), query)
        return [read(MetricPointInfo, item) for item in read(ListBody, await self._exchange.json(ask)).items]

    async def _post(self, body: dict[str, Any], *parts: str) -> Any:
        return await self._exchange.json(RequestSpec("POST", path_of(*parts), body=body))


def _window(
    since: datetime | None, until: datetime | None, entity_id: str | None, dimensions: Mapping[str, str] | None
) -> dict[str, Any]:
    return {
        "since": None if since is None else iso(since),
        "until": None if until is None else iso(until),
        "entity_id": entity_id,
        "dimension": ",".join(f"{name}={value}" for name, value in dimensions.items()) if dimensions else None,
    }
