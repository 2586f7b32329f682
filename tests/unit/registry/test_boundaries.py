"""What the registry may know of others, and what thought may do to memory."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import twinraven.registry
from tests.registry_kit import TENANT, House
from tests.unit.huginn.billing_world import billing_scripts, lines_of
from twinraven.catalog import Effect, ToolEntry
from twinraven.foundation.clock import utc_now
from twinraven.huginn import Huginn, LearningConfig, MiningRun, SqlChainStore, ToolFacts
from twinraven.muninn import Importer, SqlEventStore
from twinraven.registry import Registry, RegistryChange
from twinraven.storage import Transaction

_BELOW = {"foundation", "storage", "muninn", "catalog", "flow", "registry"}


def imported(path: Path) -> set[str]:
    """The contexts a module imports anything from."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            modules += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
        elif isinstance(node, ast.Import):
            modules += [name.name for name in node.names]
    return {module.split(".")[1] for module in modules if module.startswith("twinraven.")}


def whole_log(tx: Transaction) -> list[dict[str, object]]:
    return [
        row
        for table in ("muninn_event_log", "session_verdicts", "blobs")
        for row in tx.fetch_all(f"SELECT * FROM {table} WHERE tenant_id = :tenant", tenant=TENANT)
    ]


@pytest.mark.req("TR-24", "TR-22")
async def test_thought_leaves_memory_alone_and_the_registry_stays_out_of_thought(house: House) -> None:
    """A round of learning changes nothing in the log, and the registry imports nothing of what learns."""
    folder = Path(twinraven.registry.__file__).parent
    assert set[str]().union(*(imported(path) for path in folder.rglob("*.py"))) <= _BELOW
    lines = lines_of(billing_scripts(150, seed=41)).splitlines(keepends=True)
    await Importer(house.database).import_calls(TENANT, lines)
    before = await house.database.read(TENANT, whole_log)
    assert before
    outcome = await _huginn(house).learn(TENANT, by="ann")
    assert outcome.proposals
    for proposal in outcome.proposals:
        assert await SqlChainStore(house.database).exists(TENANT, proposal.picture.source_chain_id)
    assert await house.database.read(TENANT, whole_log) == before


def _unseen(tx: Transaction, change: RegistryChange) -> None:
    """An audit log that is none of this test's business."""


def _huginn(house: House) -> Huginn:
    entries = {
        name: ToolEntry(name, "A tool of the record.", {"type": "object"}, effect=Effect.READ, effect_origin="declared")
        for name in ("search_customer", "load_customer", "get_invoice")
    }
    registry = Registry(
        house.database,
        storage_dir=house.folder,
        settings=house.settings,
        find_tool=lambda _, name: entries.get(name),
        chains=SqlChainStore(house.database),
        witness=_unseen,
    )
    return Huginn(
        SqlEventStore(house.database),
        SqlChainStore(house.database),
        registry,
        lambda _: ToolFacts(list(entries.values())),
        config=LearningConfig(),
        run=lambda: MiningRun(config=LearningConfig().mining, idle_gap_s=900),
        now=utc_now,
    )
