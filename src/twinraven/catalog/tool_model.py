"""Models data-defined tools: one operation at one service, with its input and output schemas.

`key` is what callers call it by; it is unique among all tools of a tenant and never changes. `name` is a label. A tool
states the connection parameters that its service asks for, and may be bound to a secret of its owner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from twinraven.catalog.documents import KEEP, LONGEST_DESCRIPTION, Document, KeepField, refuse_nulls
from twinraven.catalog.model import Effect, EffectOrigin, Sensitivity, ToolEntry
from twinraven.catalog.operations import Operation, read_operation
from twinraven.catalog.service_model import CONNECTORS, HealthStatus, Service
from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidDefinition

LONGEST_TIMEOUT_MS: Final = 86_400_000

_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_ID: Final = re.compile(r"[0-9a-f]{32}")
_STRUCTURE: Final = ("operation", "input_schema", "output_schema", "effect", "sensitivity", "timeout_ms")

_KEY_HEADERS: Final = ("idempotency_header", "idempotencyHeader")


@dataclass(frozen=True, slots=True)
class ToolStructure:
    """The operation and schemas of a tool, which a template of tools fixes."""

    operation: Operation
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    effect: Effect | None = None
    """As the owner declares it; None where it is not declared."""
    sensitivity: Sensitivity = Sensitivity.LOW
    timeout_ms: int | None = None

    @classmethod
    def of(cls, document: Document) -> ToolStructure:
        return cls(
            operation=read_operation(document.mapping("operation")),
            input_schema=document.mapping("input_schema"),
            output_schema=document.optional_mapping("output_schema"),
            effect=document.optional_choice("effect", Effect),
            sensitivity=document.optional_choice("sensitivity", Sensitivity) or Sensitivity.LOW,
            timeout_ms=document.whole("timeout_ms", most=LONGEST_TIMEOUT_MS),
        )

    @property
    def effect_and_origin(self) -> tuple[Effect, EffectOrigin]:
        """Declared beats what the operation shows of itself."""
        if self.effect is not None:
            return self.effect, "declared"
        shown = self.operation.effect
        return shown, "none" if shown is Effect.UNKNOWN else "inferred"

    def as_json(self) -> dict[str, Any]:
        return {
            "operation": self.operation.as_json(),
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "effect": None if self.effect is None else self.effect.value,
            "sensitivity": self.sensitivity.value,
            "timeout_ms": self.timeout_ms,
        }


@dataclass(frozen=True, slots=True)
class ToolPlacement:
    """Everything about a tool to be made that no template fixes: its names, where it runs, and with what."""

    key: str
    service: str
    """The service's id, or its name."""
    name: str | None = None
    description: str | None = None
    connection_params: dict[str, Any] = field(default_factory=dict[str, Any])
    secret: str | None = None
    """The id or the name of a secret of the owner's."""
    secret_scope: str | None = None
    """The purpose of the secret, in the words of its user."""
    enabled: bool = True
    shared: bool = False

    FIELDS = (
        *("key", "service", "name", "description", "connection_params", "secret", "secret_scope", "enabled", "shared"),
    )

    @classmethod
    def from_json(cls, body: object) -> ToolPlacement:
        return cls.of(Document("tool", body, known=cls.FIELDS))

    @classmethod
    def of(cls, document: Document) -> ToolPlacement:
        return cls(
            key=checked_key(document.text("key")),
            service=document.text("service"),
            name=document.optional_text("name"),
            description=document.optional_text("description", limit=LONGEST_DESCRIPTION),
            connection_params=document.optional_mapping("connection_params") or {},
            secret=document.optional_text("secret"),
            secret_scope=document.optional_text("secret_scope"),
            enabled=document.flag("enabled", default=True),
            shared=document.flag("shared", default=False),
        )


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool to be made."""

    placement: ToolPlacement
    structure: ToolStructure

    FIELDS = (*ToolPlacement.FIELDS, *_STRUCTURE)

    @classmethod
    def from_json(cls, body: object) -> ToolSpec:
        document = Document("tool", body, known=cls.FIELDS)
        return cls(ToolPlacement.of(document), ToolStructure.of(document))


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A partial update of a tool; fields that are not given stay."""

    name: str | None = None
    description: str | None = None
    connection_params: dict[str, Any] | None = None
    operation: Operation | None = None
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | KeepField | None = KEEP
    effect: Effect | KeepField | None = KEEP
    sensitivity: Sensitivity | None = None
    timeout_ms: int | KeepField | None = KEEP
    secret: str | KeepField | None = KEEP
    secret_scope: str | KeepField | None = KEEP
    enabled: bool | None = None
    shared: bool | None = None

    NULLABLE = ("output_schema", "effect", "timeout_ms", "secret", "secret_scope")

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ToolChange:
        known = set(ToolSpec.FIELDS) - {"key", "service"}
        document = Document("tool", body, known=known, fixed=("id", "key", "owner", "service", "tool_template_id"))
        refuse_nulls("tool", body, cls.NULLABLE)
        operation = document.optional_mapping("operation")
        return cls(
            name=document.optional_text("name"),
            description=document.optional_text("description", limit=LONGEST_DESCRIPTION),
            connection_params=document.optional_mapping("connection_params"),
            operation=None if operation is None else read_operation(operation),
            input_schema=document.optional_mapping("input_schema"),
            output_schema=document.change_of("output_schema", document.optional_mapping),
            effect=document.change_of("effect", lambda name: document.optional_choice(name, Effect)),
            sensitivity=document.optional_choice("sensitivity", Sensitivity),
            timeout_ms=document.change_of("timeout_ms", lambda name: document.whole(name, most=LONGEST_TIMEOUT_MS)),
            secret=document.change_of("secret", document.optional_text),
            secret_scope=document.change_of("secret_scope", document.optional_text),
            enabled=document.optional_flag("enabled"),
            shared=document.optional_flag("shared"),
        )


@dataclass(frozen=True, slots=True)
class Tool:
    """One operation at one service, of one owner."""

    tenant_id: str
    tool_id: str
    key: str
    owner_id: str
    service_id: str
    name: str
    description: str
    connection_params: dict[str, Any]
    structure: ToolStructure
    secret_id: str | None
    enabled: bool
    shared: bool
    status: HealthStatus
    created_at: datetime
    updated_at: datetime
    last_health_check: datetime | None = None
    error_message: str | None = None
    tool_template_id: str | None = None
    secret_scope: str | None = None
    """What the secret is used for; it goes with the binding."""
    state_version: int = 1

    def is_visible_to(self, user_id: str) -> bool:
        return self.shared or self.owner_id == user_id

    def is_runnable_by(self, user_id: str) -> bool:
        """Return whether a user may run the tool; one that needs a secret is visible to others but runs for its owner
        alone.
        """
        return self.owner_id == user_id or (self.shared and self.secret_id is None)

    def definition(self, service: Service) -> str:
        """Return the hash of everything that decides where a call goes, as whom, and what it asks for there."""
        bound = {
            "tool": self.tool_id,
            "operation": self.structure.operation.as_json(),
            "connection_params": self.connection_params,
            "secret": self.secret_id,
            "service": service.service_id,
            **service.structure.as_json(),
        }
        return content_hash(canonical_json(bound))

    def entry(self, service: Service) -> ToolEntry:
        """As the catalogue shows it."""
        structure = self.structure
        effect, origin = structure.effect_and_origin
        return ToolEntry(
            tool_id=self.key,
            description=self.description,
            input_schema=_closed(structure),
            output_schema=structure.output_schema,
            effect=effect,
            effect_origin=origin,
            sensitivity=structure.sensitivity,
            connector=CONNECTORS[service.type],
            timeout_ms=structure.timeout_ms,
            private_to=None if self.shared else self.owner_id,
            takes_key=any(self.connection_params.get(name) for name in _KEY_HEADERS),
            # A secret serves its owner's calls alone.
            runs_for=None if self.shared and self.secret_id is None else self.owner_id,
            definition=self.definition(service),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.tool_id,
            "key": self.key,
            "name": self.name,
            "description": self.description,
            "owner": self.owner_id,
            "service": self.service_id,
            "connection_params": self.connection_params,
            **self.structure.as_json(),
            "secret": self.secret_id,
            "secret_scope": self.secret_scope,
            "enabled": self.enabled,
            "shared": self.shared,
            "status": self.status.value,
            "last_health_check": None if self.last_health_check is None else iso(self.last_health_check),
            "error_message": self.error_message,
            "tool_template_id": self.tool_template_id,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "state_version": self.state_version,
        }


def checked_key(key: str) -> str:
    """Validate a key: one that callers, models and URLs can carry, and that cannot be taken for an id."""
    if _KEY.fullmatch(key) is None or _ID.fullmatch(key) is not None:
        raise InvalidDefinition(
            f"key {key[:130]!r} must begin with a letter and have at most 128 letters, digits, '_', '-' and '.'",
            field="key",
        )
    return key


def _closed(structure: ToolStructure) -> dict[str, Any]:
    """Return the input schema, closed to unused arguments, so that a misspelt one is not ignored."""
    schema = structure.input_schema
    if structure.operation.variables is None or "additionalProperties" in schema:
        return schema
    return {**schema, "additionalProperties": False}
