"""Backtests learning: learns from one part of the record, and measures the savings in the other.

The figure assumes that the agent takes a tool wherever it fits, and says so: it is a ceiling. Turns are the
assistant's; where the record does not number them, each call counts as one. One split is a lottery, so a backtest can
be repeated over fresh splits and reports their mean and spread.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.batching import BATCH_TOOL_ID
from twinraven.huginn.learning import Learner, LearningConfig, LearningReport, Progress
from twinraven.huginn.rehearsal import RecordedAnswers, Rehearsal, ToolCandidate
from twinraven.huginn.savings import Savings, Use, uses_in
from twinraven.huginn.splitting import SplitBy, split_sessions
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import SessionTrace

LEARN_SHARE = 0.5
TAKEN = 0.81
FOLLOWED = 0.77
"""In one public data set, agents took a fitting helper in 81 % of the sessions, and relied on its answer in 77 %."""


@dataclass(slots=True)
class SessionUses:
    """The uses in one tested session."""

    session: SessionTrace
    uses: list[Use]

    def as_json(self) -> dict[str, Any]:
        return {"session_id": self.session.session_id, "uses": [use.as_json() for use in self.uses]}


@dataclass(slots=True)
class Backtest:
    """The result of a backtest: the tools learned on one side, and their savings on the other."""

    learning: LearningReport
    tested: list[SessionUses]
    tools: list[ToolCandidate]
    turns_known: bool
    per_tool: dict[ToolCandidate, Savings] = field(default_factory=dict[ToolCandidate, Savings])
    batch: Savings = field(default_factory=Savings)
    """What the built-in batch of reads adds to the learned tools."""

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

    @property
    def plain_turns(self) -> int:
        return sum(savings.plain_turns for savings in self.per_tool.values())

    @property
    def saved_share(self) -> float:
        return (self.turns_saved + self.batch.turns_saved) / max(1, self.assistant_turns)

    @property
    def learned_share(self) -> float:
        return self.turns_saved / max(1, self.assistant_turns)

    @property
    def extra_share(self) -> float:
        return self.extra_calls / max(1, self.calls)

    def as_json(self) -> dict[str, Any]:
        saved = self.turns_saved + self.batch.turns_saved
        return {
            "sessions_learned": self.learning.sessions,
            "sessions_tested": len(self.tested),
            "tools": [
                {"tool_id": tool.tool_id, "chain": list(tool.chain), "shape": tool.shape, **_counts(savings)}
                for tool, savings in self.per_tool.items()
            ],
            "built_in_batch": {"tool_id": BATCH_TOOL_ID, **_counts(self.batch)},
            "assistant_turns": self.assistant_turns,
            "assistant_turns_saved": saved,
            "assistant_turns_saved_by_learned_tools": self.turns_saved,
            "assistant_turns_saved_by_batch": self.batch.turns_saved,
            "ceiling": self.saved_share,
            "middle": self.saved_share * TAKEN * FOLLOWED,
            "plain_share": (self.plain_turns + self.batch.plain_turns) / saved if saved else 0.0,
            "tool_turns": self.tool_turns,
            "tool_turns_saved": saved,
            "calls": self.calls,
            "extra_calls": self.extra_calls,
        }


@dataclass(slots=True)
class RepeatedBacktest:
    """The same backtest over several splits."""

    runs: list[Backtest]

    def as_json(self) -> dict[str, Any]:
        return {
            "repeats": len(self.runs),
            "saved_share": _spread([run.saved_share for run in self.runs]),
            "saved_share_by_learned_tools": _spread([run.learned_share for run in self.runs]),
            "extra_share": _spread([run.extra_share for run in self.runs]),
            "tools": _spread([len(run.tools) for run in self.runs]),
            "runs": [run.as_json() for run in self.runs],
        }


def _both_sides(
    sessions: Sequence[SessionTrace], split: SplitBy, salt: str
) -> tuple[list[SessionTrace], list[SessionTrace]]:
    """Sessions to learn from and to test on; refuses so few that one side would be empty."""
    if not sessions:
        return [], []
    learned, tested = split_sessions(sessions, split, share=LEARN_SHARE, salt=salt)
    if not learned or not tested:
        found = "1 session" if len(sessions) == 1 else f"{len(sessions)} sessions"
        raise InvalidInput(
            f"a backtest learns from some sessions and tests on others: split by {split}, {found} cannot be parted",
            field="split",
            fix="add sessions" if len(sessions) == 1 else "add sessions, or choose --split time",
        )
    return learned, tested


async def run_backtest(
    sessions: Sequence[SessionTrace],
    config: LearningConfig,
    facts: ToolFacts,
    *,
    split: SplitBy,
    now: Callable[[], datetime],
    progress: Progress | None = None,
    salt: str = "backtest",
) -> Backtest:
    """Learn on one side of the split and count on the other."""
    learned, tested = _both_sides(sessions, split, salt)
    learner = Learner(config, facts, now=now)
    report = await learner.learn(learned, progress=progress)
    tools = [chosen.tool for chosen in report.chosen]
    if progress is not None:
        progress(f"testing {len(tools)} tools on {len(tested)} sessions")
    rehearsal = Rehearsal(RecordedAnswers(tested), learner.index, facts.writes)
    outcome = Backtest(report, [], tools, all(session.turns_known for session in tested))
    outcome.per_tool = {tool: Savings() for tool in tools}
    for session in tested:
        uses = await uses_in(session, tools, rehearsal, with_batch=True)
        outcome.tested.append(SessionUses(session, uses))
        for use in uses:
            (outcome.batch if use.tool is None else outcome.per_tool[use.tool]).add(use)
    return outcome


async def repeat_backtest(
    sessions: Sequence[SessionTrace],
    config: LearningConfig,
    facts: ToolFacts,
    *,
    split: SplitBy,
    repeats: int,
    now: Callable[[], datetime],
    progress: Progress | None = None,
) -> RepeatedBacktest:
    """Return the backtest on so many splits of their own; the first is the one that a single backtest uses."""
    runs: list[Backtest] = []
    for number in range(repeats):
        salt = "backtest" if number == 0 else f"backtest {number}"
        say = None if progress is None else _numbered(progress, number, repeats)
        runs.append(await run_backtest(sessions, config, facts, split=split, now=now, progress=say, salt=salt))
    return RepeatedBacktest(runs)


def _numbered(progress: Progress, number: int, repeats: int) -> Progress:
    return lambda text: progress(f"split {number + 1} of {repeats}: {text}")


def _counts(savings: Savings) -> dict[str, int]:
    return {
        "uses": savings.uses,
        "misses": savings.misses,
        "turns_saved": savings.turns_saved,
        "extra_calls": savings.extra_calls,
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "mean": statistics.fmean(values),
        "spread": statistics.stdev(values) if len(values) > 1 else 0.0,
        "min": min(values),
        "max": max(values),
    }
