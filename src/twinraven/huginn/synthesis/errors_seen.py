"""Infers an error strategy from observed errors.

A step that failed and then went well with the same arguments is worth retrying; one that never did is not. A map goes
on without an item that failed, because the agent would have; everything before it must succeed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinraven.huginn.instances import Instance
from twinraven.huginn.traces import RecordedCall

LEAST_RETRIES = 2
_BACKOFF_MS = 200


def error_strategy(steps: Sequence[dict[str, Any]], instances: Sequence[Instance]) -> dict[str, Any]:
    """Retries where they were seen to help; skip failed items of a map; abort on anything else."""
    retry = {
        str(step["step_index"]): {"max_retries": 2, "backoff_strategy": "exponential", "backoff_ms": _BACKOFF_MS}
        for step in steps
        if _retries_helped(step["tool_id"], instances) >= LEAST_RETRIES
    }
    mapped = [step for step in steps if step.get("for_each")]
    needed = [step["step_index"] for step in steps if not step.get("for_each")]
    return {
        "retry_policy": retry,
        "fallback_steps": {},
        "abort_conditions": [f"$.steps[{index}].output == null" for index in needed] if mapped else [],
        "default_behavior": "skip" if mapped else "abort",
    }


def _retries_helped(tool_id: str, instances: Sequence[Instance]) -> int:
    sessions = {instance.session.session_id: instance.session for instance in instances}
    return sum(_helped(tool_id, session.calls) for session in sessions.values())


def _helped(tool_id: str, calls: Sequence[RecordedCall]) -> int:
    failed: set[str] = set()
    helped = 0
    for call in calls:
        if call.tool_id != tool_id:
            continue
        if call.raised:
            failed.add(call.key)
        elif call.key in failed:
            failed.discard(call.key)
            helped += 1
    return helped
