"""Implements the lifecycle of a learned tool, as pure functions from one record to the next.

Nothing here reads or writes; whoever stores the result decides by it alone. Every change of status goes through
`check_transition`, so no path leads around the four arrows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import Conflict, IllegalTransition, NotFound
from twinraven.registry.model import Quarantine, RegisteredTool, RetirementReason, ToolRecord, ToolVersion
from twinraven.registry.status import ToolStatus, check_transition


def admit(tool: RegisteredTool | None, version: ToolVersion, *, fresh: ToolRecord) -> RegisteredTool:
    """Return a validated version enters as testing; `fresh` is the record where the tool has none yet."""
    if tool is None:
        check_transition(ToolStatus.DRAFT, ToolStatus.TESTING)
        return _with_versions(fresh, (version,))
    _refuse_retired(tool)
    known = tool.version(version.version)
    check_transition(ToolStatus.DRAFT if known is None else known.status, ToolStatus.TESTING)
    if known is not None and known.text != version.text:
        raise Conflict(
            f"version {version.version} of {tool.record.tool_id!r} is another definition", tool_id=tool.record.tool_id
        )
    others = tuple(other for other in tool.versions if other.version != version.version)
    versions = tuple(sorted((*others, version), key=lambda each: each.version))
    # Until one was promoted there is nothing to serve, and the newest stands for the tool.
    newest = tool.current.promoted_at is None
    return _with_versions(_pointing_to(tool.record, version.version) if newest else tool.record, versions)


def awaiting(tool: RegisteredTool) -> int:
    """Return the newest version that waits for a decision."""
    waiting = [version.version for version in tool.versions if version.status is ToolStatus.TESTING]
    if not waiting:
        raise IllegalTransition(
            f"no version of {tool.record.tool_id!r} waits for a decision; it is {tool.record.status}",
            tool_id=tool.record.tool_id,
        )
    return max(waiting)


def promote(tool: RegisteredTool, number: int, *, now: datetime) -> RegisteredTool:
    """Promote a tested version into service; the one before it is superseded."""
    _refuse_retired(tool)
    chosen = _version(tool, number)
    check_transition(chosen.status, ToolStatus.PROMOTED)
    newest = max((each.version for each in tool.versions if each.promoted_at is not None), default=0)
    if number < newest:
        raise Conflict(
            f"version {number} of {tool.record.tool_id!r} is older than version {newest}, which was promoted; "
            "synthesize it anew or reject it",
            tool_id=tool.record.tool_id,
        )
    versions = _changed(
        tool,
        lambda each: (
            replace(each, status=ToolStatus.PROMOTED, promoted_at=now)
            if each is chosen
            else replace(each, superseded_at=now)
            if each.is_in_service
            else each
        ),
    )
    record = replace(_pointing_to(tool.record, number), in_service_since=now, flags={})
    return _with_versions(record, versions)


def roll_back(tool: RegisteredTool, number: int, *, now: datetime) -> RegisteredTool:
    """Return a version that was in service before is so again; those rolled back from are superseded."""
    _refuse_retired(tool)
    chosen = _version(tool, number)
    if chosen.status is not ToolStatus.PROMOTED:
        raise IllegalTransition(
            f"version {number} of {tool.record.tool_id!r} is {chosen.status} and was never in service; "
            "only a promoted version can be rolled back to",
            old=chosen.status,
            new=ToolStatus.PROMOTED,
        )
    if chosen.is_in_service:
        raise Conflict(f"version {number} of {tool.record.tool_id!r} is the current one", tool_id=tool.record.tool_id)
    versions = _changed(
        tool,
        lambda each: (
            replace(each, superseded_at=None)
            if each is chosen
            else replace(each, superseded_at=now)
            if each.is_in_service
            else each
        ),
    )
    return _with_versions(replace(_pointing_to(tool.record, number), in_service_since=now, flags={}), versions)


def retire(tool: RegisteredTool, reason: RetirementReason, *, now: datetime) -> RegisteredTool:
    """Return the end of a tool: what was in service is retired, what was still being tested goes back to draft."""
    _refuse_retired(tool)
    check_transition(tool.current.status, ToolStatus.RETIRED)
    versions = _changed(tool, lambda each: _ended(each, now))
    return _with_versions(replace(tool.record, retirement_reason=reason, in_service_since=None), versions)


def send_back(tool: RegisteredTool, number: int) -> RegisteredTool:
    """Return a version that was being tested is a draft again."""
    _refuse_retired(tool)
    chosen = _version(tool, number)
    check_transition(chosen.status, ToolStatus.DRAFT)
    versions = _changed(tool, lambda each: replace(each, status=ToolStatus.DRAFT) if each is chosen else each)
    return _with_versions(tool.record, versions)


def quarantine(tool: RegisteredTool, reason: str, *, by: str, now: datetime) -> RegisteredTool:
    """Out of service at once, without a word about the version."""
    _refuse_retired(tool)
    if tool.record.quarantine is not None:
        raise Conflict(
            f"{tool.record.tool_id!r} is quarantined already: {tool.record.quarantine.reason}",
            tool_id=tool.record.tool_id,
        )
    return replace(tool, record=replace(tool.record, quarantine=Quarantine(reason, by, now)))


def release(tool: RegisteredTool, *, now: datetime) -> RegisteredTool:
    """Back to where it was before the quarantine."""
    _refuse_retired(tool)
    if tool.record.quarantine is None:
        raise Conflict(f"{tool.record.tool_id!r} is not quarantined", tool_id=tool.record.tool_id)
    served = tool.current.is_in_service
    since = now if served else tool.record.in_service_since
    return replace(tool, record=replace(tool.record, quarantine=None, in_service_since=since))


def set_flag(tool: RegisteredTool, name: str, detail: JsonObject | None) -> RegisteredTool:
    """Mark a tool for people to look at, or take the mark away."""
    _refuse_retired(tool)
    flags = {key: value for key, value in tool.record.flags.items() if key != name}
    if detail is not None:
        flags[name] = detail
    return replace(tool, record=replace(tool.record, flags=flags))


def _ended(version: ToolVersion, now: datetime) -> ToolVersion:
    if version.status is ToolStatus.PROMOTED:
        check_transition(version.status, ToolStatus.RETIRED)
        return replace(version, status=ToolStatus.RETIRED, retired_at=now)
    if version.status is ToolStatus.TESTING:
        check_transition(version.status, ToolStatus.DRAFT)
        return replace(version, status=ToolStatus.DRAFT)
    return version


def _with_versions(record: ToolRecord, versions: tuple[ToolVersion, ...]) -> RegisteredTool:
    current = next(version for version in versions if version.version == record.current_version)
    return RegisteredTool(replace(record, status=current.status), versions)


def _pointing_to(record: ToolRecord, number: int) -> ToolRecord:
    folder = record.definition_path.rpartition("/")[0]
    return replace(record, current_version=number, definition_path=f"{folder}/v{number}.json")


def _changed(tool: RegisteredTool, change: Callable[[ToolVersion], ToolVersion]) -> tuple[ToolVersion, ...]:
    return tuple(change(version) for version in tool.versions)


def _version(tool: RegisteredTool, number: int) -> ToolVersion:
    found = tool.version(number)
    if found is None:
        raise NotFound(
            f"{tool.record.tool_id!r} has no version {number}; "
            f"there is {', '.join(str(each.version) for each in tool.versions)}",
            tool_id=tool.record.tool_id,
            version=number,
        )
    return found


def _refuse_retired(tool: RegisteredTool) -> None:
    if tool.record.is_retired:
        raise IllegalTransition(
            f"{tool.record.tool_id!r} was retired ({tool.record.retirement_reason}), which is final; "
            "if its chain comes up again, it becomes a new tool",
            tool_id=tool.record.tool_id,
        )
