"""Gates calls between validation and effect: evaluates the policy, then requests an approval where it says so.

A composite is judged together with the tools inside it. If policy asks about any of them, approval is asked for the
composite as a whole, before its first step; that grant covers those tools for this one run and no others, and all of
them as they were when it was asked for. What policy denies stays denied inside as outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NoReturn

from twinraven.calls.approval import ApprovalRequest
from twinraven.calls.evidence import CallEvidence
from twinraven.calls.invocation import Invocation
from twinraven.calls.model import Grant, SkillInvocationRequest, side_effect_of
from twinraven.calls.ports import Approver, DecisionSource, PolicyDecision, PolicyGate
from twinraven.catalog import Sensitivity, ToolEntry
from twinraven.foundation.errors import ApprovalDenied, PolicyViolation, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.muninn import check_name


class Gatekeeper:
    """Lets calls pass, or says why not."""

    def __init__(
        self,
        gate: PolicyGate,
        *,
        approver: Approver | None,
        evidence: CallEvidence | None,
        decisions: DecisionSource | None = None,
    ) -> None:
        self._gate = gate
        self._decisions = decisions
        self._approver = approver
        self._evidence = evidence

    @property
    def judges_reads(self) -> bool:
        return self._gate.judges_reads

    async def lets_read(self, call: Invocation) -> bool:
        """Return whether policy has nothing to say against a plain read that is no composite."""
        return (await self._gate.decide(call.entry, call.request, call.context)).verdict == "allow"

    async def admit(self, call: Invocation, inside: Iterable[ToolEntry]) -> PolicyDecision:
        """Return the policy decision of an admitted call; an approved call carries its grant from here."""
        within = tuple(inside)
        decision, asked = await self._judge(call, within)
        if decision.verdict == "ask":
            definition = {entry.tool_id: entry.fingerprint for entry in (call.entry, *within)}
            call.grant = await self._approval(call, decision, asked, definition)
        elif decision.verdict == "deny":
            await self._refuse(call, decision)
        elif decision.verdict == "judge":
            decision = await self._require_decision(call, decision)
        return decision

    async def _judge(self, call: Invocation, inside: Iterable[ToolEntry]) -> tuple[PolicyDecision, tuple[str, ...]]:
        """Return the decision about a call, and every tool in it that policy asks about."""
        request = call.request
        if call.needs_guard:
            request = _request_for(call.entry, request)
        decision = await self._gate.decide(call.entry, request, call.context)
        asked = {call.entry.tool_id: decision} if decision.verdict == "ask" else {}
        judged = decision if decision.verdict == "judge" else None
        if decision.verdict != "deny":
            for entry in inside:
                if entry.writes or entry.sensitivity is Sensitivity.HIGH or self.judges_reads:
                    inner = await self._gate.decide(entry, _request_for(entry, request), call.context)
                    if inner.verdict == "ask":
                        asked[entry.tool_id] = inner
                    elif inner.verdict == "judge":
                        judged = inner
        if judged is not None and asked:
            # A person's word does not stand in for a judge's: both are needed, and the judge's comes first.
            judged = await self._require_decision(call, judged)
        if asked:
            decision = next(iter(asked.values()))
            decision = decision if judged is None else replace(decision, decision_id=judged.decision_id)
        return decision if judged is None or asked else judged, tuple(sorted(asked))

    async def _require_decision(self, call: Invocation, decision: PolicyDecision) -> PolicyDecision:
        """Let a call pass that policy marks, if its task has a judge's approval in force; its evidence names that.

        The call is of the task's campaign and goal from here on, whether it named them or not.
        """
        if self._decisions is None:
            await self._refuse(call, decision)
        request = call.request
        try:
            found = await self._decisions.require(request.tenant_id, request.task_id)
            for name in ("campaign_id", "goal_id"):
                if getattr(request, name) not in (None, getattr(found, name)):
                    raise PolicyViolation(f"task {request.task_id!r} is not of {name} {getattr(request, name)!r}")
        except PolicyViolation as error:
            told = {
                "tool_id": call.entry.tool_id,
                "rule": decision.rule,
                "verdict": "judge",
                "task_id": request.task_id,
            }
            refusal = PolicyViolation(f"{decision.reason}; {error.message}", **{**error.details, **told})
            await self._note(call, refusal, decision)
            raise refusal from error
        call.request = replace(request, campaign_id=found.campaign_id, goal_id=found.goal_id)
        return replace(decision, decision_id=found.decision_id)

    async def _approval(
        self, call: Invocation, decision: PolicyDecision, asked: tuple[str, ...], definition: Mapping[str, str]
    ) -> Grant:
        outer = call.context.grant
        if call.context.is_inner:
            # Asking in the middle of a composite would leave it half done; what covers it was asked for before.
            if outer is None or not (outer.tools.issuperset(asked) and definition.items() <= outer.definitions.items()):
                await self._refuse(call, decision)
            return outer
        if self._approver is None:
            await self._refuse(call, decision)
        if call.request.idempotency_key is None:
            call.take_spare_key(new_id())
        try:
            grant = await self._approver.seek(_wish(call, decision, asked, definition))
        except ApprovalDenied as error:
            await self._note(call, error, decision)
            raise
        call.request = replace(call.request, idempotency_key=grant.key)
        return replace(grant, definitions=definition)

    async def _refuse(self, call: Invocation, decision: PolicyDecision) -> NoReturn:
        error = PolicyViolation(
            decision.reason, tool_id=call.entry.tool_id, rule=decision.rule, verdict=decision.verdict
        )
        await self._note(call, error, decision)
        raise error

    async def _note(self, call: Invocation, error: TwinRavenError, decision: PolicyDecision) -> None:
        if self._evidence is not None:
            await self._evidence.refused(call, error, decision)


def _request_for(entry: ToolEntry, request: SkillInvocationRequest) -> SkillInvocationRequest:
    """Return the request as it would be for a tool, which knows better than its caller what it can do."""
    return replace(
        request,
        tool_name=entry.tool_id,
        side_effect=side_effect_of(entry.effect),
        sensitivity=entry.sensitivity.value,
    )


def _wish(
    call: Invocation, decision: PolicyDecision, asked: tuple[str, ...], definition: Mapping[str, str]
) -> ApprovalRequest:
    entry, request = call.entry, call.request
    return ApprovalRequest(
        tenant_id=request.tenant_id,
        tool_id=entry.tool_id,
        key=check_name(request.idempotency_key or "", field="idempotency_key"),
        is_spare_key=call.has_spare_key,
        body=call.encoded or b"",
        arguments=call.recorded_params(),
        covers=asked,
        definition=definition,
        effect=entry.effect.value,
        sensitivity=entry.sensitivity.value,
        rule=decision.rule,
        reason=decision.reason,
        caller=call.context.caller,
        session_id=call.context.session_id,
        correlation_id=call.correlation_id,
        actor=call.context.witness,
    )
