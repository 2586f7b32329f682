"""Models templates, from which services and tools are copied.

A template's structure never changes and is copied whole into what is made from it. From then on the two know nothing of
each other: the copy keeps the template's id to say where it came from, and works the same if the template is archived.
Deleting a template is archiving it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from twinraven.catalog.documents import KEEP, LONGEST_DESCRIPTION, Document, KeepField, refuse_nulls
from twinraven.catalog.service_model import ServiceStructure
from twinraven.catalog.tool_model import ToolStructure
from twinraven.foundation.clock import iso

TemplateKind = Literal["service", "tool"]

_LABELS = ("name", "description", "shared")
_SERVICE = ("type", "protocol", "connection_schema", "requires_secret")
_TOOL = ("operation", "input_schema", "output_schema", "effect", "sensitivity", "timeout_ms")


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """A template to be made; its structure says of what."""

    name: str
    structure: ServiceStructure | ToolStructure
    description: str | None = None
    shared: bool = False

    @property
    def kind(self) -> TemplateKind:
        return "service" if isinstance(self.structure, ServiceStructure) else "tool"

    @classmethod
    def from_json(cls, kind: TemplateKind, body: object) -> TemplateSpec:
        structure = _SERVICE if kind == "service" else _TOOL
        document = Document(f"{kind} template", body, known=(*_LABELS, *structure))
        return cls(
            name=document.text("name"),
            structure=ServiceStructure.of(document) if kind == "service" else ToolStructure.of(document),
            description=document.optional_text("description", limit=LONGEST_DESCRIPTION),
            shared=document.flag("shared", default=False),
        )


@dataclass(frozen=True, slots=True)
class TemplateChange:
    """A partial update of a template; fields that are not given stay."""

    name: str | None = None
    description: str | KeepField | None = KEEP
    shared: bool | None = None
    archived: bool | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TemplateChange:
        fixed = ("id", "owner", *_SERVICE, *_TOOL)
        document = Document("template", body, known=(*_LABELS, "archived"), fixed=fixed)
        refuse_nulls("template", body, ("description",))
        return cls(
            name=document.optional_text("name"),
            description=document.change_of(
                "description", lambda name: document.optional_text(name, limit=LONGEST_DESCRIPTION)
            ),
            shared=document.optional_flag("shared"),
            archived=document.optional_flag("archived"),
        )


@dataclass(frozen=True, slots=True)
class Template:
    """A blueprint of one owner."""

    tenant_id: str
    template_id: str
    owner_id: str
    name: str
    description: str | None
    structure: ServiceStructure | ToolStructure
    shared: bool
    archived: bool
    created_at: datetime
    updated_at: datetime
    state_version: int = 1

    @property
    def kind(self) -> TemplateKind:
        return "service" if isinstance(self.structure, ServiceStructure) else "tool"

    def is_visible_to(self, user_id: str) -> bool:
        return self.shared or self.owner_id == user_id

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.template_id,
            "kind": self.kind,
            "owner": self.owner_id,
            "name": self.name,
            "description": self.description,
            **self.structure.as_json(),
            "shared": self.shared,
            "archived": self.archived,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "state_version": self.state_version,
        }
