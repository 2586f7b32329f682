"""Finds what traces are made of in governed work: campaigns, goals, tasks, attempts, results, decisions, envelopes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from twinraven.effects import EffectStore
from twinraven.foundation.clock import from_micros, iso
from twinraven.foundation.errors import NotFound
from twinraven.governance import JudgeDecision, PlanStore, ResultStore
from twinraven.muninn import events_of_task
from twinraven.storage import Transaction
from twinraven.tracing.calls import event_node
from twinraven.tracing.model import MOST_LINKS, Links, TraceKey, TraceNode


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)


class WorkTraces:
    """Campaigns, goals, tasks, attempts, results and decisions."""

    kinds: Sequence[str] = ("task", "judge_decision", "worker_result", "worker_run", "goal", "campaign", "envelope")

    def __init__(self) -> None:
        self._plans = PlanStore()
        self._results = ResultStore()

    def load(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        try:
            return getattr(self, f"_load_{key.kind}")(tx, tenant_id, key)
        except NotFound:
            return None

    def identify(self, tx: Transaction, tenant_id: str, id: str) -> Iterable[TraceKey]:
        del tx, tenant_id, id
        return ()

    def before(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        facts, kind = node.facts, node.key.kind
        if kind == "goal":
            yield TraceKey("campaign", facts["campaign_id"]), "has the goal"
        elif kind == "task":
            yield TraceKey("goal", facts["goal_id"]), "was planned as"
        elif kind == "worker_run":
            yield TraceKey("task", facts["task_id"]), "was attempted as"
        elif kind == "worker_result":
            yield TraceKey("worker_run", facts["worker_run_id"]), "came to"
        elif kind == "judge_decision":
            yield TraceKey("worker_result", facts["result_id"]), "was judged"
            earlier = self._results.decisions(tx, tenant_id, facts["task_id"]) if facts["round"] > 1 else []
            for decision in earlier:
                if decision.result_id == facts["result_id"] and decision.round == facts["round"] - 1:
                    yield _decision_node(decision), "was decided anew as"
        elif kind == "envelope":
            for key in self._made_of(tx, tenant_id, node):
                yield key, "was said in"

    def explains(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        """Yield the durable run of an attempt, and the envelope of a task or a result: how it was made and said."""
        if node.key.kind == "task":
            row = self._results.envelope_of_key(tx, tenant_id, "planner.task", node.facts["idempotency_key"])
            if row is not None:
                yield TraceKey("envelope", row["envelope_id"]), "was said in"
        elif node.key.kind == "worker_run" and node.facts["run_id"] is not None:
            yield TraceKey("run", node.facts["run_id"]), "was run as"
        elif node.key.kind == "worker_result":
            yield TraceKey("envelope", node.facts["envelope_id"]), "was said in"

    def after(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        follow = getattr(self, f"_after_{node.key.kind}", None)
        return iter(()) if follow is None else follow(tx, tenant_id, node)

    def _after_envelope(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        for key in self._made_of(tx, tenant_id, node):
            yield key, "says"

    def _after_campaign(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        for goal in self._plans.listing(tx, "goal", tenant_id, limit=MOST_LINKS, campaign_id=node.key.id):
            yield TraceKey("goal", goal.goal_id), "has the goal"

    def _after_goal(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        for task_id in self._plans.task_ids(tx, tenant_id, node.key.id, limit=MOST_LINKS):
            yield TraceKey("task", task_id), "was planned as"

    def _after_task(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        yield from self.explains(tx, tenant_id, node)
        for run in self._results.runs(tx, tenant_id, node.key.id):
            yield TraceKey("worker_run", run.worker_run_id), "was attempted as"
        for event in events_of_task(tx, tenant_id, node.key.id, limit=MOST_LINKS):
            yield event_node(event), "called"

    def _after_worker_run(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        yield from self.explains(tx, tenant_id, node)
        for result in self._results.results(tx, tenant_id, node.facts["task_id"]):
            if result.worker_run_id == node.key.id:
                yield TraceKey("worker_result", result.result_id), "came to"

    def _after_worker_result(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        yield from self.explains(tx, tenant_id, node)
        for decision in self._results.decisions(tx, tenant_id, node.facts["task_id"]):
            if decision.result_id == node.key.id:
                yield _decision_node(decision), "was judged"

    def _after_judge_decision(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        for effect in EffectStore().of_task(tx, tenant_id, node.facts["task_id"]):
            if effect.decision_id == node.key.id:
                yield TraceKey(effect.subject, effect.effect_id), "allowed"

    def _made_of(self, tx: Transaction, tenant_id: str, node: TraceNode) -> list[TraceKey]:
        """Return what an envelope became: a task, a result or a decision."""
        task_id = node.facts["task_id"]
        results = self._results.results(tx, tenant_id, task_id)
        decisions = self._results.decisions(tx, tenant_id, task_id)
        made = [TraceKey("worker_result", each.result_id) for each in results if each.envelope_id == node.key.id]
        made += [TraceKey("judge_decision", each.decision_id) for each in decisions if each.envelope_id == node.key.id]
        return made or [TraceKey("task", task_id)]

    def _load_campaign(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        found = self._plans.campaign(tx, tenant_id, key.id)
        return TraceNode(key, f"campaign {found.name}", iso(found.created_at), found.status, found.created_by)

    def _load_goal(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        found = self._plans.goal(tx, tenant_id, key.id)
        facts = {"campaign_id": found.campaign_id}
        title = f"goal: {found.description}"
        return TraceNode(key, title, iso(found.created_at), found.status, found.created_by, facts)

    def _load_task(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        found = self._plans.task(tx, tenant_id, key.id)
        names = ("campaign_id", "goal_id", "state_version", "idempotency_key")
        facts = {name: getattr(found, name) for name in names}
        title = f"task: {found.spec_json.get('description', found.task_type)}"
        return TraceNode(key, title, iso(found.created_at), found.status, found.created_by, facts)

    def _load_worker_run(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        found = self._results.worker_run(tx, tenant_id, key.id)
        if found is None:
            return None
        facts = {"task_id": found.task_id, "run_id": found.run_id, "envelope_id": found.envelope_id}
        title = f"attempt {found.attempt_number}"
        return TraceNode(key, title, _iso(found.started_at), found.status, found.worker, facts)

    def _load_worker_result(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        found = self._results.result(tx, tenant_id, key.id)
        facts = {
            "task_id": found.lineage.task_id,
            "worker_run_id": found.worker_run_id,
            "envelope_id": found.envelope_id,
            "confidence_score": found.confidence_score,
        }
        title = f"result of attempt {found.attempt_number}"
        return TraceNode(key, title, iso(found.created_at), found.status, None, facts)

    def _load_judge_decision(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        return _decision_node(self._results.decision(tx, tenant_id, key.id))

    def _load_envelope(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        row = self._results.envelope(tx, tenant_id, key.id)
        if row is None:
            return None
        facts = {"correlation_id": row["correlation_id"], "task_id": row["task_id"]}
        return TraceNode(
            key, f"envelope {row['type']}", iso(from_micros(row["received_at"])), row["status"], row["sent_by"], facts
        )


def _decided(decision: JudgeDecision) -> str:
    by_whom = "" if decision.human_reviewer_id is None else f" by {decision.human_reviewer_id}"
    return f"decision to {decision.decision}{by_whom}: {decision.reason_summary}"


def _decision_node(decision: JudgeDecision) -> TraceNode:
    facts = {
        "task_id": decision.task_id,
        "result_id": decision.result_id,
        "round": decision.round,
        "override_reason": decision.override_reason,
        "human_reviewer_id": decision.human_reviewer_id,
    }
    key = TraceKey("judge_decision", decision.decision_id)
    return TraceNode(key, _decided(decision), iso(decision.decided_at), decision.decision, decision.decided_by, facts)
