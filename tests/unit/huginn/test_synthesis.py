"""Synthesis: which source each argument gets, and how the definition says so."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tests.unit.huginn.billing_world import INVOICE, LOAD, LOOKUP, RATE, SessionScript, billing_sessions, traces
from twinraven.catalog import Effect, ToolEntry
from twinraven.flow import validate_definition
from twinraven.foundation.json_schema import compile_schema
from twinraven.huginn import CandidateChain, Learner, LearningConfig, SessionTrace, ToolCandidate, ToolFacts
from twinraven.huginn.crossfit import Folds
from twinraven.huginn.synthesis.wiring import IN_ALL
from twinraven.registry import SynthesizedTool

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def synthesize(
    sessions: list[SessionTrace], *tools: str, with_writes: bool = False, facts: ToolFacts | None = None
) -> ToolCandidate | str:
    learner = Learner(LearningConfig(), facts or ToolFacts(), now=lambda: NOW)
    chain = CandidateChain(
        chain_id=UUID(int=7),
        tools=tools,
        support=0.5,
        confidence=0.5,
        avg_latency_ms=0,
        failure_rate=0.0,
        sample_event_ids=(),
        discovered_at=NOW,
        mining_config={},
    )
    fitted = learner.cross_fit(chain, sessions, with_writes=with_writes)
    return fitted if isinstance(fitted, str) else fitted.tool


def definition_of(sessions: list[SessionTrace], *tools: str) -> SynthesizedTool:
    tool = synthesize(sessions, *tools)
    assert isinstance(tool, ToolCandidate), tool
    return tool.definition


def pairs(make: Callable[[random.Random], tuple[Any, Any]], *, count: int = 60) -> list[SessionTrace]:
    """Sessions of two calls, where `make` gives the first's output and the second's argument."""
    rng = random.Random(5)
    scripts: list[SessionScript] = []
    for number in range(count):
        script = SessionScript(f"p{number}", f"task-{number}")
        output, argument = make(rng)
        script.call("find_thing", {"query": f"q{number}"}, output, said=f"look for q{number}")
        script.call("read_thing", {"ref": argument}, {"ok": True})
        scripts.append(script)
    return traces(scripts)


@pytest.mark.req("TR-15")
def test_a_chain_becomes_a_complete_tool() -> None:
    """Slug, description, schema, wiring, steps, error strategy, provenance and version are all there and valid."""
    tool = definition_of(billing_sessions(200), LOOKUP, LOAD, INVOICE)
    assert tool.tool_id == "search_customer_load_customer_get_invoice_each"
    assert tool.source_chain_id == str(UUID(int=7))
    assert tool.version == 1
    assert tool.status == "draft"
    assert (tool.parameters["required"], tool.parameters["additionalProperties"]) == (["email"], False)
    assert tool.parameters["$schema"].endswith("2020-12/schema")
    compile_schema(tool.parameters).check({"email": "x@y.test"})
    assert tool.internal_wiring == {
        "0": {"customer_id": "$.steps[0].output.customer.id"},
        "1": {
            "invoices": {
                "$where": {"of": "$.steps[1].output.invoices", "at": "$.id", "among": "$.parameters.only_invoice_ids"}
            }
        },
    }
    only = tool.parameters["properties"]["only_invoice_ids"]
    assert (only["type"], only["items"], only["minItems"]) == ("array", {"type": "string"}, 1)
    assert only["description"] == "Only these of the invoices; all of them if left out."
    load, invoice = tool.steps[1:]
    assert load.input_mapping == {"customer_id": "$.internal_wiring.0.customer_id", "detail": "$.parameters.detail"}
    assert tool.parameters["properties"]["detail"]["default"] == "full"
    assert invoice.for_each == "$.internal_wiring.1.invoices"
    assert invoice.input_mapping == {"invoice_id": "$.item.id"}
    assert tool.error_strategy.default_behavior == "skip"
    validate_definition(tool, lambda name: ToolEntry(name, "known", {"type": "object"}))


def test_what_the_first_tool_lets_out_may_be_left_out() -> None:
    """An argument with a default of the tool's own, which records show with every call, need not be given."""
    scripts: list[SessionScript] = []
    for number in range(40):
        script = SessionScript(f"p{number}", f"task-{number}")
        script.call("find_thing", {"query": f"q{number}", "deep": False}, {"id": f"t{number}"}, said=f"find q{number}")
        script.call("read_thing", {"ref": f"t{number}"}, {"ok": True})
        scripts.append(script)
    schema = {"type": "object", "properties": {"query": {}, "deep": {"type": "boolean", "default": False}}}
    entry = ToolEntry("find_thing", "finds", schema, effect=Effect.READ)
    tool = synthesize(traces(scripts), "find_thing", "read_thing", facts=ToolFacts([entry]))
    assert isinstance(tool, ToolCandidate), tool
    assert tool.definition.parameters["required"] == ["query"]
    assert tool.definition.steps[0].input_mapping["deep"] == "$.parameters.deep"


def _few_tasks(tasks: int, sessions: int) -> list[SessionTrace]:
    """Sessions of one habit over a few tasks, among others that do something else."""
    scripts: list[SessionScript] = []
    for number in range(sessions):
        script = SessionScript(f"f{number}", f"task-{number % tasks}")
        script.call("find_thing", {"query": f"q{number}"}, {"id": f"thing-{number}"}, said=f"look for q{number}")
        script.call("read_thing", {"ref": f"thing-{number}"}, {"ok": True})
        scripts.append(script)
    for number in range(40):
        script = SessionScript(f"o{number}", f"other-{number}")
        script.call("get_weather", {"city": f"c{number}"}, {"sky": "grey"}, said="how is the weather?")
        scripts.append(script)
    return traces(scripts)


def test_a_fold_that_leaves_little_does_not_speak_against_a_wiring() -> None:
    """Four tasks suffice, though without one of them only three are left; three are still too few."""
    assert isinstance(synthesize(_few_tasks(4, 20), "find_thing", "read_thing"), ToolCandidate)
    refused = synthesize(_few_tasks(3, 20), "find_thing", "read_thing")
    assert refused == "step 1 (read_thing): all samples come from 3 tasks, at least 4 are needed"


def test_folds_that_are_left_with_too_little_say_so() -> None:
    """Where the sessions outside a fold give no tool, the reason names what is missing, not only that folds differ."""
    sessions = _few_tasks(4, 20)
    tool = synthesize(sessions, "find_thing", "read_thing")
    refused = Folds(sessions).cross_fit(lambda _, least: tool if least is IN_ALL else "only 5 sessions show it")
    assert isinstance(refused, str)
    assert refused.endswith("only 0 of 5 folds agree; without one of them: only 5 sessions show it")


@pytest.mark.req("TR-15")
def test_the_same_samples_give_the_same_tool() -> None:
    """Synthesis is deterministic to the letter."""
    first = definition_of(billing_sessions(200), LOOKUP, LOAD, INVOICE)
    second = definition_of(billing_sessions(200), LOOKUP, LOAD, INVOICE)
    assert first.as_json() == second.as_json()


@pytest.mark.req("TR-15")
def test_every_choice_carries_its_evidence() -> None:
    """For each argument the definition says where it comes from and how many samples agree."""
    evidence = definition_of(billing_sessions(200), LOOKUP, LOAD).evidence
    argument = evidence["steps"][1]["arguments"]["customer_id"]
    assert argument["source"] == "$.steps[0].output.customer.id"
    assert argument["for"] > 100
    assert argument["against"] == 0


@pytest.mark.req("TR-15")
def test_two_values_of_one_output_are_wired_under_two_names() -> None:
    """Where two steps take different values of one output for arguments of one name, each gets its own."""
    scripts: list[SessionScript] = []
    for number in range(40):
        script = SessionScript(f"p{number}", f"task-{number}")
        found = {"first": {"id": f"a-{number * 7}"}, "second": {"id": f"b-{number * 11}"}}
        script.call("find_thing", {"query": f"q{number}"}, found, said=f"look for q{number}")
        script.call("read_thing", {"ref": f"a-{number * 7}"}, {"ok": True})
        script.call("get_thing", {"ref": f"b-{number * 11}"}, {"ok": True})
        scripts.append(script)
    tool = definition_of(traces(scripts), "find_thing", "read_thing", "get_thing")
    wired = {f"$.internal_wiring.0.{name}": source for name, source in tool.internal_wiring["0"].items()}
    assert [wired[step.input_mapping["ref"]] for step in tool.steps[1:]] == [
        "$.steps[0].output.first.id",
        "$.steps[0].output.second.id",
    ]


def test_a_nested_field_is_found_by_its_path() -> None:
    """A value deep in an output is wired by its exact path."""
    tool = definition_of(pairs(lambda rng: (_nested(value := rng.randrange(10**9)), value)), "find_thing", "read_thing")
    assert tool.internal_wiring["0"]["ref"] == "$.steps[0].output.hits[0].meta.ref"


def _as_text(number: int) -> tuple[Any, Any]:
    return {"id": number}, str(number)


def _as_number(number: int) -> tuple[Any, Any]:
    return {"id": str(number)}, number


def _with_a_mark(number: int) -> tuple[Any, Any]:
    return {"id": f"W{number}"}, f"#W{number}"


def _end_of_a_path(number: int) -> tuple[Any, Any]:
    return {"url": f"https://shop.test/items/{number}"}, str(number)


_WIRED = "$.internal_wiring.0.ref"


@pytest.mark.parametrize(
    ("make", "mapping"),
    [
        (_as_text, {"$string": _WIRED}),
        (_as_number, {"$integer": _WIRED}),
        (_with_a_mark, {"$affix": {"of": _WIRED, "before": "#", "after": ""}}),
        (_end_of_a_path, {"$part": {"of": _WIRED, "separator": "/", "index": -1}}),
    ],
)
def test_a_value_changed_on_the_way_is_found(make: Callable[[int], tuple[Any, Any]], mapping: Any) -> None:
    """Casts, text around a value and parts of a text are inferred where no plain path explains the samples."""
    tool = definition_of(pairs(lambda rng: make(rng.randrange(10**6, 10**9))), "find_thing", "read_thing")
    assert tool.steps[1].input_mapping == {"ref": mapping}


def test_what_nothing_explains_but_the_caller_knew_becomes_a_parameter() -> None:
    """An argument the user had named before the chain began is asked of the caller."""
    rng = random.Random(6)
    scripts: list[SessionScript] = []
    for number in range(60):
        script = SessionScript(f"k{number}", f"task-{number}")
        wish, place = f"wish-{rng.randrange(10**6)}", rng.randrange(10**9)
        script.call("find_thing", {"query": "q"}, {"place": place}, said=f"for {wish} please")
        script.call("read_thing", {"place": place, "wish": wish}, {})
        scripts.append(script)
    tool = definition_of(traces(scripts), "find_thing", "read_thing")
    assert tool.steps[1].input_mapping["wish"] == "$.parameters.wish"
    assert "wish" in tool.parameters["required"]


def test_what_nobody_could_know_ends_the_chain() -> None:
    """An argument from nowhere stops the chain before that step, with the argument's name in the reason."""
    rng = random.Random(8)
    sessions = pairs(lambda _: ({"id": rng.randrange(10**9)}, f"invented-{rng.randrange(10**9)}"))
    reason = synthesize(sessions, "find_thing", "read_thing")
    assert isinstance(reason, str)
    assert "takes nothing from an earlier step" in reason


def test_a_redacted_secret_is_never_a_constant() -> None:
    """What stands in the record in place of a secret is asked of the caller or ends the chain; it is not baked in."""
    rng = random.Random(11)
    scripts: list[SessionScript] = []
    for number in range(40):
        script = SessionScript(f"t{number}", f"task-{number}")
        ref = rng.randrange(10**9)
        script.call("find_thing", {"query": f"q{number}"}, {"id": ref}, said=f"q{number}")
        script.call("read_thing", {"ref": ref, "token": "[secret:0123456789ab]"}, {})
        scripts.append(script)
    reason = synthesize(traces(scripts), "find_thing", "read_thing")
    assert isinstance(reason, str)
    assert "nothing explains token" in reason


def test_one_task_tried_often_is_not_evidence() -> None:
    """However many sessions, samples of a single task do not wire anything."""
    reason = synthesize(billing_sessions(200, tasks=1), LOOKUP, LOAD)
    assert isinstance(reason, str)
    assert "all samples come from 1 task," in reason


def test_a_write_is_only_made_on_request_and_only_last() -> None:
    """Tools that may write are refused by default and never stand in the middle."""
    sessions = billing_sessions(50)
    assert "only made on request" in str(synthesize(sessions, LOOKUP, "settle_invoice"))
    assert "can only stand last" in str(synthesize(sessions, "settle_invoice", RATE, with_writes=True))


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("day", "days"),
        ("branch", "branches"),
        ("city", "cities"),
        ("index", "indexes"),
        ("address", "address_list"),
        ("y", "ys"),
    ],
)
def test_a_repeated_tool_becomes_a_batch(name: str, listed: str) -> None:
    """A run of one tool over values known at the start is one for_each step over a list named for many of them."""
    rng = random.Random(9)
    scripts: list[SessionScript] = []
    for number in range(40):
        script = SessionScript(f"b{number}", f"task-{number}")
        days = [f"2026-02-{day:02}" for day in rng.sample(range(1, 29), 3)]
        for place, day in enumerate(days):
            script.call(RATE, {name: day}, {"rate": 1.5}, said=f"rates of {', '.join(days)}" if place == 0 else None)
        scripts.append(script)
    tool = definition_of(traces(scripts), RATE, RATE)
    assert [step.for_each for step in tool.steps] == [f"$.parameters.{listed}"]
    assert tool.parameters["properties"][listed]["type"] == "array"


def test_retries_that_helped_are_in_the_error_strategy() -> None:
    """A step that failed and then went well with the same arguments is retried; others are not."""
    rng = random.Random(10)
    scripts: list[SessionScript] = []
    for number in range(40):
        script = SessionScript(f"r{number}", f"task-{number}")
        ref = rng.randrange(10**9)
        script.call("find_thing", {"query": f"q{number}"}, {"id": ref}, said=f"q{number}")
        if number % 4 == 0:
            script.call("read_thing", {"ref": ref}, "timed out", ok=False)
        script.call("read_thing", {"ref": ref}, {"fine": True})
        scripts.append(script)
    strategy = definition_of(traces(scripts), "find_thing", "read_thing").error_strategy
    assert set(strategy.retry_policy) == {1}


def _nested(value: int) -> dict[str, Any]:
    return {"total": 1, "hits": [{"score": 0.5, "meta": {"ref": value}}]}


@pytest.mark.parametrize(
    ("cut", "mapping"),
    [
        (
            slice(11, 16),
            {"$part": {"of": "$.internal_wiring.0.ref", "separator": ":", "index": 0, "count": 2}},
        ),
        (slice(10), "$.internal_wiring.0.ref"),
        (slice(7), {"$part": {"of": "$.internal_wiring.0.ref", "separator": "-", "index": 0, "count": 2}}),
    ],
    ids=["hours and minutes", "day", "month"],
)
def test_a_part_of_a_time_is_taken_out_of_it(cut: slice, mapping: Any) -> None:
    """Hours and minutes, the day or the month of a timestamp in an answer are wired, not asked of the caller."""

    def make(rng: random.Random) -> tuple[Any, Any]:
        moment = datetime(
            2026, rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(24), rng.randrange(60), 7, tzinfo=UTC
        )
        return {"at": moment.isoformat(), "zone": "UTC"}, moment.isoformat()[cut]

    definition = definition_of(pairs(make), "find_thing", "read_thing")
    assert definition.steps[1].input_mapping == {"ref": mapping}
    assert definition.steps[1].for_each is None
