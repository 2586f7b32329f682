"""The hands of the scripted agent: turns, calls, retries, what it remembers of a ticket, and learned tools.

One decision is one model turn, and a turn takes time; calls that are decided together share one. Before the agent reads
something it looks at what it has already read. That is all a learned tool needs to be of use: called where its first
step would have been, it fills that memory with everything its steps answered, and the decisions after it find their
needs met.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from examples.support_desk.chance import chance
from examples.support_desk.facts import topic_of
from examples.support_desk.tickets import Conversation, Question
from examples.support_desk.tools import EFFECTS
from twinraven.catalog import Effect
from twinraven.foundation.canonical import JsonObject, canonical_json
from twinraven.foundation.errors import TwinRavenError

ATTEMPTS = 3


class ToolDoor(Protocol):
    """Where the agent's calls go."""

    async def call(self, tool_id: str, params: JsonObject, *, turn: int, outside_input: str | None) -> Any:
        """The tool's output as a JSON value. A failure is raised as a `TwinRavenError`, whose `retryable` is heeded.

        `turn` counts the agent's model turns from 1; `outside_input` is what the customer said since the previous call.
        """
        ...


@dataclass(frozen=True, slots=True)
class InnerCall:
    """One call that a learned tool made, with its answer."""

    tool_id: str
    params: JsonObject
    output: Any


class LearnedTool(Protocol):
    """A composite the agent may use in place of its first step."""

    @property
    def tool_id(self) -> str: ...

    @property
    def steps(self) -> Sequence[str]:
        """The tools it calls, in order; one that is called for each element of a list stands once."""
        ...

    @property
    def parameters(self) -> Sequence[str]:
        """What it must be given, named as the tools name it; a list of `order_id`s is called `order_ids`."""
        ...

    def inner_calls(self, params: JsonObject, result: Any) -> Iterable[InnerCall]:
        """The calls behind one result, so that their answers count as read."""
        ...


@dataclass(frozen=True, slots=True)
class Habits:
    """How the agent differs from a tidy one, each as the share of occasions on which it does."""

    brisk: float = 0.25
    """Skips the customer's record when the order number is known."""
    parallel: float = 0.3
    """Reads the elements of a list in one turn instead of one by one."""
    hasty: float = 0.12
    """Stops reading a list at the first element that fits."""
    forgetful: float = 0.12
    """Reads again what it has read."""
    curious: float = 0.15
    """Looks something up that nobody asked for."""
    hopeful: float = 0.4
    """Tries a change although the order's status speaks against it."""
    careful: float = 0.3
    """Leaves a note after a change."""


@dataclass(slots=True)
class Tally:
    """What a ticket took."""

    turns: int = 0
    calls: int = 0
    failures: int = 0
    learned_calls: int = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """What stays the same from ticket to ticket."""

    door: ToolDoor
    learned: tuple[LearnedTool, ...] = ()
    habits: Habits = Habits()
    seed: int = 0
    turn_s: float = 0.0


@dataclass(slots=True)
class Worker:
    """One agent at one ticket."""

    setting: Setting
    ticket_id: str
    conversation: Conversation
    tally: Tally = field(default_factory=Tally)
    foreseen: frozenset[str] = frozenset()
    known: dict[str, Any] = field(default_factory=dict[str, Any])
    _memory: dict[tuple[str, bytes], Any] = field(default_factory=dict[tuple[str, bytes], Any])
    _spent: set[tuple[str, bytes]] = field(default_factory=set[tuple[str, bytes]])

    def inclined(self, habit: str, occasion: str) -> bool:
        """Whether a habit shows on this occasion; the same with and without learned tools."""
        rate: float = getattr(self.setting.habits, habit)
        return chance("habit", self.setting.seed, self.ticket_id, habit, occasion).random() < rate

    async def read(self, tool_id: str, params: JsonObject, *, anew: bool = False) -> Any:
        """One answer, from memory, from a learned tool or from the tool itself."""
        key = _key(tool_id, params)
        if anew:
            self._memory.pop(key, None)
        elif key not in self._memory:
            await self._use_learned(tool_id, params, {})
        if key not in self._memory:
            await self._insist(tool_id, params)
        return self._memory[key]

    async def read_each(
        self, tool_id: str, name: str, values: Sequence[str], *, enough: Callable[[Any], bool] | None = None
    ) -> list[Any]:
        """The answers for all values that could be had, in order; `enough` ends the reading early."""
        missing = [value for value in values if _key(tool_id, {name: value}) not in self._memory]
        if len(missing) > 1:
            await self._use_learned(tool_id, {}, {f"{name}s": missing})
            missing = [value for value in missing if _key(tool_id, {name: value}) not in self._memory]
        if enough is None and len(missing) > 1 and self.inclined("parallel", tool_id):
            await self._read_together(tool_id, [{name: value} for value in missing])
        else:
            await self._read_in_turn(tool_id, name, missing, enough)
        keys = (_key(tool_id, {name: value}) for value in values)
        return [self._memory[key] for key in keys if key in self._memory]

    async def write(self, tool_id: str, params: JsonObject) -> Any:
        """One change; what was read before may no longer hold."""
        await self._insist(tool_id, params)
        output = self._memory[_key(tool_id, params)]
        self._memory.clear()
        return output

    async def ask(self, question: Question) -> str | None:
        """A turn spent on a question to the customer."""
        await self._begin_turn()
        return self.conversation.answer(question)

    async def say(self) -> None:
        """A turn spent on telling the customer something."""
        await self._begin_turn()

    async def _read_in_turn(
        self, tool_id: str, name: str, values: Sequence[str], enough: Callable[[Any], bool] | None
    ) -> None:
        for value in values:
            try:
                output = await self.read(tool_id, {name: value})
            except TwinRavenError:
                continue
            if enough is not None and enough(output):
                return

    async def _read_together(self, tool_id: str, calls: Sequence[JsonObject]) -> None:
        waiting = list(calls)
        for _ in range(ATTEMPTS):
            await self._heed()
            turn = await self._begin_turn()
            errors = await asyncio.gather(*(self._try(tool_id, params, turn) for params in waiting))
            pairs = zip(waiting, errors, strict=True)
            waiting = [params for params, error in pairs if error is not None and error.retryable]
            if not waiting:
                return

    async def _insist(self, tool_id: str, params: JsonObject) -> None:
        """Call until it works, as long as trying again makes sense; a model sees each error and decides anew."""
        for attempt in range(1, ATTEMPTS + 1):
            await self._heed()
            error = await self._try(tool_id, params, await self._begin_turn())
            if error is None:
                return
            if attempt == ATTEMPTS or not error.retryable:
                raise error

    async def _heed(self) -> None:
        """Listen to what the customer throws in, and look it up if it is a question the shop can answer."""
        remark = self.conversation.remark(self.tally.turns + 1)
        topic = topic_of(remark) if remark else None
        if topic:
            await self._try("search_kb", {"query": topic}, await self._begin_turn())

    async def _begin_turn(self) -> int:
        self.tally.turns += 1
        await asyncio.sleep(self.setting.turn_s)
        return self.tally.turns

    async def _try(self, tool_id: str, params: JsonObject, turn: int) -> TwinRavenError | None:
        """One call; its answer goes to memory, its error to the caller."""
        self.tally.calls += 1
        outside_input = self.conversation.take()
        try:
            output = await self.setting.door.call(tool_id, params, turn=turn, outside_input=outside_input)
        except TwinRavenError as error:
            self.tally.failures += 1
            return error
        self._memory[_key(tool_id, params)] = output
        return None

    async def _use_learned(self, tool_id: str, params: JsonObject, lists: Mapping[str, Sequence[str]]) -> None:
        """Let the best fitting learned tool do this step and those after it; a failed one is not tried again."""
        given = {**self.known, **params, **lists}
        fitting = [tool for tool in self.setting.learned if self._fits(tool, tool_id, given, lists)]
        if not fitting:
            return
        tool = min(fitting, key=lambda each: (-len(self.foreseen.intersection(each.steps)), each.tool_id))
        arguments = {name: given[name] for name in tool.parameters}
        self._spent.add(_key(tool.tool_id, arguments))
        await self._heed()
        self.tally.learned_calls += 1
        if await self._try(tool.tool_id, arguments, await self._begin_turn()) is None:
            result = self._memory[_key(tool.tool_id, arguments)]
            for inner in tool.inner_calls(arguments, result):
                self._memory[_key(inner.tool_id, inner.params)] = inner.output

    def _fits(
        self, tool: LearnedTool, first: str, given: Mapping[str, Any], lists: Mapping[str, Sequence[str]]
    ) -> bool:
        """Whether it begins here, can be given what it asks for, and does more of what lies ahead than of the rest."""
        if tool.steps[0] != first or any(EFFECTS.get(step) is not Effect.READ for step in tool.steps):
            return False
        if any(name not in given for name in tool.parameters):
            return False
        arguments = {name: given[name] for name in tool.parameters}
        if _key(tool.tool_id, arguments) in self._spent:
            return False
        if lists:
            return any(name in lists for name in tool.parameters)
        ahead = self.foreseen.intersection(tool.steps)
        return len(ahead) > 1 and 2 * len(ahead) > len(set(tool.steps))


def _key(tool_id: str, params: Mapping[str, Any]) -> tuple[str, bytes]:
    return tool_id, canonical_json(dict(params))
