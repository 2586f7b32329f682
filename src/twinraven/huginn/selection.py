"""Choosing which drafts are worth having, by what they would have earned.

Frequency picks nonsense. A tool is worth the turns it saves, less the calls nobody needed, less the tokens its schema
adds to every later model call. Tools compete: two that begin with the same call cannot both be used there, and the
built-in batch of reads is offered anyway, so they are chosen one after another by what each still adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from twinraven.huginn.rehearsal import LearnedTool, Rehearsal
from twinraven.huginn.savings import Savings, uses_in
from twinraven.huginn.traces import SessionTrace


@dataclass(frozen=True, slots=True)
class Prices:
    """What things cost, in dollars; the ratios matter more than the amounts."""

    turn: float = 0.01
    """One model turn: the context it reads again, and the answer it writes."""
    extra_call: float = 0.0025
    """One tool call nobody needed."""
    schema_token: float = 0.0000003
    """One token of a tool's schema in one model call, at a cached-input price."""
    adoption: float = 1.0
    """How often an agent takes a tool where it fits."""


@dataclass(frozen=True, slots=True)
class Worth:
    """A tool's arithmetic over some sessions."""

    uses: int
    misses: int
    turns_saved: int
    extra_calls: int
    schema_tokens: int
    assistant_turns: int
    value: float

    def as_json(self) -> dict[str, Any]:
        return {
            "uses": self.uses,
            "misses": self.misses,
            "turns_saved": self.turns_saved,
            "extra_calls": self.extra_calls,
            "schema_tokens": self.schema_tokens,
            "assistant_turns": self.assistant_turns,
            "value": round(self.value, 6),
        }


def schema_tokens(tool: LearnedTool) -> int:
    """About how many tokens a tool adds to a model call: four characters each."""
    definition = tool.definition
    shown = {"name": definition.tool_id, "description": definition.description, "parameters": definition.parameters}
    return len(orjson.dumps(shown)) // 4


def worth(savings: Savings, tool: LearnedTool, turns: int, prices: Prices) -> Worth:
    """The arithmetic of one tool's savings."""
    tokens = schema_tokens(tool)
    value = (
        prices.adoption * (savings.turns_saved * prices.turn - savings.extra_calls * prices.extra_call)
        - tokens * turns * prices.schema_token
    )
    return Worth(savings.uses, savings.misses, savings.turns_saved, savings.extra_calls, tokens, turns, value)


@dataclass(slots=True)
class Measured:
    """What each tool saves when all are offered together, best first, and what the built-in batch adds."""

    tools: dict[LearnedTool, Savings]
    batch: Savings = field(default_factory=Savings)

    def value(self, turns: int, prices: Prices) -> float:
        """What they are worth together."""
        own = sum(worth(savings, tool, turns, prices).value for tool, savings in self.tools.items())
        return own + prices.adoption * self.batch.turns_saved * prices.turn


async def measure(
    tools: Sequence[LearnedTool], sessions: Sequence[SessionTrace], rehearsal: Rehearsal, *, with_batch: bool = False
) -> Measured:
    """Count what tools would have saved in these sessions."""
    measured = Measured({tool: Savings() for tool in tools})
    for session in sessions:
        for use in await uses_in(session, tools, rehearsal, with_batch=with_batch):
            (measured.batch if use.tool is None else measured.tools[use.tool]).add(use)
    return measured


@dataclass(slots=True)
class Chosen:
    """A tool worth having, with its worth alone and what it added when it was chosen."""

    tool: LearnedTool
    alone: Worth
    added: float


async def select(
    drafts: Sequence[LearnedTool],
    sessions: Sequence[SessionTrace],
    rehearsal: Rehearsal,
    prices: Prices,
    *,
    most: int,
) -> list[Chosen]:
    """Greedily, the tool that adds most to the others and to the built-in batch, until none adds anything."""
    turns = sum(session.turns for session in sessions)
    alone = {
        draft: worth((await measure([draft], sessions, rehearsal)).tools[draft], draft, turns, prices)
        for draft in drafts
    }
    waiting = sorted((draft for draft in drafts if alone[draft].value > 0), key=lambda d: (-alone[d].value, d.tool_id))
    chosen: list[Chosen] = []
    total = (await measure([], sessions, rehearsal, with_batch=True)).value(turns, prices)
    bound = {draft: alone[draft].value for draft in waiting}
    while waiting and len(chosen) < most:
        best, gain = None, 0.0
        for draft in waiting:
            if bound[draft] <= gain:
                break
            offered = ranked([*(item.tool for item in chosen), draft], alone)
            combined = await measure(offered, sessions, rehearsal, with_batch=True)
            bound[draft] = combined.value(turns, prices) - total
            if bound[draft] > gain:
                best, gain = draft, bound[draft]
        if best is None:
            break
        chosen.append(Chosen(best, alone[best], gain))
        total += gain
        waiting.remove(best)
        waiting.sort(key=lambda draft: (-bound[draft], draft.tool_id))
    order = ranked([item.tool for item in chosen], alone)
    return sorted(chosen, key=lambda item: order.index(item.tool))


def ranked(tools: Sequence[LearnedTool], alone: dict[LearnedTool, Worth]) -> list[LearnedTool]:
    """Tools as an agent should prefer them at one place: by what a use is worth."""
    return sorted(tools, key=lambda tool: (-alone[tool].value / max(1, alone[tool].uses), tool.tool_id))
