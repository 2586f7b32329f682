"""Offers plans and their memory as built-in tools: run_plan for agents; memory_set, _get and _list for steps.

They are a source of the catalogue and connectors of the call path, so a call of one is governed and recorded like every
other. The tools of memory are in no list: planners are told of them, and whoever knows a name may call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from twinraven.calls import CallFrame
from twinraven.catalog import Effect, ToolEntry
from twinraven.foundation.actors import SYSTEM
from twinraven.foundation.canonical import JsonObject, content_hash
from twinraven.foundation.errors import InvalidInput, error_from_json
from twinraven.foundation.ids import new_id
from twinraven.plans.kernel import RUN_PLAN
from twinraven.plans.memory import MEMORY_SCOPES, Memory, MemoryPlace

if TYPE_CHECKING:
    from twinraven.engine import Lend
    from twinraven.plans.service import Plans

CONNECTOR: Final = "plans"
_KEY: Final = {"type": "string", "minLength": 1, "maxLength": 500}
_SCOPE: Final = {
    "enum": list(MEMORY_SCOPES),
    "default": "run",
    "description": "Whose memory: this run's, this user's, or everybody's.",
}
_TIMEOUT_MS: Final = 600_000


def _entry(tool_id: str, description: str, effect: Effect, required: list[str], **properties: Any) -> ToolEntry:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolEntry(
        tool_id=tool_id,
        description=description,
        input_schema=schema,
        effect=effect,
        effect_origin="declared",
        connector=CONNECTOR,
        timeout_ms=_TIMEOUT_MS if tool_id == RUN_PLAN else None,
        takes_key=True,
        definition=f"{tool_id}/1",
    )


MEMORY_TOOLS: Final = (
    _entry(
        "memory_set",
        "Remember a value under a key, for later steps of this plan or for other plans.",
        Effect.WRITE,
        ["key", "value"],
        key=_KEY,
        value={"description": "Any JSON value."},
        scope=_SCOPE,
        metadata={"type": "object"},
    ),
    _entry(
        "memory_get",
        "What is remembered under a key; found is false where nothing is.",
        Effect.READ,
        ["key"],
        key=_KEY,
        scope=_SCOPE,
    ),
    _entry(
        "memory_list",
        "What is remembered under keys that begin with a prefix.",
        Effect.READ,
        [],
        prefix={"type": "string", "maxLength": 500, "default": ""},
        scope=_SCOPE,
        limit={"type": "integer", "minimum": 1, "maximum": 1_000, "default": 100},
    ),
)
RUN_PLAN_TOOL: Final = _entry(
    RUN_PLAN,
    "Turn a request into a plan and carry it out step by step with the tools you may call; gives what each step gave.",
    Effect.WRITE,
    ["request"],
    request={"type": "string", "minLength": 1, "maxLength": 20_000, "description": "What is to be achieved."},
    ttl={"type": "integer", "minimum": 1, "maximum": 1_000, "description": "How often the model may be asked."},
)
_ENTRIES: Final = {entry.tool_id: entry for entry in (*MEMORY_TOOLS, RUN_PLAN_TOOL)}


class PlanTools:
    """The tools: where they come from, and what runs them."""

    name = CONNECTOR

    def __init__(self, memory: Memory, plans: Callable[[], Plans], lend: Lend, *, offers_plans: bool) -> None:
        """`offers_plans` says whether run_plan is listed, which needs a model."""
        self._memory = memory
        self._plans = plans
        self._lend = lend
        self._listed = [RUN_PLAN_TOOL] if offers_plans else []

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return _ENTRIES.get(tool_id)

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return self._listed

    async def invoke(self, entry: ToolEntry, params: JsonObject, *, call: CallFrame) -> Any:
        """Run one of the tools for its caller."""
        if entry.tool_id == RUN_PLAN:
            return await self._run_plan(params, call)
        place = _place(params.get("scope", "run"), call)
        if entry.tool_id == "memory_set":
            kept = await self._memory.write(place, params["key"], params["value"], metadata=params.get("metadata"))
            return {"key": kept.key, "version": kept.version}
        if entry.tool_id == "memory_get":
            found = await self._memory.read(place, params["key"])
            return {"found": False, "key": params["key"]} if found is None else {"found": True, **found.as_json()}
        entries = await self._memory.search(place, params.get("prefix", ""), limit=params.get("limit", 100))
        return {"entries": [each.as_json() for each in entries]}

    async def _run_plan(self, params: JsonObject, call: CallFrame) -> Any:
        from twinraven.engine import ended_run, somebody_working  # loaded with the first plan

        plans = self._plans()
        run_id = new_id() if call.key is None else f"call-{content_hash(call.key.encode())}"
        wish = plans.wish(request=params["request"], ttl=params.get("ttl"))
        await plans.start_for(
            wish, tenant_id=call.tenant_id, caller=call.caller, actor=call.actor or SYSTEM, run_id=run_id
        )
        async with somebody_working(plans.runs, self._lend):
            found = await ended_run(plans.runs, call.tenant_id, run_id)
        if found.error is not None:
            raise error_from_json(found.error)
        return {"run_id": run_id, **found.output}


def _place(scope: Any, call: CallFrame) -> MemoryPlace:
    if scope == "run":
        if call.task_id is None:
            raise InvalidInput("only a step of a run has a memory of its run; use scope user or shared", field="scope")
        return MemoryPlace(call.tenant_id, "run", call.task_id)
    return MemoryPlace(call.tenant_id, scope, (call.caller or "") if scope == "user" else "")
