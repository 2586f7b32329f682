"""The one call path, and the two ports it owns: connectors that reach services, and a gate that may say no."""

from __future__ import annotations

from twinraven.calls.claims import Claims
from twinraven.calls.envelope import Envelope, Reach
from twinraven.calls.evidence import CallEvidence
from twinraven.calls.model import (
    CallAudit,
    CallContext,
    CallFailed,
    SkillInvocationRequest,
    SkillInvocationResponse,
    ToolCall,
    side_effect_of,
)
from twinraven.calls.policy import Rule, RulesGate, read_rules
from twinraven.calls.ports import CallFrame, Concealment, Connector, OpenGate, PolicyDecision, PolicyGate
from twinraven.calls.service import Calls

__all__ = [
    "CallAudit",
    "CallContext",
    "CallEvidence",
    "CallFailed",
    "CallFrame",
    "Calls",
    "Claims",
    "Concealment",
    "Connector",
    "Envelope",
    "OpenGate",
    "PolicyDecision",
    "PolicyGate",
    "Reach",
    "Rule",
    "RulesGate",
    "SkillInvocationRequest",
    "SkillInvocationResponse",
    "ToolCall",
    "read_rules",
    "side_effect_of",
]
