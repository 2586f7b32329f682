"""The one call path, and the two ports it owns: connectors that reach services, and a gate that may say no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.calls.approval import Approval, ApprovalState, ApprovalWish
    from twinraven.calls.approvals import Approvals
    from twinraven.calls.claims import Claim, Claims, EarlierAnswer, EffectWord
    from twinraven.calls.envelope import Envelope, Reach
    from twinraven.calls.evidence import CallEvidence
    from twinraven.calls.key_history import KeyHistory, read_key_history
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
        side_effect_of,
    )
    from twinraven.calls.policy import Rule, RulesGate, read_rules
    from twinraven.calls.ports import (
        Approver,
        CallFrame,
        CompositeConnector,
        Concealment,
        Connector,
        FirstCheck,
        OpenGate,
        PolicyDecision,
        PolicyGate,
        TaskDecision,
    )
    from twinraven.calls.service import Calls
    from twinraven.calls.settings import CallsSettings, PolicySettings
    from twinraven.calls.sql import is_decided

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
    "CallerChannel",
    "Calls",
    "CallsSettings",
    "Claim",
    "Claims",
    "CompositeConnector",
    "Concealment",
    "Connector",
    "EarlierAnswer",
    "EffectWord",
    "Envelope",
    "FirstCheck",
    "Grant",
    "KeyHistory",
    "OpenGate",
    "PolicyDecision",
    "PolicyGate",
    "PolicySettings",
    "Reach",
    "Rule",
    "RulesGate",
    "SkillInvocationRequest",
    "SkillInvocationResponse",
    "StepJournal",
    "TaskDecision",
    "ToolCall",
    "is_decided",
    "read_key_history",
    "read_rules",
    "side_effect_of",
]

__getattr__ = lazy_names(__name__)
