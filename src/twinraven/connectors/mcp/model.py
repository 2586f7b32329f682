"""Models upstream servers and their tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, cast

from twinraven.catalog import Effect, Sensitivity
from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.clock import iso

Definition = dict[str, Any]
State = Literal["idle", "starting", "up", "down", "closed"]
UpstreamChangeKind = Literal["prompts", "resources", "updated"]


@dataclass(frozen=True, slots=True)
class Classification:
    """The owner's classification of a tool: its effect and its sensitivity."""

    effect: Effect
    sensitivity: Sensitivity
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """One tool of one server, as it was accepted, and as it describes itself now where that differs."""

    server: str
    name: str
    tool_id: str
    definition: Definition
    pinned_at: datetime
    changed: Definition | None = None
    """The server's new definition, not accepted yet."""
    is_held: bool = False
    """Whether the new definition only says the same in other words, so that the accepted one can be offered still."""
    is_present: bool = True
    """Whether the server still lists it."""
    classification: Classification | None = None

    @property
    def is_quarantined(self) -> bool:
        return self.changed is not None and not self.is_held

    @property
    def needs_task(self) -> bool:
        """Whether it can only be run as a task."""
        execution: Any = self.definition.get("execution")
        return isinstance(execution, dict) and cast("dict[str, Any]", execution).get("taskSupport") == "required"

    @property
    def is_offered(self) -> bool:
        return self.is_present and not self.is_quarantined

    def as_json(self) -> dict[str, Any]:
        said = self.classification
        return {
            "tool_id": self.tool_id,
            "server": self.server,
            "name": self.name,
            "definition_hash": definition_hash(self.definition),
            "pinned_at": iso(self.pinned_at),
            "quarantined": self.is_quarantined,
            "reworded": self.changed is not None and self.is_held,
            "present": self.is_present,
            "effect": None if said is None else said.effect.value,
            "sensitivity": None if said is None else said.sensitivity.value,
            "classified_by": None if said is None else said.by,
        }


@dataclass(frozen=True, slots=True)
class UnusableTool:
    """A tool of a server's list that cannot be offered, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Listing:
    """A server's list of tools: the usable and the unusable."""

    tools: list[Definition]
    left_out: tuple[UnusableTool, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolChanges:
    """The difference between a server's list and the pinned definitions."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Tools that are in quarantine now."""
    reworded: tuple[str, ...] = ()
    """Tools whose new descriptions are held back until they are accepted."""
    restored: tuple[str, ...] = ()
    """Tools that say again what was accepted, or are listed again."""
    gone: tuple[str, ...] = ()
    named_apart: tuple[tuple[str, str], ...] = ()
    """New tools whose name another tool has, and how they are called instead."""
    left_out: tuple[UnusableTool, ...] = ()
    """What the list holds and cannot be taken; no change by itself."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.reworded or self.restored or self.gone)


@dataclass(frozen=True, slots=True)
class UpstreamCapabilities:
    """The capabilities that a server declares besides tools."""

    prompts: bool = False
    resources: bool = False
    subscribe: bool = False
    """Whether it says when a resource changes."""
    completions: bool = False
    logging: bool = False

    def __or__(self, other: UpstreamCapabilities) -> UpstreamCapabilities:
        return UpstreamCapabilities(
            self.prompts or other.prompts,
            self.resources or other.resources,
            self.subscribe or other.subscribe,
            self.completions or other.completions,
            self.logging or other.logging,
        )


@dataclass(frozen=True, slots=True)
class UpstreamChange:
    """A change at a server: it connected or ended, a list changed, or a resource was updated."""

    server: str
    kind: UpstreamChangeKind
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class UpstreamEvent:
    """An event in the life of an upstream server, for operators."""

    server: str
    kind: str
    message: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])


class UpstreamJournal(Protocol):
    """Writes events of upstream servers."""

    async def note(self, tenant_id: str, event: UpstreamEvent) -> None: ...


@dataclass(frozen=True, slots=True)
class UpstreamStatus:
    """The status of a server right now."""

    server: str
    transport: str
    state: State
    protocol_version: str | None
    reason: str | None
    restarts: int

    def as_json(self) -> dict[str, Any]:
        return {
            "server": self.server,
            "transport": self.transport,
            "state": self.state,
            "protocol_version": self.protocol_version,
            "reason": self.reason,
            "restarts": self.restarts,
        }


def definition_hash(definition: Definition) -> str:
    """Hash a definition's canonical text; every word of it counts."""
    return content_hash(canonical_json(definition))
