"""A learned tool in the catalogue is as powerful as the most powerful of its steps."""

from __future__ import annotations

from itertools import product

import pytest

from tests.unit.flow.fakes import define, entry, step
from twinraven.catalog import Effect, Sensitivity, ToolEntry
from twinraven.flow import entry_of

_RANK = {Effect.READ: 0, Effect.UNKNOWN: 1, Effect.WRITE: 2}


@pytest.mark.parametrize(("first", "second"), list(product(Effect, Effect)))
def test_the_highest_effect_wins(first: Effect, second: Effect) -> None:
    """A write makes a write, an unknown counts as one, and only reads make a read."""
    effects = {"a": first, "b": second}
    made = entry_of(define(step("a"), step("b")), lambda tool_id: entry(tool_id, effect=effects[tool_id]))
    assert made.effect is max(first, second, key=_RANK.__getitem__)
    assert made.writes == (first is not Effect.READ or second is not Effect.READ)


def test_a_fallback_counts_and_an_absent_tool_counts_as_the_worst() -> None:
    """Effects and sensitivity of fallback steps and of tools that are not there are not forgotten."""

    def find(tool_id: str) -> ToolEntry | None:
        return entry(tool_id, effect=Effect.WRITE if tool_id == "c" else Effect.READ) if tool_id != "gone" else None

    fallback = {"fallback_steps": {"0": [step("c", step_index=0)]}}
    assert entry_of(define(step("a"), error_strategy=fallback), find).effect is Effect.WRITE
    absent = entry_of(define(step("a"), step("gone")), find)
    assert absent.writes
    assert absent.sensitivity is Sensitivity.HIGH
    assert absent.effect_origin == "none"


def test_the_entry_is_the_definition_seen_from_outside() -> None:
    """Name, description and schema are the definition's; the effect's origin is the weakest; the time is its budget."""

    def find(tool_id: str) -> ToolEntry:
        origin = "inferred" if tool_id == "a" else "declared"
        return entry(tool_id, effect_origin=origin, sensitivity=Sensitivity.MEDIUM)

    definition = define(step("a"), step("b"), timeout_ms=5_000)
    made = entry_of(definition, find)
    assert (made.tool_id, made.description) == (definition.tool_id, definition.description)
    assert made.input_schema == definition.parameters
    assert made.effect_origin == "inferred"
    assert made.sensitivity is Sensitivity.MEDIUM
    assert made.connector == "flow"
    assert made.timeout_ms is not None
    assert 5_000 < made.timeout_ms < 10_000
