"""What is written of a tool is what is read of it, whatever its past."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.registry_kit import make_definition
from twinraven.foundation.errors import InvalidDefinition
from twinraven.registry import (
    Quarantine,
    RegisteredTool,
    RetirementReason,
    ToolRecord,
    ToolStatus,
    ToolVersion,
    definition_text,
)
from twinraven.registry.drafting import MAX_NAME, free_name
from twinraven.registry.folders import open_root
from twinraven.registry.metadata import encode_metadata, read_tool, same_state
from twinraven.registry.mirror import write_missing
from twinraven.registry.model import SLUG, chain_key

moments = st.integers(0, 4_000_000_000).map(
    lambda seconds: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts
objects = st.dictionaries(
    texts, st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=6), max_size=4
)


@st.composite
def registered_tools(draw: st.DrawFn) -> RegisteredTool:
    """Any tool that could be registered: some versions, at most one of them in service."""
    numbers = sorted(draw(st.sets(st.integers(1, 30), min_size=1, max_size=4)))
    current = draw(st.sampled_from(numbers))
    versions = tuple(_version(draw, number, is_current=number == current) for number in numbers)
    status = next(version.status for version in versions if version.version == current)
    record = ToolRecord(
        tenant_id="default",
        tool_id="search_read",
        current_version=current,
        definition_path=f"search_read/v{current}.json",
        registered_at=draw(moments),
        chain_key=chain_key(make_definition()),
        status=status,
        last_used_at=draw(st.none() | moments),
        invocation_count=draw(st.integers(0, 2**40)),
        retirement_reason=draw(st.none() | st.sampled_from(RetirementReason)),
        in_service_since=draw(st.none() | moments),
        quarantine=draw(st.none() | st.builds(Quarantine, texts, texts, moments)),
        flags=draw(st.dictionaries(texts, objects, max_size=2)),
        revision=draw(st.integers(0, 2**40)),
    )
    return RegisteredTool(record, versions)


def _version(draw: st.DrawFn, number: int, *, is_current: bool) -> ToolVersion:
    status = draw(st.sampled_from(ToolStatus))
    return ToolVersion(
        tool_id="search_read",
        version=number,
        status=status,
        text=definition_text(make_definition(version=number, description=draw(texts.filter(str.strip)) or "It reads.")),
        validation=draw(objects),
        created_at=draw(moments),
        savings=draw(st.none() | objects),
        promoted_at=draw(st.none() | moments),
        superseded_at=draw(st.none() | moments) if is_current else draw(moments),
        retired_at=draw(st.none() | moments),
    )


@settings(max_examples=40)
@given(registered_tools())
def test_a_tool_is_read_as_it_was_written(tool: RegisteredTool) -> None:
    """Metadata and version files give every field of the record and of each version back."""
    with tempfile.TemporaryDirectory() as place, open_root(Path(place)) as folder:
        assert folder is not None
        write_missing(folder, tool)
        assert read_tool(folder, "default", "search_read") == tool


@given(registered_tools(), st.integers(0, 1000))
def test_usage_alone_is_no_difference(tool: RegisteredTool, more: int) -> None:
    """Files are not written again because a tool was used."""
    from dataclasses import replace

    used = replace(tool, record=replace(tool.record, invocation_count=tool.record.invocation_count + more))
    other = replace(tool, record=replace(tool.record, revision=tool.record.revision + 1))
    assert same_state(encode_metadata(tool), encode_metadata(used))
    assert not same_state(encode_metadata(tool), encode_metadata(other))


@settings(max_examples=60)
@given(st.dictionaries(texts, objects | scalars, max_size=6))
def test_no_metadata_can_surprise(body: dict[str, Any]) -> None:
    """Whatever a metadata file holds, it is read or refused by its place, and nothing else."""
    import json

    with tempfile.TemporaryDirectory() as place, open_root(Path(place)) as folder:
        assert folder is not None
        folder.write("v1.json", definition_text(make_definition(chain_id="c")).encode())
        folder.write("metadata.json", json.dumps({"format": 1, "tool_id": "search_read", **body}).encode())
        try:
            read_tool(folder, "default", "search_read")
        except InvalidDefinition as refusal:
            assert "metadata.json" in refusal.message


@given(st.from_regex(SLUG, fullmatch=True), st.integers(0, 30))
def test_a_free_name_is_a_name_and_free(wanted: str, taken: int) -> None:
    """However many have the wished name, the one that is given is a slug nobody has."""
    names: set[str] = set()
    for _ in range(taken + 1):
        name = free_name(wanted, names.__contains__)
        assert name not in names
        assert SLUG.fullmatch(name)
        assert len(name) <= MAX_NAME
        names.add(name)
    assert wanted in names
