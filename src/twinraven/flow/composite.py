"""Calls learned tools on the one call path: a connector that runs a definition, each step through the same path.

So every inner call is checked, gated, claimed and recorded like any other. It names the composite's event as its
parent, which keeps it out of the agent's own sequence; a write gets the key `outer:step:item`, so that repeating the
composite under its key repeats none of its effects. Policy judges the composite, which has the highest effect and
sensitivity of its steps, before the first of them runs; if it asks about any tool inside, approval is asked for the
composite, and what was granted goes with the inner calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, Protocol

from twinraven.calls import CallContext, CallFrame, Calls, inner_request
from twinraven.catalog import Catalog, Effect, Sensitivity, ToolAnswer, ToolEntry
from twinraven.flow.definition import FlowDefinition, StepDefinition
from twinraven.flow.executor import FlowExecutor
from twinraven.flow.plan import MAX_STEPS, compile_flow
from twinraven.flow.step_run import StepRun
from twinraven.flow.validation import ToolLookup
from twinraven.foundation.canonical import JsonObject, canonical_json, content_hash
from twinraven.foundation.errors import InvalidDefinition, NotFound, ToolUnavailable
from twinraven.muninn import FALLBACK, RETRY

CONNECTOR: Final = "flow"
MAX_COMPOSITES_INSIDE: Final = 8

_LONGEST_KEY = 512
_EFFECTS = (Effect.READ, Effect.UNKNOWN, Effect.WRITE)
_SENSITIVITIES = (Sensitivity.LOW, Sensitivity.MEDIUM, Sensitivity.HIGH)

# The composites around the current call: definitions change, so a circle can close after both were validated.
_around: ContextVar[tuple[str, ...]] = ContextVar("twinraven_composites", default=())


class DefinitionSource(Protocol):
    """Looks up the definitions of learned tools."""

    def definition(self, tenant_id: str, tool_id: str) -> FlowDefinition:
        """Return the definition in service, or NotFound."""
        ...


class FlowConnector:
    """Runs learned tools, as a connector of the call path."""

    name = CONNECTOR

    def __init__(
        self,
        calls: Calls,
        catalog: Catalog,
        definitions: DefinitionSource,
        *,
        executor: FlowExecutor | None = None,
    ) -> None:
        self._calls = calls
        self._catalog = catalog
        self._definitions = definitions
        self._executor = executor or FlowExecutor()

    async def invoke(self, entry: ToolEntry, params: JsonObject, *, call: CallFrame) -> Any:
        """Run the composite; its error, if it failed, says which step and why."""
        definition = self._definitions.definition(call.tenant_id, entry.tool_id)
        if call.grant is not None and entry.definition != _definition_hash(definition):
            raise ToolUnavailable(
                f"{entry.tool_id!r} was changed after this call was approved; call it again", tool_id=entry.tool_id
            )
        outer = _around.get()
        inside = (*outer, entry.tool_id)
        if entry.tool_id in outer or len(inside) > MAX_COMPOSITES_INSIDE:
            raise InvalidDefinition(f"composites call each other in a circle or too deep: {' → '.join(inside)}")
        inner = _InnerCalls(self._calls, self._catalog, call)
        token = _around.set(inside)
        try:
            # The call path took these by the schema of the entry, which is the definition's unless that has changed.
            is_accepted = entry.input_schema is definition.parameters
            result = await self._executor.run(definition, params, inner, writes=inner.writes, is_accepted=is_accepted)
        finally:
            _around.reset(token)
        if result.error is not None:
            raise result.error
        return ToolAnswer(result.output, is_partial=True) if result.is_partial else result.output

    def tools_inside(self, tenant_id: str, entry: ToolEntry) -> Iterator[ToolEntry]:
        """Yield every tool that a run may call, fallbacks and composites inside included, each once."""
        seen = {entry.tool_id}
        waiting = [entry]
        while waiting:
            outer = waiting.pop(0)
            for step in _steps(self._definitions.definition(tenant_id, outer.tool_id)):
                if step.tool_id in seen:
                    continue
                seen.add(step.tool_id)
                try:
                    inner = self._catalog.find(tenant_id, step.tool_id)
                except NotFound:
                    continue  # the run will say so
                if inner.connector == CONNECTOR:
                    waiting.append(inner)
                yield inner


class _Writes(dict[str, bool]):
    """Whether each tool of a run can change something, looked up once; one that is not there counts as if it could."""

    def __init__(self, catalog: Catalog, tenant_id: str) -> None:
        super().__init__()
        self._catalog = catalog
        self._tenant_id = tenant_id

    def __missing__(self, tool_id: str) -> bool:
        try:
            found = self._catalog.find(self._tenant_id, tool_id).writes
        except NotFound:
            found = True
        self[tool_id] = found
        return found


class _InnerCalls:
    """The steps of one composite call, made through the call path."""

    def __init__(self, calls: Calls, catalog: Catalog, outer: CallFrame) -> None:
        self._calls = calls
        self._outer = outer
        # Asked twice for every step, and a dictionary answers without a function of Python's.
        self.writes: Callable[[str], bool] = _Writes(catalog, outer.tenant_id).__getitem__
        self._contexts: dict[int | None, CallContext] = {}

    def __call__(
        self, tool_id: str, params: JsonObject, *, step: StepRun, timeout_ms: int | None
    ) -> Coroutine[Any, Any, Any]:
        """Make the call of a step; the run ends one that is late, and the path then records it as such."""
        outer, writes = self._outer, self.writes(tool_id)
        request = inner_request(
            tool_id,
            params,
            tenant_id=outer.tenant_id,
            task_id=outer.task_id,
            correlation_id=outer.correlation_id,
            idempotency_key=_inner_key(outer.key, step) if writes and outer.key is not None else None,
        )
        context = self._contexts.get(timeout_ms) or self._reading(timeout_ms)
        if writes or step.attempt > 1 or step.fallback is not None:
            context = replace(context, tags=_tags(step), durable=outer.durable and writes)
        return self._calls.output_of(request, context)

    def _reading(self, timeout_ms: int | None) -> CallContext:
        """Return the context of a read within so much time, made once."""
        outer = self._outer
        # Events are stored in the order they come, so a composite that is durable has made its reads durable too.
        context = self._contexts[timeout_ms] = CallContext(
            session_id=outer.session_id,
            turn=outer.turn,
            parent_event_id=outer.event_id,
            durable=False,
            caller=outer.caller,
            actor=outer.actor,
            is_inner=True,
            grant=outer.grant,
            epoch=outer.epoch,
            within_s=None if timeout_ms is None else timeout_ms / 1000,
        )
        return context


def entry_of(definition: FlowDefinition, find: ToolLookup, *, max_steps: int = MAX_STEPS) -> ToolEntry:
    """Return the catalogue entry of a learned tool: as powerful and as sensitive as the most so of its steps."""
    entry = ToolEntry(
        tool_id=definition.tool_id,
        description=definition.description,
        input_schema=definition.parameters,
        connector=CONNECTOR,
        # A moment more than the run itself takes, so that it can say which step was late.
        timeout_ms=compile_flow(definition, max_steps=max_steps).budget_ms + 1_000,
        tags=definition.tags,
        takes_key=True,
        definition=_definition_hash(definition),
        parts=tuple(dict.fromkeys(step.tool_id for step in _steps(definition))),
    )
    return as_powerful_as(entry, [find(step.tool_id) for step in _steps(definition)])


def as_powerful_as(entry: ToolEntry, parts: Collection[ToolEntry | None]) -> ToolEntry:
    """Return the entry with the strongest effect and sensitivity of the tools that it calls.

    None is a tool that is gone.
    """
    effects = [Effect.UNKNOWN if part is None else part.effect for part in parts]
    sensitivities = [Sensitivity.HIGH if part is None else part.sensitivity for part in parts]
    origins = {"none" if part is None else part.effect_origin for part in parts}
    return replace(
        entry,
        effect=max(effects, key=_EFFECTS.index),
        effect_origin="none" if "none" in origins else "inferred" if "inferred" in origins else "declared",
        sensitivity=max(sensitivities, key=_SENSITIVITIES.index),
    )


def _definition_hash(definition: FlowDefinition) -> str:
    """Return what an approval was given for: the same as long as a run would do the same."""
    return content_hash(canonical_json(definition.meaning()))


def _steps(definition: FlowDefinition) -> Iterable[StepDefinition]:
    yield from definition.steps
    for sequence in definition.error_strategy.fallback_steps.values():
        yield from sequence


def _inner_key(outer: str, step: StepRun) -> str:
    key = f"{outer}:{step.key_suffix}"
    return key if len(key) <= _LONGEST_KEY else f"{content_hash(outer.encode())}:{step.key_suffix}"


def _tags(step: StepRun) -> tuple[str, ...]:
    tags = (RETRY,) if step.attempt > 1 else ()
    return tags if step.fallback is None else (*tags, FALLBACK)
