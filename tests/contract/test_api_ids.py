"""Ids that the REST door gives are random: whoever has one learns nothing from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.api_homes import seeded_home

_NAMES: Final = {
    ("envelopes", "envelope_id"),
    ("idempotency-keys", "key"),
    ("inbox", "item_id"),
    ("learned-tools", "tool_id"),
    ("learned-tools", "version"),
    ("processes", "process_id"),
    ("sessions", "session_id"),
    ("tools", "tool_id"),
}
"""What callers name, and what is named after something else."""


@pytest.mark.req("CH-01")
async def test_whatever_is_made_has_an_id_that_says_nothing(tmp_path: Path) -> None:
    """Everything that a tenant can make has an id of 128 bits in hex that has nothing in common with any other."""
    async with seeded_home(tmp_path) as seeded:
        ids = {value for place, value in seeded.ada.ids.items() if place not in _NAMES}
        asked = {"tool_name": "search", "payload": {"query": "x"}}
        ids |= {(await seeded.ada.door.post("/v1/calls", asked)).json()["id"] for _ in range(2)}
        tool = (await seeded.ada.door.get(f"/v1/tools/{seeded.ada.ids['tools', 'tool_id']}/definition")).json()
    found = {each.replace("-", "") for each in (*ids, tool["id"], seeded.ada.tenant_id)}
    assert len(found) > 32
    assert [each for each in found if re.fullmatch("[0-9a-f]{32}", each) is None] == []
    eighths = [each[start : start + 8] for each in found for start in range(0, 32, 8)]
    assert len(set(eighths)) == len(eighths)
