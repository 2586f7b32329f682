"""Implements the one path by which any tool is called: resolve, validate, gate, claim, invoke, validate, record.

Every door uses it, so what it guarantees holds everywhere: arguments fit the schema before anything is sent, policy has
spoken, a key never runs twice, the answer fits its schema, and Muninn remembers the call whatever came of it. Writes
need a key. A write whose answer is lost (time ran out, the process died) is unknown, not failed: saying "failed" would
invite a second effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NoReturn

from twinraven.calls.call_redaction import CallRedaction, error_text, restated
from twinraven.calls.claims import Along, Claim, Claims, EarlierAnswer
from twinraven.calls.evidence import CallEvidence
from twinraven.calls.gatekeeper import Gatekeeper
from twinraven.calls.invocation import CallEnd, Invocation, ToolContract, ToolOutput, to_answer
from twinraven.calls.model import (
    CallContext,
    CallFailed,
    SkillInvocationRequest,
    SkillInvocationResponse,
    side_effect_of,
)
from twinraven.calls.ports import (
    Approver,
    CompositeConnector,
    Connector,
    DecisionSource,
    FirstHealthCheck,
    OpenGate,
    PolicyGate,
    SecretRedaction,
)
from twinraven.calls.settling import Settle, all_of, settle_with
from twinraven.calls.sql import KeyUse
from twinraven.catalog import Catalog, Sensitivity, ToolAnswer, ToolEntry
from twinraven.foundation.clock import now_micros
from twinraven.foundation.correlation import current_correlation
from twinraven.foundation.errors import (
    ApprovalPending,
    EffectUnknown,
    InputRequired,
    InvalidInput,
    InvalidOutput,
    ToolError,
    ToolTimeout,
    ToolUnavailable,
    TwinRavenError,
)
from twinraven.foundation.ids import new_id, new_uuid
from twinraven.foundation.json_schema import compile_schema
from twinraven.foundation.time_limit import UNLIMITED, TimeLimits
from twinraven.muninn import CACHED, Collector, Observation, check_name, encode_output
from twinraven.storage import DEFAULT_TENANT

DEFAULT_TIMEOUT_MS = 30_000
LONGEST_MS = 3_600_000

_logger = logging.getLogger("twinraven.calls")

FailedState = Literal["released", "failed", "unknown"]
"""What becomes of a key after a failure: free again, settled, or for a person to find out."""


class Calls:
    """Calls tools, for every door."""

    def __init__(  # noqa: PLR0913 - everything the path stands on, each by name
        self,
        catalog: Catalog,
        collector: Collector,
        claims: Claims,
        connectors: Iterable[Connector],
        *,
        gate: PolicyGate | None = None,
        approver: Approver | None = None,
        evidence: CallEvidence | None = None,
        decisions: DecisionSource | None = None,
        first_check: FirstHealthCheck | None = None,
        concealment: SecretRedaction | None = None,
        default_timeout_ms: int = DEFAULT_TIMEOUT_MS,
        longest_ms: int = LONGEST_MS,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._catalog = catalog
        self._collector = collector
        self._claims = claims
        self._connectors: dict[str, Connector] = {}
        self._composites: dict[str, CompositeConnector] = {}
        for connector in connectors:
            self.add_connector(connector)
        self._gatekeeper = Gatekeeper(gate or OpenGate(), approver=approver, evidence=evidence, decisions=decisions)
        self._evidence = evidence
        self._first_check = first_check
        self._concealment = concealment
        self._default_timeout_ms = default_timeout_ms
        self._longest_s = longest_ms / 1000
        self._micros = micros
        self._contracts: dict[str, ToolContract] = {}
        self._prepared: set[str] = set()
        self._limits = TimeLimits()

    def add_connector(self, connector: Connector) -> None:
        """Plug in another way to reach services."""
        self._connectors[connector.name] = connector
        self._composites.pop(connector.name, None)
        if isinstance(connector, CompositeConnector):
            self._composites[connector.name] = connector

    async def call(
        self,
        tool_id: str,
        params: dict[str, Any],
        context: CallContext,
        *,
        tenant_id: str = DEFAULT_TENANT,
        idempotency_key: str | None = None,
    ) -> Any:
        """Return the convenient door: the output, or an exception. A write without a key gets one of its own."""
        if idempotency_key is None and context.spare_key is None:
            context = replace(context, spare_key=new_id())
        request = SkillInvocationRequest(
            tool_name=tool_id, payload=params, tenant_id=tenant_id, idempotency_key=idempotency_key
        )
        return await self.output_of(request, context)

    async def invoke(
        self, request: SkillInvocationRequest, context: CallContext, *, entry: ToolEntry | None = None
    ) -> SkillInvocationResponse:
        """Return the full door: an envelope in, an envelope out; only an unknown tool raises.

        `entry` is what the catalogue resolved for this caller already; without it the request's name is looked up.
        """
        return (await self._make(request, context, entry)).response()

    async def output_of(self, request: SkillInvocationRequest, context: CallContext) -> Any:
        """Make a call as `invoke` does, and return its output or raise CallFailed; no response is built."""
        call = await self._make(request, context, None)
        if call.end.error is not None:
            raise CallFailed(call.response())
        return call.end.answer.output

    async def _make(self, request: SkillInvocationRequest, context: CallContext, entry: ToolEntry | None) -> Invocation:
        """Make a call; what came of it is its `end`."""
        if entry is None:
            entry = self._catalog.resolve(request.tenant_id, request.tool_name, context.caller)
        if self._collector.is_full:
            await self._collector.room()
        if self._concealment is not None and request.tenant_id not in self._prepared:
            # What the tool logs is cleaned on the spot, by what is known by then.
            await asyncio.to_thread(self._concealment.prepare, request.tenant_id)
            self._prepared.add(request.tenant_id)
        call = Invocation(request, context, entry, new_uuid(), self._micros(), request.payload)
        outer, own = current_correlation.get(), call.correlation_id
        # A call inside a composite carries the composite's, and a context variable is dear to set.
        if own != outer:
            current_correlation.set(own)
        try:
            call.end = await self._run(call)
        except asyncio.CancelledError:
            if not call.is_recorded:
                await asyncio.shield(self._abandon(call))
            raise
        finally:
            if own != outer:
                current_correlation.set(outer)
        return call

    async def _run(self, call: Invocation) -> CallEnd:
        try:
            contract = self._contract(call.entry)
            if contract.is_marked and self._concealment is not None:
                call.veil = CallRedaction(self._concealment, call.request.tenant_id, call.entry)
            call.admit(contract)
            is_plain = contract.is_plain and call.request.idempotency_key is None
            if not is_plain or (self._gatekeeper.judges_reads and not await self._lets_read(call)):
                earlier = await self._enter_guarded(call)
                if earlier is not None:
                    return await self._replay(call, earlier)
            if is_plain and not contract.is_marked and call.context.recall is not None:
                output = await call.context.recall(call.entry, call.encoded or b"")
                if output is not None:
                    return await self._replay(call, EarlierAnswer("success", {"output": output}))
            if is_plain:
                await self._check_first(call)
            answer = await self._reach(call, contract)
        except TwinRavenError as error:
            return await self._failed(call, error)
        return await self._succeeded(call, answer)

    async def _lets_read(self, call: Invocation) -> bool:
        """Return whether a plain read may be made at once: it has no other tools inside, and policy allows it."""
        return call.entry.connector not in self._composites and await self._gatekeeper.lets_read(call)

    async def _enter_guarded(self, call: Invocation) -> EarlierAnswer | None:
        """Policy, evidence and the key, for everything but plain reads that policy has nothing to say about."""
        call.derive_key(self._micros(), partial(self._claims.hash_text, call.request.tenant_id))
        request, entry = call.request, call.entry
        actual = side_effect_of(entry.effect)
        if request.side_effect == "read" and entry.writes:
            raise InvalidInput(f"the request calls {entry.tool_id!r} a read, but it is {actual}", field="side_effect")
        if entry.writes and not request.idempotency_key:
            raise InvalidInput(
                f"{entry.tool_id!r} can change something, so the request needs an idempotency_key",
                field="idempotency_key",
            )
        decision = await self._gatekeeper.admit(call, self._tools_inside(call))
        await self._check_first(call)
        key = call.request.idempotency_key
        if key is None:
            if self._evidence is not None and (call.is_sensitive or call.grant is not None):
                await self._evidence.read(call, decision)
            return None
        along = None if self._evidence is None else self._evidence.intended(call, decision)
        if call.context.step is not None:
            along = all_of(call.context.step.begin, along)
        taken = await self._claim(call, check_name(key, field="idempotency_key"), along)
        if isinstance(taken, EarlierAnswer):
            return taken
        call.claim = taken
        return None

    async def _check_first(self, call: Invocation) -> None:
        """Check a service that was never checked, before a key is taken: until then nothing can be unknown.

        The check has as long as the tool itself may take; the tool's own time begins when it is called.
        """
        check, entry = self._first_check, call.entry
        if check is None or not check.needs_check(call.request.tenant_id, entry):
            return
        call.is_let_in = True
        try:
            with self._limits.of(self._timeout(entry) / 1000):
                await check.check_first(call.request.tenant_id, entry, caller=call.context.caller)
        except TimeoutError as error:
            raise self._late_check(entry) from error

    def _late_check(self, entry: ToolEntry) -> ToolUnavailable:
        """Return the error for a check that took all the time that the tool has."""
        return ToolUnavailable(
            f"nothing was sent: checking the service of {entry.tool_id!r} took more than {self._timeout(entry)} ms",
            tool_id=entry.tool_id,
        )

    def _tools_inside(self, call: Invocation) -> Iterable[ToolEntry]:
        composite = self._composites.get(call.entry.connector)
        return () if composite is None else composite.tools_inside(call.request.tenant_id, call.entry)

    async def _claim(self, call: Invocation, key: str, along: Along | None) -> Claim | EarlierAnswer:
        """Take the key; a caller who goes away meanwhile does not leave it behind taken."""
        claiming = asyncio.ensure_future(
            self._claims.claim(
                call.request.tenant_id,
                key,
                tool_id=call.entry.tool_id,
                body=call.encoded or b"",
                timeout_ms=self._timeout(call.entry),
                along=along,
                epoch=call.context.epoch,
                takes_key=call.entry.takes_key,
                use=KeyUse(str(call.event_id), call.context.session_id, call.context.caller),
            )
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await asyncio.shield(self._give_back(claiming))
            raise

    async def _give_back(self, claiming: asyncio.Future[Claim | EarlierAnswer]) -> None:
        try:
            taken = await claiming
        except TwinRavenError:
            return
        if isinstance(taken, Claim):
            await self._claims.release(taken)

    async def _reach(self, call: Invocation, contract: ToolContract) -> ToolOutput:
        """Invoke the tool in its time and check what it answered."""
        entry = call.entry
        connector = self._connectors.get(entry.connector)
        if connector is None:
            raise ToolUnavailable(f"no connector {entry.connector!r} is set up", tool_id=entry.tool_id)
        within_s = call.context.within_s
        call.is_sent = True
        frame = call.frame
        if within_s is not None and within_s <= contract.timeout_s:
            limit = UNLIMITED
        else:
            limit = self._limits.of(contract.timeout_s)
            frame.keep_alive = partial(limit.extend, self._longest_s)
        try:
            with limit:
                returned = await connector.invoke(entry, call.params, call=frame)
        except TwinRavenError as error:
            call.raw = error.details.get("result")
            raise
        except TimeoutError as error:
            if frame.is_unsent and limit.is_over:
                raise self._late_check(entry) from error
            self._raise_timeout(entry, error, is_ours=limit.is_over)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                call.is_sent = not frame.is_unsent
                raise
            raise ToolError("the tool was cancelled from within", tool_id=entry.tool_id) from error
        except (Exception, SystemExit) as error:  # foreign code: whatever a tool raises is its own failure
            raise ToolError(f"{type(error).__name__}: {error}", tool_id=entry.tool_id) from error
        answer = to_answer(returned, entry.tool_id)
        call.raw = answer.remarks.raw
        if contract.output is not None:
            _check_output(contract, answer)
        return answer

    def _raise_timeout(self, entry: ToolEntry, error: TimeoutError, *, is_ours: bool) -> NoReturn:
        what = f"did not answer within {self._timeout(entry)} ms" if is_ours else f"ran into a time-out: {error}"
        if entry.writes:
            raise EffectUnknown(
                f"{entry.tool_id!r} {what}; whether it took effect is unknown", tool_id=entry.tool_id
            ) from error
        raise ToolTimeout(f"{entry.tool_id!r} {what}", tool_id=entry.tool_id) from error

    async def _abandon(self, call: Invocation) -> None:
        """Settle a write whose caller went away after it was sent as unknown, under the key and in the log."""
        tool_id = call.entry.tool_id
        if call.is_sent and call.entry.writes:
            await self._failed(call, EffectUnknown("the caller was cancelled while the tool ran", tool_id=tool_id))
        else:
            await self._failed(call, ToolTimeout("the caller was cancelled before an answer came", tool_id=tool_id))

    async def _succeeded(self, call: Invocation, answer: ToolOutput) -> CallEnd:
        finished = self._micros()
        shown = call.shown_answer(answer)
        seen = call.observation(finished, output=shown.encoded, error_code=None)
        settle = None if call.claim is None else partial(self._settle, call, call.claim, shown, exact=answer.output)
        await self._conclude(call, seen, settle)
        return CallEnd(finished, answer)

    async def _failed(self, call: Invocation, error: TwinRavenError) -> CallEnd:
        finished = self._micros()
        shown = call.shown_error(error)
        seen = call.observation(finished, output=encode_output({"error": shown.message}), error_code=error.code)
        if call.claim is not None and isinstance(error, CallFailed):
            # A tool that called another may have done its own work first, whatever the other one says of itself.
            error.retryable = False
        if call.claim is not None and error.code == EffectUnknown.code:
            error.details.setdefault("idempotency_key", call.claim.key)
        # What could not be reached was not sent, whether or not it comes back by itself; a script whose call waits for
        # approval goes on under its key, and so does a call that asks for input first.
        is_unsent = error.retryable or isinstance(error, (ToolUnavailable, InputRequired, ApprovalPending))
        state: FailedState = "released" if is_unsent else "unknown" if error.code == EffectUnknown.code else "failed"
        settle, besides = None, None
        if call.claim is not None:
            settle = partial(self._settle_failure, call, call.claim, state, shown)
        elif (call.is_sent or call.is_let_in) and self._evidence is not None:
            besides = self._evidence.failed(call, shown)
        await self._conclude(call, seen, settle, besides=besides)
        return CallEnd(finished, ToolOutput(), await self._told(call, error))

    async def _told(self, call: Invocation, error: TwinRavenError) -> dict[str, Any]:
        """Return what the caller is told of a failure: errors travel to people and logs that no secret is meant for."""
        if self._concealment is None:
            return error.as_json()
        text = error_text(error)
        clean = await asyncio.to_thread(self._concealment.redact, call.request.tenant_id, text)
        return error.as_json() if clean is text else restated(error, clean).as_json()

    async def _settle(
        self, call: Invocation, claim: Claim, answer: ToolOutput, event: Along | None, *, exact: Any
    ) -> None:
        evidence = None
        if self._evidence is not None:
            evidence = self._evidence.settled(call, "success", output=answer.output, error=None)
        along = all_of(_journaled(call, {"output": exact}, answer), evidence, event)
        kept = {"output": answer.output, **({"partial": True} if answer.remarks.is_partial else {})}
        await self._claims.settle(claim, "success", kept, along=along)

    async def _settle_failure(
        self, call: Invocation, claim: Claim, state: FailedState, error: TwinRavenError, event: Along | None
    ) -> None:
        told = {"error": error.as_json()}
        # Of an unknown effect a person says what came of it, and a call that waits for approval is made again.
        is_outcome = state == "failed" or (state == "released" and not isinstance(error, ApprovalPending))
        journaled = _journaled(call, told) if is_outcome else None
        if state == "released":
            evidence = None if self._evidence is None else self._evidence.released(call, error)
            await self._claims.release(claim, along=all_of(journaled, evidence, event))
            return
        evidence = None if self._evidence is None else self._evidence.settled(call, state, output=None, error=error)
        await self._claims.settle(claim, state, told, along=all_of(journaled, evidence, event))

    async def _replay(self, call: Invocation, earlier: EarlierAnswer) -> CallEnd:
        """Answer from the record; the log shows that a call was made and nothing was sent."""
        finished = self._micros()
        output, error = earlier.response.get("output"), earlier.response.get("error")
        shown = output if error is None else {"error": error["message"]}
        seen = call.observation(
            finished,
            output=None if shown is None else encode_output(shown),
            error_code=None if error is None else error["code"],
            tags=(CACHED,),
        )
        await self._conclude(call, seen, None)
        answer = ToolOutput(output, remarks=ToolAnswer(None, is_partial=bool(earlier.response.get("partial"))))
        return CallEnd(finished, answer, error, replayed=True)

    async def _conclude(
        self,
        call: Invocation,
        seen: Observation,
        settle: Settle | None,
        *,
        besides: Coroutine[Any, Any, None] | None = None,
    ) -> None:
        """Record the call and settle its key; the one must not be left out because the other failed."""
        call.is_recorded = True
        _logger.debug("%s: %s in %d ms", seen.tool_id, seen.error_code or "done", seen.latency_ms)
        step = call.context.step
        event = None if settle is None and step is None else self._collector.carry(seen, self._claims.database)
        if event is not None and settle is not None:
            return await asyncio.shield(settle_with(event, settle))
        if event is not None and besides is None and step is not None and step.carry(event):
            return None
        try:
            receipt = self._collector.submit(seen)
        finally:
            if settle is not None:
                await asyncio.shield(asyncio.ensure_future(settle(None)))
            if besides is not None:
                await asyncio.shield(besides)
        if call.context.durable:
            await receipt
        return None

    def _contract(self, entry: ToolEntry) -> ToolContract:
        contract = self._contracts.get(entry.tool_id)
        if contract is None or contract.entry is not entry:
            output = None if entry.output_schema is None else compile_schema(entry.output_schema)
            is_marked = self._concealment is not None and any(
                map(self._concealment.has_marks, (entry.input_schema, entry.output_schema))
            )
            contract = ToolContract(
                entry,
                compile_schema(entry.input_schema),
                output,
                self._timeout(entry) / 1000,
                is_marked,
                is_plain=not entry.writes and entry.sensitivity is not Sensitivity.HIGH,
            )
            self._contracts[entry.tool_id] = contract
        return contract

    def _timeout(self, entry: ToolEntry) -> int:
        return entry.timeout_ms or self._default_timeout_ms


def _journaled(call: Invocation, outcome: dict[str, Any], answer: ToolOutput | None = None) -> Along | None:
    """Return what a settlement's transaction writes of the durable step that the call is, where it is one."""
    step = call.context.step
    if step is None:
        return None
    if not step.is_remarked:
        return lambda tx: step.settle(tx, outcome)
    said = call.response(CallEnd(call.started, answer or ToolOutput(), outcome.get("error")))
    told = {**outcome, "remarks": said.remarks}
    return lambda tx: step.settle(tx, told)


def _is_cancelled() -> bool:
    """Return whether the task around us was cancelled; a tool may also cancel something of its own."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _check_output(contract: ToolContract, answer: ToolOutput) -> None:
    if contract.output is None:
        return
    described = answer.remarks.described
    try:
        contract.output.check(answer.output if described is None else described, field="output")
    except InvalidInput as error:
        raise InvalidOutput(
            f"{contract.entry.tool_id!r} answered what its output schema forbids: {error.message}",
            tool_id=contract.entry.tool_id,
        ) from error
