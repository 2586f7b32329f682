"""Finds the reads that an agent could have asked for together, through the built-in batch tool.

They follow each other without anything from outside between them, and every argument was known before the first of
them was made, or given in it. A call that needs the answer of another ends the batch.
"""

from __future__ import annotations

from collections.abc import Callable

from twinraven.catalog import BATCH_READS
from twinraven.huginn.knowledge import SessionKnowledge
from twinraven.huginn.rehearsal import MadeCall
from twinraven.huginn.traces import RecordedCall, SessionTrace

BATCH_TOOL_ID = BATCH_READS
MAX_BATCH = 20


def batch_at(
    session: SessionTrace, position: int, knowledge: SessionKnowledge, may_join: Callable[[RecordedCall], bool]
) -> list[MadeCall] | None:
    """Return the calls of a batch that would have begun here; None where it would save no turn."""
    first = session.calls[position]
    joined: dict[str, RecordedCall] = {first.key: first}
    for call in session.calls[position + 1 :]:
        if call.outside_input is not None or len(joined) == MAX_BATCH:
            break
        if call.key in joined:
            continue
        if not may_join(call) or not (call.turn == first.turn or knowledge.knows_with(call.params, position)):
            break
        joined[call.key] = call
    if all(call.turn == first.turn for call in joined.values()):
        return None
    return [MadeCall(call.tool_id, call.params, key, not call.raised, call.output) for key, call in joined.items()]
