"""Resolves names of services, tools and templates as one user knows them.

A secret that is called like something would be redacted wherever that name stands, for everybody of the tenant, so the
vault asks here before it keeps a value. Only names that its user sees are looked at: the answer tells nothing about
what colleagues keep to themselves.
"""

from __future__ import annotations

import asyncio
from typing import get_args

from twinraven.catalog.defined_catalog import DefinedCatalog
from twinraven.catalog.lookup import Catalog
from twinraven.catalog.template_model import TemplateKind
from twinraven.tenancy import Principal


class KnownNames:
    """The names of everything that can be called, and of what is defined as data besides."""

    def __init__(self, catalog: Catalog, defined: DefinedCatalog) -> None:
        self._catalog = catalog
        self._defined = defined

    async def holding(self, tenant_id: str, user_id: str, text: str) -> str | None:
        """Describe the items whose name contains the text."""
        who, defined = Principal(tenant_id, user_id, "member"), self._defined
        if any(text in tool.key or text in tool.name for tool in await defined.tools.tools(who)):
            return "a tool"
        if any(text in service.name for service in await defined.services.services(who)):
            return "a service"
        for kind in get_args(TemplateKind):
            found = await defined.templates.templates(who, kind, include_archived=True)
            if any(text in template.name for template in found):
                return f"a {kind} template"
        return await asyncio.to_thread(self._callable, tenant_id, user_id, text)

    def _callable(self, tenant_id: str, user_id: str, text: str) -> str | None:
        return "a tool" if any(text in entry.tool_id for entry in self._catalog.offered(tenant_id, user_id)) else None
