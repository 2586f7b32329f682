"""Defines a flow as data: parameters, steps, how values pass between them, and what to do when one fails.

Nothing here says where a definition comes from: learned tools, processes and plans are front ends that add their own
fields to it. `id`, `after`, `on_failure`, `for_each`, `max_items`, `output` and `timeout_ms` are additions to the file
format of learned tools; they are written only where they say something, so a file without them reads and writes back
unchanged. Reading checks kinds and nothing more; whether a definition makes sense is `validate_definition`'s question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Self, TypeVar, cast, get_args

from twinraven.flow.fields import Fields, as_index, as_object, invalid, refuse_excess
from twinraven.foundation.canonical import JsonObject, to_json_value

BackoffStrategy = Literal["fixed", "exponential"]
DefaultBehavior = Literal["retry", "skip", "abort"]

DEFAULT_MAX_ITEMS: Final = 100
PART_OF: Final = "__"
"""Stands between the id of a step and the ids of the steps that it was compiled to."""
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
    id: str | None = None
    """A name that keeps when steps move; without one, the index is the id."""
    after: tuple[str, ...] | None = None
    """The ids of the steps it waits for, beside those whose results it uses; without them, all before it."""
    on_failure: DefaultBehavior | None = None
    """What its failure leads to when retries and fallback have failed; without it, the strategy of the whole."""

    @property
    def step_id(self) -> str:
        """The id of this step in places, keys, `after` and references."""
        return str(self.step_index) if self.id is None else self.id

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
            id=fields.text_or_null("id"),
            after=_texts(fields, "after") if fields.has("after") else None,
            on_failure=_one_of(fields, "on_failure", DefaultBehavior) if fields.has("on_failure") else None,
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
        after = None if self.after is None else list(self.after)
        ours = {"for_each": self.for_each, "id": self.id, "after": after, "on_failure": self.on_failure}
        body |= {name: value for name, value in ours.items() if value is not None}
        if self.max_items != DEFAULT_MAX_ITEMS:
            body["max_items"] = self.max_items
        return body


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The retry policy of a step: attempts, and the backoff between them."""

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
        """Return the wait before the given retry, counted from 1."""
        if self.backoff_strategy == "fixed":
            return min(self.backoff_ms, MAX_BACKOFF_MS)
        return min(self.backoff_ms << min(retry - 1, 30), MAX_BACKOFF_MS)


@dataclass(frozen=True, slots=True)
class ErrorStrategy:
    """The error strategy: how failed steps are handled."""

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
class FlowDefinition:
    """A composite: what its caller gives, what it calls, and what comes back."""

    tags: ClassVar[tuple[str, ...]] = ()
    """What the catalogue says of such a composite."""

    tool_id: str
    description: str
    parameters: JsonObject
    steps: tuple[StepDefinition, ...]
    internal_wiring: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    error_strategy: ErrorStrategy = field(default_factory=ErrorStrategy)
    timeout_ms: int | None = None
    """For the whole; steps without a time of their own inherit it."""
    output: JsonObject | None = None
    """What the caller gets, as a mapping; without one, everything the steps gave."""

    @classmethod
    def from_json(cls, body: Any) -> Self:
        """Read the JSON form; anything of the wrong kind is named by its place."""
        refuse_excess(body)
        fields = Fields(to_json_value(body))
        definition = cls(**cls._read(fields))
        fields.finish()
        return definition

    def as_json(self) -> JsonObject:
        """Return the JSON form, detached from this object."""
        return cast("JsonObject", to_json_value(self._written()))

    def meaning(self) -> JsonObject:
        """Return the JSON form of what a run depends on; two definitions that mean the same have the same hash."""
        return self.as_json()

    @classmethod
    def _read(cls, fields: Fields) -> dict[str, Any]:
        """Read the arguments of the constructor."""
        wiring = fields.object("internal_wiring", {})
        return {
            "tool_id": fields.text("tool_id"),
            "description": fields.text("description"),
            "parameters": fields.object("parameters"),
            "steps": _step_list(fields.take("steps"), "steps"),
            "internal_wiring": {key: as_object(value, f"internal_wiring.{key[:40]}") for key, value in wiring.items()},
            "error_strategy": ErrorStrategy.from_json(fields.object("error_strategy", {})),
            "timeout_ms": fields.integer_or_null("timeout_ms"),
            "output": fields.object("output") if fields.has("output") else None,
        }

    def _written(self) -> JsonObject:
        body: JsonObject = {
            "tool_id": self.tool_id,
            "description": self.description,
            "parameters": self.parameters,
            "internal_wiring": self.internal_wiring,
            "steps": [step.as_json() for step in self.steps],
            "error_strategy": self.error_strategy.as_json(),
        }
        ours = {"timeout_ms": self.timeout_ms, "output": self.output}
        return body | {name: value for name, value in ours.items() if value is not None}


def _step_list(body: Any, where: str) -> tuple[StepDefinition, ...]:
    if not isinstance(body, list):
        raise invalid(where, "must be a list of steps")
    steps = cast("list[Any]", body)
    return tuple(StepDefinition.from_json(step, f"{where}[{number}]") for number, step in enumerate(steps))


def _by_step(fields: Fields, name: str, read: Callable[[Any, str], T]) -> dict[int, T]:
    """Return an object whose keys are step indices."""
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


def _one_of(fields: Fields, name: str, words: Any, default: str = "") -> Any:
    text = fields.text(name, default)
    if text not in get_args(words):
        raise invalid(fields.place(name), f"{text[:40]!r} is not one of {', '.join(get_args(words))}")
    return text
