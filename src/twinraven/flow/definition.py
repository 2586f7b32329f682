"""A composite tool as data: its steps, how values flow between them, and what to do when one fails.

The JSON form is the registry's file format. `for_each`, `max_items`, `output`, `timeout_ms`, `evidence` and `replaces`
are additions; they are written only where they say something, so a file without them reads and writes back unchanged.
Reading checks kinds and nothing more; whether a definition makes sense is `validate_definition`'s question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar, cast, get_args

from twinraven.flow.fields import Fields, as_index, as_object, invalid, refuse_excess
from twinraven.flow.lifecycle import ToolStatus
from twinraven.foundation.canonical import JsonObject, to_json_value

BackoffStrategy = Literal["fixed", "exponential"]
DefaultBehavior = Literal["retry", "skip", "abort"]

DEFAULT_MAX_ITEMS: Final = 100
MAX_BACKOFF_MS: Final = 600_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """One call of a tool, or one call for each element of a list."""

    step_index: int
    tool_id: str
    input_mapping: JsonObject = field(default_factory=dict[str, Any])
    condition: str | None = None
    parallelizable_with: tuple[int, ...] = ()
    timeout_ms: int | None = None
    for_each: str | None = None
    """A reference to a list; the step runs once per element, which the mapping sees as `$.item`."""
    max_items: int = DEFAULT_MAX_ITEMS

    @classmethod
    def from_json(cls, body: Any, where: str = "step") -> StepDefinition:
        fields = Fields(body, where)
        step = cls(
            step_index=fields.integer("step_index"),
            tool_id=fields.text("tool_id"),
            input_mapping=fields.object("input_mapping", {}),
            condition=fields.text_or_null("condition"),
            parallelizable_with=_indices(fields, "parallelizable_with"),
            timeout_ms=fields.integer_or_null("timeout_ms"),
            for_each=fields.text_or_null("for_each"),
            max_items=fields.integer("max_items", DEFAULT_MAX_ITEMS),
        )
        fields.finish()
        return step

    def as_json(self) -> JsonObject:
        body: JsonObject = {
            "step_index": self.step_index,
            "tool_id": self.tool_id,
            "input_mapping": self.input_mapping,
            "condition": self.condition,
            "parallelizable_with": list(self.parallelizable_with),
            "timeout_ms": self.timeout_ms,
        }
        if self.for_each is not None:
            body["for_each"] = self.for_each
        if self.max_items != DEFAULT_MAX_ITEMS:
            body["max_items"] = self.max_items
        return body


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a step is tried again, and how long it waits before that."""

    max_retries: int
    backoff_strategy: BackoffStrategy = "fixed"
    backoff_ms: int = 0

    @classmethod
    def from_json(cls, body: Any, where: str = "retry_policy") -> RetryPolicy:
        fields = Fields(body, where)
        policy = cls(
            max_retries=fields.integer("max_retries"),
            backoff_strategy=_one_of(fields, "backoff_strategy", BackoffStrategy, "fixed"),
            backoff_ms=fields.integer("backoff_ms", 0),
        )
        fields.finish()
        return policy

    def as_json(self) -> JsonObject:
        return {
            "max_retries": self.max_retries,
            "backoff_strategy": self.backoff_strategy,
            "backoff_ms": self.backoff_ms,
        }

    def delay_ms(self, retry: int) -> int:
        """The wait before the given retry, counted from 1."""
        if self.backoff_strategy == "fixed":
            return min(self.backoff_ms, MAX_BACKOFF_MS)
        return min(self.backoff_ms << min(retry - 1, 30), MAX_BACKOFF_MS)


@dataclass(frozen=True, slots=True)
class ErrorStrategy:
    """What happens when a step fails."""

    retry_policy: dict[int, RetryPolicy] = field(default_factory=dict[int, RetryPolicy])
    fallback_steps: dict[int, tuple[StepDefinition, ...]] = field(default_factory=dict[int, tuple[StepDefinition, ...]])
    abort_conditions: tuple[str, ...] = ()
    default_behavior: DefaultBehavior = "abort"

    @classmethod
    def from_json(cls, body: Any, where: str = "error_strategy") -> ErrorStrategy:
        fields = Fields(body, where)
        strategy = cls(
            retry_policy=_by_step(
                fields, "retry_policy", lambda value, place: RetryPolicy.from_json(value, where=place)
            ),
            fallback_steps=_by_step(fields, "fallback_steps", _step_list),
            abort_conditions=_texts(fields, "abort_conditions"),
            default_behavior=_one_of(fields, "default_behavior", DefaultBehavior, "abort"),
        )
        fields.finish()
        return strategy

    def as_json(self) -> JsonObject:
        return {
            "retry_policy": {str(index): policy.as_json() for index, policy in self.retry_policy.items()},
            "fallback_steps": {
                str(index): [step.as_json() for step in steps] for index, steps in self.fallback_steps.items()
            },
            "abort_conditions": list(self.abort_conditions),
            "default_behavior": self.default_behavior,
        }


@dataclass(frozen=True, slots=True)
class SynthesizedTool:
    """A composite tool: what its caller gives, what it calls, and where it comes from."""

    tool_id: str
    description: str
    parameters: JsonObject
    steps: tuple[StepDefinition, ...]
    source_chain_id: str
    created_at: datetime
    internal_wiring: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    error_strategy: ErrorStrategy = field(default_factory=ErrorStrategy)
    version: int = 1
    status: ToolStatus = ToolStatus.DRAFT
    promoted_at: datetime | None = None
    retired_at: datetime | None = None
    timeout_ms: int | None = None
    """For the whole; steps without a time of their own inherit it."""
    output: JsonObject | None = None
    """What the caller gets, as a mapping; without one, everything the steps gave."""
    evidence: JsonObject = field(default_factory=dict[str, Any])
    replaces: str | None = None

    @classmethod
    def from_json(cls, body: Any) -> SynthesizedTool:
        """Read the file format; anything of the wrong kind is named by its place."""
        refuse_excess(body)
        fields = Fields(to_json_value(body))
        wiring = fields.object("internal_wiring", {})
        tool = cls(
            tool_id=fields.text("tool_id"),
            description=fields.text("description"),
            parameters=fields.object("parameters"),
            steps=_step_list(fields.take("steps"), "steps"),
            source_chain_id=fields.text("source_chain_id"),
            created_at=fields.moment("created_at"),
            internal_wiring={key: as_object(value, f"internal_wiring.{key[:40]}") for key, value in wiring.items()},
            error_strategy=ErrorStrategy.from_json(fields.object("error_strategy", {})),
            version=fields.integer("version", 1),
            status=_status(fields),
            promoted_at=fields.moment_or_null("promoted_at"),
            retired_at=fields.moment_or_null("retired_at"),
            timeout_ms=fields.integer_or_null("timeout_ms"),
            output=fields.object("output") if fields.has("output") else None,
            evidence=fields.object("evidence", {}),
            replaces=fields.text_or_null("replaces"),
        )
        fields.finish()
        return tool

    def as_json(self) -> JsonObject:
        """The file format, detached from this object."""
        body: JsonObject = {
            "tool_id": self.tool_id,
            "description": self.description,
            "parameters": self.parameters,
            "internal_wiring": self.internal_wiring,
            "steps": [step.as_json() for step in self.steps],
            "error_strategy": self.error_strategy.as_json(),
            "source_chain_id": self.source_chain_id,
            "version": self.version,
            "status": self.status.value,
            "created_at": _written(self.created_at),
            "promoted_at": _written(self.promoted_at),
            "retired_at": _written(self.retired_at),
        }
        ours = {"timeout_ms": self.timeout_ms, "output": self.output, "replaces": self.replaces}
        body |= {name: value for name, value in ours.items() if value is not None}
        if self.evidence:
            body["evidence"] = self.evidence
        return cast("JsonObject", to_json_value(body))


def _written(moment: datetime | None) -> str | None:
    # Whole seconds stay whole seconds, so that a file reads and writes back unchanged.
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _status(fields: Fields) -> ToolStatus:
    text = fields.text("status", ToolStatus.DRAFT.value)
    if text not in set(ToolStatus):
        raise invalid("status", f"{text[:40]!r} is not one of {', '.join(ToolStatus)}")
    return ToolStatus(text)


def _step_list(body: Any, where: str) -> tuple[StepDefinition, ...]:
    if not isinstance(body, list):
        raise invalid(where, "must be a list of steps")
    steps = cast("list[Any]", body)
    return tuple(StepDefinition.from_json(step, f"{where}[{number}]") for number, step in enumerate(steps))


def _by_step(fields: Fields, name: str, read: Callable[[Any, str], T]) -> dict[int, T]:
    """An object whose keys are step indices."""
    where = fields.place(name)
    members = fields.object(name, {})
    return {as_index(key, where): read(value, f"{where}.{key}") for key, value in members.items()}


def _indices(fields: Fields, name: str) -> tuple[int, ...]:
    items = fields.array(name, [])
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        raise invalid(fields.place(name), "must be a list of step indices")
    return tuple(items)


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    items = fields.array(name, [])
    if not all(isinstance(item, str) for item in items):
        raise invalid(fields.place(name), "must be a list of strings")
    return tuple(items)


def _one_of(fields: Fields, name: str, words: Any, default: str) -> Any:
    text = fields.text(name, default)
    if text not in get_args(words):
        raise invalid(fields.place(name), f"{text[:40]!r} is not one of {', '.join(get_args(words))}")
    return text
