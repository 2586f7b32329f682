"""Entries of the one catalogue: whatever can be called, however it is reached.

A Python function, a REST operation, an MCP tool and a learned tool look the same here. `effect` is what a call can do
to the world: declared beats inferred, and unknown counts as write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, Protocol

from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.errors import InvalidDefinition, NotFound

MAX_TOOL_ID = 256

BATCH_READS: Final = "batch_reads"
"""The built-in tool that makes several reads at once; its calls are the agent's own, asked for in one turn."""

RUN_CODE: Final = "twinraven.run_code"
"""The tool that runs an agent's script; its event is the parent of the calls that the script made."""


class Effect(StrEnum):
    """What a call can do to the world."""

    READ = "read"
    WRITE = "write"
    UNKNOWN = "unknown"


class Sensitivity(StrEnum):
    """How much harm the data that flows through a call could do."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class IdempotentBy:
    """Which arguments name an effect, and for how long: within a session, or within so many seconds."""

    arguments: tuple[str, ...]
    within: int | Literal["session"] = "session"

    def __post_init__(self) -> None:
        if not self.arguments:
            raise InvalidDefinition("idempotent_by names no argument", field="idempotent_by")
        if self.within != "session" and self.within < 1:
            raise InvalidDefinition("idempotent_by lasts a session or at least a second", field="within")


EffectOrigin = Literal["declared", "inferred", "none"]


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One thing that can be called."""

    tool_id: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    effect: Effect = Effect.UNKNOWN
    effect_origin: EffectOrigin = "none"
    sensitivity: Sensitivity = Sensitivity.LOW
    connector: str = "python"
    timeout_ms: int | None = None
    tags: tuple[str, ...] = field(default=())
    idempotent_by: IdempotentBy | None = None
    private_to: str | None = None
    """The one user who sees it; None where the whole tenant does."""
    definition: str = ""
    """What stands behind it, hashed by its source: another one where a call would do something else."""

    def __post_init__(self) -> None:
        if not self.tool_id or len(self.tool_id) > MAX_TOOL_ID or not self.tool_id.isprintable():
            raise InvalidDefinition(
                f"tool_id {self.tool_id!r} must have 1 to {MAX_TOOL_ID} printable characters", field="tool_id"
            )
        if not self.description.strip():
            raise InvalidDefinition(f"tool {self.tool_id!r} has no description; say what it does", field="description")

    def is_visible_to(self, caller: str | None) -> bool:
        """Whether a user sees it; whoever is nobody in particular acts for the whole tenant."""
        return caller is None or self.private_to in (None, caller)

    @property
    def writes(self) -> bool:
        """Whether a call must be treated as one that changes something."""
        return self.effect is not Effect.READ

    @property
    def fingerprint(self) -> str:
        """What a call of it takes, gives and does, as one hash; words for people and time limits are no part of it."""
        does = [self.connector, self.effect.value, self.sensitivity.value, self.definition]
        return content_hash(canonical_json([*does, self.input_schema, self.output_schema]))

    def as_json(self) -> dict[str, Any]:
        return {
            "tool_id": self.tool_id,
            "description": self.description,
            "effect": self.effect.value,
            "effect_origin": self.effect_origin,
            "sensitivity": self.sensitivity.value,
            "connector": self.connector,
            "timeout_ms": self.timeout_ms,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "tags": list(self.tags),
            "idempotent_by": None
            if self.idempotent_by is None
            else {"arguments": list(self.idempotent_by.arguments), "within": self.idempotent_by.within},
        }


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool may return instead of a bare output, when it knows what the call cost or how sure it is."""

    output: Any
    tokens: int = 0
    currency: str | None = None
    amount: str | None = None
    """Money as a decimal in text; a float would not keep it."""
    confidence_score: float = 1.0
    risk_tags: tuple[str, ...] = ()


class ToolSource(Protocol):
    """Somewhere entries come from: Python modules, upstream servers, the registry of learned tools."""

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None: ...

    def entries(self, tenant_id: str) -> list[ToolEntry]: ...


class Catalog:
    """All sources as one; the first that knows a name wins."""

    def __init__(self, *sources: ToolSource) -> None:
        self._sources = list(sources)

    def add(self, source: ToolSource) -> None:
        self._sources.append(source)

    def find(self, tenant_id: str, tool_id: str, *, caller: str | None = None) -> ToolEntry:
        """The entry, or NotFound with the nearest names; what a caller may not see is not there."""
        for source in self._sources:
            entry = source.find(tenant_id, tool_id)
            if entry is not None and entry.is_visible_to(caller):
                return entry
        raise self.missing(tenant_id, tool_id, caller=caller)

    def missing(
        self, tenant_id: str, tool_id: str, *, caller: str | None, may_use: Callable[[str], bool] | None = None
    ) -> NotFound:
        """Make the NotFound for a tool id, with the nearest names that the caller sees and may use.

        The answer is the same for an id that nobody has and for one that is another's: the caller must not learn which.
        """
        from difflib import get_close_matches

        seen = self.entries(tenant_id, caller=caller)
        own = [entry.tool_id for entry in seen if entry.private_to in (None, caller) and entry.tool_id != tool_id]
        near = get_close_matches(tool_id, [name for name in own if may_use is None or may_use(name)], n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        return NotFound(f"no tool {tool_id!r}{hint}", tool_id=tool_id)

    def entries(self, tenant_id: str, *, caller: str | None = None) -> list[ToolEntry]:
        """Every entry that a tenant has and a caller may see, by name."""
        found: dict[str, ToolEntry] = {}
        for source in self._sources:
            for entry in source.entries(tenant_id):
                if not entry.is_visible_to(caller):
                    continue
                found.setdefault(entry.tool_id, entry)
        return [found[name] for name in sorted(found)]
