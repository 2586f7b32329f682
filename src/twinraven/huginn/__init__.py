"""Learns tools (Huginn, thought): finds what agents repeat, compiles it into tools, and proves them on history.

Mining finds chains, synthesis infers their wiring from recorded values, validation replays them on sessions it did not
learn from, selection keeps what is worth more than it costs. Huginn reads Muninn's log and never writes to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.huginn.adoption import LoggedAdoption
    from twinraven.huginn.advice.model_advisor import ModelAdvisor
    from twinraven.huginn.advice.port import AdviceAnswer, AdviceLimits, Advisor
    from twinraven.huginn.advice.record import AdviceRecord
    from twinraven.huginn.backtest import Backtest, RepeatedBacktest, SessionUses, repeat_backtest, run_backtest
    from twinraven.huginn.chain_drawing import draw_chain
    from twinraven.huginn.chains import CandidateChain, mine_chains
    from twinraven.huginn.drift import ChainSupport
    from twinraven.huginn.engines import Engine, EngineName, open_engine
    from twinraven.huginn.evidence import LearningEvidence, SampleLimits, load_evidence, load_sample
    from twinraven.huginn.learning import JudgedDraft, Learner, LearningConfig, LearningReport
    from twinraven.huginn.mining import MiningConfig
    from twinraven.huginn.mining_run import LogWindow, MiningRun, mine_log
    from twinraven.huginn.parquet_mining import mine_parquet
    from twinraven.huginn.rehearsal import ToolCandidate
    from twinraven.huginn.rounds import (
        SEEN_EVERY_S,
        LearningRound,
        RoundStore,
        model_summary,
        proposal_rows,
        round_outcome,
    )
    from twinraven.huginn.selection import Prices, ToolWorth
    from twinraven.huginn.service import Huginn, Proposal, Round, as_learned
    from twinraven.huginn.settings import LearningSettings, MiningSettings, ValidationSettings
    from twinraven.huginn.splitting import best_split
    from twinraven.huginn.sql import SqlChainStore
    from twinraven.huginn.store import ChainStore
    from twinraven.huginn.tool_facts import ToolFacts
    from twinraven.huginn.traces import RecordedCall, SessionTrace, TraceLog, load_traces, read_trace_files, read_traces
    from twinraven.huginn.validation.model import Criteria, EquivalenceScore, ValidationResult

__all__ = [
    "SEEN_EVERY_S",
    "AdviceAnswer",
    "AdviceLimits",
    "AdviceRecord",
    "Advisor",
    "Backtest",
    "CandidateChain",
    "ChainStore",
    "ChainSupport",
    "Criteria",
    "Engine",
    "EngineName",
    "EquivalenceScore",
    "Huginn",
    "JudgedDraft",
    "Learner",
    "LearningConfig",
    "LearningEvidence",
    "LearningReport",
    "LearningRound",
    "LearningSettings",
    "LogWindow",
    "LoggedAdoption",
    "MiningConfig",
    "MiningRun",
    "MiningSettings",
    "ModelAdvisor",
    "Prices",
    "Proposal",
    "RecordedCall",
    "RepeatedBacktest",
    "Round",
    "RoundStore",
    "SampleLimits",
    "SessionTrace",
    "SessionUses",
    "SqlChainStore",
    "ToolCandidate",
    "ToolFacts",
    "ToolWorth",
    "TraceLog",
    "ValidationResult",
    "ValidationSettings",
    "as_learned",
    "best_split",
    "draw_chain",
    "load_evidence",
    "load_sample",
    "load_traces",
    "mine_chains",
    "mine_log",
    "mine_parquet",
    "model_summary",
    "open_engine",
    "proposal_rows",
    "read_trace_files",
    "read_traces",
    "repeat_backtest",
    "round_outcome",
    "run_backtest",
]

__getattr__ = lazy_names(__name__)
