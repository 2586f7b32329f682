"""Serves metric definitions, reported values and their aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from twinraven.api.schemas import FLAG, TEXT, TIME, form, listing, ref
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound
from twinraven.metrics import (
    AGGREGATIONS,
    DATA_TYPES,
    SCOPES,
    MetricDefinition,
    MetricRequest,
    MetricValue,
    SeriesQuery,
    check_series,
)
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, page_of

ROUTES: Final = RouteTable()
_LABEL: Final = {**TEXT, "maxLength": 200}
_DESCRIPTION: Final = {"type": "string", "maxLength": 2_000, "pattern": "^[^\\u0000]*$"}
_DAYS: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": 36_500}
_VALUE: Final = {"type": ["number", "boolean", "string"]}
_DIMENSIONS: Final = {"type": "object", "additionalProperties": _LABEL, "maxProperties": 16}
_WINDOW: Final = (
    QueryParameter("since", TIME, "from this time on; by default a day before `until`"),
    QueryParameter("until", TIME, "before this time; by default now"),
    QueryParameter("entity_id", TEXT, "only of this service, tool, process or conversation"),
    QueryParameter("dimension", TEXT, "only with this dimension, as name=value; several are separated by commas"),
)
_DAY: Final = timedelta(days=1)
_PATIENCE_S: Final = 1.0
"""How long a request waits for the system's own figures; they are collected all the same."""


@ROUTES.handles(
    Route(
        "GET",
        "/v1/metric-definitions",
        "listMetricDefinitions",
        "What is measured, by scope and name",
        listing("MetricDefinition"),
        query=(QueryParameter("scope", {"enum": list(SCOPES)}, "only of this scope"),),
        is_paged=True,
    )
)
async def list_definitions(request: Request) -> Response:
    limit = int(request.query["limit"])
    found = await request.raven.metrics.definitions(
        request.tenant_id, scope=request.query.get("scope"), limit=limit + 1, after=_after(request)
    )
    return Response(page=page_of(found, limit, place=lambda each: [each.metric_id], show=MetricDefinition.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/metric-definitions",
        "defineMetric",
        "Define a metric; its name is unique within its scope",
        ref("MetricDefinition"),
        status=201,
        body=form(
            {
                "name": _LABEL,
                "scope": {"enum": list(SCOPES)},
                "aggregation": {"enum": list(AGGREGATIONS)},
                "data_type": {"enum": list(DATA_TYPES)},
            },
            optional={"description": _DESCRIPTION, "retention_days": _DAYS},
        ),
        errors=(Conflict,),
        takes_key=True,
        admin=True,
        screened=True,
    )
)
async def define_metric(request: Request) -> Response:
    made = await request.raven.metrics.define(MetricRequest(**request.body), by=request.who)
    return Response(made.as_json(), status=201)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/metric-definitions/{metric_id}",
        "showMetricDefinition",
        "One definition",
        ref("MetricDefinition"),
        errors=(NotFound,),
    )
)
async def show_definition(request: Request) -> Response:
    return Response((await request.raven.metrics.definition(request.tenant_id, request.path["metric_id"])).as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/metric-definitions/{metric_id}/change",
        "changeMetric",
        "Change a definition; scope and type never change",
        ref("MetricDefinition"),
        body=form(
            {},
            optional={
                "name": _LABEL,
                "description": _DESCRIPTION,
                "aggregation": {"enum": list(AGGREGATIONS)},
                "retention_days": _DAYS,
            },
        ),
        errors=(NotFound, Conflict),
        admin=True,
        screened=True,
    )
)
async def change_metric(request: Request) -> Response:
    body = dict(request.body)
    forever = "retention_days" in body and body["retention_days"] is None
    changed = await request.raven.metrics.change(
        request.path["metric_id"], by=request.who, keeps_for_good=forever, **body
    )
    return Response(changed.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/metric-definitions/{metric_id}/delete",
        "deleteMetric",
        "Delete a definition; its values go along only with `cascade`",
        form({"values": {"type": "integer", "minimum": 0}}),
        body=form({}, optional={"cascade": FLAG}),
        errors=(NotFound, Conflict),
        admin=True,
    )
)
async def delete_metric(request: Request) -> Response:
    removed = await request.raven.metrics.delete(
        request.path["metric_id"], by=request.who, cascade=request.body.get("cascade", False)
    )
    return Response({"values": removed})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/metrics/{metric_id}/values",
        "reportMetric",
        "Append a value; it never changes",
        ref("MetricValue"),
        status=201,
        body=form({"entity_id": _LABEL, "value": _VALUE}, optional={"timestamp": TIME, "dimensions": _DIMENSIONS}),
        errors=(NotFound,),
        takes_key=True,
        screened=True,
    )
)
async def report_metric(request: Request) -> Response:
    body = request.body
    made = await request.raven.metrics.report(
        request.tenant_id,
        request.path["metric_id"],
        body["entity_id"],
        body["value"],
        at=parse_iso(body["timestamp"], field="timestamp") if "timestamp" in body else None,
        dimensions=body.get("dimensions"),
    )
    return Response(made.as_json(), status=201)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/metrics/{metric_id}/values",
        "listMetricValues",
        "Values as they were reported, in the order of their time",
        listing("MetricValue"),
        query=_WINDOW,
        is_paged=True,
        errors=(NotFound,),
    )
)
async def list_values(request: Request) -> Response:
    limit = int(request.query["limit"])
    found = await request.raven.metrics.values(
        request.tenant_id, request.path["metric_id"], _wish(request.query), limit=limit + 1, after=_after(request)
    )
    return Response(page=page_of(found, limit, place=lambda each: [each.value_id], show=MetricValue.as_json))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/metrics/{metric_id}/series",
        "showMetricSeries",
        "The values summed up by stretches of time",
        form({"items": {"type": "array", "items": ref("MetricPoint")}, "is_counting": FLAG}),
        query=(
            *_WINDOW,
            QueryParameter("bucket_s", {"type": "integer", "minimum": 1}, "seconds of one stretch; 3600 by default"),
            QueryParameter("aggregation", {"enum": list(AGGREGATIONS)}, "another than the definition's"),
        ),
        errors=(NotFound,),
        note="Stretches without values are left out. `is_counting` says that calls are recorded which the system's own "
        "figures do not hold yet.",
    )
)
async def show_series(request: Request) -> Response:
    metrics = request.raven.metrics
    wish = _wish(request.query)
    check_series(wish)
    is_counting = not await metrics.collect_within(request.tenant_id, _PATIENCE_S)
    found = await metrics.series(request.tenant_id, request.path["metric_id"], wish, collects=False)
    return Response({"items": [each.as_json() for each in found], "is_counting": is_counting})


def _wish(query: Mapping[str, Any]) -> SeriesQuery:
    until = parse_iso(query["until"], field="until") if "until" in query else datetime.now(UTC) + timedelta(seconds=1)
    since = parse_iso(query["since"], field="since") if "since" in query else until - _DAY
    return SeriesQuery(
        since,
        until,
        int(query.get("bucket_s", 3600)),
        query.get("entity_id"),
        dict(_pair(each) for each in query["dimension"].split(",")) if "dimension" in query else {},
        query.get("aggregation"),
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise InvalidInput("dimension is written name=value", field="dimension")
    return name.strip(), value.strip()


def _after(request: Request) -> str | None:
    return request.query["cursor"][0] if "cursor" in request.query else None
