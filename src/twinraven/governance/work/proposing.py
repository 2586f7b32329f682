"""Asks the configured model for the plan of a goal: tasks that name tools of the caller, as planner payloads.

What a model says is a proposal. It goes through the same checks as a plan from a file, and one that fails them goes
back to the model with what is wrong, a few times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twinraven.calls import CallContext
from twinraven.catalog import Catalog, ToolEntry
from twinraven.foundation.canonical import JsonObject, canonical_json
from twinraven.governance.model import Campaign, Goal, Task
from twinraven.governance.work.contracts import TASK_PAYLOAD
from twinraven.models import ModelQuestion, Models
from twinraven.tenancy import Principal

_MOST_TOOLS: Final = 50
_SYSTEM: Final = (
    "You plan work. Turn the goal into tasks that form a directed acyclic graph: each has a name, and `dependencies` "
    "lists the names of tasks that must be complete before it. A task that a tool can do has run.tool and its "
    "arguments as inputs; other tasks have no run and are for people or agents outside. Every task except "
    "trend_research needs acceptance_criteria. Answer with JSON alone."
)


def plan_schema() -> JsonObject:
    """Return the JSON Schema of a plan from a model."""
    task: JsonObject = {
        **TASK_PAYLOAD,
        "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 200}, **TASK_PAYLOAD["properties"]},
        "required": ["name", *TASK_PAYLOAD["required"]],
    }
    return {
        "type": "object",
        "properties": {"tasks": {"type": "array", "items": task, "minItems": 1, "maxItems": 50}},
        "required": ["tasks"],
    }


class PlanProposer:
    """Asks a model for plans."""

    def __init__(self, models: Callable[[], Models], catalog: Callable[[], Catalog]) -> None:
        self._models = models
        self._catalog = catalog

    def question(self, campaign: Campaign, goal: Goal, tasks: tuple[Task, ...], by: Principal) -> ModelQuestion:
        """Build the question to the model, on the current state."""
        tools = self._catalog().offered(by.tenant_id, by.user_id)[:_MOST_TOOLS]
        facts = {
            "goal": goal.description,
            "campaign": {"name": campaign.name, "persona_id": campaign.persona_id},
            "tasks_there_are": [_shown(task) for task in tasks],
            "tools": [_offered(tool) for tool in tools],
        }
        return ModelQuestion.of(canonical_json(facts).decode(), system=_SYSTEM, schema=plan_schema())

    async def ask(self, question: ModelQuestion, goal: Goal, *, by: Principal) -> tuple[str, list[JsonObject]]:
        """Return the model's words, and the tasks that it proposes."""
        context = CallContext(session_id=f"goal:{goal.goal_id}", caller=by.user_id, actor=by.actor)
        answer = await self._models().ask_json(question, context, tenant_id=by.tenant_id)
        value: Any = answer.value
        return canonical_json(value).decode(), list(value["tasks"])


def _shown(task: Task) -> JsonObject:
    return {"status": task.status, "description": task.spec_json.get("description"), "task_id": task.task_id}


def _offered(tool: ToolEntry) -> JsonObject:
    return {"tool": tool.tool_id, "description": tool.description, "arguments": tool.input_schema}
