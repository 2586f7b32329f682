"""Implements the use cases of templates: create, share, archive, and copy into services and tools."""

from __future__ import annotations

from dataclasses import replace

from twinraven.catalog.connections import check_defaults
from twinraven.catalog.documents import kept
from twinraven.catalog.service_model import Service, ServiceStructure, checked_name
from twinraven.catalog.services import Services, service_of
from twinraven.catalog.template_model import Template, TemplateChange, TemplateKind, TemplateSpec
from twinraven.catalog.tool_checks import check_structure
from twinraven.catalog.tool_model import Tool, ToolPlacement, ToolSpec, ToolStructure
from twinraven.catalog.tools import Tools, refuse_lowered_effect
from twinraven.catalog.transactions import (
    CatalogTransaction,
    CatalogTransactions,
    check_version,
    owned,
    refuse_taken,
    require_stored,
    visible,
)
from twinraven.foundation.errors import Conflict
from twinraven.foundation.ids import new_id
from twinraven.storage import Transaction
from twinraven.tenancy import Principal

_FIELDS = ("name", "description", "shared", "archived")


class Templates:
    """Templates of a tenant's users."""

    def __init__(self, acts: CatalogTransactions, services: Services, tools: Tools) -> None:
        self._acts = acts
        self._store = acts.store
        self._services = services
        self._tools = tools

    async def create(self, who: Principal, spec: TemplateSpec, *, correlation_id: str | None = None) -> Template:
        """Create a new template; its name is unique among its owner's of that kind."""
        return await self._acts.perform(who, lambda act: self.create_in(act, spec), correlation_id=correlation_id)

    async def templates(self, who: Principal, kind: TemplateKind, *, include_archived: bool = False) -> list[Template]:
        """Return the user's own and all that are shared, by name."""
        found = await self._acts.look(who.tenant_id, lambda tx: self._store.templates(tx, who.tenant_id, kind))
        seen = [template for template in found if template.is_visible_to(who.user_id)]
        return [template for template in seen if include_archived or not template.archived]

    async def template(self, who: Principal, kind: TemplateKind, ref: str) -> Template:
        """By id, archived or not, or by the name of an own one."""
        return await self._acts.look(who.tenant_id, lambda tx: self.find_in(tx, who, kind, ref))

    async def update(
        self,
        who: Principal,
        kind: TemplateKind,
        ref: str,
        change: TemplateChange,
        *,
        expected_version: int | None = None,
        correlation_id: str | None = None,
    ) -> Template:
        """Change name, description, `shared` or `archived`; the structure never changes."""
        return await self._acts.perform(
            who,
            lambda act: self.update_in(act, kind, ref, change, expected_version=expected_version),
            correlation_id=correlation_id,
        )

    async def make_service(
        self,
        who: Principal,
        ref: str,
        name: str,
        *,
        enabled: bool = True,
        shared: bool = False,
        correlation_id: str | None = None,
    ) -> Service:
        """Create a new service that is a copy of a template."""

        def work(act: CatalogTransaction) -> Service:
            template = self.usable_in(act, "service", ref)
            spec = service_of(template, name, enabled=enabled, shared=shared)
            return self._services.create_in(act, spec, template=template)

        return await self._acts.perform(who, work, correlation_id=correlation_id)

    async def make_tool(
        self, who: Principal, ref: str, placement: ToolPlacement, *, correlation_id: str | None = None
    ) -> Tool:
        """Create a new tool that is a copy of a template, placed on a service."""

        def work(act: CatalogTransaction) -> Tool:
            template = self.usable_in(act, "tool", ref)
            return self._tools.create_in(act, tool_of(template, placement), template=template)

        return await self._acts.perform(who, work, correlation_id=correlation_id)

    def create_in(self, act: CatalogTransaction, spec: TemplateSpec) -> Template:
        """`create`, inside an act."""
        if isinstance(spec.structure, ServiceStructure):
            spec.structure.check()
            check_defaults(act, spec.structure)
        else:
            check_structure(spec.structure)
            refuse_lowered_effect(act, spec.structure)
        template = Template(
            tenant_id=act.tenant_id,
            template_id=new_id(),
            owner_id=act.user_id,
            name=checked_name(spec.name),
            description=spec.description,
            structure=spec.structure,
            shared=spec.shared,
            archived=False,
            created_at=act.now,
            updated_at=act.now,
        )
        self._refuse_taken(act, template)
        act.refuse_secrets({"name": spec.name, "description": spec.description, **spec.structure.as_json()})
        self._store.add_template(act.tx, template)
        act.tell("template.created", _subject(template), template.template_id, name=spec.name, shared=spec.shared)
        return template

    def find_in(self, tx: Transaction, who: Principal, kind: TemplateKind, ref: str) -> Template:
        """Find a template the user may see: by id, or by the name of an own one."""
        found = self._store.template(tx, who.tenant_id, kind, ref)
        if found is None or not found.is_visible_to(who.user_id):
            found = self.own_named(tx, who, kind, ref)
        return visible(found, who.user_id, f"{kind} template", ref)

    def own_named(self, tx: Transaction, who: Principal, kind: TemplateKind, name: str) -> Template | None:
        own = (each for each in self._store.templates(tx, who.tenant_id, kind) if each.owner_id == who.user_id)
        return next((template for template in own if template.name == name), None)

    def usable_in(self, act: CatalogTransaction, kind: TemplateKind, ref: str) -> Template:
        """Return a template that something can still be made from."""
        assert act.by is not None
        template = self.find_in(act.tx, act.by, kind, ref)
        if template.archived:
            raise Conflict(f"the {kind} template {template.name!r} is archived; nothing new is made from it", id=ref)
        return template

    def update_in(
        self,
        act: CatalogTransaction,
        kind: TemplateKind,
        ref: str,
        change: TemplateChange,
        *,
        expected_version: int | None = None,
    ) -> Template:
        """`update`, inside an act; a change that changes nothing leaves no trace."""
        assert act.by is not None
        before = owned(self.find_in(act.tx, act.by, kind, ref), act.user_id, f"{kind} template", ref)
        check_version(before, expected_version, f"{kind} template")
        after = replace(
            before,
            name=before.name if change.name is None else checked_name(change.name),
            description=kept(change.description, before.description),
            shared=before.shared if change.shared is None else change.shared,
            archived=before.archived if change.archived is None else change.archived,
        )
        fields = [name for name in _FIELDS if getattr(before, name) != getattr(after, name)]
        if not fields:
            return before
        if "name" in fields:
            self._refuse_taken(act, after)
        act.refuse_secrets({name: getattr(after, name) for name in fields if name in ("name", "description")})
        after = replace(after, updated_at=act.now, state_version=before.state_version + 1)
        is_stored = self._store.change_template(act.tx, after, from_version=before.state_version)
        require_stored(is_stored, f"{kind} template", after.name)
        act.tell(
            "template.updated",
            _subject(after),
            after.template_id,
            fields=fields,
            shared=after.shared,
            archived=after.archived,
            state_version=after.state_version,
        )
        return after

    def _refuse_taken(self, act: CatalogTransaction, template: Template) -> None:
        assert act.by is not None
        taken = self.own_named(act.tx, act.by, template.kind, template.name)
        refuse_taken(taken is not None, f"{template.kind} template", template.name)


def tool_of(template: Template, placement: ToolPlacement) -> ToolSpec:
    """Return a tool with all that a template fixes, and with its description where none is given."""
    assert isinstance(template.structure, ToolStructure)
    described = placement if placement.description else replace(placement, description=template.description)
    return ToolSpec(described, template.structure)


def _subject(template: Template) -> str:
    return f"{template.kind}_template"
