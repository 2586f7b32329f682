"""Serves services, the endpoints of data-defined tools, and their health checks."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from twinraven.api.definitions import SERVICE, SERVICE_CHANGE
from twinraven.api.owned_items import change, creation, deletion, reading
from twinraven.api.schemas import FLAG, NUMBER_OR_NULL, TEXT, TIME, WHOLE, form, listing, ref
from twinraven.api.time_spans import SPAN, asked_span
from twinraven.catalog import CHECKS_KEPT, Service, ServiceChange, ServiceSpec
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import iso
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, expected_version, slice_of

ROUTES: Final = RouteTable()
_COUNT: Final = {"type": "integer", "minimum": 0}
_PLACE: Final = "/v1/services/{id}"


@ROUTES.handles(
    Route(
        "GET",
        "/v1/services",
        "listServices",
        "One's own services and those that are shared",
        listing("Service"),
        is_paged=True,
    )
)
async def list_services(request: Request) -> Response:
    found = await request.raven.defined.services.services(request.who)
    return Response(page=slice_of(found, request.query, key=lambda each: each.service_id, show=Service.as_json))


@ROUTES.handles(
    creation("/v1/services", "createService", "Define a service", "Service", SERVICE, Conflict, location=_PLACE)
)
async def create_service(request: Request) -> Response:
    made = await request.raven.defined.services.create(
        request.who, ServiceSpec.from_json(request.body), correlation_id=request.correlation_id
    )
    return _shown(made, status=201)


@ROUTES.handles(reading("/v1/services/{service_id}", "showService", "One service with its schema", "Service"))
async def show_service(request: Request) -> Response:
    return _shown(await request.raven.defined.services.service(request.who, request.path["service_id"]))


@ROUTES.handles(change("/v1/services/{service_id}", "changeService", "Change a service", "Service", SERVICE_CHANGE))
async def change_service(request: Request) -> Response:
    changed = await request.raven.defined.services.update(
        request.who,
        request.path["service_id"],
        ServiceChange.from_json(request.body),
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return _shown(changed)


@ROUTES.handles(deletion("/v1/services/{service_id}", "deleteService", "Delete a service that no tool uses"))
async def delete_service(request: Request) -> Response:
    await request.raven.defined.services.delete(
        request.who,
        request.path["service_id"],
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return Response(status=204)


@ROUTES.handles(
    Route(
        "POST",
        "/v1/services/{service_id}/checks",
        "checkService",
        "Look whether a service is there, now",
        ref("Service"),
        errors=(NotFound, Conflict, PolicyViolation),
        is_tagged=True,
    )
)
async def check_service(request: Request) -> Response:
    return _shown(await request.raven.defined.health.check_health(request.who, request.path["service_id"]))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/health-history",
        "showHealthHistory",
        "What checks of one's services found over time, and how long they took",
        form(
            {
                "since": TIME,
                "until": TIME,
                "bucket_s": WHOLE,
                "items": {
                    "type": "array",
                    "items": form(
                        {
                            "service_id": {"type": "string"},
                            "name": {"type": "string"},
                            "checks": _COUNT,
                            "healthy": _COUNT,
                            "p50_ms": NUMBER_OR_NULL,
                            "p95_ms": NUMBER_OR_NULL,
                            "buckets": {
                                "type": "array",
                                "items": form(
                                    {
                                        "begins_at": TIME,
                                        "checks": _COUNT,
                                        "healthy": _COUNT,
                                        "degraded": _COUNT,
                                        "down": _COUNT,
                                    }
                                ),
                            },
                        }
                    ),
                },
            }
        ),
        query=(
            *SPAN,
            QueryParameter(
                "bucket_s",
                {"type": "integer", "minimum": 60, "maximum": 86_400 * 7, "default": 3_600},
                "how many seconds are counted together",
            ),
        ),
        note="Checks are kept for a week. `p50_ms` and `p95_ms` are those of checks that got an answer.",
    )
)
async def show_health_history(request: Request) -> Response:
    span, width_s = asked_span(request, longest=CHECKS_KEPT), int(request.query["bucket_s"])
    found = await request.raven.defined.health.history(
        request.who, span.since, span.until, width=timedelta(seconds=width_s)
    )
    items: list[JsonObject] = [
        {"service_id": service.service_id, "name": service.name, **summary.as_json()} for service, summary in found
    ]
    return Response({"since": iso(span.since), "until": iso(span.until), "bucket_s": width_s, "items": items})


@ROUTES.handles(
    creation(
        "/v1/service-templates/{template_id}/services",
        "makeService",
        "Make a service from a template",
        "Service",
        form({"name": TEXT}, optional={"enabled": FLAG, "shared": FLAG}),
        NotFound,
        Conflict,
        location=_PLACE,
    )
)
async def make_service(request: Request) -> Response:
    body = request.body
    made = await request.raven.defined.templates.make_service(
        request.who,
        request.path["template_id"],
        body["name"],
        enabled=body.get("enabled", True),
        shared=body.get("shared", False),
        correlation_id=request.correlation_id,
    )
    return _shown(made, status=201)


def _shown(service: Service, *, status: int = 200) -> Response:
    return Response(service.as_json(), status=status, tag=str(service.state_version))
