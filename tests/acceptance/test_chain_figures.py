"""Mined chains through the command line: every figure by its definition, verdicts, tags, and runs that repeat."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk, Step, customer_steps, figures
from twinraven.app import open_home
from twinraven.catalog import RUN_CODE
from twinraven.foundation.clock import parse_iso, utc_now
from twinraven.huginn import ChainSupport


def a_b_c(*latencies: int, tags: tuple[str, ...] = ()) -> list[Step]:
    """Calls of a, b, c, as many as there are latencies."""
    return [Step(name, {"n": name}, {}, latency, tags) for name, latency in zip("abc", latencies, strict=False)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Five sessions: a → b three times, a → b → c twice, a → x once, x alone once."""
    desk = Desk(tmp_path, mining={"min_sessions": 1, "min_support": 0.01})
    desk.record("s1", a_b_c(100, 200, 300))
    desk.record("s2", a_b_c(10, 20), outcome="failure")
    desk.record("s3", a_b_c(40, 60, 140), outcome="failure")
    desk.record("s4", [Step("a", {}), Step("x", {})], outcome="partial")
    desk.record("s5", [Step("x", {})])
    return desk


@pytest.mark.req("TR-11")
def test_every_figure_of_a_chain_is_what_its_definition_says(desk: Desk) -> None:
    """Support, confidence, latency, failures, samples and time of discovery are those counted by hand."""
    before = utc_now()
    chains = desk.mine()
    after = utc_now()
    pair, triple = chains["a", "b"], chains["a", "b", "c"]
    assert (pair["sessions"], pair["occurrences"], pair["support"]) == (3, 3, 3 / 5)
    assert (triple["sessions"], triple["occurrences"], triple["support"]) == (2, 2, 2 / 5)
    assert pair["confidence"] == pytest.approx(3 / 4)
    assert triple["confidence"] == pytest.approx((3 / 4 + 2 / 2) / 2)
    assert (pair["failure_rate"], triple["failure_rate"]) == (pytest.approx(2 / 3), 1 / 2)
    assert (pair["avg_latency_ms"], triple["avg_latency_ms"]) == (round((300 + 30 + 100) / 3), round((600 + 240) / 2))
    assert chains["a", "x"]["support"] == 1 / 5
    for chain in chains.values():
        assert before - timedelta(seconds=1) <= parse_iso(chain["discovered_at"]) <= after + timedelta(seconds=1)
        assert chain["mining_config"]["min_support"] == 0.01
    events = [desk.json("events", "show", event_id) for event_id in triple["sample_event_ids"]]
    assert [(event["session_id"], event["tool_id"]) for event in events] == [
        (session, name) for session in ("s1", "s3") for name in "abc"
    ]
    assert desk.json("chains", "show", pair["chain_id"]) == pair
    desk.configure(mining={"min_sessions": 1, "min_support": 0.01, "min_confidence": 0.9})
    assert set(desk.mine()) == {("b", "c")}


@pytest.mark.req("TR-11")
def test_a_chain_ends_where_something_came_between(tmp_path: Path) -> None:
    """No chain crosses what came from outside or a long idle time, and no latency counts that nobody measured."""
    desk = Desk(tmp_path, mining={"min_sessions": 1, "min_support": 0.01}, muninn={"session_idle_gap_s": 60})
    desk.record("plain", a_b_c(10, 20, 30))
    desk.record("asked", [Step("a", {}), Step("b", {}, outside_input="go on"), Step("c", {})])
    desk.record("idle", [Step("a", {}), Step("b", {}, gap_s=61), Step("c", {})])
    desk.record("untimed", [Step(name, {}, latency_ms=1_000, time_known=False) for name in "abc"])
    chains = desk.mine()
    assert {tools: chain["sessions"] for tools, chain in chains.items()} == {
        ("a", "b"): 2,
        ("b", "c"): 4,
        ("a", "b", "c"): 2,
    }
    assert [chains[tools]["avg_latency_ms"] for tools in (("a", "b"), ("b", "c"), ("a", "b", "c"))] == [30, 30, 60]


@pytest.mark.req("TR-14")
def test_each_link_of_a_stored_chain_has_its_share_and_its_gap(desk: Desk) -> None:
    """Who follows whom, in which share of the calls that lead on, and how long after its end, as counted by hand."""
    desk.record("s6", [Step("a", {}), Step("b", {}, gap_s=3.0), Step("c", {}, gap_s=0.5)])
    triple = desk.mine()["a", "b", "c"]
    assert triple["links"] == [
        {"from_tool": "a", "to_tool": "b", "transition_probability": 4 / 5, "avg_gap_ms": 1500},
        {"from_tool": "b", "to_tool": "c", "transition_probability": 1.0, "avg_gap_ms": round(2500 / 3)},
    ]
    assert desk.json("chains", "show", triple["chain_id"])["links"] == triple["links"]


@pytest.mark.req("TR-08")
def test_mining_prefers_a_verdict_to_what_was_recorded(desk: Desk) -> None:
    """A verdict stated later decides a session's outcome in mining, the last one where there are several."""
    assert desk.mine()["a", "b"]["failure_rate"] == pytest.approx(2 / 3)
    desk.run("sessions", "verdict", "s1", "failure")
    assert desk.mine()["a", "b"]["failure_rate"] == 1.0
    for session in ("s1", "s2", "s3"):
        desk.run("sessions", "verdict", session, "success")
    assert desk.mine()["a", "b"]["failure_rate"] == 0.0
    assert {event["outcome"] for event in desk.json("sessions", "show", "s2")} == {"failure"}


@pytest.mark.req("TR-09")
def test_tags_restrict_what_is_mined_and_nothing_else(tmp_path: Path) -> None:
    """`mine --tag` looks at calls that carry the tag, stated or extracted; without it tags change no figure."""
    plain, tagged = (Desk(tmp_path / name, mining={"min_sessions": 1}) for name in ("plain", "tagged"))
    for number in range(6):
        marks = ("nightly", "eu") if number % 3 == 0 else ()
        at = utc_now() - timedelta(hours=2)
        plain.record(f"s{number}", a_b_c(10, 20, 30), at=at)
        tagged.record(f"s{number}", a_b_c(10, 20, 30, tags=marks), at=at)
    without, all_calls = plain.mine(), tagged.mine()
    assert list(all_calls) == list(without)
    samples = ("chain_id", "discovered_at", "sample_event_ids")
    for tools, chain in all_calls.items():
        assert {k: v for k, v in chain.items() if k not in samples} == {
            k: v for k, v in without[tools].items() if k not in samples
        }
    nightly = tagged.mine("--tag", "nightly")
    assert (nightly["a", "b"]["sessions"], nightly["a", "b"]["support"]) == (2, 1.0)
    assert nightly["a", "b"]["mining_config"]["tag"] == "nightly"
    assert tagged.mine("--tag", "night") == {}
    assert tagged.mine("--tag", "nobody") == {}


@pytest.mark.req("TR-09")
def test_extracted_tags_are_filters_too(tmp_path: Path) -> None:
    """What was tried again after it raised is mined with `--tag retry`, and only that."""
    desk = Desk(tmp_path, mining={"min_sessions": 1})
    for number in range(3):
        failed = [Step(name, {"n": number}, {}, raised=True) for name in "ab"]
        desk.record(f"s{number}", [*failed, Step("c", {}), *(Step(name, {"n": number}, {}) for name in "ab")])
    again = desk.mine("--tag", "retry")
    assert set(again) == {("a", "b")}
    assert again["a", "b"]["occurrences"] == 3


@pytest.mark.req("TR-12")
def test_a_filtered_run_repeats_from_its_snapshot(desk: Desk) -> None:
    """`mine --like` repeats a run with a tag and a time window, after the log and the settings have changed."""
    for number in range(4):
        desk.record(f"t{number}", a_b_c(1, 2, 3, tags=("eu",)))
    for name, hours in (("before", 72), ("after", 0.1)):
        desk.record(name, a_b_c(4, 5, 6, tags=("eu",)), at=utc_now() - timedelta(hours=hours))
    first = list(desk.mine("--tag", "eu", "--since", "1d", "--until", "30m").values())
    desk.record("t9", a_b_c(7, 8, 9, tags=("eu",)))
    desk.configure(mining={"min_support": 0.9}, muninn={"session_idle_gap_s": 0})
    second = list(desk.mine("--like", first[0]["chain_id"]).values())
    assert [figures(chain) for chain in second] == [figures(chain) for chain in first]
    assert first[0]["sessions"] == 4


@pytest.mark.req("TR-12")
def test_the_chains_of_a_round_of_learning_repeat(tmp_path: Path) -> None:
    """A chain stored by `learn` holds its window, idle gap, prices and sample, and `mine --like` repeats its run."""
    desk = Desk(tmp_path, mining={"last_sessions": 30, "max_length": 4}, muninn={"session_idle_gap_s": 50})
    desk.record_all([(f"s{number:03}", customer_steps(number)) for number in range(40)])
    assert desk.json("learn")["proposals"]
    stored = desk.json("chains", "list")
    assert stored
    desk.record_all([(f"t{number:03}", customer_steps(number + 50)) for number in range(5)])
    desk.configure(mining={"min_support": 0.9, "last_sessions": 3}, muninn={"session_idle_gap_s": 0})
    for chain in stored:
        config = chain["mining_config"]
        assert (config["last_sessions"], config["idle_gap_s"], config["max_length"] <= 4) == (30, 50, True)
        assert config["prices"]
        assert config["learning"]["sample_sessions"] == 20_000
        repeated = desk.mine("--like", chain["chain_id"])
        assert figures(repeated[tuple(chain["tools"])]) == figures(chain)
        assert chain["sessions"] == 30
        assert list(desk.mine("--like", chain["chain_id"])) == list(repeated)


def record_other_scripts(desk: Desk, numbers: range) -> None:
    """A session for each number, in which an agent ran a script that only reads a balance."""
    with open_home(desk.home) as raven:
        for number in numbers:
            with raven.collector.observe(f"other{number:03}") as session:
                moment = utc_now() - timedelta(hours=1)
                code = {"code": f"await get_balance(account='A-{number}')"}
                script = session.record(RUN_CODE, code, output={}, latency_ms=9, timestamp=moment)
                session.record(
                    "get_balance",
                    {"account": f"A-{number}"},
                    output={"balance": 7},
                    latency_ms=1,
                    timestamp=moment + timedelta(milliseconds=1),
                    parent_event_id=script.event_id,
                )


def record_scripts(desk: Desk, numbers: range) -> None:
    """A session for each number, in which an agent ran the same script with another address in it."""
    with open_home(desk.home) as raven:
        for number in numbers:
            email, customer = f"u{number}@mail.test", f"C-{number:05}"
            code = f"found = await find_customer(email={email!r})\nawait load_customer(customer_id=found['id'])"
            moment = utc_now() - timedelta(hours=1)
            with raven.collector.observe(f"code{number:03}") as session:
                script = session.record(RUN_CODE, {"code": code}, output={}, latency_ms=9, timestamp=moment)
                for place, (name, params, output) in enumerate(
                    [
                        ("find_customer", {"email": email}, {"id": customer}),
                        ("load_customer", {"customer_id": customer}, {"account": customer}),
                    ]
                ):
                    at = moment + timedelta(milliseconds=2 * place + 1)
                    parent = script.event_id
                    session.record(name, params, output=output, latency_ms=1, timestamp=at, parent_event_id=parent)


@pytest.mark.req("TR-12")
def test_the_chains_of_scripts_repeat(tmp_path: Path) -> None:
    """A chain that `learn` found in agents' scripts says so, and `mine --like` looks into the same scripts again."""
    desk = Desk(tmp_path, mining={"min_sessions": 5})
    record_scripts(desk, range(20))
    assert desk.json("learn")["proposals"]
    (chain,) = desk.json("chains", "list")
    assert (chain["mining_config"]["of"], chain["sessions"]) == ("scripts", 20)
    record_scripts(desk, range(20, 25))
    desk.configure(mining={"min_support": 0.9, "last_sessions": 3}, muninn={"session_idle_gap_s": 0})
    repeated = desk.mine("--like", chain["chain_id"])
    assert figures(repeated[tuple(chain["tools"])]) == figures(chain)
    assert desk.mine() == {}


@pytest.mark.req("RG-10")
def test_drift_counts_calls_of_a_tool_wherever_they_are_made(tmp_path: Path) -> None:
    """A tool learned from scripts may be called by itself, one learned from calls in a script: both show its chain."""
    desk = Desk(tmp_path, mining={"min_sessions": 5})
    record_scripts(desk, range(20))
    (proposal,) = desk.json("learn")["proposals"]
    desk.run("approve", proposal["tool_id"], "--promote")

    def support() -> float:
        (measured,) = desk.json("maintenance", "run", "--dry-run")["tools"]
        return measured["support"]

    assert support() == 1.0
    record_other_scripts(desk, range(20))
    assert support() == pytest.approx(20 / 40)
    use = Step(proposal["tool_id"], {"email": "a@mail.test"}, {})
    desk.record_all([(f"direct{number}", [use]) for number in range(20)])
    assert support() == pytest.approx((20 + 20) / 60)


@pytest.mark.req("RG-10")
def test_drift_counts_calls_of_a_tool_in_scripts(tmp_path: Path) -> None:
    """Agents that call a learned tool in their scripts go on doing what it was learned from."""
    desk = Desk(tmp_path)
    desk.record_all([(f"s{number:03}", customer_steps(number)) for number in range(30)])
    name = desk.json("learn")["proposals"][0]["tool_id"]
    desk.run("approve", name, "--promote")
    desk.record_all([(f"t{number}", [Step("get_balance", {"account": "A"}, {})]) for number in range(30)])
    with open_home(desk.home) as raven:
        for number in range(30):
            with raven.collector.observe(f"code{number}") as session:
                moment = utc_now() - timedelta(minutes=9)
                code = {"code": f"await {name}(email='a@mail.test')"}
                script = session.record(RUN_CODE, code, output={}, latency_ms=9, timestamp=moment)
                session.record(
                    name,
                    {"email": "a@mail.test"},
                    output={},
                    latency_ms=1,
                    timestamp=moment,
                    parent_event_id=script.event_id,
                )
    (measured,) = desk.json("maintenance", "run", "--dry-run")["tools"]
    assert measured["support"] == pytest.approx((30 + 30) / 90)


@pytest.mark.req("RG-10")
def test_drift_looks_where_its_chain_was_found(tmp_path: Path) -> None:
    """A chain that was mined from calls with a tag drifts by those calls; what others do says nothing of it."""
    desk = Desk(tmp_path, mining={"min_sessions": 1})
    desk.record_all([(f"s{number}", a_b_c(1, 2, 3, tags=("eu",))) for number in range(4)])
    desk.record_all([(f"t{number}", [Step("other", {}, {})]) for number in range(12)])
    chain = desk.mine("--tag", "eu")["a", "b", "c"]
    with open_home(desk.home) as raven:
        probe = ChainSupport(raven.events, idle_gap_s=raven.settings.muninn.session_idle_gap_s)
        since = utc_now() - timedelta(days=30)
        found = asyncio.run(probe.measure("default", chain, tool_id="abc", since=since))
    assert (found.support, found.sessions) == (1.0, 4)
