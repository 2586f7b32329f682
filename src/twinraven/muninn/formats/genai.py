"""Names the attributes of OpenTelemetry's GenAI conventions for tool calls, and ours for what they lack.

The conventions still move; whoever reads or writes spans takes the names from here, so that a change is made once.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_TYPE_FUNCTION = "function"
CALL_ID = "gen_ai.tool.call.id"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
CONVERSATION = "gen_ai.conversation.id"
ERROR_TYPE = "error.type"
SERVICE_NAME = "service.name"

EVENT_ID = "twinraven.event.id"
PARENT_EVENT_ID = "twinraven.parent_event.id"
RESULT_ENCODING = "twinraven.result.encoding"
"""`json` where the result is JSON text whatever it holds; elsewhere a text may also be just a text."""
OUTCOME = "twinraven.outcome"
TURN = "twinraven.turn"
TASK_ID = "twinraven.task.id"
OUTSIDE_INPUT = "twinraven.outside_input"
TAGS = "twinraven.tags"
TIME_KNOWN = "twinraven.time_known"
CORRELATION_ID = "twinraven.correlation.id"
CORRECTS = "twinraven.corrects"

_RENAMED = {
    "event_id": EVENT_ID,
    "parent_event_id": PARENT_EVENT_ID,
    "task_id": TASK_ID,
    "correlation_id": CORRELATION_ID,
    "actor_type": "twinraven.actor.type",
    "actor_id": "twinraven.actor.id",
}


def attribute_of(field: str) -> str:
    """Return the attribute that tells an event's field which the conventions have no name for."""
    return _RENAMED.get(field, f"twinraven.{field}")


OWN = frozenset(
    (
        *(RESULT_ENCODING, TIME_KNOWN, OUTCOME, TURN, TASK_ID, OUTSIDE_INPUT, TAGS, CORRELATION_ID, EVENT_ID),
        *(PARENT_EVENT_ID, CORRECTS, attribute_of("actor_type"), attribute_of("actor_id")),
    )
)
"""The names that only our own exports have."""
