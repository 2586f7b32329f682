"""Models a process and its steps: work that people define as data, in immutable versions.

    id: triage
    name: Triage an order
    description: Looks an order up and writes a note about it.
    initial_context: [order_id]
    steps:
      - id: look
        tool: get_order
        inputs: {order_id: "{step.order_id}"}
        output: {variable: order}
      - id: note
        tool: add_note
        inputs: {order_id: "{step.order_id}", text: "state is {step.order.state}"}
        output: {variable: note, required: false}
        execution: {mode: sequential, condition: "{step.order.state} == 'late'", timeout: 5000}
    output_template: "Order {{order_id}} is {{order.state}}."

Both spellings of a field are read (`initialContext`, `initial_context`); the second is written. Reading checks kinds
and nothing more; `checks` says whether a process makes sense.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, cast, get_args

from twinraven.catalog import plain_name
from twinraven.flow import Fields, invalid, refuse_excess
from twinraven.foundation.canonical import JsonObject, to_json_value
from twinraven.foundation.clock import iso

StepMode = Literal["parallel", "sequential"]
InteractionMode = Literal["auto", "manual"]

DEFAULT_RECURSION_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The variable that a step fills."""

    variable: str
    token_budget: int | None = None
    required: bool = True

    @classmethod
    def from_json(cls, body: Any, where: str) -> StepOutput:
        fields = _fields(body, where)
        read = cls(
            fields.text("variable"),
            fields.integer_or_null("token_budget"),
            _flag(fields, "required", default=True),
        )
        fields.finish()
        return read

    def as_json(self) -> JsonObject:
        return {"variable": self.variable, "token_budget": self.token_budget, "required": self.required}


@dataclass(frozen=True, slots=True)
class StepExecution:
    """The execution settings of a step: mode, condition, timeout and interaction."""

    mode: StepMode = "sequential"
    condition: str | None = None
    timeout: int | None = None
    """Milliseconds."""
    interaction_mode: InteractionMode = "auto"

    @classmethod
    def from_json(cls, body: Any, where: str) -> StepExecution:
        fields = _fields(body, where)
        read = cls(
            _one_of(fields, "mode", StepMode, "sequential"),
            fields.text_or_null("condition"),
            fields.integer_or_null("timeout"),
            _one_of(fields, "interaction_mode", InteractionMode, "auto"),
        )
        fields.finish()
        return read

    def as_json(self) -> JsonObject:
        return {
            "mode": self.mode,
            "condition": self.condition,
            "timeout": self.timeout,
            "interaction_mode": self.interaction_mode,
        }


@dataclass(frozen=True, slots=True)
class ProcessStep:
    """One unit of work: a call of a tool, or of another process."""

    id: str
    output: StepOutput
    tool: str | None = None
    process: str | None = None
    inputs: JsonObject = field(default_factory=dict[str, Any])
    execution: StepExecution = StepExecution()
    depends_on: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """The tool or the process that it calls."""
        return str(self.tool if self.process is None else self.process)

    @classmethod
    def from_json(cls, body: Any, where: str) -> ProcessStep:
        fields = _fields(body, where)
        step = cls(
            id=fields.text("id"),
            output=StepOutput.from_json(fields.take("output"), fields.place("output")),
            tool=fields.text_or_null("tool"),
            process=fields.text_or_null("process"),
            inputs=fields.object("inputs", {}),
            execution=StepExecution.from_json(fields.take("execution", {}), fields.place("execution")),
            depends_on=_texts(fields, "depends_on"),
        )
        fields.finish()
        if (step.tool is None) == (step.process is None):
            said = "neither" if step.tool is None else "both"
            raise invalid(where, f"must call exactly one tool or process, and names {said}", step=step.id)
        return step

    def as_json(self) -> JsonObject:
        body = {"id": self.id, "tool": self.tool, "process": self.process, "inputs": self.inputs}
        return {
            **body,
            "output": self.output.as_json(),
            "execution": self.execution.as_json(),
            "depends_on": list(self.depends_on),
        }


@dataclass(frozen=True, slots=True)
class Process:
    """A process that people define: its steps, inputs and output."""

    id: str
    description: str
    steps: tuple[ProcessStep, ...]
    name: str = ""
    initial_context: tuple[str, ...] = ()
    output_template: str | None = None
    """Handlebars; without one, the result is an object of all variables that steps filled."""
    token_budget: int | None = None
    max_recursion_depth: int = DEFAULT_RECURSION_DEPTH
    enabled: bool = True

    @classmethod
    def from_json(cls, body: Any) -> Process:
        """Read a definition; anything of the wrong kind is named by its place."""
        refuse_excess(body, "process")
        fields = _fields(to_json_value(body), "")
        steps = fields.array("steps")
        process_id = fields.text("id")
        process = cls(
            id=process_id,
            name=fields.text("name", process_id),
            description=fields.text("description"),
            initial_context=_texts(fields, "initial_context"),
            steps=tuple(ProcessStep.from_json(step, f"steps[{number}]") for number, step in enumerate(steps)),
            output_template=fields.text_or_null("output_template"),
            token_budget=fields.integer_or_null("token_budget"),
            max_recursion_depth=fields.integer("max_recursion_depth", DEFAULT_RECURSION_DEPTH),
            enabled=_flag(fields, "enabled", default=True),
        )
        fields.finish()
        return process

    def as_json(self) -> JsonObject:
        """Write the definition, detached from this object; reading it gives this process again."""
        body = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "initial_context": list(self.initial_context),
            "steps": [step.as_json() for step in self.steps],
            "output_template": self.output_template,
            "token_budget": self.token_budget,
            "max_recursion_depth": self.max_recursion_depth,
            "enabled": self.enabled,
        }
        return cast("JsonObject", to_json_value(body))


@dataclass(frozen=True, slots=True)
class ProcessVersion:
    """A process as it was saved once; it never changes."""

    process: Process
    version: int
    owner_id: str
    saved_by: str
    created_at: datetime
    """When the first version was saved."""
    updated_at: datetime
    """When this one was."""

    def as_json(self) -> JsonObject:
        return {
            **self.process.as_json(),
            "version": self.version,
            "owner_id": self.owner_id,
            "saved_by": self.saved_by,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


def _fields(body: Any, where: str) -> Fields:
    """Return an object under the plain names of its fields."""
    if not isinstance(body, dict):
        raise invalid(where or "process", "must be an object")
    named: JsonObject = {}
    for written, value in cast("JsonObject", body).items():
        name = plain_name(written)
        if name in named:
            raise invalid(f"{where}.{name}" if where else name, "is given twice")
        named[name] = value
    return Fields(named, where)


def _flag(fields: Fields, name: str, *, default: bool) -> bool:
    value = fields.take(name, default)
    if not isinstance(value, bool):
        raise invalid(fields.place(name), "must be true or false")
    return value


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
