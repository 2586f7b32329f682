"""Reads and writes `metadata.json`, the state of a tool beside its definitions.

Version files never change, so everything that does stands here: which version is current, the status of each, the
verdicts that cleared them, flags and quarantine. Together with the version files this is enough to make the rows again.
A folder without it is accepted, too, if its definitions carry their status themselves.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from twinraven.flow import compile_flow
from twinraven.foundation.canonical import JsonObject, content_hash, parse_json
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.registry.folders import SafeFolder, UnsafePath
from twinraven.registry.model import (
    Quarantine,
    RegisteredTool,
    RetirementReason,
    ToolRecord,
    ToolVersion,
    chain_key,
)
from twinraven.registry.status import ToolStatus
from twinraven.registry.synthesized import SynthesizedTool
from twinraven.registry.tool_folders import METADATA, definition_path, version_file, version_number

FORMAT: Final = 1
_USAGE: Final = ("invocation_count", "last_used_at")

E = TypeVar("E", ToolStatus, RetirementReason)


def encode_metadata(tool: RegisteredTool) -> bytes:
    """Return the state of a tool, readable and the same for the same state."""
    body: JsonObject = {
        "format": FORMAT,
        "tenant_id": tool.record.tenant_id,
        "chain_key": tool.record.chain_key,
        **tool.record.as_json(),
        "versions": [version.as_json() for version in tool.versions],
    }
    return json.dumps(body, indent=2, ensure_ascii=False).encode() + b"\n"


def same_state(one: bytes, other: bytes) -> bool:
    """Return whether two of these say the same; usage is counted in the rows and only noted here."""
    return _without_usage(one) == _without_usage(other)


def _without_usage(body: bytes) -> Any:
    try:
        state = parse_json(body)
    except InvalidInput:
        return body
    if not isinstance(state, dict):
        return body
    members = cast("JsonObject", state)
    return {name: value for name, value in members.items() if name not in _USAGE}


def read_tool(folder: SafeFolder, tenant_id: str, tool_id: str) -> RegisteredTool | None:
    """Read a tool from its folder, or return None without a version; anything odd raises UnsafePath with its path."""
    numbers = sorted(number for name in folder.names() if (number := version_number(name)) is not None)
    definitions = {number: _read_definition(folder, tool_id, number) for number in numbers}
    if not definitions:
        return None
    body = folder.read(METADATA)
    try:
        if body is None:
            return _from_definitions(tenant_id, tool_id, definitions)
        return _Metadata(parse_json(body, field=METADATA)).tool(tenant_id, tool_id, definitions)
    except UnsafePath:
        raise
    except (TwinRavenError, ValueError, OverflowError) as error:
        raise UnsafePath(str(folder.path / METADATA), str(error)) from error


def _read_definition(folder: SafeFolder, tool_id: str, number: int) -> tuple[SynthesizedTool, str]:
    """Read a version's definition and its text; it must make sense and be the one its place says."""
    name = version_file(number)
    body = folder.read(name)
    assert body is not None
    place = str(folder.path / name)
    try:
        text = body.decode("utf-8")
        definition = SynthesizedTool.from_json(parse_json(body, field=name))
        compile_flow(definition)
    except (TwinRavenError, ValueError) as error:
        raise UnsafePath(place, str(error)) from error
    if definition.tool_id != tool_id or definition.version != number:
        raise UnsafePath(place, f"is version {definition.version} of {definition.tool_id!r}, which belongs elsewhere")
    return definition, text


def _from_definitions(
    tenant_id: str, tool_id: str, definitions: dict[int, tuple[SynthesizedTool, str]]
) -> RegisteredTool:
    """Return a tool by its definitions alone: each says its own status, and the newest in service serves."""
    promoted = [number for number, (found, _) in definitions.items() if found.status is ToolStatus.PROMOTED]
    current = max(promoted or definitions)
    versions: list[ToolVersion] = []
    for number, (found, text) in definitions.items():
        follower = min((later for later in promoted if later > number), default=None)
        superseded = None if follower is None else definitions[follower][0].promoted_at
        versions.append(
            ToolVersion(
                tool_id=tool_id,
                version=number,
                status=found.status,
                text=text,
                validation={},
                created_at=found.created_at,
                promoted_at=found.promoted_at,
                superseded_at=superseded if found.status is ToolStatus.PROMOTED else None,
                retired_at=found.retired_at,
            )
        )
    newest, _ = definitions[current]
    record = ToolRecord(
        tenant_id=tenant_id,
        tool_id=tool_id,
        current_version=current,
        definition_path=definition_path(tenant_id, tool_id, current),
        registered_at=min(found.created_at for found, _ in definitions.values()),
        chain_key=chain_key(newest),
        status=newest.status,
        retirement_reason=RetirementReason.MANUAL if newest.status is ToolStatus.RETIRED else None,
        in_service_since=newest.promoted_at,
    )
    return RegisteredTool(record, tuple(versions))


class _Metadata:
    """A metadata.json being read; nothing in it is taken on trust."""

    def __init__(self, body: Any) -> None:
        self._members = _object(body, METADATA)
        given = self._members.get("format")
        if given != FORMAT:
            raise InvalidInput(f"format is {given!r}, but this TwinRaven reads {FORMAT}; upgrade TwinRaven")

    def tool(self, tenant_id: str, tool_id: str, definitions: dict[int, tuple[SynthesizedTool, str]]) -> RegisteredTool:
        if _text(self._members, "tool_id") != tool_id or _text(self._members, "tenant_id") != tenant_id:
            raise InvalidInput(f"belongs to another tool or tenant than {tool_id!r} of {tenant_id!r}")
        stated = {_whole(state, "version"): state for state in self._versions()}
        lacking = sorted(set(stated) ^ set(definitions))
        if lacking:
            raise InvalidInput(f"version {lacking[0]} has a file or an entry here, but not both")
        versions = tuple(_read_version(stated[number], tool_id, definitions[number][1]) for number in sorted(stated))
        current = _whole(self._members, "current_version")
        if current not in stated:
            raise InvalidInput(f"current_version {current} is not among the versions")
        if sum(version.is_in_service for version in versions) > 1:
            raise InvalidInput("more than one version is in service")
        record = self._record(tenant_id, tool_id, definitions[current][0])
        return RegisteredTool(replace(record, status=_status(stated[current])), versions)

    def _versions(self) -> list[JsonObject]:
        listed = self._members.get("versions")
        if not isinstance(listed, list):
            raise InvalidInput("versions must be a list")
        return [_object(item, "versions") for item in cast("list[Any]", listed)]

    def _record(self, tenant_id: str, tool_id: str, current: SynthesizedTool) -> ToolRecord:
        body = self._members
        held = body.get("quarantine")
        flags = _object(body.get("flags", {}), "flags")
        return ToolRecord(
            tenant_id=tenant_id,
            tool_id=tool_id,
            current_version=current.version,
            definition_path=definition_path(tenant_id, tool_id, current.version),
            registered_at=_required_moment(body, "registered_at"),
            chain_key=chain_key(current),
            last_used_at=_moment(body, "last_used_at"),
            invocation_count=_whole(body, "invocation_count"),
            retirement_reason=_optional(body, "retirement_reason", RetirementReason),
            in_service_since=_moment(body, "in_service_since"),
            quarantine=None if held is None else _read_quarantine(_object(held, "quarantine")),
            flags={name: _object(value, f"flags.{name}") for name, value in flags.items()},
            revision=_whole(body, "revision"),
        )


def _read_version(body: JsonObject, tool_id: str, text: str) -> ToolVersion:
    number = _whole(body, "version")
    if _text(body, "sha256") != content_hash(text.encode()):
        raise InvalidInput(f"version {number} is not the definition that was registered: its hash differs")
    savings = body.get("savings")
    return ToolVersion(
        tool_id=tool_id,
        version=number,
        status=_status(body),
        text=text,
        validation=_object(body.get("validation", {}), "validation"),
        created_at=_required_moment(body, "created_at"),
        savings=None if savings is None else _object(savings, "savings"),
        promoted_at=_moment(body, "promoted_at"),
        superseded_at=_moment(body, "superseded_at"),
        retired_at=_moment(body, "retired_at"),
    )


def _read_quarantine(body: JsonObject) -> Quarantine:
    return Quarantine(_text(body, "reason"), _text(body, "by"), _required_moment(body, "at"))


def _object(value: Any, name: str) -> JsonObject:
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} must be an object")
    return cast("JsonObject", value)


def _text(body: JsonObject, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a string")
    return value


def _whole(body: JsonObject, name: str) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidInput(f"{name} must be a whole number from 0")
    return value


def _moment(body: JsonObject, name: str) -> datetime | None:
    return None if body.get(name) is None else parse_iso(_text(body, name), field=name)


def _required_moment(body: JsonObject, name: str) -> datetime:
    return parse_iso(_text(body, name), field=name)


def _optional(body: JsonObject, name: str, words: type[E]) -> E | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or value not in set(words):
        raise InvalidInput(f"{name} must be one of {', '.join(words)}")
    return words(value)


def _status(body: JsonObject) -> ToolStatus:
    found = _optional(body, "status", ToolStatus)
    if found is None:
        raise InvalidInput("status is missing")
    return found
