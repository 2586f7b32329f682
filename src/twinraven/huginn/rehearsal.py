"""Replays a learned tool on recorded history, through the scheduler that serves production.

At a recorded call that equals the tool's first step, the tool is run as if the agent had called it there. Each inner
call is answered from the record: from this session where it was made there, else from another session that made exactly
the same call, else not at all. A wiring error cannot hide, because wrong arguments find no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from twinraven.flow import FlowExecutor, FlowResult, StepDefinition
from twinraven.foundation.errors import InvalidInput, ToolError
from twinraven.foundation.references import is_reference, parse_reference
from twinraven.huginn.knowledge import SessionKnowledge
from twinraven.huginn.synthesis.capping import CAP
from twinraven.huginn.synthesis.look_ups import looked_up_name
from twinraven.huginn.synthesis.mapping_text import read_look_up
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.traces import RecordedCall, SessionTrace, call_key
from twinraven.registry import SynthesizedTool

Shape = Literal["chain", "map", "batch"]


class NotRecorded(ToolError):
    """History has no answer to this call."""

    code = "NOT_RECORDED"


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call a composite made."""

    tool_id: str
    params: dict[str, Any]
    key: str
    answered: bool
    output: Any = None


@dataclass(frozen=True, slots=True)
class RehearsedRun:
    """One run of a tool at one place of a session."""

    parameters: dict[str, Any]
    calls: tuple[MadeCall, ...]
    result: FlowResult


@dataclass(frozen=True, slots=True, eq=False)
class ToolCandidate:
    """A definition and what it was learned from."""

    definition: SynthesizedTool
    chain: tuple[str, ...]

    @property
    def tool_id(self) -> str:
        return self.definition.tool_id

    @property
    def first(self) -> StepDefinition:
        return self.definition.steps[0]

    @property
    def shape(self) -> Shape:
        if self.first.for_each is not None:
            return "batch"
        return "map" if self.definition.steps[-1].for_each is not None else "chain"

    @property
    def narrowing(self) -> tuple[str, str] | None:
        """The parameter that narrows a map, and the argument of its last step that it names values of."""
        only = self._of_last_step("only")
        return None if only is None else (only["parameter"], only["argument"])

    @property
    def cap(self) -> str | None:
        """The parameter by whose default a map reads only the first elements."""
        cap = self._of_last_step(CAP)
        return None if cap is None else cap["parameter"]

    def _of_last_step(self, name: str) -> dict[str, Any] | None:
        steps: list[dict[str, Any]] = self.definition.evidence.get("steps", [])
        return steps[-1].get(name) if steps else None


class RecordedAnswers:
    """Looks up the recorded answer of a call, anywhere in the record."""

    def __init__(self, sessions: Iterable[SessionTrace]) -> None:
        self._outputs: dict[str, Any] = {}
        for session in sessions:
            for call in session.calls:
                if not call.raised:
                    self._outputs.setdefault(call.key, call.output)

    def output(self, key: str) -> tuple[bool, Any]:
        """Return whether the call was ever answered, and what."""
        return (True, self._outputs[key]) if key in self._outputs else (False, None)


class Rehearsal:
    """Runs tools at recorded places; each (tool, place) once."""

    def __init__(self, answers: RecordedAnswers, index: TraceIndex, writes: Callable[[str], bool]) -> None:
        self._answers = answers
        self._index = index
        self.writes = writes
        self._executor = FlowExecutor()
        self._attempts: dict[tuple[ToolCandidate, SessionTrace, int], RehearsedRun | None] = {}
        self._whole: dict[tuple[ToolCandidate, SessionTrace, int], RehearsedRun | None] = {}
        self._narrowed: dict[tuple[ToolCandidate, SessionTrace, int, tuple[str, ...]], RehearsedRun | None] = {}

    def knowledge(self, session: SessionTrace) -> SessionKnowledge:
        """Return the knowledge of a session, by position."""
        return self._index.knowledge(session)

    async def attempt(self, tool: ToolCandidate, session: SessionTrace, position: int) -> RehearsedRun | None:
        """Return the run a caller could have made here, or None where the tool does not fit."""
        place = (tool, session, position)
        if place not in self._attempts:
            self._attempts[place] = await self._run(tool, session, position)
        return self._attempts[place]

    async def whole(self, tool: ToolCandidate, session: SessionTrace, position: int) -> RehearsedRun | None:
        """Return the run that a caller could have made here with every element of a map's list, whatever its cap."""
        attempt = await self.attempt(tool, session, position)
        if attempt is None or tool.cap is None:
            return attempt
        place = (tool, session, position)
        if place not in self._whole:
            every = {**attempt.parameters, tool.cap: tool.definition.steps[-1].max_items}
            self._whole[place] = self._replay(tool, session, position, every)
        return self._whole[place]

    async def narrowed(
        self, tool: ToolCandidate, session: SessionTrace, position: int, wanted: Callable[[MadeCall], bool]
    ) -> RehearsedRun | None:
        """Return the run of a map that a caller narrows to the elements it knew here and goes on to want.

        Of what it knew and wants nothing of, it asks for all. None where it knew none of them, or wants all there are
        and gets them anyway.
        """
        whole = await self.whole(tool, session, position)
        only = tool.narrowing
        if whole is None or only is None:
            return None
        parameter, argument = only
        first = session.calls[position].key
        made = [call for call in whole.calls if call.tool_id == tool.definition.steps[-1].tool_id and call.key != first]
        knowledge = self._index.knowledge(session)
        known = [call for call in made if knowledge.knows(call.params.get(argument), position)]
        chosen = [call for call in known if wanted(call)] or known
        if not chosen or (len(chosen) == len(made) and tool.cap is None):
            return None
        bound = {**whole.parameters, parameter: [call.params[argument] for call in chosen]}
        place = (tool, session, position, tuple(call.key for call in chosen))
        if place not in self._narrowed:
            self._narrowed[place] = self._replay(tool, session, position, bound)
        return self._narrowed[place]

    async def _run(self, tool: ToolCandidate, session: SessionTrace, position: int) -> RehearsedRun | None:
        if tool.shape == "batch":
            bound = bind_batch(tool, session, position, self._index)
        else:
            bound = bind_parameters(tool, session, position, self._index)
        if bound is None:
            return None
        if tool.shape != "batch" and not self._begins_with(tool, bound, session.calls[position]):
            return None
        return self._replay(tool, session, position, bound)

    def _replay(
        self, tool: ToolCandidate, session: SessionTrace, position: int, bound: dict[str, Any]
    ) -> RehearsedRun | None:
        invoker = _Replay(session, position, self._answers)
        try:
            result = self._executor.replay(tool.definition, bound, invoker, writes=self.writes)
        except InvalidInput:
            # The recorded arguments are not what the parameters' schema takes: here an agent could not call the tool.
            return None
        return RehearsedRun(bound, tuple(invoker.made.values()), result)

    def _begins_with(self, tool: ToolCandidate, bound: dict[str, Any], call: RecordedCall) -> bool:
        """Return whether the first step, so bound, makes exactly the recorded call.

        Literals in it may say otherwise.
        """
        first = self._executor.plan(tool.definition).steps[0]
        return call_key(first.tool_id, first.inputs.resolve({"parameters": bound})) == call.key


class _Replay:
    """Answers a composite's inner calls from history, and notes them."""

    def __init__(self, session: SessionTrace, position: int, answers: RecordedAnswers) -> None:
        self._session = session
        self._position = position
        self._answers = answers
        self.made: dict[str, MadeCall] = {}

    def __call__(self, tool_id: str, params: dict[str, Any]) -> Any:
        key = call_key(tool_id, params)
        call = nearest_equal(self._session, key, self._position)
        known, output = (True, call.output) if call is not None else self._answers.output(key)
        raised = call is not None and call.raised
        self.made.setdefault(key, MadeCall(tool_id, params, key, known and not raised, output))
        if raised:
            raise ToolError(f"{tool_id} failed in the record", tool_id=tool_id)
        if not known:
            raise NotRecorded(f"{tool_id} was never called like this", tool_id=tool_id)
        return output


def nearest_equal(session: SessionTrace, key: str, position: int) -> RecordedCall | None:
    """Return the recorded call equal to this one: the next from here on, else the last before."""
    calls = session.calls
    for call in calls[position:]:
        if call.key == key:
            return call
    for call in reversed(calls[:position]):
        if call.key == key:
            return call
    return None


def bind_parameters(
    tool: ToolCandidate, session: SessionTrace, position: int, index: TraceIndex
) -> dict[str, Any] | None:
    """Return the parameters a caller would have given: those of the first call, and what later steps ask for.

    The first call is the caller's own, so its arguments need no explanation. What a later step asks for counts only as
    far as the caller knew it when the chain began; a parameter with a default may be left to it.
    """
    call = session.calls[position]
    bound = _bind_step(tool.first, call)
    if bound is None:
        return None
    knowledge = index.knowledge(session)
    required = tool.definition.parameters.get("required", [])
    for step in tool.definition.steps[1:]:
        asked = {name: argument for argument, name in _asked(step) if name not in bound}
        if not asked:
            continue
        later = _next_straight(session, position, step.tool_id)
        for name, argument in asked.items():
            given = {} if later is None else later.params
            if argument in given and knowledge.knows(given[argument], position, brought=True):
                bound[name] = given[argument]
            elif name in required:
                return None
    return _bind_names(tool, session, position, knowledge, bound)


def _bind_names(
    tool: ToolCandidate, session: SessionTrace, position: int, knowledge: SessionKnowledge, bound: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the parameters and the names of look-ups that a caller would have given, as far as known."""
    for number, told in enumerate(tool.definition.evidence.get("steps", [])):
        for argument, body in told.get("look_ups", {}).items():
            source, parameter = read_look_up(body)
            later = _next_straight(session, position, tool.definition.steps[number].tool_id)
            asked = session.calls[position]
            if source.step:
                asked = _next_straight(session, position, tool.definition.steps[source.step].tool_id)
            if later is None or asked is None or argument not in later.params:
                return None
            name = looked_up_name(source, asked.output, later.params[argument])
            if name is None or not knowledge.mentions(name, position):
                return None
            bound[parameter] = name
    return bound


def bind_batch(tool: ToolCandidate, session: SessionTrace, position: int, index: TraceIndex) -> dict[str, Any] | None:
    """Return the list a caller would have given: this call and those it made straight after, as far as it knew them
    here.
    """
    step = tool.first
    listed = parse_reference(step.for_each or "").segments[-1]
    shared: dict[str, Any] | None = None
    items: list[Any] = []
    knowledge = index.knowledge(session)
    for call in _straight_run(session, position):
        bound = _bind_step(step, call)
        together = call.turn == session.calls[position].turn
        if bound is None or (shared is not None and bound != shared):
            break
        if not together and not knowledge.knows_with(call.params, position):
            break
        shared = bound
        item = _item(step, call)
        if item not in items:
            items.append(item)
    if shared is None or not 1 < len(items) <= step.max_items:
        return None
    return {**shared, str(listed): items}


def _bind_step(step: StepDefinition, call: RecordedCall) -> dict[str, Any] | None:
    """Parameters that make this step equal the call, or None if it cannot be made to."""
    bound: dict[str, Any] = {}
    mapping = step.input_mapping
    if any(name not in mapping for name in call.params):
        return None
    for argument, source in mapping.items():
        segments = _segments(source)
        if segments[:1] == ("item",):
            if argument not in call.params:
                return None
        elif len(segments) == 2 and segments[0] == "parameters" and argument in call.params:
            bound[str(segments[1])] = call.params[argument]
    return bound


def _item(step: StepDefinition, call: RecordedCall) -> Any:
    item: dict[str, Any] = {}
    for argument, source in step.input_mapping.items():
        segments = _segments(source)
        if segments[:1] == ("item",):
            if len(segments) == 1:
                return call.params[argument]
            item[str(segments[-1])] = call.params[argument]
    return item


def _segments(source: Any) -> tuple[str | int, ...]:
    """Return the path of a reference; empty for a literal."""
    return parse_reference(source).segments if isinstance(source, str) and is_reference(source) else ()


def _asked(step: StepDefinition) -> Iterator[tuple[str, str]]:
    """Arguments of a step that come straight from a parameter."""
    for argument, source in step.input_mapping.items():
        segments = _segments(source)
        if len(segments) == 2 and segments[0] == "parameters":
            yield argument, str(segments[1])


def _next_straight(session: SessionTrace, position: int, tool_id: str) -> RecordedCall | None:
    for call in session.calls[position + 1 :]:
        if call.outside_input is not None:
            return None
        if call.tool_id == tool_id:
            return call
    return None


def _straight_run(session: SessionTrace, position: int) -> Iterator[RecordedCall]:
    """This call and the same tool's calls straight after it."""
    first = session.calls[position]
    yield first
    for call in session.calls[position + 1 :]:
        if call.outside_input is not None or call.tool_id != first.tool_id:
            return
        yield call
