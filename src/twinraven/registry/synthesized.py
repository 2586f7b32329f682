"""Defines a learned tool: a flow, where it comes from, and where it is in its life.

The JSON form is the registry's file format. `evidence` and `replaces` are additions to it, written only where they say
something.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from twinraven.flow import Fields, FlowDefinition, ToolLookup, invalid, refuse_excess, validate_definition
from twinraven.foundation.canonical import JsonObject
from twinraven.registry.status import ToolStatus

_PASSING: Final = ("status", "promoted_at", "retired_at")
"""What changes in the life of a version, and nothing in what it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesizedTool(FlowDefinition):
    """A composite that was learned from a chain of calls."""

    tags: ClassVar[tuple[str, ...]] = ("learned",)

    source_chain_id: str
    created_at: datetime
    version: int = 1
    status: ToolStatus = ToolStatus.DRAFT
    promoted_at: datetime | None = None
    retired_at: datetime | None = None
    evidence: JsonObject = field(default_factory=dict[str, Any])
    replaces: str | None = None

    def meaning(self) -> JsonObject:
        """Return the definition without its time of promotion."""
        return {name: value for name, value in self.as_json().items() if name not in _PASSING}

    @classmethod
    def _read(cls, fields: Fields) -> dict[str, Any]:
        return {
            **FlowDefinition._read(fields),
            "source_chain_id": fields.text("source_chain_id"),
            "created_at": fields.moment("created_at"),
            "version": fields.integer("version", 1),
            "status": _status(fields),
            "promoted_at": fields.moment_or_null("promoted_at"),
            "retired_at": fields.moment_or_null("retired_at"),
            "evidence": fields.object("evidence", {}),
            "replaces": fields.text_or_null("replaces"),
        }

    def _written(self) -> JsonObject:
        body = FlowDefinition._written(self)
        added = {name: body.pop(name) for name in ("timeout_ms", "output") if name in body}
        body |= {
            "source_chain_id": self.source_chain_id,
            "version": self.version,
            "status": self.status.value,
            "created_at": _moment(self.created_at),
            "promoted_at": _moment(self.promoted_at),
            "retired_at": _moment(self.retired_at),
        }
        ours = {"replaces": self.replaces, "evidence": self.evidence or None}
        return body | added | {name: value for name, value in ours.items() if value is not None}


def validate_tool(tool: SynthesizedTool, known_tools: ToolLookup) -> None:
    """Raise InvalidDefinition, naming step and field, unless the learned tool can be registered."""
    refuse_excess(tool.evidence, "evidence")
    if tool.version < 1:
        raise invalid("version", "must be 1 or more")
    validate_definition(tool, known_tools)


def _moment(moment: datetime | None) -> str | None:
    # Whole seconds stay whole seconds, so that a file reads and writes back unchanged.
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _status(fields: Fields) -> ToolStatus:
    text = fields.text("status", ToolStatus.DRAFT.value)
    if text not in set(ToolStatus):
        raise invalid("status", f"{text[:40]!r} is not one of {', '.join(ToolStatus)}")
    return ToolStatus(text)
