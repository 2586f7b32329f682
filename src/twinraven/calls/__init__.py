"""Provides the one call path and its two ports: connectors, which reach services, and the policy gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.calls.approval import Approval, ApprovalRequest, ApprovalState
    from twinraven.calls.approvals import Approvals
    from twinraven.calls.claims import Claim, Claims, EarlierAnswer, EffectWord
    from twinraven.calls.envelope import Envelope, EnvelopeImpact
    from twinraven.calls.evidence import CallEvidence
    from twinraven.calls.key_history import KeyHistory, KeyRepeat, find_key_of, read_key_history
    from twinraven.calls.model import (
        CallAudit,
        CallContext,
        CallerChannel,
        CallFailed,
        Grant,
        SkillInvocationRequest,
        SkillInvocationResponse,
        StepJournal,
        ToolCall,
        inner_request,
        side_effect_of,
    )
    from twinraven.calls.policy import Rule, RulesGate, read_rules
    from twinraven.calls.ports import (
        Approver,
        CallFrame,
        CompositeConnector,
        Connector,
        FirstHealthCheck,
        OpenGate,
        PolicyDecision,
        PolicyGate,
        SecretRedaction,
        TaskDecision,
    )
    from twinraven.calls.service import Calls
    from twinraven.calls.settings import CallsSettings, PolicySettings
    from twinraven.calls.sql import is_decided

__all__ = [
    "Approval",
    "ApprovalRequest",
    "ApprovalState",
    "Approvals",
    "Approver",
    "CallAudit",
    "CallContext",
    "CallEvidence",
    "CallFailed",
    "CallFrame",
    "CallerChannel",
    "Calls",
    "CallsSettings",
    "Claim",
    "Claims",
    "CompositeConnector",
    "Connector",
    "EarlierAnswer",
    "EffectWord",
    "Envelope",
    "EnvelopeImpact",
    "FirstHealthCheck",
    "Grant",
    "KeyHistory",
    "KeyRepeat",
    "OpenGate",
    "PolicyDecision",
    "PolicyGate",
    "PolicySettings",
    "Rule",
    "RulesGate",
    "SecretRedaction",
    "SkillInvocationRequest",
    "SkillInvocationResponse",
    "StepJournal",
    "TaskDecision",
    "ToolCall",
    "find_key_of",
    "inner_request",
    "is_decided",
    "read_key_history",
    "read_rules",
    "side_effect_of",
]

__getattr__ = lazy_names(__name__)
