"""`calls`: the plain format of recorded agent traces, one call a line.

A line has session_id, seq, tool, params, output and, where known, ok, session_outcome, user_before, llm_turn and
task_id. Fields of other names are ignored. A line's identity is made of format, session, seq and content, so that
reading a file twice adds nothing, and two different calls that claim one place are both kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import orjson
import xxhash

from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_uuid
from twinraven.muninn.collector import clean_text, encode_output, encode_params
from twinraven.muninn.formats.trace import Heard, parse_object
from twinraven.muninn.model import check_name
from twinraven.muninn.row import Observation

SEQUENCE_LIMIT = 1_000_000_000
"""Places in a session; as microseconds they must not reach the next time base."""

_OUTCOMES = ("success", "failure", "partial")


class CallsParser:
    """Each line is a call that needs no other."""

    keeps_ids = False

    def __init__(self, tenant_id: str) -> None:
        self._tenant_id = tenant_id

    def feed(self, line: bytes, number: int) -> Iterable[Heard]:
        del number
        return (parse_call(line, self._tenant_id),)

    def finish(self) -> Iterable[Heard]:
        return ()


def parse_call(line: bytes, tenant_id: str) -> Observation:
    """One line; its timestamp is only its place in the session."""
    call = parse_object(line)
    session_id = check_name(_need(call, "session_id"), field="session_id")
    seq = _whole(call, "seq")
    tool_id = check_name(_need(call, "tool"), field="tool")
    params = encode_params(_params(call))
    output = None if call.get("output") is None else encode_output(call["output"])
    content = xxhash.xxh64_hexdigest(b"\0".join((tool_id.encode(), params, output or b"")))
    has_failed = _has_failed(call)
    return Observation(
        tenant_id=tenant_id,
        event_id=new_uuid(),
        session_id=session_id,
        tool_id=tool_id,
        params=params,
        output=output,
        timestamp=seq,
        latency_ms=0,
        outcome=_outcome(call, has_failed=has_failed),
        tags=(),
        parent_event_id=None,
        raised=has_failed,
        error_code="TOOL_FAILED" if has_failed else None,
        turn=None if call.get("llm_turn") is None else _whole(call, "llm_turn"),
        task_id=_task(call),
        outside_input=_said(call),
        source_key=f"calls:{session_id}:{seq}:{content}",
        time_known=False,
        correlation_id=None,
    )


def _need(call: dict[str, Any], name: str) -> Any:
    value = call.get(name)
    if value is None:
        raise InvalidInput(f"{name} is missing", field=name)
    return value


def _params(call: dict[str, Any]) -> dict[str, Any]:
    params = call.get("params")
    if isinstance(params, dict):
        return cast("dict[str, Any]", params)
    return {} if params is None else {"input": params}


def _whole(call: dict[str, Any], name: str) -> int:
    value = _need(call, name)
    if type(value) is not int or not 0 <= value < SEQUENCE_LIMIT:
        raise InvalidInput(f"{name} must be a whole number from 0 to {SEQUENCE_LIMIT - 1}, not {value!r}", field=name)
    return value


def _has_failed(call: dict[str, Any]) -> bool:
    ok = call.get("ok")
    if ok is not None and type(ok) is not bool:
        raise InvalidInput(f"ok must be true or false, not {ok!r}", field="ok")
    return ok is False


def _outcome(call: dict[str, Any], *, has_failed: bool) -> str:
    outcome = call.get("session_outcome")
    if outcome is None:
        return "failure" if has_failed else "partial"
    if outcome not in _OUTCOMES:
        raise InvalidInput(
            f"session_outcome must be success, failure or partial, not {outcome!r}", field="session_outcome"
        )
    return outcome


def _task(call: dict[str, Any]) -> str | None:
    task = call.get("task_id")
    if task is None:
        return None
    return check_name(str(task) if type(task) is int else task, field="task_id")


def _said(call: dict[str, Any]) -> str | None:
    said = call.get("user_before")
    if said is None:
        return None
    return clean_text(said if isinstance(said, str) else orjson.dumps(said).decode())
