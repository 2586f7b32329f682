"""When what a plan's model said is stored: with its cycle, and before anything else happens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.planning import ARGUMENTS_ASKED, REASONING_ASKED, Planning, planning, steps
from tests.postgres import PostgresLogin
from twinraven.catalog import tool
from twinraven.muninn import EventFilter
from twinraven.storage import DEFAULT_TENANT
from twinraven.tenancy import LOCAL


@pytest.fixture(params=["sqlite", "postgres"])
def login(request: pytest.FixtureRequest) -> PostgresLogin | None:
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_login")


class Ledge:
    """Tools that wait until they are let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()

    async def _wait(self, item: str) -> str:
        self.begun.set()
        await self.gate.wait()
        return item

    @tool(effect="read")
    async def peek(self, item: str) -> str:
        """Look for long."""
        return await self._wait(item)

    @tool(effect="write")
    async def push(self, item: str) -> str:
        """Push for long."""
        return await self._wait(item)


async def count_writes(home: Planning, thoughts: int) -> int:
    """How often the store is written to by the run of a plan that thinks so often."""
    database, writes = home.raven.database, 0
    write = database.write

    async def counted(tenant_id: str, work: Any) -> Any:
        nonlocal writes
        writes += 1
        return await write(tenant_id, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "write", counted)
        found = await home.run(plan=steps(*[{"agent": "llm"}] * thoughts), ttl=thoughts + 1)
    assert found.status == "completed"
    assert len(home.model.exchanges) >= thoughts
    return writes


async def test_a_cycle_that_thinks_is_one_transaction(tmp_path: Path, login: PostgresLogin | None) -> None:
    """What the model said and the cycle that it makes are stored together; a longer plan writes once more a cycle."""
    async with planning(tmp_path, {**REASONING_ASKED, "say": "Thought."}, postgres=login) as home:
        await count_writes(home, 1)
        few, many = await count_writes(home, 2), await count_writes(home, 12)
    # A look at the queue may find something to take between two cycles.
    assert 10 <= many - few <= 13


async def test_the_event_of_a_question_is_stored_with_its_cycle(tmp_path: Path) -> None:
    """On SQLite nothing is left to be stored when the plan has ended: events rode with what they are about."""
    async with planning(tmp_path, {**REASONING_ASKED, "say": "Thought."}) as home:
        found = await home.run(plan=steps(*[{"agent": "llm"}] * 3), ttl=4)
        asked = EventFilter(session_id=f"run:{found.run.run_id}:model")
        assert len(await home.raven.events.events(DEFAULT_TENANT, asked)) == 3


@pytest.mark.parametrize("tool_id", ["peek", "push"])
async def test_an_answer_is_stored_before_the_tool_it_leads_to_ends(
    tmp_path: Path, login: PostgresLogin | None, tool_id: str
) -> None:
    """A worker that dies while a tool runs has not lost the arguments that the model was paid for."""
    ledge = Ledge()
    answers = ({**ARGUMENTS_ASKED, "json": {"item": "lamp"}},)
    async with planning(tmp_path, *answers, postgres=login, functions=[ledge.peek, ledge.push]) as home:
        run = await home.raven.plans.start(home.raven.plans.wish(plan=steps({"tool": tool_id})), by=LOCAL)
        await asyncio.wait_for(ledge.begun.wait(), 60)
        known = await home.raven.runs.get(DEFAULT_TENANT, run.run_id)
        assert "cycle:1:llm" in [step.place for step in known.steps]
        ledge.gate.set()
        while (await home.raven.runs.look_at(DEFAULT_TENANT, run.run_id)).finished_at is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await asyncio.to_thread(home.raven.collector.flush)
        session = EventFilter(session_id=f"run:{run.run_id}:model")
        assert len(await home.raven.events.events(DEFAULT_TENANT, session)) == 1
