"""Reads a planner's payload as a task's spec, and refuses what contradicts itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.json_schema import Schema, compile_schema
from twinraven.foundation.predicates import parse_predicate
from twinraven.governance.model import (
    AcceptanceCriterion,
    Constraints,
    RetryRule,
    Task,
    TaskSpec,
    TaskWork,
)
from twinraven.governance.money import check_currency, parse_minor
from twinraven.governance.work.contracts import TASK_PAYLOAD

_HARMLESS: Final = "trend_research"
"""The one type of task that leads to no effect by itself."""


@cache
def _schema() -> Schema:
    """Return the schema of a payload, compiled once."""
    return compile_schema(TASK_PAYLOAD)


def read_spec(payload: JsonObject, *, where: str = "payload") -> TaskSpec:
    """Read the spec that a payload from outside states."""
    _schema().check(payload, field=where)
    return _spec(payload, where)


def spec_of(task: Task) -> TaskSpec:
    """Return the spec of a task, which was checked before it was stored and has not changed since."""
    return _spec(task.spec_json, "payload")


def lacks_currency(payload: JsonObject) -> bool:
    """Return whether a payload has a max_budget and does not say what it is in."""
    stated: JsonObject | None = payload.get("constraints")
    if not isinstance(stated, dict):  # what is no object is refused by the schema
        return False
    return stated.get("max_budget") is not None and stated.get("currency") is None


def in_currency(payload: JsonObject, currency: str) -> JsonObject:
    """Return a payload whose max_budget is in this currency."""
    return {**payload, "constraints": {**payload["constraints"], "currency": currency}}


def _spec(payload: JsonObject, where: str) -> TaskSpec:
    stated: JsonObject = payload.get("constraints") or {}
    retry: JsonObject = payload.get("retry_policy") or {}
    criteria = _criteria(payload.get("acceptance_criteria") or [], where)
    if not criteria and payload["task_type"] != _HARMLESS:
        raise InvalidInput(
            f"{where}.acceptance_criteria must not be empty: a {payload['task_type']} task can lead to effects",
            field=f"{where}.acceptance_criteria",
        )
    return TaskSpec(
        task_type=payload["task_type"],
        description=payload["description"],
        inputs=payload.get("inputs") or {},
        constraints=_constraints(stated, f"{where}.constraints"),
        criteria=criteria,
        priority=payload.get("priority") or "normal",
        dependencies=_dependencies(payload, where),
        retry=RetryRule(retry.get("max_attempts", 3), retry.get("backoff_strategy", "exponential")),
        work=_work(payload.get("run")),
        raw=payload,
    )


def _work(stated: Mapping[str, str] | None) -> TaskWork | None:
    if not stated:
        return None
    kind, name = next(iter(stated.items()))
    return TaskWork(kind, name)  # pyright: ignore[reportArgumentType]  # the schema names the three kinds


def _dependencies(payload: JsonObject, where: str) -> tuple[str, ...]:
    names: list[str] = payload.get("dependencies") or []
    if len(set(names)) < len(names):
        raise InvalidInput(f"{where}.dependencies names a task twice", field=f"{where}.dependencies")
    return tuple(names)


def _criteria(stated: list[JsonObject], where: str) -> tuple[AcceptanceCriterion, ...]:
    found: dict[str, AcceptanceCriterion] = {}
    for number, each in enumerate(stated):
        place, check = f"{where}.acceptance_criteria[{number}]", each.get("check")
        if each["id"] in found:
            raise InvalidInput(f"{place}.id {each['id']!r} is there twice", field=f"{place}.id")
        if check is not None:
            parse_predicate(check)
        found[each["id"]] = AcceptanceCriterion(each["id"], each["description"], each.get("mandatory", True), check)
    return tuple(found.values())


def _constraints(stated: JsonObject, where: str) -> Constraints:
    window: JsonObject = stated.get("time_window") or {}
    starts_at, ends_at = _moment(window, "start", where), _moment(window, "end", where)
    if starts_at is not None and ends_at is not None and ends_at <= starts_at:
        raise InvalidInput(f"{where}.time_window ends before it begins", field=f"{where}.time_window.end")
    budget, currency = stated.get("max_budget"), stated.get("currency")
    if budget is not None and currency is None:
        raise InvalidInput(
            f"{where}.currency must say what max_budget is in, where the campaign's open budgets are not in one",
            field=f"{where}.currency",
        )
    if currency is not None:
        check_currency(currency, field=f"{where}.currency")
    return Constraints(
        channels=tuple(stated.get("channels") or ()),
        persona_ids=tuple(stated.get("persona_ids") or ()),
        safety_policies=tuple(stated.get("safety_policies") or ()),
        max_budget=None if budget is None else parse_minor(budget, str(currency), field=f"{where}.max_budget"),
        currency=currency,
        starts_at=starts_at,
        ends_at=ends_at,
    )


def _moment(window: JsonObject, name: str, where: str) -> datetime | None:
    text: Any = window.get(name)
    return None if text is None else parse_iso(text, field=f"{where}.time_window.{name}")
