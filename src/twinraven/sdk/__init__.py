"""Provides the Python client of a server: `Client`, and `AsyncClient` for asyncio.

It is a client of the REST API and nothing else: it knows the API's entities and errors, opens no database and starts no
thread. Names are resolved on first use, so that importing this costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.sdk.catalogue_model import KEEP, Keep, ServiceInfo, ServiceTemplate, ToolDefinition, ToolTemplate
    from twinraven.sdk.client import AsyncClient, Client
    from twinraven.sdk.conversing_model import (
        AlternativeInfo,
        AnswerPiece,
        ConversationInfo,
        MemoryInfo,
        MessageSent,
        TurnInfo,
    )
    from twinraven.sdk.deciding_model import InboxItemInfo
    from twinraven.sdk.delivery import MOST_AT_ONCE, FifoLock, deliver
    from twinraven.sdk.effecting_model import (
        AssetInfo,
        LedgerReportInfo,
        MessageInfo,
        PublicationInfo,
        TransactionInfo,
        WalletInfo,
    )
    from twinraven.sdk.errors import RemoteError, ServerUnreachable
    from twinraven.sdk.governing_model import (
        AttemptInfo,
        BudgetInfo,
        CampaignInfo,
        DecisionInfo,
        GoalInfo,
        ResultInfo,
        SpecInfo,
        TaskInfo,
    )
    from twinraven.sdk.model import (
        ActivityInfo,
        Adoption,
        ApprovalInfo,
        AuditEntry,
        AuditReport,
        BucketInfo,
        CallResult,
        Chain,
        Event,
        FailureInfo,
        KeyInfo,
        LearnedTool,
        LearnedVersion,
        LearningRound,
        Me,
        ObservedCall,
        PlanInfo,
        PolicyInfo,
        ProcessInfo,
        RunInfo,
        SecretInfo,
        SessionInfo,
        StreamToken,
        ToolInfo,
        TransitionInfo,
        UseInfo,
        UserInfo,
        WorkerInfo,
    )
    from twinraven.sdk.observing import AsyncSessionRecorder, SessionRecorder, failed
    from twinraven.sdk.overseeing import SearchHit, SignInInfo
    from twinraven.sdk.recalling_model import (
        ActiveEntityInfo,
        EntityInfo,
        EntityMergeInfo,
        EntityProposal,
        EpisodeInfo,
        FactInfo,
        GraphInfo,
        KnowledgeHit,
        NeighbourhoodInfo,
    )
    from twinraven.sdk.reflecting_model import (
        CompressionInfo,
        IntrospectionInfo,
        MetricInfo,
        MetricPointInfo,
        MetricValueInfo,
        ReflectionInfo,
        SummaryInfo,
    )

__all__ = [
    "KEEP",
    "MOST_AT_ONCE",
    "ActiveEntityInfo",
    "ActivityInfo",
    "Adoption",
    "AlternativeInfo",
    "AnswerPiece",
    "ApprovalInfo",
    "AssetInfo",
    "AsyncClient",
    "AsyncSessionRecorder",
    "AttemptInfo",
    "AuditEntry",
    "AuditReport",
    "BucketInfo",
    "BudgetInfo",
    "CallResult",
    "CampaignInfo",
    "Chain",
    "Client",
    "CompressionInfo",
    "ConversationInfo",
    "DecisionInfo",
    "EntityInfo",
    "EntityMergeInfo",
    "EntityProposal",
    "EpisodeInfo",
    "Event",
    "FactInfo",
    "FailureInfo",
    "FifoLock",
    "GoalInfo",
    "GraphInfo",
    "InboxItemInfo",
    "IntrospectionInfo",
    "Keep",
    "KeyInfo",
    "KnowledgeHit",
    "LearnedTool",
    "LearnedVersion",
    "LearningRound",
    "LedgerReportInfo",
    "Me",
    "MemoryInfo",
    "MessageInfo",
    "MessageSent",
    "MetricInfo",
    "MetricPointInfo",
    "MetricValueInfo",
    "NeighbourhoodInfo",
    "ObservedCall",
    "PlanInfo",
    "PolicyInfo",
    "ProcessInfo",
    "PublicationInfo",
    "ReflectionInfo",
    "RemoteError",
    "ResultInfo",
    "RunInfo",
    "SearchHit",
    "SecretInfo",
    "ServerUnreachable",
    "ServiceInfo",
    "ServiceTemplate",
    "SessionInfo",
    "SessionRecorder",
    "SignInInfo",
    "SpecInfo",
    "StreamToken",
    "SummaryInfo",
    "TaskInfo",
    "ToolDefinition",
    "ToolInfo",
    "ToolTemplate",
    "TransactionInfo",
    "TransitionInfo",
    "TurnInfo",
    "UseInfo",
    "UserInfo",
    "WalletInfo",
    "WorkerInfo",
    "deliver",
    "failed",
]


__getattr__ = lazy_names(__name__)
