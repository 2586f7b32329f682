"""The registry of learned tools: versions, a person's yes, evidence in use, and a way out.

A tool is rows in the database, which decide, and files beside them, which people read and keep in version control.
`Registry` changes both as one act; `LearnedTools` offers what is in service to the catalogue and the executor;
`Maintenance` asks whether it is still worth having; `Verification` says where files and rows disagree;
`export_tool` puts a definition into the form of other programs.
"""

from __future__ import annotations

from twinraven.registry.adoption import Adoption
from twinraven.registry.callers import callers_of
from twinraven.registry.chains import StoredChains
from twinraven.registry.exports import EXPORT_FORMS, ExportForm, ToolExport, export_tool
from twinraven.registry.folders import Refused
from twinraven.registry.learned import LearnedTools
from twinraven.registry.maintenance import Action, Maintenance, MaintenanceReport, Measures
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
from twinraven.registry.places import Places
from twinraven.registry.ports import AdoptionProbe, ChainLookup, FindTool, MayCall, Support, SupportProbe, Witness
from twinraven.registry.review import Review, review_version
from twinraven.registry.service import Registry
from twinraven.registry.verification import Disagreement, Rebuilt, Verification

__all__ = [
    "EXPORT_FORMS",
    "SYSTEM",
    "Action",
    "Adoption",
    "AdoptionProbe",
    "ChainLookup",
    "Disagreement",
    "Draft",
    "ExportForm",
    "FindTool",
    "LearnedTools",
    "Maintenance",
    "MaintenanceReport",
    "MayCall",
    "Measures",
    "Places",
    "Quarantine",
    "Rebuilt",
    "Refused",
    "RegisteredTool",
    "Registry",
    "RegistryChange",
    "Rejection",
    "RetirementReason",
    "Review",
    "StoredChains",
    "Support",
    "SupportProbe",
    "ToolExport",
    "ToolRecord",
    "ToolVersion",
    "Verification",
    "Witness",
    "callers_of",
    "chain_key",
    "definition_text",
    "export_tool",
    "review_version",
]
