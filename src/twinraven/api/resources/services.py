"""Services: the endpoints that data-defined tools reach, and whether they are there."""

from __future__ import annotations

from collections.abc import Sequence

from twinraven.api.contract import Answer, Request, Route
from twinraven.api.definitions import SERVICE, SERVICE_CHANGE
from twinraven.api.forms import FLAG, TEXT, expected_version, form, listing, ref
from twinraven.api.pages import slice_of
from twinraven.catalog import Service, ServiceChange, ServiceSpec
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation, StaleState


async def list_services(request: Request) -> Answer:
    found = await request.raven.defined.services.services(request.who)
    return Answer(page=slice_of(found, request.query, key=lambda each: each.service_id, show=Service.as_json))


async def create_service(request: Request) -> Answer:
    made = await request.raven.defined.services.create(
        request.who, ServiceSpec.from_json(request.body), correlation_id=request.correlation_id
    )
    return _shown(made, status=201)


async def show_service(request: Request) -> Answer:
    return _shown(await request.raven.defined.services.service(request.who, request.path["service_id"]))


async def change_service(request: Request) -> Answer:
    changed = await request.raven.defined.services.update(
        request.who,
        request.path["service_id"],
        ServiceChange.from_json(request.body),
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return _shown(changed)


async def delete_service(request: Request) -> Answer:
    await request.raven.defined.services.delete(
        request.who,
        request.path["service_id"],
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return Answer(status=204)


async def check_service(request: Request) -> Answer:
    return _shown(await request.raven.defined.health.check_health(request.who, request.path["service_id"]))


async def make_service(request: Request) -> Answer:
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


def _shown(service: Service, *, status: int = 200) -> Answer:
    return Answer(service.as_json(), status=status, tag=str(service.state_version))


ROUTES: Sequence[Route] = (
    Route(
        "GET",
        "/v1/services",
        "listServices",
        "One's own services and those that are shared",
        list_services,
        listing("Service"),
        is_paged=True,
    ),
    Route(
        "POST",
        "/v1/services",
        "createService",
        "Define a service",
        create_service,
        ref("Service"),
        status=201,
        body=SERVICE,
        errors=(Conflict,),
        is_tagged=True,
        takes_key=True,
    ),
    Route(
        "GET",
        "/v1/services/{service_id}",
        "showService",
        "One service with its schema",
        show_service,
        ref("Service"),
        errors=(NotFound,),
        is_tagged=True,
    ),
    Route(
        "PATCH",
        "/v1/services/{service_id}",
        "changeService",
        "Change a service",
        change_service,
        ref("Service"),
        body=SERVICE_CHANGE,
        errors=(NotFound, Conflict, StaleState, PolicyViolation),
        is_tagged=True,
        matching="must",
    ),
    Route(
        "DELETE",
        "/v1/services/{service_id}",
        "deleteService",
        "Delete a service that no tool uses",
        delete_service,
        None,
        status=204,
        errors=(NotFound, Conflict, StaleState, PolicyViolation),
        matching="must",
    ),
    Route(
        "POST",
        "/v1/services/{service_id}/checks",
        "checkService",
        "Look whether a service is there, now",
        check_service,
        ref("Service"),
        errors=(NotFound, Conflict, PolicyViolation),
        is_tagged=True,
    ),
    Route(
        "POST",
        "/v1/service-templates/{template_id}/services",
        "makeService",
        "Make a service from a template",
        make_service,
        ref("Service"),
        status=201,
        body=form({"name": TEXT}, optional={"enabled": FLAG, "shared": FLAG}),
        errors=(NotFound, Conflict),
        is_tagged=True,
        takes_key=True,
    ),
)
