"""Processes on both stores: saved as versions, refused with the place named, run durably, called like any tool."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresLogin
from tests.unit.catalog.town import service_body, tool_body
from tests.working import AGENT, Shop, reach, shop_home, working
from twinraven.app import TwinRaven
from twinraven.calls import CallContext, SkillInvocationRequest
from twinraven.catalog import ServiceSpec, ToolSpec, tool
from twinraven.flow import FlowDefinition
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidDefinition, NotFound, PolicyViolation
from twinraven.processes import Process, tools
from twinraven.processes.compile import ProcessLookup, compile_process
from twinraven.tenancy import LOCAL, Principal

MEMBER = Principal("default", "ada", "member")


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path, shop: Shop) -> Generator[TwinRaven]:
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    with shop_home(tmp_path, shop, postgres=login) as raven:
        yield raven


def step(name: str, tool: str = "look", **more: Any) -> dict[str, Any]:
    """One step that calls a tool for an item."""
    execution = {key: more.pop(key) for key in ("mode", "condition", "timeout", "interactionMode") if key in more}
    output = {"variable": more.pop("variable", f"{name}_out"), "required": more.pop("required", True)}
    output |= {"tokenBudget": more.pop("tokenBudget")} if "tokenBudget" in more else {}
    body: dict[str, Any] = {"id": name, "inputs": {"item": "{step.item}"}, "output": output, "execution": execution}
    body |= more
    return body if "process" in body else {"tool": tool, **body}


def process(*steps: dict[str, Any], name: str = "buy", **more: Any) -> Process:
    """A process about an item."""
    body = {"id": name, "description": "Buy an item", "initialContext": ["item"], "steps": list(steps), **more}
    return Process.from_json(body)


async def ran(raven: TwinRaven, name: str, *states: str, **parameters: Any) -> Any:
    run = await raven.processes.run(name, parameters or {"item": "hat"}, by=LOCAL)
    async with working(raven):
        return await reach(raven, run.run_id, *(states or ("succeeded", "failed")))


@pytest.mark.req("AD-11", "AD-13")
async def test_a_process_runs_its_steps_and_renders_its_answer(raven: TwinRaven, shop: Shop) -> None:
    """Values pass by `{step.x}`, conditions decide, an optional failure is left out, and nothing is escaped."""
    shop.failures = 9
    buy = process(
        step("see", variable="seen"),
        step("one", "reserve", mode="parallel", inputs={"item": "<{step.seen.item}> for {step.seen.price}"}),
        step("two", "broken", mode="parallel", required=False),
        step("three", "reserve", condition="{step.seen.price} > 100"),
        step("pay", "charge", inputs={"item": "{step.item}", "amount": "{step.seen.price}"}),
        outputTemplate="{{#if two_out}}two{{else}}no two{{/if}}, {{one_out.reserved}} & {{pay_out.charged}}",
    )
    await raven.processes.save(buy, by=LOCAL)
    found = await ran(raven, "buy")
    assert found.run.state == "succeeded", found.error
    assert found.output == "no two, <hat> for 5 & 5"
    assert "reserve <hat> for 5" in shop.calls
    assert not any(call == "reserve hat" for call in shop.calls)


@pytest.mark.req("AD-13")
async def test_an_output_template_renders_as_handlebars_does(raven: TwinRaven) -> None:
    """Loops, their else, `@` values, `../`, `with`, `unless` and what counts as nothing are those of Handlebars."""

    @tool(effect="read")
    def stock(item: str) -> dict[str, Any]:
        """What there is of an item."""
        rows: list[dict[str, Any]] = [{"id": 1, "tags": ["<a>", "b"]}, {"id": 2, "tags": []}]
        return {"of": item, "rows": rows, "none": [], "empty": {}, "zero": 0, "by": {"x": 1.5, "y": True}}

    raven.functions.add(stock)
    template = (
        "{{#each s.rows}}{{@index}}:{{id}} of {{../item}}"
        "{{#each tags}} {{#if @first}}^{{/if}}{{this}}{{#if @last}}.{{/if}}{{else}} bare{{/each}}"
        "{{#unless @last}}; {{/unless}}{{/each}}"
        "|{{#each s.none}}x{{else}}nothing{{/each}}|{{#if s.empty}}object{{/if}}{{#if s.zero}}zero{{/if}}{{s.gone}}"
        "|{{#with s.by}}{{x}} {{y}}{{/with}}|{{#each s.by}}{{@key}}={{this}} {{/each}}"
        "|{{{s.of}}} & {{looked.item}} {{again.of}}|{{s.rows.length}} {{s.of.length}}"
        "{{#each s.rows as |row number|}} {{number}}={{row.id}}{{/each}}"
    )
    steps = (
        step("s", "stock", variable="s"),
        step("t", inputs={"item": "{step.s.rows[0].tags[0]} and {step.s.by.x}"}, variable="looked"),
        step("u", "stock", inputs={"item": "{step.s.rows[0].tags[0]}"}, variable="again"),
    )
    await raven.processes.save(process(*steps, outputTemplate=template), by=LOCAL)
    found = await ran(raven, "buy", item="<hat>")
    assert found.run.state == "succeeded", found.error
    assert found.output == (
        "0:1 of <hat> ^<a> b.; 1:2 of <hat> bare|nothing|object|1.5 true|x=1.5 y=true |<hat> & <a> and 1.5 <a>"
        "|2 5 0=1 1=2"
    )


@pytest.mark.req("AD-11")
async def test_a_sequential_step_waits_for_parallel_ones_before_it(raven: TwinRaven, shop: Shop) -> None:
    """What runs in parallel is over before the next sequential step begins, also where nothing is taken from it."""

    @tool(effect="read")
    async def dawdle(item: str) -> str:
        """Take a while."""
        await asyncio.sleep(0.5)
        shop.calls.append(f"dawdled {item}")
        return item

    raven.functions.add(dawdle)
    steps = (step("a", "dawdle", mode="parallel"), step("b", mode="parallel"), step("c", "reserve"))
    await raven.processes.save(process(*steps), by=LOCAL)
    assert (await ran(raven, "buy")).run.state == "succeeded"
    assert shop.calls == ["look hat", "dawdled hat", "reserve hat"]


@pytest.mark.req("AD-09")
async def test_a_step_calls_only_what_is_enabled(raven: TwinRaven) -> None:
    """A disabled tool of a service and a disabled process are refused by the place that names them."""
    body = service_body(name="shop", requiresSecret=False)
    await raven.defined.services.create(LOCAL, ServiceSpec.from_json(body))
    spec = ToolSpec.from_json(tool_body(key="get_order", service="shop", enabled=False))
    await raven.defined.tools.create(LOCAL, spec)
    await raven.processes.save(process(step("see"), name="off", enabled=False), by=LOCAL)
    off = step("order", "get_order", inputs={"orderId": "{step.item}"})
    for stated, field in ((off, "steps[0].tool"), (step("sub", process="off"), "steps[0].process")):
        with pytest.raises(InvalidDefinition, match="disabled") as refused:
            await raven.processes.save(process(stated), by=LOCAL)
        assert refused.value.details["field"] == field


@pytest.mark.req("AD-11")
async def test_a_manual_step_waits_for_a_person_and_no_answer_of_an_agent_counts(raven: TwinRaven, shop: Shop) -> None:
    """A manual step is asked about before it runs; yes runs it, no ends the run, or leaves an optional step out."""
    for required, answer, state in ((False, False, "succeeded"), (True, True, "succeeded"), (True, False, "failed")):
        asked = step("put", "reserve", interactionMode="manual", required=required)
        await raven.processes.save(process(asked), by=LOCAL)
        waiting = await ran(raven, "buy", "waiting")
        (wait,) = waiting.waits
        assert [(run.run_id, asked.place) for run, asked in await raven.runs.waiting("default")] == [
            (waiting.run.run_id, wait.place)
        ]
        assert wait.question["inputs"] == {"item": "hat"}
        with pytest.raises(PolicyViolation):
            await raven.runs.answer(waiting.run.run_id, wait.place, True, by=AGENT)
        before = len(shop.calls)
        await raven.runs.answer(waiting.run.run_id, wait.place, answer, by=LOCAL)
        async with working(raven):
            ended = await reach(raven, waiting.run.run_id, "succeeded", "failed")
        assert ended.run.state == state
        assert len(shop.calls) - before == (1 if answer else 0)
    assert ended.error is not None
    assert ended.error["code"] == "STEP_REFUSED"
    assert ended.error["message"].startswith("step put__refused ")
    needless = step("put", "reserve", interactionMode="manual", required=False, condition="{step.item} == 'cap'")
    await raven.processes.save(process(needless), by=LOCAL)
    assert (await ran(raven, "buy", "waiting", "succeeded", "failed")).waits == ()


async def test_a_fork_from_a_step_does_all_of_that_step_anew(raven: TwinRaven, shop: Shop) -> None:
    """A yes was said of one run: a fork from a manual step asks again, one from a sub-process repeats all its steps."""
    await raven.processes.save(process(step("look"), step("put", "reserve"), name="inner"), by=LOCAL)
    await raven.processes.save(process(step("sub", process="inner"), step("ok", interactionMode="manual")), by=LOCAL)
    waiting = await ran(raven, "buy", "waiting")
    await raven.runs.answer(waiting.run.run_id, "ok__ask", True, by=LOCAL)
    async with working(raven):
        await reach(raven, waiting.run.run_id, "succeeded")
        before = len(shop.calls)
        for name, calls in (("ok", 0), ("sub", 2)):
            fork = await raven.runs.fork(waiting.run.run_id, name, by=LOCAL)
            assert [wait.place for wait in (await reach(raven, fork.run_id, "waiting")).waits] == ["ok__ask"]
            assert len(shop.calls) - before == calls


@pytest.mark.req("AD-11")
async def test_token_budgets_are_counted_and_enforced(raven: TwinRaven, shop: Shop) -> None:
    """A run whose steps report more tokens than the process may take ends before the next step."""

    @tool(effect="read")
    async def think(item: str) -> dict[str, Any]:
        """Think about an item, which takes tokens."""
        shop.calls.append(f"think {item}")
        return {"text": item, "usage": {"input_tokens": 30, "output_tokens": 30}}

    raven.functions.add(think)
    steps = (step("a", "think"), step("b", "think"), step("c", "reserve"))
    await raven.processes.save(process(*steps, tokenBudget=100), by=LOCAL)
    over = await ran(raven, "buy")
    assert (over.run.state, over.error["code"]) == ("failed", "TOKEN_BUDGET_EXCEEDED")
    assert shop.calls == ["think hat", "think hat"]
    await raven.processes.save(process(*steps, tokenBudget=120), by=LOCAL)
    assert (await ran(raven, "buy")).run.state == "succeeded"
    own = process(step("a", "think", tokenBudget=59), step("c", "reserve"))
    await raven.processes.save(own, by=LOCAL)
    assert (await ran(raven, "buy")).error["code"] == "TOKEN_BUDGET_EXCEEDED"


@pytest.mark.req("AD-11")
async def test_a_step_that_takes_too_long_fails_and_an_optional_one_is_left_out(raven: TwinRaven) -> None:
    """A step has its own time; what is late is a failure like any other."""

    @tool(effect="read")
    async def dawdle(item: str) -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return item

    raven.functions.add(dawdle)
    for required, state, output in ((True, "failed", None), (False, "succeeded", "late: ")):
        late = step("wait", "dawdle", timeout=50, required=required)
        await raven.processes.save(process(late, outputTemplate="late: {{wait_out}}"), by=LOCAL)
        found = await ran(raven, "buy")
        assert (found.run.state, found.output) == (state, output)
        assert found.steps[0].error_code == "TOOL_TIMEOUT"
        assert not required or "within 50 ms" in found.error["message"]
    await raven.processes.save(process(step("wait", "dawdle"), name="dawdling"), by=LOCAL)
    await raven.processes.save(process(step("call", process="dawdling", timeout=50)), by=LOCAL)
    assert "within 50 ms" in (await ran(raven, "buy")).error["message"]


@pytest.mark.req("AD-11")
async def test_a_parallel_step_waits_for_what_it_depends_on(raven: TwinRaven) -> None:
    """It begins when that has ended, and not later, though nothing of it is used; else it begins at once."""
    ended: list[str] = []
    gate = asyncio.Event()

    @tool(effect="read")
    async def tick(item: str) -> str:
        """Take a while if it is the first, and if it is the one between, until the one after has ended."""
        await asyncio.sleep(0.3 if item == "first" else 0)
        if item == "between":
            await gate.wait()
        ended.append(item)
        if item == "after":
            gate.set()
        return item

    raven.functions.add(tick)
    steps = [
        step("first", "tick", inputs={"item": "first"}, mode="parallel"),
        step("beside", "tick", inputs={"item": "beside"}, mode="parallel"),
        step("between", "tick", inputs={"item": "between"}, timeout=10_000),
        step("after", "tick", inputs={"item": "after"}, mode="parallel", dependsOn=["first"]),
    ]
    await raven.processes.save(process(*steps), by=LOCAL)
    assert (await ran(raven, "buy")).run.state == "succeeded"
    assert ended == ["beside", "first", "after", "between"]


@pytest.mark.req("AD-12")
async def test_processes_call_processes_within_their_depth(raven: TwinRaven, shop: Shop) -> None:
    """A sub-process is laid out in the run and gives its rendered output; past max_recursion_depth it is refused."""
    shop.failures = 9
    inner = process(step("see", variable="seen"), name="inner", outputTemplate="{{seen.item}}!")
    await raven.processes.save(inner, by=LOCAL)
    middle = process(step("call", process="inner"), name="middle", outputTemplate="({{call_out}})")
    await raven.processes.save(middle, by=LOCAL)
    fails = process(step("no", "broken"), step("next", "reserve"), name="fails", outputTemplate="never")
    await raven.processes.save(fails, by=LOCAL)
    outer = (
        step("down", process="middle", inputs={"item": "{step.item} of {step.item}"}),
        step("lost", process="fails", required=False),
        step("put", "reserve", inputs={"item": "{step.down_out}{step.lost_out}"}),
    )
    await raven.processes.save(process(*outer, outputTemplate="{{put_out.reserved}}"), by=LOCAL)
    found = await ran(raven, "buy")
    assert (found.run.state, found.output) == ("succeeded", "(hat of hat!)")
    assert shop.calls == ["look hat of hat", "broken hat", "reserve (hat of hat!)"]
    with pytest.raises(InvalidDefinition, match="max_recursion_depth") as deep:
        await raven.processes.save(process(*outer, maxRecursionDepth=1), by=LOCAL)
    assert deep.value.details["field"] == "steps[0].process.steps[0].process"
    await raven.processes.save(process(step("up", process="buy"), name="three"), by=LOCAL)
    with pytest.raises(InvalidDefinition, match="four → three → buy → middle → inner"):
        await raven.processes.save(process(step("up", process="three"), name="four"), by=LOCAL)
    await raven.processes.save(process(step("see"), name="leaf"), by=LOCAL)
    shallow = process(step("call", process="leaf"), name="shallow", maxRecursionDepth=1)
    await raven.processes.save(shallow, by=LOCAL)
    await raven.processes.save(process(step("call", process="inner"), name="leaf"), by=LOCAL)
    with pytest.raises(InvalidDefinition, match="shallow → leaf → inner"):
        await raven.processes.save(process(step("call", process="shallow"), name="above"), by=LOCAL)
    with pytest.raises(InvalidDefinition, match="inner → middle → inner"):
        await raven.processes.save(process(step("up", process="middle"), name="inner"), by=LOCAL)


@pytest.mark.req("AD-12")
async def test_a_process_may_call_itself_until_it_is_too_deep(raven: TwinRaven) -> None:
    """Under a condition a process calls itself; where a run would go past max_recursion_depth it ends with a code."""
    counted: list[int] = []

    @tool(effect="read")
    def count_down(number: int) -> dict[str, int]:
        """One less."""
        counted.append(number)
        return {"left": number - 1}

    raven.functions.add(count_down)
    body: dict[str, Any] = {
        "id": "down",
        "description": "Count down to zero",
        "initialContext": ["number"],
        "maxRecursionDepth": 2,
        "steps": [
            step("less", "count_down", inputs={"number": "{step.number}"}),
            step(
                "again",
                process="down",
                inputs={"number": "{step.less_out.left}"},
                condition="{step.less_out.left} > 0",
            ),
        ],
        "outputTemplate": "{{less_out.left}} {{again_out}}",
    }
    await raven.processes.save(Process.from_json(body), by=LOCAL)
    assert (await ran(raven, "down", number=3)).output == "2 1 0 "
    deep = await ran(raven, "down", number=9)
    assert (deep.run.state, deep.error["code"]) == ("failed", "RECURSION_LIMIT_EXCEEDED")
    assert counted == [3, 2, 1, 9, 8, 7]


@pytest.mark.req("AD-09")
async def test_versions_are_immutable_and_runs_keep_theirs(raven: TwinRaven, shop: Shop) -> None:
    """Each change is a version; a run goes on with the one it began with; a used process is not deleted."""
    first = await raven.processes.save(process(step("see"), outputTemplate="one"), by=LOCAL)
    again = await raven.processes.save(process(step("see"), outputTemplate="one"), by=LOCAL)
    run = await raven.processes.run("buy", {"item": "hat"}, by=LOCAL)
    second = await raven.processes.save(process(step("see"), outputTemplate="two"), by=LOCAL, expected_version=1)
    assert (first.version, again.version, second.version) == (1, 1, 2)
    with pytest.raises(Conflict):
        await raven.processes.save(process(step("see"), outputTemplate="3"), by=LOCAL, expected_version=1)
    with pytest.raises(PolicyViolation):
        await raven.processes.save(process(step("see"), outputTemplate="3"), by=MEMBER)
    async with working(raven):
        assert (await reach(raven, run.run_id, "succeeded", "failed")).output == "one"
    (change,) = await raven.processes.diff("default", "buy")
    assert change.as_json() == {"place": "output_template", "before": "one", "after": "two"}
    with pytest.raises(AppendOnly):
        await raven.database.write("default", lambda tx: tx.execute("UPDATE process_versions SET definition = '{}'"))
    await raven.processes.save(process(step("call", process="buy"), name="uses"), by=LOCAL)
    with pytest.raises(Conflict, match="uses"):
        await raven.processes.delete("buy", by=LOCAL)
    with pytest.raises(InvalidDefinition, match="buy → uses → buy"):
        await raven.processes.save(process(step("call", process="uses")), by=LOCAL)
    await raven.processes.enable("buy", enabled=False, by=LOCAL)
    with pytest.raises(InvalidDefinition, match="disabled"):
        await raven.processes.save(process(step("call", process="buy"), name="other"), by=LOCAL)
    await raven.processes.delete("uses", by=LOCAL)
    await raven.processes.delete("buy", by=LOCAL)
    with pytest.raises(NotFound):
        await raven.processes.get("default", "buy")
    assert [each.version for each in await raven.processes.versions("default", "buy")] == [3, 2, 1]
    assert (await raven.processes.save(process(step("see")), by=MEMBER)).version == 4


@pytest.mark.req("AD-11")
async def test_a_process_is_a_tool_that_is_called_like_any_other(raven: TwinRaven, shop: Shop) -> None:
    """A call runs the process durably, also where no worker is about; under one key it is one run."""
    await raven.processes.save(process(step("put", "reserve"), outputTemplate="{{put_out.reserved}}"), by=LOCAL)
    entry = raven.catalog.find("default", "buy")
    assert (entry.effect.value, entry.connector, entry.parts) == ("write", "process", ("reserve",))
    request = SkillInvocationRequest(tool_name="buy", payload={"item": "hat"}, idempotency_key="k")
    context = CallContext(session_id="s", caller="ada")
    first = await raven.calls.invoke(request, context)
    again = await raven.calls.invoke(request, context)
    assert (first.output, again.output, shop.calls) == ("hat", "hat", ["reserve hat"])
    (run,) = await raven.runs.list("default")
    assert (run.target, run.state, run.caller) == ("buy", "succeeded", "ada")
    manual = process(step("put", "reserve", interactionMode="manual"))
    await raven.processes.save(manual, by=LOCAL)
    asked = SkillInvocationRequest(tool_name="buy", payload={"item": "cap"}, idempotency_key="k2")
    unfinished = await raven.calls.invoke(asked, context)
    assert unfinished.error is not None
    details = unfinished.error["details"]
    assert unfinished.error["code"] == "RUN_UNFINISHED"
    await raven.runs.answer(details["run_id"], details["places"][0], True, by=LOCAL)
    assert (await raven.calls.invoke(asked, context)).output == {"put_out": {"reserved": "cap"}}


REFUSED: list[tuple[list[dict[str, Any]], dict[str, Any], str, str]] = [
    ([], {}, "steps", "must be 1 to"),
    ([step("a", inputs={"item": "{step.itm}"})], {}, "steps[0].inputs.item", "'itm'"),
    ([step("a", inputs={"item": "{step.b_out}"}), step("b")], {}, "steps[0].inputs.item", "later step 'b'"),
    (
        [step("a", mode="parallel"), step("b", mode="parallel", inputs={"item": "{step.a_out}"})],
        {},
        "steps[1].inputs.item",
        "in parallel",
    ),
    ([step("a", depends_on=["b"]), step("b", depends_on=["a"])], {}, "steps[0].depends_on[0]", "comes later"),
    ([step("a", depends_on=["a"])], {}, "steps[0].depends_on[0]", "itself"),
    ([step("a"), step("b", depends_on=["a", "z"])], {}, "steps[1].depends_on[1]", "no step 'z'"),
    ([step("a", process="inner", inputs={})], {}, "steps[0].inputs", "needs 'item'"),
    ([step("a", process="inner", inputs={"item": "x", "y": 1})], {}, "steps[0].inputs.y", "no such input"),
    (
        [step("a", mode="parallel"), step("b", mode="parallel", depends_on=["a"])],
        {},
        "steps[1].depends_on[0]",
        "parallel",
    ),
    ([step("a", inputs={})], {}, "steps[0].inputs", "needs 'item'"),
    ([step("a", inputs={"item": "x", "y": 1})], {}, "steps[0].inputs.y", "no such input"),
    ([step("a", inputs={"item": 7})], {}, "steps[0].inputs.item", "does not fit"),
    ([step("a", inputs={"item": ["x"]})], {}, "steps[0].inputs.item", "does not fit"),
    ([step("a", "nowhere")], {}, "steps[0].tool", "no tool 'nowhere'"),
    ([step("a", "inner")], {}, "steps[0].tool", "is a process"),
    ([step("a")], {"name": "look"}, "id", "the name of a tool"),
    ([step("a", process="nowhere")], {}, "steps[0].process", "no process 'nowhere'"),
    ([step("a", tool="look", process="x") | {"tool": "look"}], {}, "steps[0]", "names both"),
    ([step("a") | {"tool": None}], {}, "steps[0]", "names neither"),
    ([step("a", condition="1 == 2")], {}, "steps[0].execution.condition", "never holds"),
    ([step("a", condition="{step.item} ==")], {}, "steps[0].execution.condition", "predicate"),
    ([step("a")], {"outputTemplate": "{{a_out}} {{b_out}}"}, "output_template", "'b_out'"),
    ([step("a")], {"outputTemplate": "{{#if a_out}}"}, "output_template", "no {{/if}}"),
    ([step("a")], {"outputTemplate": "{{#each a_out}}" * 65}, "output_template", "nested deeper"),
    ([step(f"s{n}") for n in range(10_000)], {}, "steps", "must be 1 to 500"),
    ([step("a"), step("a", variable="other")], {}, "steps[1].id", "earlier step"),
    ([step("a", variable="item")], {}, "steps[0].output.variable", "given by initial_context[0]"),
    ([step("a")], {"tokenBudget": 0}, "token_budget", "at least 1"),
    ([step("a", timeout=0)], {}, "steps[0].execution.timeout", "milliseconds"),
    ([step("a", interactionMode="manual"), step("b", timeout=-1)], {}, "steps[1].execution.timeout", "milliseconds"),
    ([step("a")], {"maxRecursionDepth": 65}, "max_recursion_depth", "0 to 64"),
    ([step("a", process="buy")], {}, "steps[0].process", "buy → buy"),
]


@pytest.mark.req("AD-09", "AD-10")
async def test_what_makes_no_sense_is_refused_with_its_place(tmp_path: Path) -> None:
    """Nothing is saved that could not run, and the error names the place and the variable."""
    with shop_home(tmp_path, Shop()) as raven:
        await raven.processes.save(process(step("see"), name="inner"), by=LOCAL)
        for steps, more, place, words in REFUSED:
            with pytest.raises(InvalidDefinition) as refused:
                await raven.processes.save(process(*steps, **more), by=LOCAL)
            assert (refused.value.details["field"], words in refused.value.message) == (place, True), words
        assert [each.process.id for each in await raven.processes.list("default")] == ["inner"]


@pytest.mark.req("AD-09")
async def test_a_tenant_sees_its_own_processes_alone(raven: TwinRaven, shop: Shop) -> None:
    """Another tenant has neither the process nor its versions nor the tool."""
    await raven.tenancy.create_tenant("acme")
    await raven.processes.save(process(step("see")), by=LOCAL)
    assert await raven.processes.list("acme") == ()
    with pytest.raises(NotFound):
        await raven.processes.versions("acme", "buy")
    with pytest.raises(NotFound):
        raven.catalog.find("acme", "buy")


async def test_saving_one_process_compiles_no_other_and_none_on_the_loop(
    raven: TwinRaven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a look-up finds was compiled by whoever saved, on another thread, and again only where it changed."""
    compiled: list[tuple[str, bool]] = []

    def watched(process: Process, find: ProcessLookup) -> FlowDefinition:
        compiled.append((process.id, threading.current_thread() is threading.main_thread()))
        return compile_process(process, find)

    monkeypatch.setattr(tools, "compile_process", watched)

    async def saved(*steps: dict[str, Any], name: str) -> set[str]:
        compiled.clear()
        await raven.processes.save(process(*steps, name=name), by=LOCAL)
        found = {entry.tool_id for entry in raven.catalog.entries("default")}
        assert found >= {"inner"}
        assert not [each for each in compiled if each[1]]
        return {each for each, _ in compiled}

    await saved(step("a"), name="inner")
    await saved(step("b", process="inner"), name="outer")
    assert await saved(step("c"), name="other") == {"other"}
    assert await saved(step("a"), step("again"), name="inner") == {"inner", "outer"}
    changed = raven.process_tools.flow("default", "outer")
    assert changed is not None
    assert len(changed.steps) == 2
