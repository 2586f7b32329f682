"""What a user knows services, tools and templates by.

A secret that is called like something would be redacted wherever that name stands, for everybody of the tenant, so the
vault asks here before it keeps a value. Only names that its user sees are looked at: the answer tells nothing about
what colleagues keep to themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import get_args

from twinraven.catalog.defined_catalog import DefinedCatalog
from twinraven.catalog.model import Catalog
from twinraven.catalog.template_model import TemplateKind
from twinraven.tenancy import Principal

MayUse = Callable[[str, str | None, str], bool]
"""Whether a user of a tenant may call a tool and everything inside it."""


class KnownNames:
    """The names of everything that can be called, and of what is defined as data besides."""

    def __init__(self, catalog: Catalog, defined: DefinedCatalog, may_use: MayUse) -> None:
        self._catalog = catalog
        self._defined = defined
        self._may_use = may_use

    async def holding(self, tenant_id: str, user_id: str, text: str) -> str | None:
        """What has a name that holds the text, in a few words."""
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
        entries = self._catalog.entries(tenant_id, caller=user_id)
        named = (entry.tool_id for entry in entries if text in entry.tool_id)
        return "a tool" if any(self._may_use(tenant_id, user_id, name) for name in named) else None
