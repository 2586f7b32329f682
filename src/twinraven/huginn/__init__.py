"""Huginn, thought: finds what agents repeat, compiles it into tools, and proves them on history.

Mining finds chains, synthesis infers their wiring from recorded values, validation replays them on sessions it did not
learn from, selection keeps what is worth more than it costs. Huginn reads Muninn's log and never writes to it.
"""

from __future__ import annotations

from twinraven.huginn.advice.counsel import Counsel
from twinraven.huginn.advice.port import AdviceLimits, Advisor, Answer
from twinraven.huginn.advice.record import AdviceRecord
from twinraven.huginn.backtest import Backtest, RepeatedBacktest, SessionUses, backtest, repeat_backtest
from twinraven.huginn.chains import CandidateChain, mine_chains
from twinraven.huginn.drift import ChainSupport
from twinraven.huginn.learning import Draft, Learner, LearningConfig, LearningReport
from twinraven.huginn.mining import MiningConfig
from twinraven.huginn.mining_run import mine_log
from twinraven.huginn.pictures import draw_chain
from twinraven.huginn.rehearsal import LearnedTool
from twinraven.huginn.selection import Prices, Worth
from twinraven.huginn.service import Huginn, Proposal, Round, as_learned
from twinraven.huginn.splitting import best_split
from twinraven.huginn.sql import SqlChainStore
from twinraven.huginn.store import ChainStore
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import RecordedCall, SessionTrace, TraceLog, load_traces, read_traces
from twinraven.huginn.validation.model import Criteria, EquivalenceScore, ValidationResult

__all__ = [
    "AdviceLimits",
    "AdviceRecord",
    "Advisor",
    "Answer",
    "Backtest",
    "CandidateChain",
    "ChainStore",
    "ChainSupport",
    "Counsel",
    "Criteria",
    "Draft",
    "EquivalenceScore",
    "Huginn",
    "LearnedTool",
    "Learner",
    "LearningConfig",
    "LearningReport",
    "MiningConfig",
    "Prices",
    "Proposal",
    "RecordedCall",
    "RepeatedBacktest",
    "Round",
    "SessionTrace",
    "SessionUses",
    "SqlChainStore",
    "ToolFacts",
    "TraceLog",
    "ValidationResult",
    "Worth",
    "as_learned",
    "backtest",
    "best_split",
    "draw_chain",
    "load_traces",
    "mine_chains",
    "mine_log",
    "read_traces",
    "repeat_backtest",
]
