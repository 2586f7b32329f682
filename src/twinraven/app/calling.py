"""Opens the one call path, and durable runs: keys under which something happens once, approvals, connectors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from twinraven.app.catalogue import (
    catalog,
    defined,
    functions,
    learned,
    model_tool,
    process_tools,
    services,
    shelf,
    upstreams,
)
from twinraven.app.dispatching import dispatcher, journal_kit, run_waits, wake_approved
from twinraven.app.foundations import audit, database, hash_request, redactor
from twinraven.app.knowing import (
    ModelForMemory,
    entities,
    extraction,
    graph_progress,
    group_access,
    knowledge,
    memory_tools,
)
from twinraven.app.memory import collector
from twinraven.app.parts import Home, Part
from twinraven.app.planning import plan_tools
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.calls import Approvals, Calls, Claims, TaskDecision
    from twinraven.connectors import PythonConnector
    from twinraven.conversations import ChatConnector, Conversations
    from twinraven.effects import Delivery
    from twinraven.engine import RunEnd, RunGovernor, Runs
    from twinraven.flow import FlowDefinition, LocalDefinitions
    from twinraven.governance import Judge
    from twinraven.knowledge import Introspections, Summaries, ThinkingConnector
    from twinraven.registry import LearnedTools


@Part
def approvals(home: Home) -> Approvals:
    """Open approvals: requests and decisions of people."""
    from twinraven.calls import Approvals

    clean = redactor(home)
    return Approvals(
        database(home),
        audit=audit(home),
        ttl_s=home.settings.policy.approval_ttl_s,
        hash_body=partial(hash_request, home),
        redact=clean.redact,
        redact_names=clean.redact_known,
        micros=home.micros,
        on_decided=partial(wake_approved, home),
    )


@Part
def claims(home: Home) -> Claims:
    """Keys under which something happens once."""
    from twinraven.calls import Claims

    clean = redactor(home)
    return Claims(
        database(home),
        hash_body=partial(hash_request, home),
        redact=clean.redact,
        redact_names=clean.redact_known,
        micros=home.micros,
    )


@Part
def python_connector(home: Home) -> PythonConnector:
    """Open the connector of Python functions, with its thread pool."""
    from twinraven.connectors import PythonConnector

    return PythonConnector(functions(home), threads=home.settings.calls.python_threads)


@Part
def runs(home: Home) -> Runs:
    """Durable runs, and what people decide about them."""
    from twinraven.engine import Runs

    made = Runs(
        database(home),
        dispatcher(home),
        journal_kit(home),
        run_waits(home),
        audit=audit(home),
        claims=claims(home),
        catalog=lambda: catalog(home),
        keep_days=home.settings.engine.keep_days,
    )
    made.register_flows(process_tools(home).flow)
    made.register_end(partial(_tell_conversations, home))
    made.register_governor(lambda: cast("_GoverningHome", home).attempts)
    made.register_end(partial(_tell_memory, home))
    made.register_end(partial(_tell_effects, home))
    made.register_ends(partial(_measure, home))
    return made


@Part
def calls(home: Home) -> Calls:
    from twinraven.calls import CallEvidence, Calls, RulesGate, read_rules
    from twinraven.connectors import McpConnector
    from twinraven.flow import FlowConnector
    from twinraven.processes import ProcessConnector

    path = Calls(
        catalog(home),
        collector(home),
        claims(home),
        [
            python_connector(home),
            *services(home).connectors(),
            model_tool(home),
            plan_tools(home),
            *((memory_tools(home),) if home.settings.knowledge.tools else ()),
            McpConnector(lambda tenant_id: upstreams(home).of(tenant_id)),
        ],
        gate=RulesGate(read_rules(home.settings.policy.rules)),
        approver=approvals(home),
        evidence=CallEvidence(audit(home)),
        decisions=_Decisions(home),
        first_check=defined(home).bindings,
        concealment=redactor(home),
        default_timeout_ms=home.settings.calls.default_timeout_ms,
        longest_ms=home.settings.calls.longest_ms,
        micros=home.micros,
    )
    path.add_connector(_chat_connector(home, path))
    path.add_connector(_thinking_connector(home))
    path.add_connector(ProcessConnector(lambda: runs(home), lambda: cast("_WorkingHome", home).working()))
    path.add_connector(FlowConnector(path, catalog(home), _Definitions(shelf(home), learned(home))))
    return path


def _chat_connector(home: Home, path: Calls) -> ChatConnector:
    """Make what lets the configured model answer, and streams what it says."""
    from twinraven.conversations import ChatConnector, ConversationStore, PieceWriter
    from twinraven.models import Models

    def open_pieces(tenant_id: str, alternative_id: str) -> PieceWriter:
        return PieceWriter(database(home), ConversationStore(), redactor(home).redact, tenant_id, alternative_id)

    return ChatConnector(Models(lambda: path, model_tool(home)), path, catalog(home), open_pieces)


def _tell_conversations(home: Home, tx: Transaction, end: RunEnd) -> None:
    """Settle with a run what hangs on it; nothing of conversations is loaded for runs of others."""
    if end.run_id.startswith(("turn-", "episodes-")):
        cast("_TalkingHome", home).conversations.on_run_end(tx, end)


def _tell_effects(home: Home, tx: Transaction, end: RunEnd) -> None:
    """Settle with a run the effect that it was to deliver."""
    if end.run_id.startswith("effect:"):
        cast("_EffectingHome", home).delivery.on_end(tx, end)


class _EffectingHome(Protocol):
    """A home that delivers effects, which is built on runs."""

    @property
    def delivery(self) -> Delivery: ...


def _thinking_connector(home: Home) -> ThinkingConnector:
    """Make what compresses and reflects."""
    from twinraven.knowledge import ThinkingConnector

    return ThinkingConnector(
        lambda: knowledge(home),
        lambda: entities(home),
        lambda: ModelForMemory(home),
        lambda: group_access(home),
    )


def _measure(home: Home, tx: Transaction, ends: Sequence[RunEnd]) -> None:
    """Measure runs with their end."""
    cast("_MeasuringHome", home).measure_runs(tx, ends)


class _MeasuringHome(Protocol):
    """A home that measures runs."""

    def measure_runs(self, tx: Transaction, ends: Sequence[RunEnd]) -> None: ...


def _tell_memory(home: Home, tx: Transaction, end: RunEnd) -> None:
    """Settle with a run the summary, the notes, the graph or the entity that it was about."""
    if end.run_id.startswith("compress-"):
        cast("_ReflectingHome", home).summaries.on_end(tx, end)
    elif end.run_id.startswith("reflect-"):
        cast("_ReflectingHome", home).introspections.on_end(tx, end)
    elif end.run_id.startswith("graph-") and home.settings.knowledge.graph_url is not None:
        graph_progress(home).on_end(tx, end)
    elif end.run_id.startswith("extract-"):
        extraction(home).on_end(tx, end)
    elif end.run_id.startswith("enrich-"):
        entity_id = end.run_id.split("-")[1]
        entities(home).on_end(tx, end.tenant_id, entity_id, is_done=end.state == "succeeded")


class _ReflectingHome(Protocol):
    """A home that has summaries and notes, which are built on processes."""

    @property
    def summaries(self) -> Summaries: ...

    @property
    def introspections(self) -> Introspections: ...


class _TalkingHome(Protocol):
    """A home that has conversations, which are built on runs."""

    @property
    def conversations(self) -> Conversations: ...


class _GoverningHome(Protocol):
    """A home whose runs may be attempts at tasks, which are built on runs."""

    @property
    def attempts(self) -> RunGovernor: ...


class _JudgingHome(Protocol):
    """A home that has a judge, which is built on runs."""

    @property
    def judge(self) -> Judge: ...


class _Decisions:
    """Which judges' approvals are in force, for calls that policy marks; nothing of it is loaded before one does."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def require(self, tenant_id: str, task_id: str | None) -> TaskDecision:
        from twinraven.calls import TaskDecision
        from twinraven.foundation.errors import NotFound, PolicyViolation

        if task_id is None:
            raise PolicyViolation("the call names no task_id, so no judge can have approved it")
        judge = cast("_JudgingHome", self._home).judge
        try:
            found = await database(self._home).read(tenant_id, lambda tx: judge.gate(tx, tenant_id, task_id))
        except NotFound as error:
            raise PolicyViolation(error.message, task_id=task_id) from error
        return TaskDecision(found.decision_id, found.lineage.campaign_id, found.lineage.goal_id)


class _WorkingHome(Protocol):
    """A home that can work on runs, which is built on the call path."""

    def working(self) -> AbstractAsyncContextManager[object]: ...


class _Definitions:
    """The definitions behind composite tools: those offered here first, then those in the registry."""

    def __init__(self, offered: LocalDefinitions, registered: LearnedTools) -> None:
        self._offered = offered
        self._registered = registered

    def definition(self, tenant_id: str, tool_id: str) -> FlowDefinition:
        if self._offered.find(tenant_id, tool_id) is not None:
            return self._offered.definition(tenant_id, tool_id)
        return self._registered.definition(tenant_id, tool_id)
