"""The one call path, and the two ports it owns: connectors that reach services, and a gate that may say no."""

from __future__ import annotations

from twinraven.calls.approval import Approval, ApprovalState, ApprovalWish
from twinraven.calls.approvals import Approvals
from twinraven.calls.claims import Claim, Claims, EarlierAnswer
from twinraven.calls.envelope import Envelope, Reach
from twinraven.calls.evidence import CallEvidence
from twinraven.calls.model import (
    CallAudit,
    CallContext,
    CallFailed,
    Grant,
    SkillInvocationRequest,
    SkillInvocationResponse,
    ToolCall,
    side_effect_of,
)
from twinraven.calls.policy import Rule, RulesGate, read_rules
from twinraven.calls.ports import (
    Approver,
    CallFrame,
    CompositeConnector,
    Concealment,
    Connector,
    OpenGate,
    PolicyDecision,
    PolicyGate,
)
from twinraven.calls.service import Calls

__all__ = [
    "Approval",
    "ApprovalState",
    "ApprovalWish",
    "Approvals",
    "Approver",
    "CallAudit",
    "CallContext",
    "CallEvidence",
    "CallFailed",
    "CallFrame",
    "Calls",
    "Claim",
    "Claims",
    "CompositeConnector",
    "Concealment",
    "Connector",
    "EarlierAnswer",
    "Envelope",
    "Grant",
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
