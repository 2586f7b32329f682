"""Plans of the statements that a conversation asks: none reads all that a tenant has of something."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest

from tests.talking import Speaker, bound, settled, talking_home, talking_process
from tests.working import working
from twinraven.app import TwinRaven
from twinraven.tenancy import LOCAL

_WHOLE = re.compile(r"SCAN|.*\(tenant_id=\?\)$")
"""A whole table, or everything of a tenant."""
_SMALL = re.compile(
    r"SCAN (p|d|e|down|path|CONSTANT ROW|\(subquery-\d+\))$"  # what a statement has gathered itself
    r"|.*\b(catalog_\w+|change_notes|vault_state|audit_heads|engine_workers)\b"  # the catalogue, loaded once; marks
    r"|.*\bconversations_updated\b"  # the list of conversations stops at its limit
)


async def _converse(raven: TwinRaven) -> None:
    """Whatever a conversation does that grows: turns, branches, memory, episodes, search."""
    talk = raven.conversations
    conversation_id = (await talk.create(by=LOCAL)).conversation_id
    said, answer = await talk.converse(conversation_id, "I met Clara Smith in Lisbon", process_id="plain", by=LOCAL)
    await settled(raven, answer)
    await talk.edit(conversation_id, said.turn_id, "I met Clara in Porto", by=LOCAL)
    await talk.switch(conversation_id, said.turn_id, said.active.alternative_id, by=LOCAL)
    await talk.regenerate(conversation_id, answer.turn_id, by=LOCAL)
    await settled(raven, answer)
    await bound(raven, conversation_id)
    await talk.memory(conversation_id, by=LOCAL)
    await talk.path(conversation_id, by=LOCAL)
    await talk.list(by=LOCAL)
    await talk.fork(conversation_id, by=LOCAL)
    await raven.knowledge.search("default", "Lisbon", group_id=conversation_id)


@pytest.mark.req("AD-22")
async def test_a_conversation_reads_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement goes by an index and by more than the tenant, so that other conversations cost nothing."""
    asked: dict[str, dict[str, Any]] = {}
    with talking_home(tmp_path, Speaker()) as raven:
        await raven.processes.save(talking_process("plain"), by=LOCAL)

        def spy(tx: Any) -> None:
            kind = cast("Any", type(tx))
            for name in ("execute", "fetch_one", "fetch_all"):
                whole = getattr(kind, name)

                def spied(self: Any, query: str, *, whole: Any = whole, **values: Any) -> Any:
                    asked.setdefault(query, values)
                    return whole(self, query, **values)

                monkeypatch.setattr(kind, name, spied)

        await raven.database.read("default", spy)
        async with working(raven):
            await _converse(raven)
        monkeypatch.undo()

        def plans(tx: Any) -> list[tuple[str, str]]:
            queries = [(query, values) for query, values in asked.items() if not query.startswith("PRAGMA")]
            return [
                (row["detail"], query)
                for query, values in queries
                for row in tx.fetch_all(f"EXPLAIN QUERY PLAN {query}", **values)
            ]

        shown = await raven.database.read("default", plans)
    assert len(asked) > 40
    assert [(line, query) for line, query in shown if _WHOLE.match(line) and not _SMALL.match(line)] == []
