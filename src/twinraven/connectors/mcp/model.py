"""What is known of upstream servers and their tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, cast

from twinraven.catalog import Effect, Sensitivity
from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.clock import iso

Definition = dict[str, Any]
State = Literal["idle", "starting", "up", "down", "closed"]
NewsKind = Literal["prompts", "resources", "updated"]


@dataclass(frozen=True, slots=True)
class Classification:
    """What the owner said a tool does to the world, and how sensitive it is."""

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
    """The server's new definition, which nobody accepted yet."""
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
class LeftOut:
    """A tool that a server lists and that cannot be offered, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server lists: tools, and what is none."""

    tools: list[Definition]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolChanges:
    """How a server's list differs from what is pinned."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Tools that are in quarantine now."""
    reworded: tuple[str, ...] = ()
    """Tools whose new words are held back until somebody accepts them."""
    restored: tuple[str, ...] = ()
    """Tools that say again what was accepted, or are listed again."""
    gone: tuple[str, ...] = ()
    named_apart: tuple[tuple[str, str], ...] = ()
    """New tools whose name another tool has, and how they are called instead."""
    left_out: tuple[LeftOut, ...] = ()
    """What the list holds and cannot be taken; no change by itself."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.reworded or self.restored or self.gone)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a server offers besides tools, by its own word."""

    prompts: bool = False
    resources: bool = False
    subscribe: bool = False
    """Whether it says when a resource changes."""
    completions: bool = False
    logging: bool = False

    def __or__(self, other: Abilities) -> Abilities:
        return Abilities(
            self.prompts or other.prompts,
            self.resources or other.resources,
            self.subscribe or other.subscribe,
            self.completions or other.completions,
            self.logging or other.logging,
        )


@dataclass(frozen=True, slots=True)
class UpstreamNews:
    """A server's word, or its coming and going: a list is another one, or a resource changed."""

    server: str
    kind: NewsKind
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class UpstreamEvent:
    """Something that happened to an upstream server, for people who look later."""

    server: str
    kind: str
    message: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])


class Journal(Protocol):
    """Where such events are written down."""

    async def note(self, tenant_id: str, event: UpstreamEvent) -> None: ...


@dataclass(frozen=True, slots=True)
class UpstreamStatus:
    """How a server is right now."""

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
    """What identifies a definition: every word of it, in one canonical text."""
    return content_hash(canonical_json(definition))
