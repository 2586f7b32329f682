"""Infers a chain's wiring from its recorded instances.

Each step after the first must take something from an earlier step, or a later step must need it, or the steps have no
business being one tool. The last step may run once for each element of a list that an earlier step gave (a map). An
argument that nothing earlier explains becomes a parameter of the tool, if the caller knew it when the chain began;
otherwise the chain ends before that step. The arguments of the first call are always the caller's own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from twinraven.foundation.canonical import canonical_json
from twinraven.huginn.instances import Instance
from twinraven.huginn.synthesis.composites import assembled, first_where, listed
from twinraven.huginn.synthesis.filters import filtered
from twinraven.huginn.synthesis.look_ups import look_ups
from twinraven.huginn.synthesis.sources import (
    MISSING,
    EachOf,
    Joined,
    Samples,
    Source,
    SourceEvidence,
    explanations,
)
from twinraven.huginn.synthesis.step_wiring import ChainWiring, StepWiring, list_of, needed_steps, takes_something
from twinraven.huginn.synthesis.text_sources import read_explanations, same_origin
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.synthesis.transforms import changed
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import RecordedCall, SessionTrace
from twinraven.huginn.voting import Votes

LEAST_SHARE = 0.88
"""Share of the votes that a source must explain: a record has mistakes, and replay judges what it came to."""
LEAST_SESSIONS = 8


@dataclass(frozen=True, slots=True)
class MinimumEvidence:
    """The minimum evidence that a chain needs before it is wired."""

    sessions: int = LEAST_SESSIONS
    contexts: int = 4
    """Different tasks (where tasks are unknown: different inputs). One task tried often proves nothing general."""
    spared: int = 0
    """Votes that may be missing from the least share of a source."""


IN_ALL = MinimumEvidence()
WITHOUT_A_FOLD = MinimumEvidence(sessions=6, contexts=3, spared=1)
"""What a fold's absence may leave of it: fewer say nothing against a wiring, and other sessions judge it.

Nor does the mistake that weighs more for it."""
RARE_SHARE = 0.05
"""An argument that fewer sessions give is taken for a mistake, and is no parameter of the tool."""
OFTEN_SHARE = 0.25
"""An argument that fewer sessions give is unusual: whose sessions these are must be known, or they must be many."""
LEAST_NAMED = 0.6
"""Share of the votes in which the caller could have said the name of what is looked up."""
LEAST_REUSE = 0.6
"""Share of the values seen in two sessions from which an argument is a choice, which a caller can make at the start."""
MAP_RUN = 1.25
"""Calls per run from which a last step is a map, even if a fixed place in the list explains each run's first call."""


def infer_wiring(
    tools: Sequence[str],
    instances: Sequence[Instance],
    index: TraceIndex,
    votes: Votes,
    facts: ToolFacts,
    *,
    least: MinimumEvidence = IN_ALL,
    narrow: bool = True,
) -> ChainWiring:
    """Wire as many steps as the record explains, from the first on; with `narrow`, a map may have a condition."""
    usable = [instance for instance in instances if not any(instance.last(k).raised for k in range(len(tools) - 1))]
    firsts = [(instance, instance.last(0)) for instance in usable]
    inference = _Inference(usable, index, votes, facts, least, narrow)
    steps = [StepWiring(tools[0], {}, tuple(given_arguments(firsts, votes)))]
    ended = None
    for number in range(1, len(tools)):
        wired, reason = inference.wire(tools[number], number, last=number == len(tools) - 1)
        if wired is None:
            ended = f"step {number} ({tools[number]}): {reason}"
            break
        steps.append(wired)
        if wired.each is not None:
            break
    while len(steps) > 1 and not takes_something(steps[-1]):
        ended = ended or f"step {len(steps) - 1} ({steps[-1].tool_id}): takes nothing from an earlier step"
        steps.pop()
    loose = _loose_step(steps)
    if loose is not None:
        ended = f"step {loose} ({steps[loose].tool_id}): takes nothing from an earlier step, and no later step needs it"
        steps = steps[:loose]
    return ChainWiring(tuple(steps), tuple(usable), ended)


def given_arguments(samples: Sequence[tuple[Instance, RecordedCall]], votes: Votes) -> list[str]:
    """Return the arguments that a good part of the sessions give.

    What one session, or one principal, adds is none of them.
    """
    given: dict[str, set[SessionTrace]] = {}
    sessions = {instance.session for instance, _ in samples}
    for instance, call in samples:
        for name in call.params:
            given.setdefault(name, set()).add(instance.session)
    enough = max(2, RARE_SHARE * len(sessions)) if len(sessions) >= LEAST_SESSIONS else 1
    often = OFTEN_SHARE * len(sessions)
    return sorted(
        name
        for name, owners in given.items()
        if len(owners) >= enough and (votes.carries(owners) if len(owners) >= often else votes.carries_unusual(owners))
    )


def _loose_step(steps: Sequence[StepWiring]) -> int | None:
    """Return the first step that takes nothing and that no later step takes from."""
    needed = set[int]().union(*(needed_steps(step) for step in steps)) if steps else set[int]()
    return next(
        (number for number in range(1, len(steps)) if not takes_something(steps[number]) and number not in needed), None
    )


@dataclass(frozen=True, slots=True)
class _Inference:
    """The instances of one chain, asked step by step."""

    instances: Sequence[Instance]
    index: TraceIndex
    votes: Votes
    facts: ToolFacts
    least: MinimumEvidence
    narrow: bool

    def wire(self, tool_id: str, number: int, *, last: bool) -> tuple[StepWiring | None, str]:
        problem = self._too_little()
        if problem is not None:
            return None, problem
        samples = [(instance, instance.session.calls[instance.runs[number][0]]) for instance in self.instances]
        linear = self._explain(tool_id, number, samples, mapped=False)
        if not takes_something(linear) and not linear.asked and not last:
            return linear, ""
        problem = self._too_alike(number)
        if problem is not None:
            return None, problem
        every = [(instance, call) for instance in self.instances for call in instance.calls(number)]
        complete = not linear.asked and takes_something(linear)
        if last and (not complete or len(every) >= MAP_RUN * len(samples)):
            mapped = self._explain(tool_id, number, every, mapped=True)
            is_better = not complete and not (takes_something(linear) and set(mapped.asked) >= set(linear.asked))
            is_better = is_better or len(every) >= MAP_RUN * len(samples)
            if mapped.each is not None and is_better and all(self._caller_knew(name, every) for name in mapped.asked):
                strange = same_origin(mapped.sources.values(), every)
                return (None, strange) if strange else (self._narrowed(mapped, number), "")
        unknown = [name for name in linear.asked if not self._caller_knew(name, samples)]
        if unknown and takes_something(linear):
            return None, f"nothing explains {', '.join(unknown)}, and the caller could not know it at the start"
        if unknown:
            return None, "takes nothing from an earlier step"
        strange = same_origin(linear.sources.values(), samples)
        return (None, strange) if strange else (linear, "")

    def _too_little(self) -> str | None:
        sessions = {instance.session for instance in self.instances}
        if len(sessions) < self.least.sessions:
            return f"only {len(sessions)} sessions show it, at least {self.least.sessions} are needed"
        if not self.votes.carries(sessions):
            return "only one of several principals does it"
        return None

    def _too_alike(self, number: int) -> str | None:
        """Return whether all samples are one case seen again and again."""
        contexts = {instance.context for instance in self.instances}
        inputs = {call.key for instance in self.instances for call in instance.calls(number)}
        least = self.least.contexts
        if len(contexts) < least and (_tasks_known(self.instances) or len(inputs) < least):
            what = "task" if _tasks_known(self.instances) else "input"
            many = "" if len(contexts) == 1 else "s"
            return f"all samples come from {len(contexts)} {what}{many}, at least {least} are needed"
        return None

    def _explain(
        self, tool_id: str, number: int, samples: Sequence[tuple[Instance, RecordedCall]], *, mapped: bool
    ) -> StepWiring:
        """Return the best source for each argument over all samples."""
        sources: dict[str, SourceEvidence] = {}
        asked: list[str] = []
        weights = self.votes.weigh([instance.session for instance, _ in samples])
        for name in given_arguments(samples, self.votes):
            values = [_value(call, name) for _, call in samples]
            owners = [instance.session for instance, _ in samples]
            declared = self.facts.declared_values(tool_id, name)
            argument = Samples(
                name,
                values,
                owners,
                weights,
                self.votes,
                LEAST_SHARE,
                declared,
                self.least.spared,
                partial(self._is_unheard_of, samples, name),
            )
            evidence = self._source(argument, number, samples, mapped=mapped)
            if evidence is None:
                asked.append(name)
            else:
                sources[name] = evidence
        return _one_list(StepWiring(tool_id, sources, tuple(asked)))

    def _is_unheard_of(self, samples: Sequence[tuple[Instance, RecordedCall]], name: str, place: int) -> bool:
        instance, call = samples[place]
        if name not in call.params:
            return False
        session = instance.session
        return self.index.knowledge(session).is_unheard_of(call.params[name], session.calls.index(call))

    def _source(
        self, argument: Samples, number: int, samples: Sequence[tuple[Instance, RecordedCall]], *, mapped: bool
    ) -> SourceEvidence | None:
        """Cheap questions first: plain paths, a constant, then texts, changes, lists and parts."""

        def ask(kind: str, question: Callable[..., Sequence[Source]]) -> Iterator[frozenset[Source]]:
            for (instance, call), value in zip(samples, argument.values, strict=True):
                key = (kind, mapped, instance, call, argument.name, number)
                yield self.index.once(
                    key,
                    lambda i=instance, c=call, v=value: question(
                        v, self.index.earlier(i, number, c), self.index, mapped=mapped
                    ),
                )

        evidence = argument.constant(ask("plain", _plain)) or argument.best(ask("plain", _plain))
        if evidence is not None or not _worth_more(argument):
            return evidence
        evidence = argument.best(ask("read", read_explanations)) or argument.best(ask("changed", changed))
        if evidence is None and not mapped:
            evidence = (
                argument.best(ask("listed", listed))
                or argument.best(ask("first where", first_where))
                or assembled(argument, lambda part: self._part(part, number, samples))
                or self._looked_up(argument, number, samples)
            )
        return evidence

    def _looked_up(
        self, argument: Samples, number: int, samples: Sequence[tuple[Instance, RecordedCall]]
    ) -> SourceEvidence | None:
        """Return the look-up in an earlier answer that gives each value, if callers mostly could have named it."""
        found: list[dict[Source, bool]] = []

        def ask() -> Iterator[dict[Source, bool]]:
            for (instance, call), value in zip(samples, argument.values, strict=True):
                earlier, knowledge = self.index.earlier(instance, number, call), self.index.knowledge(instance.session)
                found.append(look_ups(value, earlier, self.index, knowledge, instance.start))
                yield found[-1]

        evidence = argument.best(ask())
        if evidence is None:
            return None
        named = sum(
            own for names, own in zip(found, argument.weights, strict=True) if names.get(evidence.source, False)
        )
        return evidence if named >= LEAST_NAMED * argument.total else None

    def _part(
        self, part: Samples, number: int, samples: Sequence[tuple[Instance, RecordedCall]]
    ) -> SourceEvidence | None:
        """Return the source of one member of a list or an object."""

        def ask(question: Callable[..., Sequence[Source]]) -> Iterator[Sequence[Source]]:
            for (instance, call), value in zip(samples, part.values, strict=True):
                yield question(value, self.index.earlier(instance, number, call), self.index, mapped=False)

        found = part.constant(ask(_plain)) or part.best(ask(_plain))
        for question in (read_explanations, changed):
            found = found or part.best(ask(question))
        return found

    def _narrowed(self, step: StepWiring, number: int) -> StepWiring:
        """Return the map with a condition on its elements, where agents only ever take those that fulfil it."""
        where = filtered(step, number, self.instances, self.votes) if self.narrow else None
        if where is None or step.each is None:
            return step
        each = replace(step.each, where=where)
        sources = {
            name: replace(evidence, source=_with_where(evidence.source, each))
            for name, evidence in step.sources.items()
        }
        return replace(step, sources=sources, each=each)

    def _caller_knew(self, name: str, samples: Sequence[tuple[Instance, RecordedCall]]) -> bool:
        """Return whether, by nearly every vote, the value was known before the chain began.

        Where nobody hears the user, a value that no answer named was brought along if such values recur. A value that a
        session gives again and again is judged where it was given first: to have said it oneself is no way to know it.
        """
        values = [_value(call, name) for _, call in samples]
        users: dict[str, set[int]] = {}
        begun: dict[tuple[int, str], int] = {}
        for (instance, _), value in zip(samples, values, strict=True):
            users.setdefault(value, set()).add(id(instance.session))
            given = (id(instance.session), value)
            begun[given] = min(begun.get(given, instance.start), instance.start)
        is_choice = sum(len(users[value]) > 1 for value in values) >= LEAST_REUSE * len(values)
        weights = self.votes.weigh([instance.session for instance, _ in samples])
        knew = sum(
            weight
            for (instance, call), value, weight in zip(samples, values, weights, strict=True)
            if name not in call.params
            or self.index.knowledge(instance.session).knows(
                call.params[name], begun[id(instance.session), value], brought=is_choice
            )
        )
        return knew >= math.floor(LEAST_SHARE * sum(weights))


def _plain(value: str, earlier: Sequence[RecordedCall], index: TraceIndex, *, mapped: bool) -> Sequence[Source]:
    return list(explanations(value, [index.sample(call) for call in earlier], mapped=mapped))


def _worth_more(argument: Samples) -> bool:
    """Return whether texts and changes may be asked: some value varies, and most samples have the argument."""
    values = Counter(argument.values)
    return len(values) > 1 and values[MISSING] <= (1 - LEAST_SHARE) * len(argument.values)


def _with_where(source: Source, each: EachOf) -> Source:
    if isinstance(source, EachOf):
        return replace(source, where=each.where)
    if isinstance(source, Joined):
        return Joined(
            tuple(replace(part, where=each.where) if isinstance(part, EachOf) else part for part in source.parts)
        )
    return source


def _one_list(step: StepWiring) -> StepWiring:
    """Keep the sources of one list, since a step can run over one only; other arguments stay unexplained."""
    lists = {name: found for name, evidence in step.sources.items() if (found := list_of(evidence.source)) is not None}
    if not lists:
        return step
    chosen = next(iter(lists.values()))
    strangers = [name for name, each in lists.items() if (each.step, each.list_path) != (chosen.step, chosen.list_path)]
    kept = {name: evidence for name, evidence in step.sources.items() if name not in strangers}
    return replace(step, sources=kept, asked=(*step.asked, *strangers), each=chosen)


def _tasks_known(instances: Sequence[Instance]) -> bool:
    return any(instance.session.task_id is not None for instance in instances)


def _value(call: RecordedCall, name: str) -> str:
    return canonical_json(call.params[name]).decode() if name in call.params else MISSING
