"""`calls`: the plain format of recorded agent traces, one call a line.

A line has session_id, seq, tool, params, output and, where known, ok, session_outcome, user_before, llm_turn, task_id
and actor (or principal, or user_id): on whose behalf the call ran, as `agent:planner` or as the plain name of a person.
Fields of other names are ignored. A line's identity is made of format, session, seq and content, so that reading a file
twice adds nothing, and two different calls that claim one place are both kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import orjson

from twinraven.foundation.actors import Actor, parse_actor
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.formats.trace import ForeignCall, Heard, parse_object
from twinraven.muninn.model import Observation

SEQUENCE_LIMIT = 1_000_000_000
"""Places in a session; as microseconds they must not reach the next time base."""

_ACTOR_NAMES = ("actor", "principal", "user_id")
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
    session_id = _need(call, "session_id")
    seq = _whole(call, "seq")
    return ForeignCall(
        identity=f"calls:{session_id}:{seq}",
        session_id=session_id,
        tool_id=_need(call, "tool"),
        params=_params(call),
        timestamp=seq,
        time_known=False,
        output=call.get("output"),
        raised=_has_failed(call),
        outcome=_outcome(call),
        turn=None if call.get("llm_turn") is None else _whole(call, "llm_turn"),
        task_id=_task(call),
        outside_input=_said(call),
        actor=_actor(call),
    ).observed_for(tenant_id)


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


def _outcome(call: dict[str, Any]) -> str | None:
    outcome = call.get("session_outcome")
    if outcome is not None and outcome not in _OUTCOMES:
        raise InvalidInput(
            f"session_outcome must be success, failure or partial, not {outcome!r}", field="session_outcome"
        )
    return outcome


def _task(call: dict[str, Any]) -> str | None:
    task = call.get("task_id")
    return str(task) if type(task) is int else task


def _actor(call: dict[str, Any]) -> Actor | None:
    """On whose behalf the call ran, by the first of the names that traces use for it."""
    stated = next((name for name in _ACTOR_NAMES if call.get(name) is not None), None)
    return None if stated is None else parse_actor(call[stated], field=stated)


def _said(call: dict[str, Any]) -> str | None:
    said = call.get("user_before")
    return said if said is None or isinstance(said, str) else orjson.dumps(said).decode()
