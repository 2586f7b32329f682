"""Models learned tools, their versions, and the drafts they came from.

Status belongs to a version; a record is what its current version is. A version that was in service and no longer is has
been superseded and can return; a record that was retired cannot. The text of a definition is the same in the row and
in the file, byte for byte, and says nothing that changes later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, cast

from twinraven.foundation.canonical import JsonObject, canonical_json, content_hash, parse_json
from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput
from twinraven.registry.status import ToolStatus
from twinraven.registry.synthesized import SynthesizedTool

SLUG: Final = re.compile(r"[a-z][a-z0-9_-]{0,127}")
"""What names a learned tool, and therefore its folder."""

SYSTEM: Final = "system"
"""The default actor."""


class RetirementReason(StrEnum):
    """Why a tool was removed from service."""

    MANUAL = "manual"
    AUTO_UNUSED = "auto_unused"
    DRIFT = "drift"
    FAILURE_SPIKE = "failure_spike"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The quarantine of a tool: out of service until it is reviewed."""

    reason: str
    by: str
    at: datetime

    def as_json(self) -> JsonObject:
        return {"reason": self.reason, "by": self.by, "at": iso(self.at)}


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """One learned tool. `status` is that of its current version; `revision` grows with every change."""

    tenant_id: str
    tool_id: str
    current_version: int
    definition_path: str
    registered_at: datetime
    chain_key: str
    status: ToolStatus = ToolStatus.TESTING
    last_used_at: datetime | None = None
    invocation_count: int = 0
    retirement_reason: RetirementReason | None = None
    in_service_since: datetime | None = None
    """Since when its current version could be called, for all that ages."""
    quarantine: Quarantine | None = None
    flags: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    revision: int = 0

    @property
    def is_retired(self) -> bool:
        return self.retirement_reason is not None

    @property
    def is_in_service(self) -> bool:
        return self.status is ToolStatus.PROMOTED and not self.is_retired and self.quarantine is None

    def as_json(self) -> JsonObject:
        return {
            "tool_id": self.tool_id,
            "status": self.status.value,
            "current_version": self.current_version,
            "definition_path": self.definition_path,
            "registered_at": iso(self.registered_at),
            "last_used_at": _iso(self.last_used_at),
            "invocation_count": self.invocation_count,
            "retirement_reason": None if self.retirement_reason is None else self.retirement_reason.value,
            "in_service_since": _iso(self.in_service_since),
            "quarantine": None if self.quarantine is None else self.quarantine.as_json(),
            "flags": dict(self.flags),
            "revision": self.revision,
        }


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """One version of a tool's definition, and what cleared it."""

    tool_id: str
    version: int
    status: ToolStatus
    text: str
    """The definition as it is stored."""
    validation: JsonObject
    created_at: datetime
    savings: JsonObject | None = None
    """What it would have saved in the record, where that was weighed."""
    promoted_at: datetime | None = None
    superseded_at: datetime | None = None
    retired_at: datetime | None = None

    @property
    def definition(self) -> SynthesizedTool:
        """The definition with the state it is in."""
        return replace(
            SynthesizedTool.from_json(parse_json(self.text, field="definition")),
            status=self.status,
            promoted_at=self.promoted_at,
            retired_at=self.retired_at,
        )

    @property
    def validation_passed(self) -> bool:
        return self.validation.get("passed") is True

    @property
    def equivalence_score(self) -> float:
        score = self.validation.get("equivalence_score")
        mean = cast("JsonObject", score).get("mean_similarity") if isinstance(score, dict) else None
        return float(mean) if isinstance(mean, (int, float)) else 0.0

    @property
    def is_in_service(self) -> bool:
        return self.status is ToolStatus.PROMOTED and self.superseded_at is None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a person's decision."""
        return self.status is ToolStatus.TESTING

    def as_json(self) -> JsonObject:
        """Return the version without its definition."""
        return {
            "version": self.version,
            "status": self.status.value,
            "created_at": iso(self.created_at),
            "promoted_at": _iso(self.promoted_at),
            "superseded_at": _iso(self.superseded_at),
            "retired_at": _iso(self.retired_at),
            "validation": self.validation,
            "savings": self.savings,
            "sha256": content_hash(self.text.encode()),
        }


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A record with all its versions, oldest first: what changes as one."""

    record: ToolRecord
    versions: tuple[ToolVersion, ...]

    @property
    def current(self) -> ToolVersion:
        return next(version for version in self.versions if version.version == self.record.current_version)

    def version(self, number: int) -> ToolVersion | None:
        return next((version for version in self.versions if version.version == number), None)


@dataclass(frozen=True, slots=True)
class Draft:
    """One synthesis of a tool: a version number, taken for good, and the evidence it was made from."""

    tenant_id: str
    definition: SynthesizedTool
    chain_key: str
    evidence_hash: str
    created_at: datetime
    is_new: bool = True
    """Whether this synthesis made it, or an earlier one from the same evidence."""

    @property
    def tool_id(self) -> str:
        return self.definition.tool_id

    @property
    def version(self) -> int:
        return self.definition.version


@dataclass(frozen=True, slots=True)
class Rejection:
    """A person's no, which holds for as long as the evidence is the same."""

    tool_id: str
    version: int
    chain_key: str
    evidence_hash: str
    reason: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """A change of the registry, for the audit log."""

    tenant_id: str
    event_type: str
    tool_id: str
    version: int | None
    by: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


def check_slug(tool_id: str, *, field: str = "tool_id") -> str:
    """Return the id, which must be fit to name a folder."""
    if not SLUG.fullmatch(tool_id):
        raise InvalidInput(
            f"{field} {tool_id[:140]!r} must be a slug: a to z first, then a to z, 0 to 9, _ and -, 128 at most",
            field=field,
        )
    return tool_id


def check_validation(body: JsonObject) -> JsonObject:
    """Return a verdict that can be stored: it says whether it passed and how alike the answers were."""
    score = body.get("equivalence_score")
    mean = cast("JsonObject", score).get("mean_similarity") if isinstance(score, dict) else None
    if not isinstance(body.get("passed"), bool):
        raise InvalidInput("validation.passed must be true or false", field="validation.passed")
    if isinstance(mean, bool) or not isinstance(mean, (int, float)) or not 0 <= mean <= 1:
        raise InvalidInput(
            "validation.equivalence_score.mean_similarity must lie between 0 and 1",
            field="validation.equivalence_score.mean_similarity",
        )
    return body


def definition_text(definition: SynthesizedTool) -> str:
    """Return a definition as it is stored: readable, the same every time, and without what changes later."""
    return json.dumps(definition.meaning(), indent=2, ensure_ascii=False) + "\n"


def chain_key(definition: SynthesizedTool) -> str:
    """Return the calls of a definition in order: two with the same are versions of one tool."""
    steps = [[step.tool_id, step.for_each is not None] for step in definition.steps]
    return content_hash(canonical_json(steps))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)
