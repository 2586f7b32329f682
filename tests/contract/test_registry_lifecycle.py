"""The whole life of learned tools against a model of it that fits on a page, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.neighbours import settle_tenants
from tests.registry_kit import House, add_chain, make_definition, make_verdict
from twinraven.foundation.errors import Conflict, IllegalTransition, NotFound
from twinraven.registry import RetirementReason, SynthesizedTool
from twinraven.storage import Database

CHAINS = {"a": ("search", "read"), "b": ("search", "summarize"), "c": ("read", "summarize")}
REFUSALS = (Conflict, IllegalTransition, NotFound)

chains = st.sampled_from(sorted(CHAINS))
versions = st.integers(1, 4)
_tenants = count()


@dataclass
class ModelTool:
    """What must be true of one tool."""

    chain: str
    drafts: dict[int, SynthesizedTool] = field(default_factory=dict[int, SynthesizedTool])
    status: dict[int, str] = field(default_factory=dict[int, str])
    served: list[int] = field(default_factory=list[int])
    """Every version that was promoted, in order."""
    current: int | None = None
    retired: bool = False
    held: bool = False

    @property
    def waiting(self) -> int | None:
        return max((number for number, status in self.status.items() if status == "testing"), default=None)

    def can_promote(self, number: int) -> bool:
        newest = max(self.served, default=0)
        return not self.retired and self.status.get(number) == "testing" and number > newest


class Lives(RuleBasedStateMachine):
    """Drives the registry and the model side by side; every step must be allowed by both or by neither."""

    def __init__(self, database: Database, folder: Path) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.tenant = f"tenant{next(_tenants)}"
        settle_tenants(database, self.tenant)
        self.house = House(database, folder, poll_s=60)
        self.tools: dict[str, ModelTool] = {}

    def teardown(self) -> None:
        self.house.close()
        self.runner.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def attempt(self, work: Coroutine[Any, Any, Any], *, allowed: bool) -> bool:
        try:
            self.run(work)
        except REFUSALS as refusal:
            assert not allowed, f"refused, but the model allows it: {refusal}"
            return False
        assert allowed, "the model forbids what was just done"
        return True

    def live(self, chain: str) -> str | None:
        return next((name for name, tool in self.tools.items() if tool.chain == chain and not tool.retired), None)

    def names(self, chain: str) -> str:
        """A tool of the chain: the live one, else one that is gone, else none at all."""
        gone = [name for name, tool in self.tools.items() if tool.chain == chain]
        return self.live(chain) or (gone[-1] if gone else f"chain_{chain}")

    @rule(chain=chains)
    def synthesize(self, chain: str) -> None:
        chain_id = self.run(add_chain(self.house.database, *CHAINS[chain], tenant_id=self.tenant))
        wanted = make_definition(
            f"chain_{chain}", steps=CHAINS[chain], chain_id=chain_id, description=f"Synthesis {uuid4()}."
        )
        made = self.run(self.house.registry.draft(self.tenant, wanted, evidence_hash=str(uuid4())))
        name = self.live(chain)
        if name is None:
            gone = [tool for tool in self.tools.values() if tool.chain == chain]
            name = f"chain_{chain}" if not gone else f"chain_{chain}_{len(gone) + 1}"
            assert (made.definition.replaces is not None) == bool(gone)
            self.tools[name] = ModelTool(chain)
        tool = self.tools[name]
        assert (made.tool_id, made.version) == (name, len(tool.drafts) + 1)
        tool.drafts[made.version] = made.definition

    @rule(chain=chains, number=versions)
    def register(self, chain: str, number: int) -> None:
        name = self.names(chain)
        tool = self.tools.get(name)
        if tool is None or number not in tool.drafts:
            return
        allowed = not tool.retired and tool.status.get(number, "draft") == "draft"
        work = self.house.registry.register(self.tenant, tool.drafts[number], make_verdict())
        if self.attempt(work, allowed=allowed):
            tool.status[number] = "testing"
            if not tool.served:
                tool.current = number

    @rule(chain=chains, number=versions)
    def promote(self, chain: str, number: int) -> None:
        name = self.names(chain)
        tool = self.tools.get(name, ModelTool(chain))
        work = self.house.registry.promote(self.tenant, name, version=number, by="ann")
        if self.attempt(work, allowed=tool.can_promote(number)):
            tool.status[number] = "promoted"
            tool.served.append(number)
            tool.current = number

    @rule(chain=chains)
    def promote_what_waits(self, chain: str) -> None:
        name = self.names(chain)
        tool = self.tools.get(name, ModelTool(chain))
        number = tool.waiting
        work = self.house.registry.promote(self.tenant, name, by="ann")
        if self.attempt(work, allowed=number is not None and tool.can_promote(number)):
            assert number is not None
            tool.status[number] = "promoted"
            tool.served.append(number)
            tool.current = number

    @rule(chain=chains, number=versions)
    def reject(self, chain: str, number: int) -> None:
        name = self.names(chain)
        tool = self.tools.get(name, ModelTool(chain))
        work = self.house.registry.reject(self.tenant, name, version=number, reason="no", by="ann")
        if self.attempt(work, allowed=not tool.retired and tool.status.get(number) == "testing"):
            tool.status[number] = "draft"

    @rule(chain=chains, number=versions)
    def roll_back(self, chain: str, number: int) -> None:
        name = self.names(chain)
        tool = self.tools.get(name, ModelTool(chain))
        allowed = not tool.retired and number in tool.served and number != tool.current
        work = self.house.registry.rollback(self.tenant, name, to_version=number, by="ann")
        if self.attempt(work, allowed=allowed):
            tool.current = number

    @rule(chain=chains)
    def retire(self, chain: str) -> None:
        name = self.names(chain)
        tool = self.tools.get(name, ModelTool(chain))
        work = self.house.registry.retire(self.tenant, name, RetirementReason.MANUAL, by="ann")
        if self.attempt(work, allowed=not tool.retired and bool(tool.served)):
            tool.retired = True
            ends = {"promoted": "retired", "testing": "draft"}
            tool.status = {number: ends.get(status, status) for number, status in tool.status.items()}

    @rule(chain=chains)
    def quarantine(self, chain: str) -> None:
        name = self.names(chain)
        tool = self.tools.get(name, ModelTool(chain))
        work = self.house.registry.quarantine(self.tenant, name, reason="odd", by="ann")
        if self.attempt(work, allowed=bool(tool.status) and not tool.retired and not tool.held):
            tool.held = True

    @rule(chain=chains)
    def release(self, chain: str) -> None:
        name = self.names(chain)
        tool = self.tools.get(name, ModelTool(chain))
        work = self.house.registry.release(self.tenant, name, by="ann")
        if self.attempt(work, allowed=tool.held and not tool.retired):
            tool.held = False

    @rule(chain=chains)
    def lose_the_files(self, chain: str) -> None:
        """Files are made again from the rows, as they were."""
        name = self.names(chain)
        folder = self.house.folder / f"@{self.tenant}" / name
        if folder.exists():
            for path in folder.iterdir():
                path.unlink()
            self.run(self.house.verification.rebuild_files(self.tenant))

    @rule(chain=chains)
    def lose_the_rows(self, chain: str) -> None:
        """Rows are made again from the files, as they were."""
        name = self.names(chain)

        def forget(tx: Any) -> None:
            for table in ("tool_versions", "tool_records"):
                tx.execute(f"DELETE FROM {table} WHERE tenant_id = :t AND tool_id = :n", t=self.tenant, n=name)

        self.run(self.house.database.write(self.tenant, forget))
        self.run(self.house.verification.rebuild_rows(self.tenant))

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        for name, tool in self.tools.items():
            if not tool.status:
                continue
            found = self.run(self.house.registry.tool(self.tenant, name))
            assert {version.version: version.status.value for version in found.versions} == tool.status
            assert found.record.current_version == tool.current
            assert (found.record.is_retired, found.record.quarantine is not None) == (tool.retired, tool.held)
            serving = [version.version for version in found.versions if version.is_in_service]
            assert serving == ([tool.current] if tool.served and not tool.retired else [])

    @invariant()
    def what_is_offered_is_what_serves(self) -> None:
        self.run(self.house.learned.refresh(self.tenant))
        offered = {
            entry.tool_id: self.house.learned.definition(self.tenant, entry.tool_id).version
            for entry in self.house.learned.entries(self.tenant)
        }
        expected = {
            name: tool.current
            for name, tool in self.tools.items()
            if tool.served and not tool.retired and not tool.held
        }
        assert offered == expected

    @invariant()
    def files_agree_with_rows(self) -> None:
        assert self.run(self.house.verification.verify(self.tenant)) == []


@pytest.mark.req("TR-18", "TR-21", "RG-03", "RG-05", "RG-06", "RG-08")
def test_lives_follow_the_model(database: Database, tmp_path: Path, *, full_scale: bool) -> None:
    """Whatever is asked in whatever order, the registry allows what the model allows and ends where it ends."""

    class LivesHere(Lives):
        def __init__(self) -> None:
            super().__init__(database, tmp_path / "tools")

    run_state_machine_as_test(
        LivesHere,
        settings=settings(
            max_examples=300 if full_scale else 12,
            stateful_step_count=40 if full_scale else 25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
