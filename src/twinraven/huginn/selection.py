"""Selects drafts by the value that they would have earned.

Frequency picks nonsense. A tool is worth the turns it saves, less the calls nobody needed, less the tokens its schema
adds to every later model call. Tools compete: two that begin with the same call cannot both be used there, and the
built-in batch of reads is offered anyway, so they are chosen one after another by what each still adds.

A price on extra calls bounds no sum: where turns are dear, many calls nobody needs pay for one turn, and whoever runs
the servers behind the tools pays for them. So all tools chosen together must also stay within a budget of extra calls.
It is a knapsack with interactions; it is packed greedily under several prices of an extra call, each dearer than the
last, and the pack that is worth most at the stated prices is taken. Maps that the budget keeps out are tried again with
a cap, so that they read only the first elements unless the caller asks for others: a bit less is saved, not nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from twinraven.huginn.rehearsal import Rehearsal, ToolCandidate
from twinraven.huginn.savings import Savings, uses_in
from twinraven.huginn.synthesis.capping import capped
from twinraven.huginn.traces import SessionTrace


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in dollars; the ratios matter more than the amounts."""

    turn: float = 0.01
    """One model turn: the context it reads again, and the answer it writes."""
    extra_call: float = 0.0025
    """One unneeded tool call."""
    schema_token: float = 0.0000003
    """One token of a tool's schema in one model call, at a cached-input price."""
    adoption: float = 1.0
    """How often an agent takes a tool where it fits."""


@dataclass(frozen=True, slots=True)
class ToolWorth:
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


def schema_tokens(tool: ToolCandidate) -> int:
    """About how many tokens a tool adds to a model call: four characters each."""
    definition = tool.definition
    shown = {"name": definition.tool_id, "description": definition.description, "parameters": definition.parameters}
    return len(orjson.dumps(shown)) // 4


def worth(savings: Savings, tool: ToolCandidate, turns: int, prices: Prices) -> ToolWorth:
    """Return the arithmetic of one tool's savings."""
    tokens = schema_tokens(tool)
    value = (
        prices.adoption * (savings.turns_saved * prices.turn - savings.extra_calls * prices.extra_call)
        - tokens * turns * prices.schema_token
    )
    return ToolWorth(savings.uses, savings.misses, savings.turns_saved, savings.extra_calls, tokens, turns, value)


@dataclass(slots=True)
class MeasuredSavings:
    """The savings of each tool when all are offered together, best first, and of the built-in batch."""

    tools: dict[ToolCandidate, Savings]
    batch: Savings = field(default_factory=Savings)
    calls: int = 0
    """Recorded calls of the sessions they were offered in."""

    @property
    def extra_share(self) -> float:
        """Extra calls of the tools, as a share of the recorded calls."""
        return sum(savings.extra_calls for savings in self.tools.values()) / max(1, self.calls)

    def value(self, turns: int, prices: Prices) -> float:
        """Return the value of all tools together."""
        own = sum(worth(savings, tool, turns, prices).value for tool, savings in self.tools.items())
        return own + prices.adoption * self.batch.turns_saved * prices.turn


async def measure(
    tools: Sequence[ToolCandidate], sessions: Sequence[SessionTrace], rehearsal: Rehearsal, *, with_batch: bool = False
) -> MeasuredSavings:
    """Count what tools would have saved in these sessions."""
    measured = MeasuredSavings({tool: Savings() for tool in tools})
    for session in sessions:
        for use in await uses_in(session, tools, rehearsal, with_batch=with_batch):
            (measured.batch if use.tool is None else measured.tools[use.tool]).add(use)
    return measured


@dataclass(frozen=True, slots=True)
class SelectionLimits:
    """Limits on all selected tools together."""

    tools: int
    extra_share: float
    """Extra calls they may make, as a share of the calls in the sessions they are weighed on."""


@dataclass(slots=True)
class ChosenTool:
    """A tool worth having, with its worth alone and what it added when it was chosen."""

    tool: ToolCandidate
    alone: ToolWorth
    added: float


@dataclass(slots=True)
class Selection:
    """The tools chosen, as an agent should prefer them, and those that the budget of extra calls kept out."""

    chosen: list[ChosenTool] = field(default_factory=list[ChosenTool])
    beyond_budget: list[ToolCandidate] = field(default_factory=list[ToolCandidate])
    capped_from: dict[ToolCandidate, ToolCandidate] = field(default_factory=dict[ToolCandidate, ToolCandidate])
    """For each chosen map with a cap, the draft without it."""


CAPS = (6, 5, 4, 3, 2)
"""How many elements a map may read by default that reads too many."""
DEARER = (1.0, 2.0, 4.0, 8.0)
"""By how much an extra call is made dearer, one time after another, where the budget binds."""


async def select(
    drafts: Sequence[ToolCandidate],
    sessions: Sequence[SessionTrace],
    rehearsal: Rehearsal,
    prices: Prices,
    *,
    limits: SelectionLimits,
    turns: int,
) -> Selection:
    """Return the tools that are worth most together with the built-in batch, within the limits."""
    scale = _Scale(sessions, rehearsal, prices, turns)
    for draft in drafts:
        await scale.weigh_alone(draft)
    packs: list[_Pack] = []
    for factor in DEARER:
        dearer = replace(prices, extra_call=prices.extra_call * factor)
        packs.append(await _packed(scale, drafts, dearer, limits))
        if not packs[-1].beyond_budget:
            break
    capped_from: dict[ToolCandidate, ToolCandidate] = {}
    for most in CAPS if packs[0].beyond_budget else ():
        caps = {tool: cap for tool in packs[0].beyond_budget if (cap := _with_cap(tool, most)) is not None}
        capped_from |= {cap: tool for tool, cap in caps.items()}
        for cap in caps.values():
            await scale.weigh_alone(cap)
        packs.append(await _packed(scale, [caps.get(draft, draft) for draft in drafts], prices, limits))
    best = max(packs, key=lambda pack: pack.value)
    order = scale.ranked(best.tools)
    chosen = sorted(best.chosen, key=lambda item: order.index(item.tool))
    kept_out = [capped_from.get(tool, tool) for tool in best.beyond_budget if tool not in order]
    return Selection(chosen, kept_out, {tool: capped_from[tool] for tool in order if tool in capped_from})


def _with_cap(tool: ToolCandidate, most: int) -> ToolCandidate | None:
    definition = capped(tool.definition, most) if tool.shape == "map" else None
    return None if definition is None else ToolCandidate(definition, tool.chain)


@dataclass(slots=True)
class _Pack:
    """Tools chosen one after another under one price of extra calls; `value` is at the stated prices."""

    value: float
    chosen: list[ChosenTool] = field(default_factory=list[ChosenTool])
    beyond_budget: list[ToolCandidate] = field(default_factory=list[ToolCandidate])

    @property
    def tools(self) -> list[ToolCandidate]:
        return [item.tool for item in self.chosen]


async def _packed(scale: _Scale, tools: Sequence[ToolCandidate], prices: Prices, limits: SelectionLimits) -> _Pack:
    """Greedily, the tool that adds most at these prices, until none adds anything or fits into the budget."""
    nothing = await scale.together([])
    pack = _Pack(nothing.value(scale.turns, scale.prices))
    total = nothing.value(scale.turns, prices)
    bound = {tool: worth(scale.savings[tool], tool, scale.turns, prices).value for tool in tools}
    waiting = [tool for tool in bound if bound[tool] > 0]
    while waiting and len(pack.chosen) < limits.tools:
        waiting.sort(key=lambda tool: (-bound[tool], tool.tool_id))
        best, gain, reached = None, 0.0, nothing
        for tool in tuple(waiting):
            if bound[tool] <= gain:
                break
            combined = await scale.together([*pack.tools, tool])
            bound[tool] = combined.value(scale.turns, prices) - total
            if bound[tool] > 0 and combined.extra_share > limits.extra_share:
                waiting.remove(tool)
                pack.beyond_budget.append(tool)
            elif bound[tool] > gain:
                best, gain, reached = tool, bound[tool], combined
        if best is None:
            break
        before, pack.value = pack.value, reached.value(scale.turns, scale.prices)
        pack.chosen.append(ChosenTool(best, scale.alone[best], pack.value - before))
        total += gain
        waiting.remove(best)
    return pack


class _Scale:
    """Weighs tools, alone and together; what a session comes to with some tools is counted once."""

    def __init__(self, sessions: Sequence[SessionTrace], rehearsal: Rehearsal, prices: Prices, turns: int) -> None:
        self.prices = prices
        self.turns = turns
        self.savings: dict[ToolCandidate, Savings] = {}
        self.alone: dict[ToolCandidate, ToolWorth] = {}
        self._rehearsal = rehearsal
        self._sessions = [(session, frozenset(call.tool_id for call in session.calls)) for session in sessions]
        self._counted: dict[tuple[SessionTrace, tuple[ToolCandidate, ...]], MeasuredSavings] = {}

    async def weigh_alone(self, tool: ToolCandidate) -> None:
        """Count what a tool saves without any other, and without the built-in batch."""
        sessions = [session for session, called in self._sessions if tool.first.tool_id in called]
        self.savings[tool] = (await measure([tool], sessions, self._rehearsal)).tools[tool]
        self.alone[tool] = worth(self.savings[tool], tool, self.turns, self.prices)

    async def together(self, tools: Sequence[ToolCandidate]) -> MeasuredSavings:
        """Count what tools save together, beside the built-in batch."""
        offered = self.ranked(tools)
        whole = MeasuredSavings({tool: Savings() for tool in offered})
        for session, called in self._sessions:
            # A tool whose first call a session does not make changes nothing there.
            fitting = tuple(tool for tool in offered if tool.first.tool_id in called)
            counted = self._counted.get((session, fitting))
            if counted is None:
                counted = await measure(fitting, [session], self._rehearsal, with_batch=True)
                self._counted[session, fitting] = counted
            whole.batch.join(counted.batch)
            whole.calls += len(session.calls)
            for tool in fitting:
                whole.tools[tool].join(counted.tools[tool])
        return whole

    def ranked(self, tools: Sequence[ToolCandidate]) -> list[ToolCandidate]:
        """Tools as an agent should prefer them at one place: by what a use is worth."""
        alone = self.alone
        return sorted(tools, key=lambda tool: (-alone[tool].value / max(1, alone[tool].uses), tool.tool_id))
