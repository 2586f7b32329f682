"""Keeps the registry of learned tools: versions, approval, usage evidence and retirement.

A tool is rows in the database, which decide, and files beside them, which people read and keep in version control.
`Registry` changes both as one act; `LearnedTools` offers what is in service to the catalogue and the executor;
`Maintenance` asks whether it is still worth having; `Verification` says where files and rows disagree;
`export_tool` puts a definition into the form of other programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.registry.admission import BRING_TOOLS, missing_text
    from twinraven.registry.adoption import Adoption, UsedDay
    from twinraven.registry.callers import callers_of
    from twinraven.registry.exports import EXPORT_FORMS, ExportForm, ToolExport, export_tool
    from twinraven.registry.folders import UnsafePath
    from twinraven.registry.learned import LearnedTools
    from twinraven.registry.maintenance import NOT_TAKEN, Action, Maintenance, MaintenanceReport, Measures
    from twinraven.registry.model import (
        SYSTEM,
        Draft,
        Quarantine,
        RegisteredTool,
        RegistryChange,
        Rejection,
        RetirementReason,
        ToolRecord,
        ToolVersion,
        chain_key,
        definition_text,
    )
    from twinraven.registry.ports import (
        AdoptionProbe,
        AuditRegistryChange,
        ChainLookup,
        FindTool,
        Support,
        SupportProbe,
    )
    from twinraven.registry.review import Review, review_version
    from twinraven.registry.service import Registry
    from twinraven.registry.settings import RegistrySettings
    from twinraven.registry.status import ALLOWED_TRANSITIONS, ToolStatus, check_transition
    from twinraven.registry.synthesized import SynthesizedTool, validate_tool
    from twinraven.registry.tool_folders import ToolFolders
    from twinraven.registry.verification import Disagreement, RebuildReport, Verification

__all__ = [
    "ALLOWED_TRANSITIONS",
    "BRING_TOOLS",
    "EXPORT_FORMS",
    "NOT_TAKEN",
    "SYSTEM",
    "Action",
    "Adoption",
    "AdoptionProbe",
    "AuditRegistryChange",
    "ChainLookup",
    "Disagreement",
    "Draft",
    "ExportForm",
    "FindTool",
    "LearnedTools",
    "Maintenance",
    "MaintenanceReport",
    "Measures",
    "Quarantine",
    "RebuildReport",
    "RegisteredTool",
    "Registry",
    "RegistryChange",
    "RegistrySettings",
    "Rejection",
    "RetirementReason",
    "Review",
    "Support",
    "SupportProbe",
    "SynthesizedTool",
    "ToolExport",
    "ToolFolders",
    "ToolRecord",
    "ToolStatus",
    "ToolVersion",
    "UnsafePath",
    "UsedDay",
    "Verification",
    "callers_of",
    "chain_key",
    "check_transition",
    "definition_text",
    "export_tool",
    "missing_text",
    "review_version",
    "validate_tool",
]

__getattr__ = lazy_names(__name__)
