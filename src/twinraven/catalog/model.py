"""Models the entries of the catalogue: everything that can be called, however it is reached.

A Python function, a REST operation, an MCP tool and a learned tool look the same here. `effect` is what a call can do
to the world: declared beats inferred, and unknown counts as write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.errors import InvalidDefinition

MAX_TOOL_ID = 256

BATCH_READS: Final = "batch_reads"
"""The built-in tool that makes several reads at once; its calls are the agent's own, asked for in one turn."""

RUN_CODE: Final = "twinraven.run_code"
"""The tool that runs an agent's script; its event is the parent of the calls that the script made."""


class Effect(StrEnum):
    """The effect of a call on the world: read, write or unknown."""

    READ = "read"
    WRITE = "write"
    UNKNOWN = "unknown"


class Sensitivity(StrEnum):
    """The sensitivity of the data that flows through a call."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class IdempotentBy:
    """The arguments that derive an idempotency key, and its scope: a session, or so many seconds."""

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
    takes_key: bool = False
    """Whether repeating a call under its idempotency key has no second effect, so that a lost one may be sent again."""
    runs_for: str | None = None
    """The only user who may call it; None where all users who see it may."""
    parts: tuple[str, ...] = ()
    """The tools that it calls in turn; only those who may call each of them may call it."""
    definition: str = ""
    """What stands behind it, hashed by its source: another one where a call would do something else."""
    target: Any = field(default=None, compare=False, repr=False)
    """Private data of its connector, set by its source."""

    def __post_init__(self) -> None:
        if not self.tool_id or len(self.tool_id) > MAX_TOOL_ID or not self.tool_id.isprintable():
            raise InvalidDefinition(
                f"tool_id {self.tool_id!r} must have 1 to {MAX_TOOL_ID} printable characters", field="tool_id"
            )
        if not self.description.strip():
            raise InvalidDefinition(f"tool {self.tool_id!r} has no description; say what it does", field="description")

    def is_visible_to(self, caller: str | None) -> bool:
        """Return whether a user sees it; an anonymous caller acts for the whole tenant."""
        return caller is None or self.private_to in (None, caller)

    def is_callable_by(self, caller: str | None) -> bool:
        """Return whether a user who sees it may call it, as far as the tool itself goes: its parts are judged apart."""
        return self.is_visible_to(caller) and (caller is None or self.runs_for in (None, caller))

    @property
    def writes(self) -> bool:
        """Whether a call must be treated as one that changes something."""
        return self.effect is not Effect.READ

    @property
    def fingerprint(self) -> str:
        """Hash the contract of a tool: input, output and effect; descriptions and time limits are no part of it."""
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
            "takes_key": self.takes_key,
            "idempotent_by": None
            if self.idempotent_by is None
            else {"arguments": list(self.idempotent_by.arguments), "within": self.idempotent_by.within},
        }


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A tool's output with metadata, such as its cost and confidence."""

    output: Any
    tokens: int = 0
    currency: str | None = None
    amount: str | None = None
    """Money as a decimal in text; a float would not keep it."""
    confidence_score: float = 1.0
    risk_tags: tuple[str, ...] = ()
    described: Any = None
    """What the tool's output schema describes, where that is only a part of the output."""
    raw: Any = None
    """The answer as a server sent it, for a door that passes it on."""
    is_partial: bool = False
    """Whether a part of what was asked for is missing, as the output says."""
