"""Models a plan and its steps, with the rules that hold for each: what is read, written and checked.

    goal: Tell the customer where the order is.
    steps:
      - step_id: look
        description: Look the order up.
        tool: get_order
        arguments: {order_id: W1001}
      - step_id: word
        description: Word an answer for the customer.
        agent: llm

`arguments`, `critical` and `depends_on` are additions: arguments that need no model, a step whose failure ends the
plan, and steps that must have been completed before. Reading raises with the field that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Literal, cast, get_args

from twinraven.foundation.canonical import JsonObject, to_json_value
from twinraven.foundation.errors import IllegalTransition, InvalidInput

StepStatus = Literal["pending", "running", "complete", "failed"]

STEP_STATUSES: Final[tuple[StepStatus, ...]] = get_args(StepStatus)
STEP_TRANSITIONS: Final[Mapping[StepStatus, frozenset[StepStatus]]] = {
    "pending": frozenset({"running"}),
    "running": frozenset({"complete", "failed"}),
    "complete": frozenset(),
    "failed": frozenset(),
}
FINAL: Final = frozenset({"complete", "failed"})
AGENT: Final = "llm"

MAX_STEPS: Final = 200
MAX_TEXT: Final = 20_000
MAX_STEP_ID: Final = 100
_STEP_FIELDS: Final = (
    "step_id",
    "description",
    "status",
    "tool",
    "agent",
    "errors",
    "arguments",
    "critical",
    "depends_on",
)
_NUMBERED: Final = re.compile(r"(.*?)(\d{1,9})")
_STEP_ID: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan."""

    step_id: str
    description: str
    status: StepStatus = "pending"
    tool: str | None = None
    agent: str | None = None
    errors: tuple[str, ...] = ()
    arguments: JsonObject | None = None
    """What the tool is called with; without them the model is asked for them."""
    critical: bool = False
    """Whether its failure ends the plan."""
    depends_on: tuple[str, ...] = ()
    """Steps before it that must be complete; where one has failed, this one fails too."""

    def __post_init__(self) -> None:
        _check_text(self.step_id, "step_id", MAX_STEP_ID)
        _check_text(self.description, "description", MAX_TEXT)
        if not _STEP_ID.fullmatch(self.step_id):
            raise InvalidInput("step_id has letters, digits, dots, dashes and low lines", field="step_id")
        if self.status not in STEP_STATUSES:
            raise InvalidInput(f"status must be one of {', '.join(STEP_STATUSES)}, not {self.status!r}", field="status")
        if self.tool is not None:
            _check_text(self.tool, "tool", MAX_STEP_ID * 3)
        if self.agent not in (None, AGENT):
            raise InvalidInput(f"agent must be {AGENT!r} where it is given, not {self.agent!r}", field="agent")

    def moved(self, status: StepStatus) -> PlanStep:
        """Return the step in its next status; a status never goes back. A final status clears its errors."""
        if status not in STEP_TRANSITIONS[self.status]:
            raise IllegalTransition(
                f"step {self.step_id!r} is {self.status} and cannot become {status}",
                step_id=self.step_id,
                state=self.status,
            )
        return replace(self, status=status, errors=() if status in FINAL else self.errors)

    @classmethod
    def from_json(cls, body: Any, where: str) -> PlanStep:
        """Read a step; what is missing, unknown or of the wrong kind is named by its place."""
        found = _object(body, where)
        _refuse_unknown(found, _STEP_FIELDS, where)
        try:
            return cls(
                step_id=_text(found, "step_id"),
                description=_text(found, "description"),
                status=cast("StepStatus", "pending" if found.get("status") is None else found["status"]),
                tool=_text_or_none(found, "tool"),
                agent=_text_or_none(found, "agent"),
                errors=_texts(found, "errors"),
                arguments=_arguments(found),
                critical=_flag(found, "critical"),
                depends_on=_texts(found, "depends_on"),
            )
        except InvalidInput as error:
            place = f"{where}.{error.details.get('field', '')}".rstrip(".")
            raise InvalidInput(f"{where}: {error.message}", field=place) from None

    def as_json(self) -> JsonObject:
        return {
            "step_id": self.step_id,
            "description": self.description,
            "status": self.status,
            "tool": self.tool,
            "agent": self.agent,
            "errors": list(self.errors),
            "arguments": self.arguments,
            "critical": self.critical,
            "depends_on": list(self.depends_on),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """A goal and the steps that lead to it, in their order."""

    goal: str
    steps: tuple[PlanStep, ...] = field(default=())

    def __post_init__(self) -> None:
        _check_text(self.goal, "goal", MAX_TEXT)
        if not self.steps:
            raise InvalidInput("a plan has at least one step", field="steps")
        if len(self.steps) > MAX_STEPS:
            raise InvalidInput(
                f"a plan has at most {MAX_STEPS} steps, this one {len(self.steps)}; make several of it", field="steps"
            )
        _check_ids([step.step_id for step in self.steps])
        _check_order(self.steps)

    @classmethod
    def from_json(cls, body: Any) -> Plan:
        """Read a plan and check it; the error names the field."""
        found = _object(body, "plan")
        _refuse_unknown(found, ("goal", "steps"), "plan")
        steps = found.get("steps")
        if not isinstance(steps, list):
            raise InvalidInput("steps must be a list", field="steps")
        items = cast("list[Any]", steps)
        if len(items) > MAX_STEPS:
            raise InvalidInput(
                f"a plan has at most {MAX_STEPS} steps, this one {len(items)}; make several of it", field="steps"
            )
        return cls(
            _text(found, "goal"),
            tuple(PlanStep.from_json(step, f"steps[{number}]") for number, step in enumerate(items)),
        )

    def as_json(self) -> JsonObject:
        return {"goal": self.goal, "steps": [step.as_json() for step in self.steps]}

    def step(self, step_id: str) -> PlanStep:
        """Return the step of this id."""
        return next(step for step in self.steps if step.step_id == step_id)

    def with_step(self, changed: PlanStep) -> Plan:
        """Return the plan with one step changed."""
        place, before = next((place, step) for place, step in enumerate(self.steps) if step.step_id == changed.step_id)
        steps = (*self.steps[:place], changed, *self.steps[place + 1 :])
        if changed.depends_on != before.depends_on:
            return replace(self, steps=steps)
        # Ids and order are as they were, and looking through all steps again costs more than most cycles do.
        plan = copy(self)
        object.__setattr__(plan, "steps", steps)
        return plan

    def changes(self, after: Plan) -> list[PlanStep] | None:
        """Return the steps that a later state of this plan has changed; None where it is another plan."""
        if self.goal != after.goal or len(self.steps) != len(after.steps):
            return None
        changed = [(before, now) for before, now in zip(self.steps, after.steps, strict=True) if now is not before]
        if any(before.step_id != now.step_id for before, now in changed):
            return None
        return [now for before, now in changed if now != before]

    @property
    def next_step(self) -> PlanStep | None:
        """The first step that has not come to its end."""
        return next((step for step in self.steps if step.status not in FINAL), None)

    @property
    def is_fresh(self) -> bool:
        """Whether no step has begun."""
        return all(step.status == "pending" for step in self.steps)


def _check_ids(ids: list[str]) -> None:
    seen: dict[str, int] = {}
    for number, each in enumerate(ids):
        if each in seen:
            raise InvalidInput(
                f"steps[{number}].step_id {each!r} is that of steps[{seen[each]}] too; each id is used once",
                field=f"steps[{number}].step_id",
            )
        seen[each] = number


def _check_order(steps: tuple[PlanStep, ...]) -> None:
    """Steps stand in the order in which they run: numbered ids leave no gap, nothing depends on what comes later."""
    numbered = [_NUMBERED.fullmatch(step.step_id) for step in steps]
    if all(numbered) and len({found[1] for found in numbered if found}) == 1:
        numbers = [int(found[2]) for found in numbered if found]
        for place, (before, after) in enumerate(pairwise(numbers), start=1):
            if after != before + 1:
                raise InvalidInput(
                    f"steps[{place}].step_id {steps[place].step_id!r} does not follow {steps[place - 1].step_id!r}; "
                    "numbered steps stand in order without gaps",
                    field=f"steps[{place}].step_id",
                )
    earlier: set[str] = set()
    for place, step in enumerate(steps):
        for other in step.depends_on:
            if other not in earlier:
                raise InvalidInput(
                    f"steps[{place}].depends_on names {other!r}, which is no step before it; steps run in order, "
                    "so none waits for itself or a later one",
                    field=f"steps[{place}].depends_on",
                )
        earlier.add(step.step_id)


def _object(body: Any, where: str) -> JsonObject:
    if not isinstance(body, dict):
        raise InvalidInput(f"{where} must be an object", field=where)
    return cast("JsonObject", body)


def _refuse_unknown(found: JsonObject, known: tuple[str, ...], where: str) -> None:
    unknown = [name for name in found if name not in known]
    if unknown:
        name = str(unknown[0])[:60]
        raise InvalidInput(f"{where} has no field {name!r}; there are {', '.join(known)}", field=f"{where}.{name}")


def _check_text(value: Any, name: str, limit: int) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} must be a text that is not empty", field=name)
    if len(value) > limit:
        raise InvalidInput(f"{name} has {len(value)} characters, at most {limit} are taken", field=name)


def _text(found: JsonObject, name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is missing" if value is None else f"{name} must be a text", field=name)
    return value


def _text_or_none(found: JsonObject, name: str) -> str | None:
    return None if found.get(name) is None else _text(found, name)


def _texts(found: JsonObject, name: str) -> tuple[str, ...]:
    value = found.get(name)
    items = cast("list[Any]", [] if value is None else value)
    if not isinstance(value, (list, type(None))) or not all(isinstance(item, str) for item in items):
        raise InvalidInput(f"{name} must be a list of texts", field=name)
    return tuple(items)


def _flag(found: JsonObject, name: str) -> bool:
    value = found.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false", field=name)
    return bool(value)


def _arguments(found: JsonObject) -> JsonObject | None:
    value = found.get("arguments")
    if value is not None and not isinstance(value, dict):
        raise InvalidInput("arguments must be an object", field="arguments")
    # Files in YAML have values, such as dates, that JSON has not.
    return None if value is None else cast("JsonObject", to_json_value(value))
