"""What durable runs promise, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresLogin
from tests.working import AGENT, Shop, flow_of, reach, shop_home, start, step, until, until_listed, until_waits, working
from twinraven.app import TwinRaven
from twinraven.catalog import tool
from twinraven.engine import RunRequest
from twinraven.foundation.errors import (
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    PolicyViolation,
    ToolError,
    TwinRavenError,
)
from twinraven.storage import Transaction
from twinraven.tenancy import LOCAL, Principal
from twinraven.vault import SecretUnreadable

ORDER = [step("look", item="tea"), step("reserve", item="tea"), step("charge", item="tea", amount=5)]


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(
    params=[
        "sqlite",
        "postgres",
        pytest.param("sqlite and temporal", marks=pytest.mark.soak),
        pytest.param("postgres and temporal", marks=pytest.mark.soak),
    ]
)
def raven(request: pytest.FixtureRequest, tmp_path: Path, shop: Shop) -> Generator[TwinRaven]:
    login: PostgresLogin | None = None
    engine: dict[str, Any] = {}
    if request.param.startswith("postgres"):
        login = request.getfixturevalue("postgres_login")
    if request.param.endswith("temporal"):
        engine = {"dispatcher": "temporal", "temporal_address": request.getfixturevalue("temporal_address")}
    rules = [{"tool": "broken", "then": "ask", "reason": "somebody must look"}]
    with shop_home(tmp_path, shop, postgres=login, policy={"rules": rules}, engine=engine) as raven:
        yield raven


@pytest.mark.req("CH-16")
async def test_a_run_makes_each_call_once_and_keeps_what_came_of_it(raven: TwinRaven, shop: Shop) -> None:
    """A flow's steps run in their order, each once, under keys of the run, and its answer can be read."""
    run = await start(raven, ORDER, run_id="r1")
    assert run.state == "queued"
    async with working(raven):
        found = await reach(raven, "r1", "succeeded")
    assert shop.calls == ["look tea", "reserve tea", "charge tea 5 run:r1:2"]
    assert [(each.place, each.error_code) for each in found.steps] == [("0", None), ("1", None), ("2", None)]
    assert found.output["result"] == {"charged": 5}
    assert (await raven.runs.list("default"))[0].state == "succeeded"


async def test_one_tool_can_be_run(raven: TwinRaven, shop: Shop) -> None:
    """A tool of the catalogue is a run of one step, and answers as the tool does."""
    run = await raven.runs.start(RunRequest({"item": "tea"}, tool_id="look"), by=LOCAL)
    async with working(raven):
        found = await reach(raven, run.run_id, "succeeded")
    assert found.output == {"item": "tea", "price": 5}
    assert shop.calls == ["look tea"]


async def test_starting_twice_is_one_run(raven: TwinRaven) -> None:
    """The same id with the same words is the same run, and with others it is refused."""
    await start(raven, ORDER, run_id="r1")
    assert (await start(raven, ORDER, run_id="r1")).run_id == "r1"
    with pytest.raises(IdempotencyConflict):
        await start(raven, ORDER[:1], run_id="r1")


@pytest.mark.req("AD-11")
async def test_a_question_is_answered_once(raven: TwinRaven, shop: Shop) -> None:
    """A run that asks a person holds nothing; of two who answer at once one is first, and a step beside goes on."""
    steps = [
        {**step("person:boss", question="Buy it?", answer_schema={"type": "boolean"}), "parallelizable_with": [1]},
        {**step("reserve", item="tea"), "parallelizable_with": [0]},
        {**step("charge", item="tea", amount=5), "condition": "$.steps[0].output == true"},
    ]
    run = await start(raven, steps)
    async with working(raven) as worker_id:
        found = await reach(raven, run.run_id, "waiting")
        assert shop.calls == ["reserve tea"]
        mine = [each for each in await raven.runs.workers() if each.worker_id.startswith(worker_id)]
        assert {(each.status, each.current_job_id) for each in mine} == {("idle", None)}
        assert [wait.kind for wait in found.waits] == ["person"]
        with pytest.raises(PolicyViolation):
            await raven.runs.answer(run.run_id, "0", True, by=AGENT)
        with pytest.raises(InvalidInput):
            await raven.runs.answer(run.run_id, "0", "perhaps", by=LOCAL)
        answers = await asyncio.gather(
            *(raven.runs.answer(run.run_id, "0", True, by=LOCAL) for _ in range(2)), return_exceptions=True
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["IllegalTransition", "Run"]
        await reach(raven, run.run_id, "succeeded")
    assert [call.split()[0] for call in shop.calls] == ["reserve", "charge"]
    entries = await raven.audit.entries("default")
    assert [entry.event_type for entry in entries if entry.event_type.startswith("run.")] == ["run.answered"]


async def test_an_event_and_a_moment_are_waited_for(raven: TwinRaven, shop: Shop) -> None:
    """A signal answers every run that waits for it; a moment comes by itself; a question may expire."""
    steps = [
        step("event:paid"),
        step("moment:", seconds=0.1),
        {**step("person:boss", expires_s=0.1), "on_failure": "skip"},
        step("look", item="tea"),
    ]
    run = await start(raven, steps)
    async with working(raven):
        await reach(raven, run.run_id, "waiting")
        assert await raven.runs.signal("other", None, by=LOCAL) == 0
        assert await raven.runs.signal("paid", {"by": "card"}, by=LOCAL) == 1
        assert await raven.runs.signal("paid", {"by": "card"}, by=LOCAL) == 0
        found = await reach(raven, run.run_id, "succeeded")
    assert [(each.place, each.error_code) for each in found.steps] == [
        ("0", None),
        ("1", None),
        ("2", "WAIT_EXPIRED"),
        ("3", None),
    ]


async def test_policy_that_asks_is_waited_for(raven: TwinRaven, shop: Shop) -> None:
    """A step that needs approval waits without an outcome; granted it goes on, denied it fails."""
    runs = [await start(raven, [step("broken", item=item)]) for item in ("tea", "milk")]
    async with working(raven):
        for run in runs:
            await reach(raven, run.run_id, "waiting")
        assert shop.calls == []
        pending = {each.arguments["item"]: each for each in await raven.approvals.list("default", state="pending")}
        await raven.approvals.grant("default", pending["tea"].approval_id, by=LOCAL)
        await raven.approvals.deny("default", pending["milk"].approval_id, by=LOCAL)
        await reach(raven, runs[0].run_id, "succeeded")
        assert (await reach(raven, runs[1].run_id, "failed")).run.error_code == "APPROVAL_DENIED"
    assert shop.calls == ["broken tea"]


async def test_retries_are_attempts_of_their_own(raven: TwinRaven, shop: Shop) -> None:
    """Each attempt has an outcome; the key is the same, so that what happened is not repeated."""
    shop.failures = 2
    strategy = {"retry_policy": {"0": {"max_retries": 3, "backoff_ms": 1, "backoff_strategy": "fixed"}}}
    definition = flow_of([step("flaky", item="tea")], error_strategy=strategy)
    run = await raven.runs.start(RunRequest({}, definition=definition), by=LOCAL)
    async with working(raven):
        found = await reach(raven, run.run_id, "succeeded", "failed")
    assert [(each.place, each.error_code) for each in found.steps] == [
        ("0", "TOOL_UNAVAILABLE"),
        ("0#2", "TOOL_UNAVAILABLE"),
        ("0#3", None),
    ]


@pytest.mark.req("TR-17")
async def test_a_write_that_may_have_happened_is_attempted_once(raven: TwinRaven) -> None:
    """A retry policy repeats a read whatever its error, and a write only where its error says that nothing was done."""
    made: list[str] = []

    def fail_twice(name: str) -> str:
        made.append(name)
        if made.count(name) < 3:
            raise ToolError("out of order")
        return name

    @tool(effect="read")
    def peek() -> str:
        """Look."""
        return fail_twice("peek")

    @tool(effect="write")
    def smash() -> str:
        """Break something."""
        return fail_twice("smash")

    strategy = {"retry_policy": {"0": {"max_retries": 3, "backoff_ms": 1, "backoff_strategy": "fixed"}}}
    ended: list[str] = []
    for function in (peek, smash):
        raven.functions.add(function)
        definition = flow_of([step(function.__name__)], error_strategy=strategy)
        run = await raven.runs.start(RunRequest({}, definition=definition), by=LOCAL)
        async with working(raven):
            ended.append((await reach(raven, run.run_id, "succeeded", "failed")).run.state)
    assert ended == ["succeeded", "failed"]
    assert made == ["peek"] * 3 + ["smash"]


async def test_a_failed_run_is_retried_where_it_failed(raven: TwinRaven, shop: Shop) -> None:
    """Retrying makes the failed call again and repeats nothing that succeeded."""
    shop.failures = 1
    run = await start(raven, [step("reserve", item="tea"), step("flaky", item="tea")])
    async with working(raven):
        assert (await reach(raven, run.run_id, "failed")).run.error_code == "TOOL_UNAVAILABLE"
        with pytest.raises(IllegalTransition):
            await raven.runs.resume(run.run_id, by=LOCAL)
        assert (await raven.runs.retry(run.run_id, by=LOCAL)).state == "queued"
        await reach(raven, run.run_id, "succeeded")
    assert shop.calls == ["reserve tea", "flaky tea", "flaky tea"]
    with pytest.raises(IllegalTransition):
        await raven.runs.retry(run.run_id, by=LOCAL)


async def test_a_fork_keeps_what_came_before_its_step(raven: TwinRaven, shop: Shop) -> None:
    """A fork is another run: steps before the given one keep their outcomes, the others are done under new keys."""
    await start(raven, ORDER, run_id="r1")
    async with working(raven):
        await reach(raven, "r1", "succeeded")
        with pytest.raises(NotFound):
            await raven.runs.fork("r1", "9", by=LOCAL)
        fork = await raven.runs.fork("r1", "2", by=LOCAL)
        await reach(raven, fork.run_id, "succeeded")
    assert shop.calls[3:] == [f"charge tea 5 run:{fork.run_id}:2"]


@pytest.mark.req("CH-20")
async def test_a_cancelled_run_begins_nothing_more(raven: TwinRaven, shop: Shop) -> None:
    """The call under way is let finish and is told; the next is not begun."""
    shop.gate = asyncio.Event()
    run = await start(raven, ORDER)
    async with working(raven):
        await until(lambda: "reserve tea" in shop.calls)
        assert (await raven.runs.cancel(run.run_id, by=LOCAL)).state == "cancelled"
        shop.gate.set()
    assert len((await raven.runs.get("default", run.run_id)).steps) == 2
    assert shop.calls == ["look tea", "reserve tea"]
    with pytest.raises(IllegalTransition):
        await raven.runs.cancel(run.run_id, by=LOCAL)


@pytest.mark.req("AD-14")
async def test_a_step_of_a_type_that_nobody_here_serves_is_made_elsewhere(raven: TwinRaven, shop: Shop) -> None:
    """A process that does not serve a type puts the step on its queue; one that does makes it and wakes the run."""
    run = await start(raven, ORDER)
    async with working(raven, types=["rest"]):
        found = await reach(raven, run.run_id, "waiting")
        (job,) = [each for each in found.jobs if each.place]
        assert (job.queue, job.state, shop.calls) == ("python", "queued", [])
        async with working(raven, types=["python"]):
            await reach(raven, run.run_id, "succeeded")
    assert [call.split()[0] for call in shop.calls] == ["look", "reserve", "charge"]


async def test_what_cannot_be_run_is_refused_with_its_place(raven: TwinRaven) -> None:
    """Unknown tools, arguments that do not fit, work of the house and both or neither target are named."""
    with pytest.raises(NotFound, match=r"definition\.steps\[1\]\.tool_id"):
        await start(raven, [step("look", item="tea"), step("nothing")])
    with pytest.raises(InvalidInput, match="house"):
        await start(raven, [step("house:maintenance")])
    for stand_in, problem in (("house:deliver", "house"), ("program:plan", "house"), ("nothing", "no tool")):
        strategy = {"fallback_steps": {"0": [{**step(stand_in), "step_index": 0}]}}
        definition = flow_of([step("broken", item="tea")], error_strategy=strategy)
        with pytest.raises(TwinRavenError, match=problem) as refused:
            await raven.runs.start(RunRequest({}, definition=definition), by=LOCAL)
        assert refused.value.details["field"] == "definition.error_strategy.fallback_steps.0[0].tool_id"
    with pytest.raises(InvalidInput, match="amount"):
        await raven.runs.start(RunRequest({"item": "tea"}, tool_id="charge"), by=LOCAL)
    with pytest.raises(InvalidInput, match="not both"):
        await raven.runs.start(RunRequest({}), by=LOCAL)
    with pytest.raises(NotFound):
        await raven.runs.get("default", "nothing")


async def test_a_question_that_no_answer_could_fit_ends_the_run(raven: TwinRaven) -> None:
    """A form of the answer that is no schema would leave the run waiting for ever; it fails with a stable code."""
    run = await start(raven, [step("person:boss", question="?", answer_schema={"$literal": {"type": "nonsense"}})])
    async with working(raven):
        assert (await reach(raven, run.run_id, "failed", "waiting")).run.error_code == "SCHEMA_INVALID"


@pytest.mark.req("CH-24")
async def test_nobody_sees_runs_of_another_tenant(raven: TwinRaven) -> None:
    """What another tenant runs is not there: not to be read, listed, answered or ended."""
    rival = (await raven.tenancy.create_tenant("Rival")).tenant_id
    run = await start(raven, [step("person:boss", question="?")])
    async with working(raven):
        await reach(raven, run.run_id, "waiting")
    eve = Principal(rival, "eve", "admin")
    acts: list[Any] = [
        raven.runs.get(rival, run.run_id),
        raven.runs.answer(run.run_id, "0", 1, by=eve),
        raven.runs.cancel(run.run_id, by=eve),
        raven.runs.fork(run.run_id, "0", by=eve),
    ]
    for act in acts:
        with pytest.raises(NotFound):
            await act
    assert await raven.runs.list(rival) == ()
    assert await raven.runs.signal("boss", 1, by=eve) == 0


@pytest.mark.parametrize(
    ("word", "state", "more"),
    [
        ({"effect": "happened", "output": {"reserved": "by hand"}}, "succeeded", 0),
        ({"effect": "did_not_happen"}, "succeeded", 1),
        ({"effect": "give_up"}, "failed", 0),
    ],
)
async def test_a_person_says_what_became_of_an_unknown_effect(
    raven: TwinRaven, shop: Shop, word: dict[str, Any], state: str, more: int
) -> None:
    """An effect that nobody knows about is no failure: the run waits, and each word leads where it says."""
    shop.gate = asyncio.Event()
    # Long enough for a busy machine to make the call a second time.
    run = await start(raven, [{**step("reserve", item="tea"), "timeout_ms": 2_000}, step("look", item="tea")])
    async with working(raven):
        found = await reach(raven, run.run_id, "waiting")
        assert [(wait.kind, wait.subject) for wait in found.waits] == [("effect", f"run:{run.run_id}:0")]
        assert found.waits[0].question["tool_id"] == "reserve"
        with pytest.raises(InvalidInput, match="did_not_happen"):
            await raven.runs.answer(run.run_id, "0", "yes", by=LOCAL)
        shop.gate.set()
        # On a busy machine the time is over before the call was made.
        made = shop.calls.count("reserve tea")
        await raven.runs.answer(run.run_id, "0", word, by=LOCAL)
        found = await reach(raven, run.run_id, "succeeded", "failed")
    assert found.run.state == state
    assert shop.calls.count("reserve tea") == made + more
    if state == "failed":
        assert found.run.error_code == "EFFECT_UNKNOWN"
    else:
        assert found.steps[0].output == word.get("output", {"reserved": "tea"})


async def test_a_word_on_a_call_that_has_no_key_counts(raven: TwinRaven, shop: Shop) -> None:
    """A call that was cut off before its key was claimed can be answered like any other, and the run goes on."""
    shop.gate = asyncio.Event()
    run = await start(raven, [{**step("reserve", item="tea"), "timeout_ms": 2_000}])
    async with working(raven):
        await reach(raven, run.run_id, "waiting")
        shop.gate.set()
        await raven.database.write("default", lambda tx: tx.execute("DELETE FROM idempotency_claims"))
        await raven.runs.answer(run.run_id, "0", {"effect": "did_not_happen"}, by=LOCAL)
        found = await reach(raven, run.run_id, "succeeded", "failed")
    assert (found.run.state, found.steps[0].output) == ("succeeded", {"reserved": "tea"})


async def test_values_of_runs_are_nowhere_in_clear(raven: TwinRaven, shop: Shop) -> None:
    """Parameters, questions, answers and outcomes of a run are sealed in its tables; dispatch holds none of them."""
    steps = [
        step("person:boss", question="canary-question"),
        {**step("person:boss", question="?"), "condition": "$.steps[0].output == 'canary-answer'"},
    ]
    definition = flow_of(steps, parameters={"type": "object", "properties": {"word": {"type": "string"}}})
    wish = RunRequest({"word": "canary-parameter"}, definition=definition)
    run = await raven.runs.start(wish, by=LOCAL)
    async with working(raven):
        await reach(raven, run.run_id, "waiting")
        await raven.runs.answer(run.run_id, "0", "canary-answer", by=LOCAL)
        await until_waits(raven, run.run_id, 2)

    def rows(tx: Transaction) -> str:
        tables = ("runs", "run_steps", "run_waits", "run_dispatch", "engine_workers", "engine_schedules")
        return "".join(repr(row) for table in tables for row in tx.fetch_all(f"SELECT * FROM {table}"))

    text = await raven.database.read("default", rows)
    assert run.run_id in text
    assert "canary" not in text
    found = await raven.runs.get("default", run.run_id)
    assert found.parameters == {"word": "canary-parameter"}
    assert found.steps[0].output == "canary-answer"


async def test_a_sealed_outcome_opens_only_where_it_belongs(raven: TwinRaven) -> None:
    """What is kept of one run cannot be put under another."""
    for name in ("a", "b"):
        await start(raven, [step("look", item=name)], run_id=name)
    async with working(raven):
        for name in ("a", "b"):
            await reach(raven, name, "succeeded")

    def swap(tx: Transaction) -> None:
        row = tx.fetch_one("SELECT answer FROM runs WHERE run_id = 'a'")
        assert row is not None
        tx.execute("UPDATE runs SET error_code = NULL WHERE run_id = 'b'")
        tx.execute("DELETE FROM run_steps WHERE run_id = 'b'")
        tx.execute(
            "INSERT INTO run_steps (tenant_id, run_id, place, tool_id, epoch, outcome, settled_at) "
            "SELECT tenant_id, 'b', place, tool_id, epoch, outcome, settled_at FROM run_steps WHERE run_id = 'a'"
        )

    await raven.database.write("default", swap)
    with pytest.raises(SecretUnreadable):
        await raven.runs.get("default", "b")


async def test_a_long_pause_holds_nothing_and_survives(raven: TwinRaven, shop: Shop) -> None:
    """A retry that is far away lets the run rest until then, counted from the failure."""
    shop.failures = 1
    strategy = {"retry_policy": {"0": {"max_retries": 1, "backoff_ms": 600_000, "backoff_strategy": "fixed"}}}
    run = await raven.runs.start(
        RunRequest({}, definition=flow_of([step("flaky", item="tea")], error_strategy=strategy)), by=LOCAL
    )
    async with working(raven):
        found = await reach(raven, run.run_id, "waiting")
    due = found.run.due_at
    assert due is not None
    assert abs((due - found.steps[0].settled_at).total_seconds() - 600) < 1
    await raven.runs.resume(run.run_id, by=LOCAL)
    async with working(raven):
        again = await reach(raven, run.run_id, "waiting")
    assert again.run.due_at == due
    assert shop.calls == ["flaky tea"]


async def test_runs_that_ended_long_ago_are_forgotten(raven: TwinRaven) -> None:
    """Retention deletes ended runs with all that was kept of them, and no others."""
    for name in ("old", "new"):
        await start(raven, [step("look", item=name)], run_id=name)
    async with working(raven):
        for name in ("old", "new"):
            await reach(raven, name, "succeeded")
    await raven.database.write("default", lambda tx: tx.execute("UPDATE runs SET finished_at = 1 WHERE run_id = 'old'"))
    assert await raven.runs.prune("default") == 1
    assert [run.run_id for run in await raven.runs.list("default")] == ["new"]
    assert await raven.runs.prune("default") == 0


@pytest.mark.req("RG-13")
@pytest.mark.parametrize("name", ["runs:daily", "maintenance:weekly"])
async def test_the_house_does_its_own_work_once_for_each_slot(raven: TwinRaven, name: str) -> None:
    """A schedule whose slot has come starts one run for each tenant, whoever looks and however often."""
    await raven.database.write(
        "", lambda tx: tx.execute("INSERT INTO engine_schedules (name, next_at) VALUES (:name, 1000)", name=name)
    )
    target = f"house:{name.partition(':')[0]}"
    async with working(raven), working(raven):
        await until_listed(raven, target)
        await reach(raven, f"schedule:{name}:1000", "succeeded")
    assert [run.target for run in await raven.runs.list("default")] == [target]


@pytest.mark.req("AD-11")
async def test_a_run_that_is_late_fails_also_while_it_waits_for_an_event(raven: TwinRaven) -> None:
    """A deadline counts while nothing happens; only time spent waiting for people does not."""
    event = await start(raven, [step("event:never")], timeout_s=0.2)
    person = await start(raven, [step("person:boss", question="?"), step("look", item="tea")], timeout_s=5.0)
    async with working(raven):
        assert (await reach(raven, event.run_id, "failed")).run.error_code == "TOOL_TIMEOUT"
        assert (await reach(raven, person.run_id, "waiting")).run.due_at is not None


async def test_a_secret_in_an_answer_is_not_shown(raven: TwinRaven) -> None:
    """What the vault knows is used by later steps as it is, and shown by nobody."""
    await raven.vault.create("default", "local", name="token", type="api_key", value="canary-7f3e9a52c1")
    run = await raven.runs.start(RunRequest({"item": "canary-7f3e9a52c1"}, tool_id="look"), by=LOCAL)
    async with working(raven):
        found = await reach(raven, run.run_id, "succeeded")
    assert "canary" not in str(found.as_json())
    assert (await raven.runs.get("default", run.run_id, exact=True)).output["item"] == "canary-7f3e9a52c1"


async def test_an_unknown_effect_inside_a_composite_is_resolved_by_its_own_key(raven: TwinRaven, shop: Shop) -> None:
    """A person's word is about the inner call; the composite runs again, and repeats none of its other effects."""
    inner = [step("charge", item="tea", amount=5), step("slow", item="tea")]
    raven.offer([flow_of(inner, tool_id="bundle")])
    shop.gate = asyncio.Event()
    run = await start(raven, [step("bundle")])
    async with working(raven):
        found = await reach(raven, run.run_id, "waiting", "failed")
        assert [(wait.kind, wait.subject) for wait in found.waits] == [("effect", f"run:{run.run_id}:0:1")]
        shop.gate.set()
        word = {"effect": "happened", "output": {"reserved": "by hand"}}
        await raven.runs.answer(run.run_id, "0", word, by=LOCAL)
        found = await reach(raven, run.run_id, "succeeded", "failed")
    assert found.run.state == "succeeded"
    assert found.steps[0].output["result"] == {"reserved": "by hand"}
    assert [call.split()[0] for call in shop.calls] == ["charge", "slow"]
