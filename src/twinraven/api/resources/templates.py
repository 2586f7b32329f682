"""Templates of services and of tools. Deleting one is archiving it: it leaves the lists and can still be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from twinraven.api.contract import Answer, Parameter, Request, Route
from twinraven.api.definitions import TEMPLATE_CHANGE, TEMPLATES
from twinraven.api.forms import FLAG, expected_version, listing, ref
from twinraven.api.pages import slice_of
from twinraven.catalog import Template, TemplateChange, TemplateKind, TemplateSpec
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation, StaleState


async def list_templates(request: Request, *, kind: TemplateKind) -> Answer:
    archived = bool(request.query["includeArchived"])
    found = await request.raven.defined.templates.templates(request.who, kind, include_archived=archived)
    return Answer(page=slice_of(found, request.query, key=lambda each: each.template_id, show=Template.as_json))


async def create_template(request: Request, *, kind: TemplateKind) -> Answer:
    spec = TemplateSpec.from_json(kind, request.body)
    made = await request.raven.defined.templates.create(request.who, spec, correlation_id=request.correlation_id)
    return _shown(made, status=201)


async def show_template(request: Request, *, kind: TemplateKind) -> Answer:
    return _shown(await request.raven.defined.templates.template(request.who, kind, request.path["template_id"]))


async def change_template(request: Request, *, kind: TemplateKind) -> Answer:
    return _shown(await _change(request, kind, TemplateChange.from_json(request.body)))


async def archive_template(request: Request, *, kind: TemplateKind) -> Answer:
    await _change(request, kind, TemplateChange(archived=True))
    return Answer(status=204)


async def _change(request: Request, kind: TemplateKind, change: TemplateChange) -> Template:
    return await request.raven.defined.templates.update(
        request.who,
        kind,
        request.path["template_id"],
        change,
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )


def _shown(template: Template, *, status: int = 200) -> Answer:
    return Answer(template.as_json(), status=status, tag=str(template.state_version))


def _routes(kind: TemplateKind) -> Iterator[Route]:
    base, noun = f"/v1/{kind}-templates", f"{kind.capitalize()}Template"
    yield Route(
        "GET",
        base,
        f"list{noun}s",
        f"Blueprints of {kind}s",
        partial(list_templates, kind=kind),
        listing("Template"),
        query=(Parameter("includeArchived", {**FLAG, "default": False}, "show archived ones, too"),),
        is_paged=True,
    )
    yield Route(
        "POST",
        base,
        f"create{noun}",
        f"Make a blueprint of {kind}s",
        partial(create_template, kind=kind),
        ref("Template"),
        status=201,
        body=TEMPLATES[kind],
        errors=(Conflict, PolicyViolation) if kind == "tool" else (Conflict,),
        is_tagged=True,
        takes_key=True,
    )
    yield Route(
        "GET",
        f"{base}/{{template_id}}",
        f"show{noun}",
        f"One blueprint of {kind}s, archived or not",
        partial(show_template, kind=kind),
        ref("Template"),
        errors=(NotFound,),
        is_tagged=True,
    )
    yield Route(
        "PATCH",
        f"{base}/{{template_id}}",
        f"change{noun}",
        f"Rename, share or archive a blueprint of {kind}s",
        partial(change_template, kind=kind),
        ref("Template"),
        body=TEMPLATE_CHANGE,
        errors=(NotFound, Conflict, StaleState, PolicyViolation),
        is_tagged=True,
        matching="must",
    )
    yield Route(
        "DELETE",
        f"{base}/{{template_id}}",
        f"archive{noun}",
        f"Archive a blueprint of {kind}s",
        partial(archive_template, kind=kind),
        None,
        status=204,
        errors=(NotFound, Conflict, StaleState, PolicyViolation),
        matching="must",
    )


ROUTES: Sequence[Route] = (*_routes("service"), *_routes("tool"))
