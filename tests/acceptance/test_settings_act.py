"""Every setting of memory, mining, validation and retention acts, in every command that it concerns."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.acceptance.desk import Desk, Step, customer_steps
from twinraven.app import describe_settings, open_home
from twinraven.catalog import RUN_CODE
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import StorageBusy
from twinraven.storage.sqlite import library

SECTIONS = ("muninn", "mining", "validation", "retention")
KEYS = [
    *(each.key for each in describe_settings() if each.key.partition(".")[0] in SECTIONS),
    "learning.trust_unnamed",
    "learning.max_work",
]
CUSTOMERS, OTHERS = 120, 20
CHAIN = ("find_customer", "load_customer")
TOKEN = "q8Zr3vT1xY7bN5mK2pL9sD4fG6hJ0aQwE8uR"

Check = Callable[[Desk], None]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Sessions that load a customer and read its balance, and some that find one and read another balance."""
    desk = Desk(tmp_path_factory.mktemp("settings"))
    began = utc_now() - timedelta(days=9)
    desk.record_all([(f"s{number:03}", customer_steps(number)) for number in range(CUSTOMERS)], tasks=40, at=began)
    others = [
        (f"t{number:03}", [customer_steps(number)[0], Step("get_balance", {"account": "x"}, {})])
        for number in range(OTHERS)
    ]
    desk.record_all(others, tasks=10, at=began)
    return desk


@pytest.mark.req("TR-26")
@pytest.mark.parametrize("key", KEYS)
def test_a_setting_acts(desk: Desk, key: str) -> None:
    """Set in `twinraven.yaml`, it changes what each command that it concerns does; without a case here it fails."""
    assert key in CHECKS, f"say here what {key} does"
    CHECKS[key](desk)


def mining(desk: Desk, **values: Any) -> None:
    desk.configure(mining=values)


def backtested(desk: Desk) -> int:
    """How many sessions `backtest` looks at."""
    body = desk.json("backtest")
    return body["sessions_learned"] + body["sessions_tested"]


def events_of(desk: Desk, output: str) -> list[dict[str, Any]]:
    """What is recorded of a call through the command, and of an imported one."""
    name = f"u{len(desk.json('sessions', 'list', '--limit', '1000'))}"
    desk.run("call", "find_customer", "--params", json.dumps({"email": output}), "--session", name)
    line = {"session_id": f"{name}-i", "seq": 1, "tool": "find", "params": {"q": output}, "output": {"found": output}}
    file = desk.folder / "calls.jsonl"
    file.write_text(json.dumps({**line, "ok": True}) + "\n")
    desk.run("import", str(file))
    return [*desk.json("sessions", "show", name), *desk.json("sessions", "show", f"{name}-i")]


def fresh(desk: Desk, name: str, **sections: Any) -> Desk:
    """A home of its own beside the shared one."""
    return Desk(desk.folder / name, **sections)


def check_store_outputs(desk: Desk) -> None:
    for kept in (True, False):
        own = fresh(desk, f"outputs-{kept}", muninn={"store_outputs": kept})
        assert {event["output_hash"] is not None for event in events_of(own, "x@y.z")} == {kept}
        own.record_all([(f"s{number:03}", customer_steps(number)) for number in range(20)])
        assert bool(own.json("learn")["proposals"]) is kept


def check_summaries(desk: Desk) -> None:
    for how in ("deterministic", "off"):
        own = fresh(desk, f"summaries-{how}", muninn={"summaries": how})
        assert {event["output_summary"] is None for event in events_of(own, "x@y.z")} == {how == "off"}


def check_summary_chars(desk: Desk) -> None:
    own = fresh(desk, "summary-chars", muninn={"summary_chars": 60})
    assert all(20 < len(event["output_summary"]) <= 60 for event in events_of(own, "x" * 300))


def check_queue_size(desk: Desk) -> None:
    own = fresh(desk, "queue", muninn={"queue_size": 2})
    own.record("first", [Step("a", {})])
    holder = library.connect(str(own.home / "twinraven.db"), isolation_level=None)

    async def overrun() -> None:
        with open_home(own.home) as raven, raven.collector.observe("s") as session:
            holder.execute("BEGIN IMMEDIATE")
            try:
                # Some of them are in the writer's hands already; a queue of two then refuses long before a hundred.
                with pytest.raises(StorageBusy):
                    _ = [session.record("a", {"n": number}) for number in range(100)]
            finally:
                holder.execute("ROLLBACK")

    asyncio.run(overrun())
    holder.close()


def check_idle_gap(desk: Desk) -> None:
    own = fresh(desk, "idle")
    sessions = [
        (f"s{number:03}", [replace(step, gap_s=100) for step in customer_steps(number)]) for number in range(80)
    ]
    own.record_all(sessions)
    seen: list[tuple[bool, bool, bool]] = []
    for gap in (900, 50):
        own.configure(muninn={"session_idle_gap_s": gap})
        saved = own.json("backtest")["assistant_turns_saved"]
        seen.append((CHAIN in own.mine(), saved > 0, own.json("learn")["proven"] > 0))
    assert seen == [(True, True, True), (False, False, False)]


def check_redaction(desk: Desk) -> None:
    for hidden in (True, False):
        own = fresh(desk, f"entropy-{hidden}", muninn={"redact_high_entropy": hidden})
        assert [TOKEN in json.dumps(event) for event in events_of(own, TOKEN)] == [not hidden, not hidden]


def check_algorithm(desk: Desk) -> None:
    for algorithm, sessions, chains in (("prefixspan", CUSTOMERS + OTHERS, 4), ("contiguous", OTHERS, 3)):
        mining(desk, algorithm=algorithm)
        assert desk.mine()["find_customer", "get_balance"]["sessions"] == sessions
        mining(desk, algorithm=algorithm, min_support=0.5)
        assert desk.json("learn")["chains"] == chains


def check_least(setting: str, value: Any, figure: str) -> Check:
    def check(desk: Desk) -> None:
        mining(desk)
        usual = desk.json("learn")["chains"]
        low = desk.mine()["find_customer", "get_balance"]
        assert low[figure] < value
        mining(desk, **{setting: value})
        kept = desk.mine()
        assert kept
        assert all(chain[figure] >= value for chain in kept.values())
        assert desk.json("learn")["chains"] < usual

    return check


def check_lengths(desk: Desk) -> None:
    mining(desk)
    usual = desk.json("learn")["chains"]
    for setting, value, lengths in (("min_length", 3, {3}), ("max_length", 2, {2})):
        mining(desk, **{setting: value})
        assert {len(tools) for tools in desk.mine()} == lengths
        assert desk.json("learn")["chains"] < usual


def check_max_gap(desk: Desk) -> None:
    mining(desk, algorithm="gsp", max_gap_ms=5_000)
    assert desk.mine()
    assert desk.json("learn")["chains"] > 0
    mining(desk, algorithm="gsp", max_gap_ms=500)
    assert desk.mine() == {}
    assert desk.json("learn")["chains"] == 0


def check_window_days(desk: Desk) -> None:
    own = fresh(desk, "window")
    for name, count, days in (("old", 30, 9), ("new", 20, 1)):
        sessions = [(f"{name}{number:03}", customer_steps(number)) for number in range(count)]
        own.record_all(sessions, at=utc_now() - timedelta(days=days))
    for days, expected in ((2, 20), (30, 50)):
        mining(own, window_days=days)
        assert own.mine()[CHAIN]["sessions"] == expected
        assert own.json("learn")["sessions"] == expected
        assert backtested(own) == expected
    scripted = fresh(desk, "window-scripts")
    record_scripts(scripted, 10, at=utc_now() - timedelta(days=9))
    for days, expected in ((2, 0), (30, 10)):
        mining(scripted, window_days=days)
        assert scripted.json("learn")["sessions"] == expected


def record_scripts(desk: Desk, count: int, *, at: datetime) -> None:
    """Sessions in which an agent ran a script that finds a customer and loads it."""
    with open_home(desk.home) as raven:
        for number in range(count):
            with raven.collector.observe(f"s{number:03}") as session:
                script = uuid4()
                code = f'found = call("find_customer", email="u{number}@mail.test")'
                session.record(RUN_CODE, {"code": code}, event_id=script, timestamp=at).result()
                for step in customer_steps(number)[:2]:
                    at += timedelta(seconds=1)
                    session.record(
                        step.tool, step.params, output=step.output, parent_event_id=script, timestamp=at
                    ).result()


def check_last_sessions(desk: Desk) -> None:
    mining(desk, last_sessions=50)
    assert {chain["mining_config"]["last_sessions"] for chain in desk.mine().values()} == {50}
    assert max(chain["sessions"] for chain in desk.mine().values()) <= 50
    assert desk.json("learn")["sessions"] == 50
    assert backtested(desk) == 50


def check_sample(desk: Desk) -> None:
    mining(desk)
    assert backtested(desk) == CUSTOMERS + OTHERS
    mining(desk, sample_sessions=100)
    assert backtested(desk) == 100
    own = fresh(desk, "sample", mining={"sample_sessions": 100})
    own.record_all([(f"s{number:03}", customer_steps(number)) for number in range(130)])
    (proposal, *_) = own.json("learn")["proposals"]
    shown = own.json("registry", "show", proposal["tool_id"])
    assert shown["versions"][0]["validation"]["sessions_replayed"] <= 100
    # What is counted on the sample is weighed against the sample's share of the log's turns.
    assert shown["versions"][0]["savings"]["assistant_turns"] == 100 * len(customer_steps(0))


def check_session_calls(desk: Desk) -> None:
    own = fresh(desk, "long")
    before = [Step(f"tool{number}", {}, {}) for number in range(9)]
    own.record_all([(f"s{number:03}", [*before, *customer_steps(number)]) for number in range(30)])
    calls: list[int] = []
    for most, found in ((2_000, True), (10, False)):
        own.configure(mining={"max_session_calls": most})
        assert (own.json("learn")["drafts"] > 0) is found
        calls.append(own.json("backtest")["calls"])
    assert calls[1] == calls[0] * 10 / 12


def check_budget(desk: Desk) -> None:
    own = fresh(desk, "budget")
    wide = [Step(f"tool{number:02}", {}) for number in range(60)]
    own.record_all([(f"s{number}", wide) for number in range(8)])
    assert min(len(own.mine("--limit", "5000")), own.json("learn")["chains"]) > 100
    own.configure(mining={"max_patterns": 100})
    assert len(own.mine("--limit", "5000")) <= 100
    assert own.json("learn")["chains"] <= 100


def check_work(desk: Desk) -> None:
    own = fresh(desk, "work")
    rng = random.Random(1)
    steps = [Step(f"tool{number}", {}) for number in range(12)]

    def pick() -> Step:
        return steps[rng.randrange(3 if rng.random() < 0.9 else 12)]

    own.record_all([(f"s{number:02}", [pick() for _ in range(140)]) for number in range(30)])
    settings = {"algorithm": "gsp", "max_gap_ms": 60_000, "min_support": 0.2, "max_length": 3}
    found: list[tuple[int, int]] = []
    for budget in ({}, {"max_work": 100_000}):
        own.configure(mining={**settings, **budget})
        found.append((len(own.mine("--limit", "5000")), own.json("learn")["chains"]))
    assert found[1][0] < found[0][0]
    assert found[1][1] < found[0][1]


def check_validation(setting: str, strict: Any) -> Check:
    """`test_validation_verdicts` proves what each criterion measures; here that it decides in both commands."""

    def check(desk: Desk) -> None:
        desk.configure()
        assert desk.json("learn")["proven"] > 0
        chain = desk.mine()[CHAIN]
        name = desk.json("synthesize", chain["chain_id"])["tool_id"]
        assert desk.json("validate", name, "--dry-run")["passed"]
        desk.configure(validation={setting: strict})
        verdict = desk.json("validate", name, "--dry-run", code=1)
        assert verdict["failure_reasons"]
        assert desk.json("learn")["proven"] == 0

    return check


def check_threshold(desk: Desk) -> None:
    own = fresh(desk, "threshold")
    # What nothing in the session names would be no disagreement.
    odd = {n: replace(customer_steps(n)[1], params={"customer_id": f"u{n}@mail.test"}) for n in range(2)}
    sessions = [(f"s{n:03}", [customer_steps(n)[0], odd.get(n, customer_steps(n)[1])]) for n in range(40)]
    own.record_all(sessions)
    name = own.json("synthesize", own.mine()[CHAIN]["chain_id"])["tool_id"]
    for threshold, passes in ((0.94, True), (0.96, False)):
        own.configure(validation={"threshold": threshold})
        verdict = own.json("validate", name, "--dry-run", code=0 if passes else 1)
        assert verdict["equivalence_score"]["mean_similarity"] == pytest.approx(38 / 40)
        assert (own.json("learn")["proven"] == 1) is passes


def check_unnamed(desk: Desk) -> None:
    own = fresh(desk, "unnamed")
    rare = [(f"r{number:03}", customer_steps(number)) for number in range(14)]
    own.record_all([*rare, *((f"o{number:03}", [Step("get_time", {"n": number})]) for number in range(240))])
    for trusted in (False, True):
        own.configure(learning={"trust_unnamed": trusted})
        assert bool(own.json("learn")["proven"]) is trusted


def check_learning_work(desk: Desk) -> None:
    own = fresh(desk, "learning-work")
    own.record_all([(f"s{number:03}", customer_steps(number)) for number in range(400)])
    for most, learned in ((5_000_000, True), (1_000, False)):
        own.configure(learning={"max_work": most})
        found = own.json("learn")
        assert (found["chains"] > 0, found["drafts"] > 0) == (True, learned)
    assert "learning.max_work" in own.run("learn")


def check_similarity(desk: Desk) -> None:
    chain = desk.mine()[CHAIN]
    name = desk.json("synthesize", chain["chain_id"])["tool_id"]
    for method in ("cosine_tfidf", "exact_match"):
        desk.configure(validation={"similarity": method})
        assert desk.json("validate", name, "--dry-run")["equivalence_score"]["method"] == method


def check_retention(desk: Desk) -> None:
    own = fresh(desk, "retention")
    own.record("old", [Step("a", {})], at=utc_now() - timedelta(days=9))
    own.record("new", [Step("a", {})])
    own.run("retention", "run", code=2)
    for days, left in ((30, 2), (5, 1)):
        own.configure(retention={"days": days})
        assert own.json("retention", "run", "--dry-run")["sessions"] == 2 - left
        assert own.json("retention", "run", "--fast")["sessions"] == 2 - left
        assert len(own.json("sessions", "list")) == left


CHECKS: dict[str, Check] = {
    "muninn.store_outputs": check_store_outputs,
    "muninn.summaries": check_summaries,
    "muninn.summary_chars": check_summary_chars,
    "muninn.queue_size": check_queue_size,
    "muninn.session_idle_gap_s": check_idle_gap,
    "muninn.redact_high_entropy": check_redaction,
    "mining.algorithm": check_algorithm,
    "mining.min_support": check_least("min_support", 0.5, "support"),
    "mining.min_sessions": check_least("min_sessions", 100, "sessions"),
    "mining.min_confidence": check_least("min_confidence", 0.5, "confidence"),
    "mining.min_length": check_lengths,
    "mining.max_length": check_lengths,
    "mining.max_gap_ms": check_max_gap,
    "mining.window_days": check_window_days,
    "mining.last_sessions": check_last_sessions,
    "mining.sample_sessions": check_sample,
    "mining.max_session_calls": check_session_calls,
    "mining.max_patterns": check_budget,
    "mining.max_work": check_work,
    "validation.similarity": check_similarity,
    "validation.threshold": check_threshold,
    "validation.min_uses": check_validation("min_uses", 1_000),
    "validation.max_latency_ratio": check_validation("max_latency_ratio", 0.5),
    "learning.trust_unnamed": check_unnamed,
    "learning.max_work": check_learning_work,
    "retention.days": check_retention,
}
