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
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.formats.trace import ForeignCall, Heard, LineError, TraceCounts
from twinraven.muninn.model import Observation

SEQUENCE_LIMIT = 1_000_000_000
"""Places in a session; as microseconds they must not reach the next time base."""

_ACTOR_NAMES = ("actor", "principal", "user_id")
_OUTCOMES = ("success", "failure", "partial")


def recognises(value: Any) -> bool:
    """Return whether this is a call of the plain form, or a list of them."""
    if isinstance(value, list):
        return any(map(recognises, cast("list[Any]", value)[:1]))
    return isinstance(value, dict) and "session_id" in value and "tool" in value


class CallsParser:
    """Each line is a call that needs no other; a file may also be one array of them."""

    keeps_ids = False

    def __init__(self, tenant_id: str) -> None:
        self._tenant_id = tenant_id
        self.seen = TraceCounts("lines", "is a call")

    def feed(self, line: bytes, number: int) -> Iterable[Heard]:
        self.seen.count("as one call each")
        found = parse_json(line, field="the line")
        if not isinstance(found, list):
            return (_call(found, self._tenant_id),)
        return self._each(cast("list[Any]", found), number)

    def _each(self, items: list[Any], number: int) -> Iterable[Heard]:
        for place, item in enumerate(items):
            try:
                yield _call(item, self._tenant_id)
            except InvalidInput as error:
                yield LineError(number, f"[{place}]: {error.message}")

    def finish(self) -> Iterable[Heard]:
        return ()


def parse_call(line: bytes, tenant_id: str) -> Observation:
    """Parse one line; its timestamp is only its place in the session."""
    return _call(parse_json(line, field="the line"), tenant_id)


def _call(found: Any, tenant_id: str) -> Observation:
    if not isinstance(found, dict):
        raise InvalidInput("the line is not a JSON object", field="line")
    call = cast("dict[str, Any]", found)
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
