"""Learned tools of a home opened from its settings: what steps and error strategy say holds once they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.api_homes import make_chain
from tests.homes import make_home
from tests.registry_kit import make_verdict
from tests.unit.flow.fakes import define, step
from twinraven import tool
from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallContext, CallFailed
from twinraven.foundation.errors import ToolUnavailable


class Tools:
    """Tools that meet, hang and fail as a test wants, and note what they were asked."""

    def __init__(self) -> None:
        self.made: list[tuple[str, Any]] = []
        self.barrier = asyncio.Barrier(2)
        self.failures = 0

        @tool(effect="read")
        async def meet(who: str) -> str:
            """Wait for another call of the same kind."""
            async with asyncio.timeout(10):
                await self.barrier.wait()
            return f"met {who}"

        @tool(effect="read")
        async def hang() -> str:
            """Never answer."""
            await asyncio.Event().wait()
            return "never"

        @tool(effect="read")
        async def flaky(text: str) -> str:
            """Fail as often as it was told to."""
            self.made.append(("flaky", text))
            if self.failures:
                self.failures -= 1
                raise ToolUnavailable("it is away")
            return f"got {text}"

        @tool(effect="read")
        def echo(text: str | None = None) -> str | None:
            """Say it again."""
            self.made.append(("echo", text))
            return text

        self.functions = [meet, hang, flaky, echo]


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
def raven(tmp_path: Path, tools: Tools) -> Generator[TwinRaven]:
    home = make_home(tmp_path, registry={"require_approval": False})
    with open_home(home, functions=tools.functions) as raven:
        yield raven


async def serve(raven: TwinRaven, *steps: dict[str, Any], **fields: Any) -> str:
    """Put a learned tool into service, by way of a draft; gives its name, the same for the same chain."""
    chain = make_chain()
    await raven.chains.add("default", [chain])
    definition = replace(define(*steps, **fields), source_chain_id=str(chain.chain_id))
    draft = await raven.registry.draft("default", definition, evidence_hash=str(uuid4()))
    record = await raven.registry.register("default", draft.definition, make_verdict())
    assert record.is_in_service
    return record.tool_id


async def call(raven: TwinRaven, name: str, **params: Any) -> Any:
    async with asyncio.timeout(20):
        return await raven.calls.call(name, params, CallContext("s"))


async def failure_of(raven: TwinRaven, name: str) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        await call(raven, name)
    return caught.value


@pytest.mark.req("TR-16")
async def test_stored_steps_take_inputs_wait_for_conditions_and_run_at_once(raven: TwinRaven, tools: Tools) -> None:
    """Inputs come from parameters, wiring and literals, a false condition skips, and two steps meet each other."""
    name = await serve(
        raven,
        step("meet", {"who": "$.parameters.who"}, parallelizable_with=[1]),
        step("meet", {"who": "$.internal_wiring.0.given"}, parallelizable_with=[0]),
        step("echo", {"text": "literal"}, condition="$.steps[0].output == 'nobody'"),
        step("echo", {"text": "$.internal_wiring.1.second"}, condition="$.steps[1].output != null"),
        internal_wiring={
            "0": {"given": "$.parameters.who", "first": "$.steps[0].output"},
            "1": {"both": ["$.steps[0].output", "$.steps[1].output"], "second": "$.steps[1].output"},
        },
        output={"both": "$.internal_wiring.1.both", "skipped": "$.steps[2].status", "last": "$.steps[3].output"},
    )
    assert await call(raven, name, who="ada") == {
        "both": ["met ada", "met ada"],
        "skipped": "skipped",
        "last": "met ada",
    }
    assert tools.made == [("echo", "met ada")]


@pytest.mark.req("TR-16")
async def test_a_stored_step_has_its_own_time_or_that_of_the_whole(raven: TwinRaven) -> None:
    """A read that outlives its own time fails as late, and so does one that outlives the time it inherits."""
    own = await failure_of(raven, await serve(raven, step("hang", timeout_ms=30), step("echo")))
    assert (own.code, own.details["step_index"], "30 ms" in own.message) == ("TOOL_TIMEOUT", 0, True)
    whole = await failure_of(raven, await serve(raven, step("echo"), step("hang"), timeout_ms=40))
    assert (whole.code, "40 ms" in whole.message) == ("TOOL_TIMEOUT", True)


@pytest.mark.req("TR-17")
async def test_a_stored_error_strategy_acts(raven: TwinRaven, tools: Tools) -> None:
    """Retries, fallback steps, abort conditions and the default behaviour of a stored tool do what they say."""

    async def served(**strategy: Any) -> str:
        flaky, last = step("flaky", {"text": "x"}), step("echo", {"text": "$.steps[0].output"})
        tools.made = []
        return await serve(raven, flaky, last, error_strategy=strategy)

    tools.failures = 2
    policy = {"max_retries": 2, "backoff_strategy": "fixed", "backoff_ms": 1}
    assert (await call(raven, await served(retry_policy={"0": policy})))["result"] == "got x"
    assert [name for name, _ in tools.made] == ["flaky"] * 3 + ["echo"]

    tools.failures = 1
    spare = [step("echo", {"text": "no"}, condition="1 == 2"), step("echo", {"text": "spare"})]
    numbered = [{"step_index": number, **body} for number, body in enumerate(spare)]
    assert (await call(raven, await served(fallback_steps={"0": numbered})))["result"] == "spare"
    assert tools.made == [("flaky", "x"), ("echo", "spare"), ("echo", "spare")]

    tools.failures = 1
    assert (await call(raven, await served(default_behavior="skip")))["result"] is None
    assert tools.made == [("flaky", "x"), ("echo", None)]

    tools.failures = 1
    condition = "$.steps[0].error.code == 'TOOL_UNAVAILABLE'"
    name = await served(default_behavior="skip", abort_conditions=[condition])
    assert (await failure_of(raven, name)).details["condition"] == condition
    assert tools.made == [("flaky", "x")]
