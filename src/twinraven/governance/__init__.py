"""Governs work: goals become tasks, attempts become results, and a decision allows effects.

`Campaigns` keeps campaigns, goals and budgets, `Planner` tasks and their specs, `Attempts` what workers make of them
and `Judge` what is decided about that; `Judge.gate` gives the decision that an effect needs, or refuses it. Planners,
workers and judges outside take part by envelopes. `states` says which status may follow which.

Names are resolved on first use: a command that needs none of them does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.governance.effect_model import (
        AssetKind,
        Budget,
        MediaAsset,
        MoneyTransaction,
        Outgoing,
        OutgoingMessage,
        PublishEvent,
        Wallet,
        WalletKind,
    )
    from twinraven.governance.model import (
        Campaign,
        Goal,
        JudgeDecision,
        Lineage,
        PolicyCheck,
        SpecVersion,
        Task,
        TaskSpec,
        Verdict,
        WorkerResult,
        WorkerRun,
    )
    from twinraven.governance.money import Money, check_currency, format_minor, parse_minor
    from twinraven.governance.states import WalletStatus, check_transition, state_tables
    from twinraven.governance.work.attempts import Attempts
    from twinraven.governance.work.audit_trail import WorkAuditTrail
    from twinraven.governance.work.campaigns import Campaigns
    from twinraven.governance.work.check_functions import CheckFunctions
    from twinraven.governance.work.check_rules import read_check_rules
    from twinraven.governance.work.check_subject import OutgoingContent
    from twinraven.governance.work.checks import PolicyChecks
    from twinraven.governance.work.contracts import ENVELOPE_SCHEMAS, EXPORTED, REQUIRED_ACTION
    from twinraven.governance.work.envelopes import MAX_ENVELOPE_BYTES, EnvelopeLog
    from twinraven.governance.work.judge import Judge
    from twinraven.governance.work.moves import TaskMoves
    from twinraven.governance.work.plan_sql import PlanStore
    from twinraven.governance.work.planner import Planner
    from twinraven.governance.work.proposing import PlanProposer
    from twinraven.governance.work.recording import ResultRecorder
    from twinraven.governance.work.result_sql import ResultStore
    from twinraven.governance.work.tasks import TaskDetail, Tasks
    from twinraven.governance.work.verdicts import Verdicts

__all__ = [
    "ENVELOPE_SCHEMAS",
    "EXPORTED",
    "MAX_ENVELOPE_BYTES",
    "REQUIRED_ACTION",
    "AssetKind",
    "Attempts",
    "Budget",
    "Campaign",
    "Campaigns",
    "CheckFunctions",
    "EnvelopeLog",
    "Goal",
    "Judge",
    "JudgeDecision",
    "Lineage",
    "MediaAsset",
    "Money",
    "MoneyTransaction",
    "Outgoing",
    "OutgoingContent",
    "OutgoingMessage",
    "PlanProposer",
    "PlanStore",
    "Planner",
    "PolicyCheck",
    "PolicyChecks",
    "PublishEvent",
    "ResultRecorder",
    "ResultStore",
    "SpecVersion",
    "Task",
    "TaskDetail",
    "TaskMoves",
    "TaskSpec",
    "Tasks",
    "Verdict",
    "Verdicts",
    "Wallet",
    "WalletKind",
    "WalletStatus",
    "WorkAuditTrail",
    "WorkerResult",
    "WorkerRun",
    "check_currency",
    "check_transition",
    "format_minor",
    "parse_minor",
    "read_check_rules",
    "state_tables",
]


__getattr__ = lazy_names(__name__)
