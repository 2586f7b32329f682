"""Applies a catalogue file to a user's catalogue (create, update, delete), and exports one.

A file is applied whole or not at all. What it names and is not there is made; what it states otherwise than it is, is
changed; what it does not state stays. Nothing is removed. Applied again, a file changes nothing. A trial does all of it
inside a transaction that is taken back, so that it finds every fault that applying would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from twinraven.catalog.documents import Document
from twinraven.catalog.service_model import Service, ServiceChange, ServiceSpec, ServiceStructure
from twinraven.catalog.services import Services, service_of
from twinraven.catalog.template_model import Template, TemplateChange, TemplateKind, TemplateSpec
from twinraven.catalog.templates import Templates, tool_of
from twinraven.catalog.tool_model import Tool, ToolChange, ToolPlacement, ToolSpec
from twinraven.catalog.tools import Tools
from twinraven.catalog.transactions import CatalogTransaction, CatalogTransactions
from twinraven.catalog.yaml_file import SECTIONS, Body, CatalogFile
from twinraven.foundation.errors import Conflict, InvalidDefinition, TwinRavenError
from twinraven.foundation.predicates import json_equal
from twinraven.storage import Transaction
from twinraven.tenancy import Principal

Action = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class AppliedCatalog:
    """The outcome of applying one definition of a file, or of a dry run."""

    kind: str
    name: str
    action: Action
    fields: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "action": self.action, "fields": list(self.fields)}


class CatalogFiles:
    """Catalogues from files and to files."""

    def __init__(self, acts: CatalogTransactions, services: Services, tools: Tools, templates: Templates) -> None:
        self._acts = acts
        self._store = acts.store
        self._services = services
        self._tools = tools
        self._templates = templates

    async def apply_file(
        self,
        who: Principal,
        file: CatalogFile,
        *,
        is_new: bool = False,
        is_trial: bool = False,
        correlation_id: str | None = None,
    ) -> list[AppliedCatalog]:
        """Make what the file says true; a trial says what that would do.

        Where everything in it `is_new`, nothing that is there is changed: a name that is taken is a Conflict.
        """
        appliers: dict[str, Callable[[CatalogTransaction, Body], AppliedCatalog]] = {
            "service_templates": lambda act, body: self._apply_template(act, "service", body),
            "tool_templates": lambda act, body: self._apply_template(act, "tool", body),
            "services": self._apply_service,
            "tools": self._apply_tool,
        }

        _refuse_twins(file)

        def work(act: CatalogTransaction) -> list[AppliedCatalog]:
            done: list[AppliedCatalog] = []
            if is_new:
                self._refuse_known(act, file)
            for section in SECTIONS:
                for index, body in enumerate(file.section(section)):
                    done.append(_named(lambda: appliers[section](act, body), f"{section}[{index}]", body))  # noqa: B023
            return done

        return await self._acts.perform(who, work, correlation_id=correlation_id, is_trial=is_trial)

    async def export_file(self, who: Principal) -> CatalogFile:
        """Return all that a user owns, as a file that changes nothing where it came from."""
        return await self._acts.look(who.tenant_id, lambda tx: self._export(tx, who))

    def _refuse_known(self, act: CatalogTransaction, file: CatalogFile) -> None:
        """Raise Conflict if a service or tool of the file is there already, naming all of them."""
        services = [str(body.get("name")) for body in file.services]
        keys = [str(body.get("key")) for body in file.tools]
        taken = [f"service {name!r}" for name in services if self._services.own_named(act, name) is not None]
        taken += [f"tool {key!r}" for key in keys if self._tools.is_taken(act, key)]
        if taken:
            shown = f"{', '.join(taken[:10])}{f' and {len(taken) - 10} more' if len(taken) > 10 else ''}"
            raise Conflict(f"there is a {shown} already; nothing was changed", taken=taken)

    def _apply_template(self, act: CatalogTransaction, kind: TemplateKind, body: Body) -> AppliedCatalog:
        assert act.by is not None
        name = Document(f"{kind} template", {"name": body.get("name")}, known=("name",)).text("name")
        found = self._templates.own_named(act.tx, act.by, kind, name)
        if found is None:
            self._templates.create_in(act, TemplateSpec.from_json(kind, body))
            return AppliedCatalog(f"{kind}_template", name, "created")
        spec = TemplateSpec.from_json(kind, {**_stated(found.structure.as_json()), **body})
        structure, stated = found.structure.as_json(), spec.structure.as_json()
        fields = [name for name in structure if not json_equal(structure[name], stated[name])]
        if fields:
            raise Conflict(f"a template's structure never changes, and {', '.join(fields)} would; give it another name")
        change = TemplateChange.from_json({name: body[name] for name in ("description", "shared") if name in body})
        start = len(act.changes)
        self._templates.update_in(act, kind, found.template_id, change)
        return _outcome(act, start, f"{kind}_template", name)

    def _apply_service(self, act: CatalogTransaction, body: Body) -> AppliedCatalog:
        name = Document("service", body, known=(*ServiceSpec.FIELDS, "template")).text("name")
        found = self._services.own_named(act, name)
        template = self._template(act, "service", body)
        if found is None:
            self._require_usable(act, template)
            spec = ServiceSpec.from_json(body) if template is None else _service_from(template, body)
            self._services.create_in(act, spec, template=template)
            return AppliedCatalog("service", name, "created")
        _refuse_other_template(template, found.service_template_id)
        if template is None:
            whole = {**found.structure.as_json(), **body}
            _refuse_differences(found, ServiceStructure.of(Document("service", whole, known=ServiceSpec.FIELDS)))
        stated = {field: body[field] for field in ("connection_schema", "enabled", "shared") if field in body}
        start = len(act.changes)
        self._services.update_in(act, found.service_id, ServiceChange.from_json(stated))
        return _outcome(act, start, "service", name)

    def _apply_tool(self, act: CatalogTransaction, body: Body) -> AppliedCatalog:
        document = Document("tool", body, known=(*ToolSpec.FIELDS, "template"))
        key, service_ref = document.text("key"), document.optional_text("service")
        template = self._template(act, "tool", body)
        found = self._tools.find_in(act, key)
        if found is None or found.owner_id != act.user_id:
            self._require_usable(act, template)
            self._tools.create_in(act, _tool_from(template, body), template=template)
            return AppliedCatalog("tool", key, "created")
        _refuse_other_template(template, found.tool_template_id)
        if service_ref is not None:
            service = self._services.find_in(act.tx, act.tenant_id, act.user_id, service_ref)
            if service.service_id != found.service_id:
                raise Conflict(f"a tool's service never changes, and would become {service.name!r}", field="service")
        stated = {field: value for field, value in body.items() if field not in ("key", "service", "template")}
        start = len(act.changes)
        self._tools.update_in(act, key, ToolChange.from_json(stated))
        return _outcome(act, start, "tool", key)

    def _template(self, act: CatalogTransaction, kind: TemplateKind, body: Body) -> Template | None:
        ref = Document(kind, {"template": body.get("template")}, known=("template",)).optional_text("template")
        assert act.by is not None
        return None if ref is None else self._templates.find_in(act.tx, act.by, kind, ref)

    def _require_usable(self, act: CatalogTransaction, template: Template | None) -> None:
        if template is not None:
            self._templates.usable_in(act, template.kind, template.template_id)

    def _export(self, tx: Transaction, who: Principal) -> CatalogFile:
        def templates(kind: TemplateKind) -> tuple[Body, ...]:
            found = self._store.templates(tx, who.tenant_id, kind)
            return tuple(_template_body(each) for each in found if each.owner_id == who.user_id and not each.archived)

        services = self._store.services(tx, who.tenant_id)
        names = {each.service_id: each.name for each in services if each.owner_id == who.user_id}
        tools = [tool for tool in self._store.tools(tx, who.tenant_id) if tool.owner_id == who.user_id]
        return CatalogFile(
            service_templates=templates("service"),
            tool_templates=templates("tool"),
            services=tuple(_service_body(each) for each in services if each.service_id in names),
            tools=tuple(
                _tool_body(tool, names.get(tool.service_id, tool.service_id), self._tools.secret_name(tx, tool))
                for tool in tools
            ),
        )


def _refuse_twins(file: CatalogFile) -> None:
    """Raise if a file defines one thing twice: one of the two would be lost without a word."""
    for section in SECTIONS:
        label = "key" if section == "tools" else "name"
        seen: dict[str, int] = {}
        for index, body in enumerate(file.section(section)):
            name = body.get(label)
            if not isinstance(name, str):
                continue
            if name in seen:
                raise InvalidDefinition(
                    f"{section}[{seen[name]}] and {section}[{index}] have the same {label}, {name!r}; "
                    "keep one of them or give it another",
                    field=f"{section}[{index}].{label}",
                )
            seen[name] = index


def _named(work: Callable[[], AppliedCatalog], where: str, body: Body) -> AppliedCatalog:
    """Do something for one definition; its errors say which one."""
    try:
        return work()
    except TwinRavenError as error:
        label = body.get("key") or body.get("name")
        place = f"{where} ({label})" if isinstance(label, str) else where
        raise type(error)(f"{place}: {error.message}", **{**error.details, "definition": place}) from error


def _outcome(act: CatalogTransaction, start: int, kind: str, name: str) -> AppliedCatalog:
    told = act.changes[start:]
    return (
        AppliedCatalog(kind, name, "updated", tuple(told[0].data["fields"]))
        if told
        else AppliedCatalog(kind, name, "unchanged")
    )


def _service_from(template: Template, body: Body) -> ServiceSpec:
    document = Document("service made from a template", body, known=("name", "template", "enabled", "shared"))
    return service_of(
        template,
        document.text("name"),
        enabled=document.flag("enabled", default=True),
        shared=document.flag("shared", default=False),
    )


def _tool_from(template: Template | None, body: Body) -> ToolSpec:
    if template is None:
        return ToolSpec.from_json({name: value for name, value in body.items() if name != "template"})
    known = (*ToolPlacement.FIELDS, "template")
    return tool_of(template, ToolPlacement.of(Document("tool made from a template", body, known=known)))


def _refuse_other_template(template: Template | None, provenance: str | None) -> None:
    if template is not None and template.template_id != provenance:
        raise Conflict(f"it was not made from the template {template.name!r}, and that never changes", field="template")


def _refuse_differences(found: Service, stated: ServiceStructure) -> None:
    old, new = found.structure.as_json(), stated.as_json()
    for name in ("type", "protocol", "requires_secret"):
        if old[name] != new[name]:
            raise Conflict(f"{name} of a service never changes, and would from {old[name]} to {new[name]}", field=name)


def _template_body(template: Template) -> Body:
    return _stated(
        {
            "name": template.name,
            "description": template.description,
            "shared": template.shared,
            **template.structure.as_json(),
        }
    )


def _service_body(service: Service) -> Body:
    return {
        "name": service.name,
        **service.structure.as_json(),
        "enabled": service.enabled,
        "shared": service.shared,
    }


def _tool_body(tool: Tool, service: str, secret: str | None) -> Body:
    return _stated(
        {
            "key": tool.key,
            "name": tool.name,
            "description": tool.description,
            "service": service,
            "connection_params": tool.connection_params,
            "secret": secret,
            "secret_scope": tool.secret_scope,
            **tool.structure.as_json(),
            "enabled": tool.enabled,
            "shared": tool.shared,
        }
    )


def _stated(body: Body) -> Body:
    return {name: value for name, value in body.items() if value is not None}
