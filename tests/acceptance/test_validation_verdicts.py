"""Validation through the command line: who may judge a tool, what the verdict holds, and that the settings decide."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.acceptance.desk import Desk, Step, customer_steps
from twinraven.app import open_home
from twinraven.foundation.clock import parse_iso, utc_now
from twinraven.foundation.event_loop import run_to_end
from twinraven.registry import SynthesizedTool

CHAIN = ("find_customer", "load_customer")


def drafted(desk: Desk, *, tools: tuple[str, ...] = CHAIN) -> str:
    """The name of the draft that `synthesize` makes of this chain."""
    chain = desk.mine("--collapse-repeats")[tools]
    return desk.json("synthesize", chain["chain_id"])["tool_id"]


def two_ids(number: int, *, alike: bool) -> list[Step]:
    """A customer who has two ids: mostly they are the same; where they are not, only the second one is taken."""
    first, second = f"C-{number:05}", f"C-{number if alike else number + 90_000:05}"
    found = {"customer": {"a": first, "b": second}}
    return [
        Step("find_customer", {"email": f"u{number}@mail.test"}, found),
        Step("load_customer", {"customer_id": second}, {"account": {"number": f"A-{number:05}"}}),
    ]


def one_task_differs(desk: Desk) -> None:
    """Twenty sessions of five tasks; only the four of task 0 tell the two ids apart."""
    sessions = [(f"s{number:03}", two_ids(number, alike=number % 5 != 0)) for number in range(20)]
    desk.record_all(sessions, tasks=5)


@pytest.mark.req("TR-19")
def test_a_session_never_judges_what_it_taught(tmp_path: Path) -> None:
    """Sessions without which the wiring would be another are no judges, and what then has too few does not pass."""
    desk = Desk(tmp_path, validation={"min_uses": 18})
    one_task_differs(desk)
    name = drafted(desk)
    verdict = desk.json("validate", name, "--dry-run", code=1)
    assert verdict["sessions_replayed"] == 16
    assert verdict["equivalence_score"]["mean_similarity"] == 1.0
    assert verdict["failure_reasons"][0].startswith("promising: 16 of 18 sessions")
    learned = desk.json("learn")
    assert (learned["proven"], learned["proposals"]) == (0, [])
    assert "promising: 16 of 18 sessions" in learned["because"]
    desk.configure(validation={"min_uses": 16})
    assert desk.json("learn")["proven"] == 1
    shown = desk.json("registry", "show", name)
    assert shown["versions"][0]["validation"]["sessions_replayed"] == 16


@pytest.mark.req("TR-19")
def test_a_draft_that_the_log_now_wires_otherwise_is_judged_on_the_part_held_out(tmp_path: Path) -> None:
    """Where the folds have another wiring than the draft, only sessions that no synthesis is shown judge it."""
    desk = Desk(tmp_path)
    desk.record_all([(f"s{number:03}", two_ids(number, alike=True)) for number in range(20)], tasks=10)
    name = drafted(desk)
    desk.record_all([(f"t{number:03}", two_ids(number + 500, alike=False)) for number in range(20)], tasks=20)
    verdict = desk.json("validate", name, "--dry-run", code=1)
    assert 0 < verdict["sessions_replayed"] < 30
    assert verdict["equivalence_score"]["mean_similarity"] < 0.85
    assert "made a call with other arguments than the agent's" in " ".join(verdict["failure_reasons"])


def five_ids(number: int) -> list[Step]:
    """A customer with six ids that mostly are the same: each task has one that is not, and the last is always taken."""
    taken, other = f"C-{number:05}", f"C-{number + 90_000:05}"
    ids = {f"a{place}": other if place == number % 5 else taken for place in range(5)}
    return [
        Step("find_customer", {"email": f"u{number}@mail.test"}, {"customer": {**ids, "z": taken}}),
        Step("load_customer", {"customer_id": taken}, {"account": {"number": f"A-{number:05}"}}),
    ]


@pytest.mark.req("TR-19")
def test_what_rests_on_each_of_few_tasks_is_no_tool(tmp_path: Path) -> None:
    """A wiring that no fold finds again without its own task is refused, though every session agrees with it."""
    desk = Desk(tmp_path, validation={"min_uses": 12})
    desk.record_all([(f"s{number:03}", five_ids(number)) for number in range(20)], tasks=5)
    chain = desk.mine()[CHAIN]
    desk.run("synthesize", chain["chain_id"], code=2)
    learned = desk.json("learn")
    assert (learned["drafts"], learned["proposals"]) == (0, [])
    assert "its wiring depends on which sessions are looked at: only 0 of 5 folds agree" in learned["because"]


@pytest.mark.req("TR-19")
def test_four_tasks_are_enough_and_three_are_not(tmp_path: Path) -> None:
    """That a fold leaves three of four tasks says nothing against a wiring; three tasks in all are too few."""
    for tasks, proposals in ((4, 1), (3, 0)):
        desk = Desk(tmp_path / str(tasks))
        desk.record_all([(f"s{number:03}", customer_steps(number)[:2]) for number in range(16)], tasks=tasks)
        learned = desk.json("learn")
        assert len(learned["proposals"]) == proposals
    assert "all samples come from 3 tasks, at least 4 are needed" in learned["because"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, str]:
    """Thirty sessions that agree, three in which the first call raised, and the draft of them."""
    desk = Desk(tmp_path_factory.mktemp("plain"))
    raised = [Step("find_customer", {"email": "u1@mail.test"}, {"error": "down"}, raised=True)]
    desk.record_all([(f"s{number:03}", customer_steps(number)[:2]) for number in range(30)], tasks=10)
    desk.record_all([(f"t{number:03}", raised) for number in range(3)], tasks=3)
    return desk, drafted(desk)


@pytest.mark.req("TR-19")
def test_a_verdict_has_every_field(plain: tuple[Desk, str]) -> None:
    """Each validation is a result of its own, with its time and all that was measured."""
    desk, name = plain
    desk.configure()
    before = utc_now()
    first, second = (desk.json("validate", name, "--dry-run") for _ in range(2))
    assert UUID(first["result_id"]) != UUID(second["result_id"])
    margin = timedelta(seconds=1)
    assert before - margin <= parse_iso(first["validated_at"]) <= utc_now() + margin
    assert (first["tool_id"], first["tool_version"], first["sessions_replayed"]) == (name, 1, 30)
    assert (first["passed"], first["failure_reasons"]) == (True, [])
    assert (first["failures_replayed"], first["error_parity"]) == (3, True)
    assert first["latency_ratio"] == 1.0
    assert (first["uses"], first["hits"]) == (30, 30)


@pytest.mark.req("TR-19")
def test_a_tool_that_answers_where_the_record_failed_has_no_error_parity(tmp_path: Path) -> None:
    """What skips a failure and answers as if there was none is refused, and what says what is missing is not."""
    desk = Desk(tmp_path)
    raised = [Step("find_customer", {"email": "u1@mail.test"}, {"error": "down"}, raised=True)]
    desk.record_all([(f"s{number:03}", customer_steps(number)[:2]) for number in range(16)], tasks=8)
    desk.record_all([(f"t{number:03}", raised) for number in range(3)], tasks=3)
    name = drafted(desk)
    with open_home(desk.home) as raven:
        (draft,) = run_to_end(raven.registry.drafts("default", tool_id=name))
        body = draft.definition.as_json()
        body["output"] = {"always": "fine"}
        body["error_strategy"] = {**body["error_strategy"], "default_behavior": "skip", "abort_conditions": []}
        removal = {"step_index": 2, "tool_id": "delete_customer", "input_mapping": {"name": "$.parameters.email"}}
        changes: tuple[dict[str, Any], ...] = (
            {},
            {"output": None},
            {"output": None, "steps": [*body["steps"], removal]},
        )
        changed = [SynthesizedTool.from_json({**body, **change}) for change in changes]
        *_, made = [
            run_to_end(raven.registry.draft("default", tool, evidence_hash=f"by hand {number}"))
            for number, tool in enumerate(changed)
        ]
    verdict = desk.json("validate", name, "--version", "2", code=1)
    assert (verdict["tool_version"], verdict["passed"], verdict["error_parity"]) == (2, False, False)
    assert verdict["equivalence_score"]["mean_similarity"] == 1.0
    assert verdict["failure_reasons"] == ["in 3 of 3 recorded failures it would have answered as if nothing failed"]
    kept = desk.json("validate", name, "--version", "1", "--dry-run")
    assert (kept["passed"], kept["error_parity"], kept["failures_replayed"]) == (True, True, 3)
    telling = desk.json("validate", name, "--version", "3", "--dry-run")
    assert (telling["passed"], telling["error_parity"], telling["failures_replayed"]) == (True, True, 3)
    writing = desk.json("validate", made.definition.tool_id, code=1)
    assert "in 2 of 2 uses it would have written what the agent did not" in writing["failure_reasons"]


@pytest.mark.req("TR-19", "TR-26")
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"max_latency_ratio": 0.5}, "it takes 1.00 of the time of the separate calls, at most 0.5 is asked"),
        ({"min_uses": 31}, "promising: 30 of 31 sessions"),
    ],
)
def test_each_criterion_of_the_settings_can_fail_a_tool(
    plain: tuple[Desk, str], settings: dict[str, Any], reason: str
) -> None:
    """A criterion that is not met is told in words, by `validate` and by `learn`."""
    desk, name = plain
    desk.configure(validation=settings)
    verdict = desk.json("validate", name, code=1)
    assert verdict["passed"] is False
    assert any(reason in said for said in verdict["failure_reasons"])
    learned = desk.json("learn")
    assert (learned["proven"], learned["proposals"]) == (0, [])
    assert reason in learned["because"]


def read_twice(number: int, *, again: bool) -> list[Step]:
    """A customer with two accounts, both read; with `again`, the first a second time, when its answer has changed."""
    accounts = [f"A{number:04}x", f"A{number:04}y"]
    found = {"accounts": [{"number": each} for each in accounts]}

    def read(account: str, state: str) -> Step:
        return Step("get_balance", {"account": account}, {"account": account, "state": state, "currency": "euro"})

    steps = [
        Step("find_customer", {"email": f"u{number}@mail.test"}, found),
        *(read(each, "open") for each in accounts),
    ]
    return [*steps, read(accounts[0], "closed")] if again else steps


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, str]:
    """Forty sessions; in four of them an account was read again and had another answer."""
    desk = Desk(tmp_path_factory.mktemp("changing"))
    sessions = [(f"s{number:03}", read_twice(number, again=number % 10 == 0)) for number in range(40)]
    desk.record_all(sessions, tasks=20)
    return desk, drafted(desk, tools=("find_customer", "get_balance"))


@pytest.mark.req("TR-20", "TR-26")
def test_mean_and_min_are_those_of_the_method_that_the_settings_name(changing: tuple[Desk, str]) -> None:
    """Each session has one vote for the mean, the worst answer is the minimum, and both follow the method."""
    desk, name = changing
    scores: dict[str, dict[str, Any]] = {}
    for method in ("exact_match", "cosine_tfidf"):
        desk.configure(validation={"similarity": method, "threshold": 0.9})
        scores[method] = desk.json("validate", name, "--dry-run")["equivalence_score"]
        assert (scores[method]["method"], scores[method]["threshold"]) == (method, 0.9)
        low = scores[method]["min_similarity"]
        assert scores[method]["mean_similarity"] == pytest.approx((36 + 4 * (2 + low) / 3) / 40)
    assert scores["exact_match"]["min_similarity"] == 0.0
    assert 0.3 < scores["cosine_tfidf"]["min_similarity"] < 0.95


@pytest.mark.req("TR-20", "TR-26")
@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        ({"similarity": "exact_match", "threshold": 0.96}, True),
        ({"similarity": "exact_match", "threshold": 0.97}, False),
        ({"similarity": "cosine_tfidf", "threshold": 0.97}, True),
    ],
)
def test_method_and_threshold_decide_by_the_settings(
    changing: tuple[Desk, str], settings: dict[str, Any], passes: bool
) -> None:
    """The same draft on the same log passes or not, by `validate` and by `learn`, as the two settings say."""
    desk, name = changing
    desk.configure(validation=settings)
    verdict = desk.json("validate", name, "--dry-run", code=0 if passes else 1)
    assert verdict["passed"] is passes
    proposals = [proposal["tool_id"] for proposal in desk.json("learn")["proposals"]]
    assert (name in proposals) is passes
    if not passes:
        assert "its answers agree with the record by 0.967 on average, 0.97 is asked" in verdict["failure_reasons"][0]
