"""The registry of a home opened from its settings: who must approve, and when a tool that nobody calls ends."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.api_homes import make_chain, read, search
from tests.homes import make_home
from tests.registry_kit import make_definition, make_verdict
from twinraven.app import TwinRaven, open_home
from twinraven.foundation.clock import now_micros
from twinraven.muninn import Outcome
from twinraven.registry import ToolRecord

_DAY = 86_400_000_000


async def register(raven: TwinRaven) -> ToolRecord:
    chain = make_chain()
    await raven.chains.add("default", [chain])
    definition = make_definition("search_read", chain_id=str(chain.chain_id))
    draft = await raven.registry.draft("default", definition, evidence_hash=str(uuid4()))
    return await raven.registry.register("default", draft.definition, make_verdict())


@pytest.mark.req("RG-07", "RG-15")
@pytest.mark.parametrize(("required", "status"), [(True, "testing"), (False, "promoted")])
async def test_the_home_asks_for_approval_where_its_settings_say_so(
    tmp_path: Path, required: bool, status: str
) -> None:
    """`registry.require_approval` decides whether what passed waits or serves at once."""
    home = make_home(tmp_path, registry={"require_approval": required})
    with open_home(home, functions=[search, read]) as raven:
        assert (await register(raven)).status == status


@pytest.mark.req("RG-11", "RG-15")
async def test_an_unused_tool_ends_after_the_days_of_the_settings(tmp_path: Path) -> None:
    """`registry.auto_retire_after_days` counts from the promotion of a tool that was never called."""
    home = make_home(tmp_path, registry={"require_approval": False, "auto_retire_after_days": 3})
    with open_home(home, functions=[search, read]) as raven:
        await register(raven)
    for days, expected in ((2, []), (4, ["auto_unused"])):
        with open_home(home, functions=[search, read], micros=lambda days=days: now_micros() + days * _DAY) as raven:
            report = await raven.maintenance.run("default", dry_run=True)
            assert [action.name for action in report.actions if action.verb == "retire"] == expected


@pytest.mark.req("RG-12", "RG-15")
async def test_a_failure_that_was_stated_counts(tmp_path: Path) -> None:
    """A call that answered and whose caller says that it failed is a failure of the tool; silence is none."""
    home = make_home(tmp_path, registry={"require_approval": False, "failure_spike_threshold": 0.4})
    with open_home(home, functions=[search, read]) as raven:
        await register(raven)
        ended: list[list[str | None]] = []
        for outcomes in ((), (Outcome.SUCCESS, Outcome.SUCCESS), (Outcome.FAILURE, Outcome.FAILURE)):
            with raven.collector.observe("s") as session:
                for outcome in outcomes:
                    await session.record("search_read", {"q": "x"}, output={}, latency_ms=1, outcome=outcome)
            report = await raven.maintenance.run("default", dry_run=True)
            ended.append([action.name for action in report.actions if action.verb == "retire"])
    assert ended == [[], [], ["failure_spike"]]
