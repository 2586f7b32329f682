"""Assigns a synthesis to a tool and a version number.

A definition that calls what a live tool calls is that tool's next version, whatever the tool has been renamed to. A
chain whose tool was retired becomes a new tool, which names the one it replaces. Otherwise the wished name is taken if
it is free, and if not, the name with a number behind it. Numbers are given out inside one transaction, one after
another: no gap, none twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from twinraven.foundation.errors import Conflict
from twinraven.registry import sql
from twinraven.registry.model import Draft, chain_key, check_slug
from twinraven.registry.synthesized import SynthesizedTool
from twinraven.storage import Transaction

MAX_NAME: Final = 128


def make_draft(
    tx: Transaction,
    tenant_id: str,
    definition: SynthesizedTool,
    *,
    evidence_hash: str,
    is_taken: Callable[[str], bool],
    now: datetime,
) -> Draft:
    """Return the draft of a definition, numbered; the same evidence gives the same draft again."""
    check_slug(definition.tool_id)
    key = chain_key(definition)
    refused = sql.rejection(tx, tenant_id, key, evidence_hash)
    if refused is not None:
        raise Conflict(
            f"{refused.tool_id!r} was rejected on the same evidence by {refused.by}: {refused.reason}",
            tool_id=refused.tool_id,
            rejected_by=refused.by,
        )
    retired = sql.retired_for(tx, tenant_id, key)
    family = [draft for draft in sql.drafts(tx, tenant_id, key=key) if draft.tool_id not in retired]
    same = next((draft for draft in family if draft.evidence_hash == evidence_hash), None)
    if same is not None:
        return same
    tool_id = family[-1].tool_id if family else sql.live_tool(tx, tenant_id, key)
    if tool_id is None:
        taken = sql.names_taken(tx, tenant_id)
        tool_id = free_name(definition.tool_id, lambda name: name in taken or is_taken(name))
        definition = replace(definition, replaces=retired[-1] if retired else definition.replaces)
    numbered = replace(definition, tool_id=tool_id, version=sql.latest_version(tx, tenant_id, tool_id) + 1)
    draft = Draft(tenant_id, numbered, key, evidence_hash, now)
    sql.insert_draft(tx, draft)
    return draft


def free_name(wanted: str, is_taken: Callable[[str], bool]) -> str:
    """Return the name, or the name with the first number that makes it free."""
    if not is_taken(wanted):
        return wanted
    number = 2
    while True:
        tail = f"_{number}"
        name = wanted[: MAX_NAME - len(tail)] + tail
        if not is_taken(name):
            return name
        number += 1
