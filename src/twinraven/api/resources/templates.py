"""Serves templates of services and tools. Deleting archives: the template leaves the lists and can still be read."""

from __future__ import annotations

from functools import partial
from typing import Final

from twinraven.api.definitions import TEMPLATE_CHANGE, TEMPLATES
from twinraven.api.owned_items import change, creation, deletion, reading
from twinraven.api.schemas import FLAG, listing
from twinraven.catalog import Template, TemplateChange, TemplateKind, TemplateSpec
from twinraven.foundation.errors import Conflict, PolicyViolation
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, expected_version, slice_of

ROUTES: Final = RouteTable()


async def list_templates(request: Request, *, kind: TemplateKind) -> Response:
    archived = bool(request.query["includeArchived"])
    found = await request.raven.defined.templates.templates(request.who, kind, include_archived=archived)
    return Response(page=slice_of(found, request.query, key=lambda each: each.template_id, show=Template.as_json))


async def create_template(request: Request, *, kind: TemplateKind) -> Response:
    spec = TemplateSpec.from_json(kind, request.body)
    made = await request.raven.defined.templates.create(request.who, spec, correlation_id=request.correlation_id)
    return _shown(made, status=201)


async def show_template(request: Request, *, kind: TemplateKind) -> Response:
    return _shown(await request.raven.defined.templates.template(request.who, kind, request.path["template_id"]))


async def change_template(request: Request, *, kind: TemplateKind) -> Response:
    return _shown(await _change(request, kind, TemplateChange.from_json(request.body)))


async def archive_template(request: Request, *, kind: TemplateKind) -> Response:
    await _change(request, kind, TemplateChange(archived=True))
    return Response(status=204)


async def _change(request: Request, kind: TemplateKind, change: TemplateChange) -> Template:
    return await request.raven.defined.templates.update(
        request.who,
        kind,
        request.path["template_id"],
        change,
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )


def _shown(template: Template, *, status: int = 200) -> Response:
    return Response(template.as_json(), status=status, tag=str(template.state_version))


def _declare(kind: TemplateKind) -> None:
    """Declare the routes of one kind of template."""
    base, noun = f"/v1/{kind}-templates", f"{kind.capitalize()}Template"
    item = f"{base}/{{template_id}}"
    listed = Route(
        "GET",
        base,
        f"list{noun}s",
        f"Blueprints of {kind}s",
        listing("Template"),
        query=(QueryParameter("includeArchived", {**FLAG, "default": False}, "show archived ones, too"),),
        is_paged=True,
    )
    errors = (Conflict, PolicyViolation) if kind == "tool" else (Conflict,)
    made = creation(
        base,
        f"create{noun}",
        f"Make a blueprint of {kind}s",
        "Template",
        TEMPLATES[kind],
        *errors,
        location=f"{base}/{{id}}",
    )
    shown = reading(item, f"show{noun}", f"One blueprint of {kind}s, archived or not", "Template")
    summary = f"Rename, share or archive a blueprint of {kind}s"
    changed = change(item, f"change{noun}", summary, "Template", TEMPLATE_CHANGE)
    archived = deletion(item, f"archive{noun}", f"Archive a blueprint of {kind}s")
    ROUTES.handles(listed)(partial(list_templates, kind=kind))
    ROUTES.handles(made)(partial(create_template, kind=kind))
    ROUTES.handles(shown)(partial(show_template, kind=kind))
    ROUTES.handles(changed)(partial(change_template, kind=kind))
    ROUTES.handles(archived)(partial(archive_template, kind=kind))


for _kind in ("service", "tool"):
    _declare(_kind)
