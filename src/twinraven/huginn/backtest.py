"""Backtesting: learn from one part of the record, and say what would have been saved in the other.

The figure assumes that the agent takes a tool wherever it fits, and says so. Turns are the assistant's; where the
record does not number them, each call counts as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from twinraven.huginn.learning import Learner, LearningConfig, LearningReport, Progress
from twinraven.huginn.rehearsal import Answers, LearnedTool, Rehearsal
from twinraven.huginn.savings import Savings, Use, uses_in
from twinraven.huginn.splitting import SplitBy, split_sessions
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import SessionTrace

LEARN_SHARE = 0.5


@dataclass(slots=True)
class SessionUses:
    """The uses in one tested session."""

    session: SessionTrace
    uses: list[Use]

    def as_json(self) -> dict[str, Any]:
        return {"session_id": self.session.session_id, "uses": [use.as_json() for use in self.uses]}


@dataclass(slots=True)
class Backtest:
    """What was learned on one side and what it came to on the other."""

    learning: LearningReport
    tested: list[SessionUses]
    tools: list[LearnedTool]
    turns_known: bool
    per_tool: dict[LearnedTool, Savings] = field(default_factory=dict[LearnedTool, Savings])

    @property
    def assistant_turns(self) -> int:
        return sum(item.session.turns for item in self.tested)

    @property
    def tool_turns(self) -> int:
        return sum(len({call.turn for call in item.session.calls}) for item in self.tested)

    @property
    def calls(self) -> int:
        return sum(len(item.session.calls) for item in self.tested)

    @property
    def turns_saved(self) -> int:
        return sum(savings.turns_saved for savings in self.per_tool.values())

    @property
    def extra_calls(self) -> int:
        return sum(savings.extra_calls for savings in self.per_tool.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "sessions_learned": self.learning.sessions,
            "sessions_tested": len(self.tested),
            "tools": [
                {
                    "tool_id": tool.tool_id,
                    "chain": list(tool.chain),
                    "shape": tool.shape,
                    "uses": savings.uses,
                    "misses": savings.misses,
                    "turns_saved": savings.turns_saved,
                    "extra_calls": savings.extra_calls,
                }
                for tool, savings in self.per_tool.items()
            ],
            "assistant_turns": self.assistant_turns,
            "assistant_turns_saved": self.turns_saved,
            "tool_turns": self.tool_turns,
            "tool_turns_saved": self.turns_saved,
            "calls": self.calls,
            "extra_calls": self.extra_calls,
        }


async def backtest(
    sessions: Sequence[SessionTrace],
    config: LearningConfig,
    facts: ToolFacts,
    *,
    split: SplitBy,
    now: Callable[[], datetime],
    progress: Progress | None = None,
) -> Backtest:
    """Learn on one side of the split and count on the other."""
    learned, tested = split_sessions(sessions, split, share=LEARN_SHARE, salt="backtest") if sessions else ([], [])
    learner = Learner(config, facts, now=now)
    report = await learner.learn(learned, progress=progress)
    tools = [chosen.tool for chosen in report.chosen]
    if progress is not None:
        progress(f"testing {len(tools)} tools on {len(tested)} sessions")
    rehearsal = Rehearsal(Answers(tested), learner.index, facts.writes)
    outcome = Backtest(report, [], tools, all(session.turns_known for session in tested))
    outcome.per_tool = {tool: Savings() for tool in tools}
    for session in tested:
        uses = await uses_in(session, tools, rehearsal)
        outcome.tested.append(SessionUses(session, uses))
        for use in uses:
            outcome.per_tool[use.tool].add(use)
    return outcome
