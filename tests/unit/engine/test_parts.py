"""The pure parts of the engine: transitions, schedules, pools, and what a step that waits asks for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.engine import (
    JOB_TRANSITIONS,
    RUN_TRANSITIONS,
    WORKER_TRANSITIONS,
    Pool,
    PoolSlots,
    all_pools,
    next_slot,
    read_pools,
    read_types,
)
from twinraven.engine.journal import decode_outcome, encode_outcome
from twinraven.engine.model import JobState, RunState, WorkerState, check_run_transition, worker_type
from twinraven.engine.schedules import Period
from twinraven.engine.waits import asked_wait, wait_kind
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.errors import IllegalTransition, InvalidInput, InvalidSetting

NOW = to_micros(datetime(2026, 11, 16, 12, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    ("table", "states"),
    [(RUN_TRANSITIONS, RunState), (JOB_TRANSITIONS, JobState), (WORKER_TRANSITIONS, WorkerState)],
)
def test_every_state_has_its_row(table: Any, states: Any) -> None:
    """Each table speaks of all states and of no others."""
    assert set(table) == set(get_args(states))
    assert set().union(*table.values()) <= set(get_args(states))


def test_what_succeeded_stays_so() -> None:
    """A run that succeeded becomes nothing else, and every change that is not in the table is refused."""
    for before, allowed in RUN_TRANSITIONS.items():
        for after in get_args(RunState):
            if after in allowed:
                check_run_transition("r", before, after)
            else:
                with pytest.raises(IllegalTransition):
                    check_run_transition("r", before, after)
    assert RUN_TRANSITIONS["succeeded"] == frozenset()


@given(st.integers(0, 4 * 10**15), st.sampled_from([each for each in get_args(Period) if each != "off"]))
def test_slots_follow_each_other(moment: int, period: Period) -> None:
    """The next slot is always later, at a full hour, and no further away than its period allows."""
    slots = [next_slot(period, moment)]
    slots.append(next_slot(period, slots[0]))
    longest = {"hourly": 1, "daily": 24, "weekly": 24 * 7, "monthly": 24 * 31}[period]
    for before, after in pairwise([moment, *slots]):
        assert before < after <= before + longest * 3_600_000_000
        assert from_micros(after).minute == 0
    assert period == "hourly" or from_micros(slots[0]).hour == 2


def test_weekly_is_on_sundays() -> None:
    """A week's slot is the next Sunday's night."""
    assert from_micros(next_slot("weekly", NOW)) == datetime(2026, 11, 22, 2, tzinfo=UTC)
    assert from_micros(next_slot("monthly", NOW)) == datetime(2026, 12, 1, 2, tzinfo=UTC)


def test_pools_are_read_and_filled() -> None:
    """What is stated counts, types that are served get a pool, and runs always have one."""
    pools = read_pools([{"queue": "rest", "slots": 2, "per_second": 0.5}])
    assert pools == {"rest_api": Pool(2, 0.5)}
    assert set(all_pools(pools, types=read_types(["llm"]))) == {"runs", "llm_call"}
    assert all_pools(pools, types=None)["rest_api"] == Pool(2, 0.5)
    assert {"runs", "python", "mcp", "llm_call"} < set(all_pools(pools, types=None))


def test_every_connector_has_a_type_that_workers_serve() -> None:
    """Services have types of their own, and what the house answers itself is made by any Python worker."""
    named = ("rest", "llm", "model", "graph", "mcp", "mcp_service", "python", "flow", "process", "plans", "memory", "x")
    assert [worker_type(name) for name in named] == [
        *("rest_api", "llm_call", "llm_call", "graph_query", "mcp", "mcp"),
        *("python", "flow", "process", "process", "python", "python"),
    ]


def test_an_unknown_type_is_refused() -> None:
    """A worker of a type that does not exist would wait for ever, so its name is refused."""
    with pytest.raises(InvalidInput, match="there is no worker type 'rets'; there are rest_api"):
        read_types(["rets"])


async def test_steps_share_the_slots_and_the_rate_of_their_type() -> None:
    """However they come, at most so many calls of a type are under way, each slot counts its own."""
    slots = PoolSlots({"python": Pool(2)})
    running, most = 0, 0

    async def one(number: int) -> None:
        nonlocal running, most
        async with slots.hold("python") as count:
            running += 1
            most = max(most, running)
            assert slots.room("python") == 2 - running
            await asyncio.sleep(0)
            running -= 1
            count.errors += number == 0

    await asyncio.gather(*(one(number) for number in range(7)))
    assert (most, slots.room("python")) == (2, 2)
    done = slots.counts()["python"]
    assert (sum(each[0] for each in done), sum(each[1] for each in done)) == (7, 1)
    assert all(each[0] > 0 for each in done)


async def test_a_rate_leaves_no_room_when_it_is_spent() -> None:
    """A pool that may begin one now and the next much later has room for one, then for none."""
    slots = PoolSlots({"python": Pool(8, per_second=0.001)})
    assert slots.room("python") == 1
    async with slots.hold("python"):
        pass
    assert slots.room("python") == 0


@pytest.mark.parametrize(
    "stated",
    [
        [{}],
        [{"queue": ""}],
        [{"queue": "mcp", "slots": 0}],
        [{"queue": "mcp", "slots": True}],
        [{"queue": "mcp", "per_second": 0}],
        [{"queue": "mcp", "size": 1}],
        [{"queue": "nothing"}],
        [{"queue": "rest"}, {"queue": "rest_api"}],
    ],
)
def test_bad_pools_are_refused_by_name(stated: list[dict[str, Any]]) -> None:
    """A pool that makes no sense is a wrong setting, and its place is named."""
    with pytest.raises(InvalidSetting, match=r"engine\.pools\[\d\]"):
        read_pools(stated)


def test_what_a_step_waits_for() -> None:
    """A name before the colon decides; a tool with a colon in its name is a tool."""
    assert [wait_kind(name) for name in ("person:a", "event:b", "moment:", "tool", "a:b")] == [
        "person",
        "event",
        "moment",
        None,
        None,
    ]
    later = from_micros(NOW) + timedelta(days=1)
    assert asked_wait("moment:", {"until": "2026-11-17T12:30:00Z"}, NOW).until == to_micros(later)
    assert asked_wait("person:boss", {"expires_s": 1.5}, NOW).until == NOW + 1_500_000
    assert asked_wait("event:paid", {}, NOW).until is None


@pytest.mark.parametrize(
    ("tool_id", "params"),
    [
        ("moment:", {}),
        ("moment:", {"until": "tomorrow"}),
        ("moment:", {"seconds": -1}),
        ("moment:", {"seconds": True}),
        ("person:", {}),
        ("person:boss", {"expires_s": 1e12}),
    ],
)
def test_waits_that_cannot_happen_are_refused(tool_id: str, params: dict[str, Any]) -> None:
    """A wait without an end that makes sense, or for nobody, is bad input."""
    with pytest.raises(InvalidInput):
        asked_wait(tool_id, params, NOW)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON, st.booleans())
def test_an_outcome_is_read_as_it_was_written(value: Any, failed: bool) -> None:
    """Any output and any error come back as what they were."""
    error = {"details": value} if failed else None
    read = decode_outcome(encode_outcome(None if failed else value, error))
    assert repr(read) == repr((None if failed else value, error))


def test_a_worker_imports_nothing_that_it_may_never_need() -> None:
    """Text readers, templates, views and the scheduler of flows are loaded by whoever uses them, not by each worker."""
    told = "import sys, twinraven.engine.worker; print(*(name for name in sys.modules if name.startswith('twinraven')))"
    loaded = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True).stdout.split()
    heavy = {"foundation.text_readers", "foundation.templates", "flow.drawing", "flow.composite", "engine.views"}
    heavy |= {"flow.executor", "flow.definition", "foundation.references"}  # the first run loads these
    assert "twinraven.engine.advance" in loaded
    assert not {f"twinraven.{name}" for name in heavy} & set(loaded)
