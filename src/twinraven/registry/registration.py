"""Registers a definition as a version of a tool, and checks it against the versions there are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from twinraven.foundation.canonical import JsonObject, canonical_json, content_hash, to_json_value
from twinraven.foundation.errors import Conflict, InvalidDefinition, InvalidInput
from twinraven.registry import sql
from twinraven.registry.model import (
    Draft,
    ToolRecord,
    ToolVersion,
    chain_key,
    check_slug,
    check_validation,
    definition_text,
)
from twinraven.registry.status import ToolStatus
from twinraven.registry.synthesized import SynthesizedTool
from twinraven.registry.tool_folders import definition_path
from twinraven.storage import Transaction


def tested_version(definition: SynthesizedTool, validation: JsonObject, savings: JsonObject | None) -> ToolVersion:
    """Return a definition that passed, as a version in testing; one that did not stays a draft."""
    check_slug(definition.tool_id)
    if definition.replaces is not None:
        check_slug(definition.replaces, field="replaces")
    if not check_validation(validation)["passed"]:
        reasons = validation.get("failure_reasons") or ["its validation does not say why"]
        raise InvalidInput(
            f"{definition.tool_id!r} did not pass and stays a draft: {reasons[0]}", field="validation.passed"
        )
    return ToolVersion(
        tool_id=definition.tool_id,
        version=definition.version,
        status=ToolStatus.TESTING,
        text=definition_text(definition),
        validation=validation,
        created_at=definition.created_at,
        savings=savings,
    )


def new_record(tenant_id: str, definition: SynthesizedTool, now: datetime) -> ToolRecord:
    """Return the record of a tool that has none yet."""
    return ToolRecord(
        tenant_id=tenant_id,
        tool_id=definition.tool_id,
        current_version=definition.version,
        definition_path=definition_path(tenant_id, definition.tool_id, definition.version),
        registered_at=now,
        chain_key=chain_key(definition),
    )


def claim_version(tx: Transaction, tenant_id: str, definition: SynthesizedTool, now: datetime) -> None:
    """Check that the version is a draft of this very definition, or make it the next one."""
    tool_id, version = definition.tool_id, definition.version
    drafts = sql.drafts(tx, tenant_id, tool_id=tool_id, version=version)
    if drafts:
        if definition_text(drafts[0].definition) != definition_text(definition):
            raise Conflict(f"version {version} of {tool_id!r} was drafted as another definition", tool_id=tool_id)
        return
    known = sql.tool(tx, tenant_id, tool_id)
    if known is not None and known.version(version) is not None:
        return
    latest = sql.latest_version(tx, tenant_id, tool_id)
    if version != latest + 1:
        raise Conflict(f"the next version of {tool_id!r} is {latest + 1}, not {version}", tool_id=tool_id)
    evidence = content_hash(canonical_json(to_json_value(definition.evidence)))
    sql.insert_draft(tx, Draft(tenant_id, definition, chain_key(definition), evidence, now))


def refuse_circle(tx: Transaction, tenant_id: str, definition: SynthesizedTool) -> None:
    """Learned tools may be steps of learned tools, but not of themselves by a detour."""
    seen: set[str] = set()
    pending = list(tools_of(definition))
    while pending:
        tool_id = pending.pop()
        if tool_id == definition.tool_id:
            raise InvalidDefinition(f"steps: {definition.tool_id!r} would call itself by a detour", field="steps")
        if tool_id in seen:
            continue
        seen.add(tool_id)
        inner = sql.tool(tx, tenant_id, tool_id)
        if inner is not None:
            pending.extend(tools_of(inner.current.definition))


def tools_of(definition: SynthesizedTool) -> Iterator[str]:
    """Yield every tool a definition may call, fallbacks included."""
    yield from (step.tool_id for step in definition.steps)
    for sequence in definition.error_strategy.fallback_steps.values():
        yield from (step.tool_id for step in sequence)
