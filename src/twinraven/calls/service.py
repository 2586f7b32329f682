"""The one path by which any tool is called: resolve, validate, gate, claim, invoke, validate, record.

Every door uses it, so what it guarantees holds everywhere: arguments fit the schema before anything is sent, policy has
spoken, a key never runs twice, the answer fits its schema, and Muninn remembers the call whatever came of it. Writes
need a key. A write whose answer is lost (time ran out, the process died) is unknown, not failed: saying "failed" would
invite a second effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import UUID

from twinraven.calls.claims import Claim, Claims, EarlierAnswer, Settled
from twinraven.calls.model import (
    CallAudit,
    CallContext,
    CallFailed,
    SkillInvocationRequest,
    SkillInvocationResponse,
    side_effect_of,
)
from twinraven.calls.ports import CallFrame, Connector, OpenGate, PolicyGate
from twinraven.catalog import Catalog, ToolEntry
from twinraven.foundation.canonical import canonical_json, to_json_value
from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.errors import (
    EffectUnknown,
    InvalidInput,
    InvalidOutput,
    PolicyViolation,
    ToolError,
    ToolTimeout,
    ToolUnavailable,
    TwinRavenError,
)
from twinraven.foundation.ids import new_id, new_uuid
from twinraven.foundation.json_schema import Schema, compile_schema
from twinraven.muninn import CACHED, Collector, Outcome, Receipt

DEFAULT_TIMEOUT_MS = 30_000


@dataclass(slots=True)
class _Call:
    """One call on its way through the path."""

    request: SkillInvocationRequest
    context: CallContext
    entry: ToolEntry
    event_id: UUID
    started: int
    params: dict[str, Any]
    claim: Claim | None = None

    @property
    def frame(self) -> CallFrame:
        request, context = self.request, self.context
        return CallFrame(
            tenant_id=request.tenant_id,
            session_id=context.session_id,
            event_id=self.event_id,
            turn=context.turn,
            key=request.idempotency_key,
            correlation_id=request.correlation_id or request.id,
            task_id=request.task_id,
            caller=context.caller,
            durable=context.durable,
        )


@dataclass(frozen=True, slots=True)
class _Contract:
    """An entry's compiled schemas."""

    entry: ToolEntry
    inputs: Schema
    output: Schema | None


class Calls:
    """Calls tools, for every door."""

    def __init__(
        self,
        catalog: Catalog,
        collector: Collector,
        claims: Claims,
        connectors: Iterable[Connector],
        *,
        gate: PolicyGate | None = None,
        default_timeout_ms: int = DEFAULT_TIMEOUT_MS,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._catalog = catalog
        self._collector = collector
        self._claims = claims
        self._connectors = {connector.name: connector for connector in connectors}
        self._gate = gate or OpenGate()
        self._default_timeout_ms = default_timeout_ms
        self._micros = micros
        self._contracts: dict[str, _Contract] = {}

    def add_connector(self, connector: Connector) -> None:
        """Plug in another way to reach services."""
        self._connectors[connector.name] = connector

    async def call(
        self,
        tool_id: str,
        params: dict[str, Any],
        context: CallContext,
        *,
        tenant_id: str = "default",
        idempotency_key: str | None = None,
    ) -> Any:
        """The convenient door: the output, or an exception. A write without a key gets one of its own."""
        entry = self._catalog.find(tenant_id, tool_id)
        if idempotency_key is None and entry.writes:
            idempotency_key = new_id()
        response = await self.invoke(
            SkillInvocationRequest(
                tool_name=tool_id, payload=params, tenant_id=tenant_id, idempotency_key=idempotency_key
            ),
            context,
        )
        if response.error is not None:
            raise CallFailed(response)
        return response.output

    async def invoke(self, request: SkillInvocationRequest, context: CallContext) -> SkillInvocationResponse:
        """The full door: an envelope in, an envelope out; only an unknown tool raises."""
        entry = self._catalog.find(request.tenant_id, request.tool_name)
        await self._collector.room()
        call = _Call(request, context, entry, new_uuid(), self._micros(), request.payload)
        try:
            contract = self._contract(entry)
            call.params = contract.inputs.fill(request.payload)
            contract.inputs.check(call.params)
            if entry.writes or request.idempotency_key is not None:
                earlier = await self._enter_guarded(call)
                if earlier is not None:
                    return await self._replay(call, earlier)
            output = await self._reach(call, contract)
        except TwinRavenError as error:
            return await self._failed(call, error)
        return await self._succeeded(call, output)

    async def _enter_guarded(self, call: _Call) -> EarlierAnswer | None:
        """Policy and the key, for everything that is not a plain read."""
        request, entry = call.request, call.entry
        declared = request.side_effect
        if declared == "read" and entry.writes:
            raise InvalidInput(
                f"the request calls {entry.tool_id!r} a read, but it is {side_effect_of(entry.effect)}",
                field="side_effect",
            )
        if entry.writes and not request.idempotency_key:
            raise InvalidInput(
                f"{entry.tool_id!r} can change something, so the request needs an idempotency_key",
                field="idempotency_key",
            )
        decision = await self._gate.decide(entry, request, call.context)
        if decision.verdict != "allow":
            raise PolicyViolation(decision.reason, tool_id=entry.tool_id, rule=decision.rule, verdict=decision.verdict)
        if request.idempotency_key is None:
            return None
        taken = await self._claims.claim(
            request.tenant_id,
            request.idempotency_key,
            tool_id=entry.tool_id,
            body=canonical_json(to_json_value(call.params)),
            timeout_ms=self._timeout(entry),
        )
        if isinstance(taken, EarlierAnswer):
            return taken
        call.claim = taken
        return None

    async def _reach(self, call: _Call, contract: _Contract) -> Any:
        """Invoke the tool in its time and check what it answered."""
        entry = call.entry
        connector = self._connectors.get(entry.connector)
        if connector is None:
            raise ToolUnavailable(f"no connector {entry.connector!r} is set up", tool_id=entry.tool_id)
        timeout_ms = self._timeout(entry)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                output = await connector.invoke(entry, call.params, call=call.frame)
        except TimeoutError:
            self._raise_timeout(entry, timeout_ms)
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon(call))
            raise
        except TwinRavenError:
            raise
        except Exception as error:  # the edge to foreign code: whatever a tool raises is that tool's failure
            raise ToolError(f"{type(error).__name__}: {error}", tool_id=entry.tool_id) from error
        if contract.output is not None:
            self._check_output(contract, output)
        return output

    def _check_output(self, contract: _Contract, output: Any) -> None:
        try:
            if contract.output is not None:
                contract.output.check(to_json_value(output), field="output")
        except InvalidInput as error:
            raise InvalidOutput(
                f"{contract.entry.tool_id!r} answered what its output schema forbids: {error.message}",
                tool_id=contract.entry.tool_id,
            ) from error

    def _raise_timeout(self, entry: ToolEntry, timeout_ms: int) -> NoReturn:
        if entry.writes:
            raise EffectUnknown(
                f"{entry.tool_id!r} did not answer within {timeout_ms} ms; whether it took effect is unknown",
                tool_id=entry.tool_id,
            )
        raise ToolTimeout(f"{entry.tool_id!r} did not answer within {timeout_ms} ms", tool_id=entry.tool_id)

    async def _abandon(self, call: _Call) -> None:
        """The caller went away in the middle: for a write, nobody knows; say so under the key and in the log."""
        error = EffectUnknown("the caller was cancelled while the tool ran", tool_id=call.entry.tool_id)
        await self._failed(call, error if call.entry.writes else ToolTimeout("the caller was cancelled"))

    async def _succeeded(self, call: _Call, output: Any) -> SkillInvocationResponse:
        finished = self._micros()
        receipt = self._record(call, finished, output=output)
        if call.claim is not None:
            await asyncio.shield(self._claims.settle(call.claim, "success", {"output": to_json_value(output)}))
        if call.context.durable:
            await receipt
        return self._response(call, finished, output=output)

    async def _failed(self, call: _Call, error: TwinRavenError) -> SkillInvocationResponse:
        finished = self._micros()
        receipt = self._record(call, finished, error=error)
        if call.claim is not None:
            await asyncio.shield(self._settle_failure(call.claim, error))
        if call.context.durable:
            await receipt
        return self._response(call, finished, error=error.as_json())

    async def _settle_failure(self, claim: Claim, error: TwinRavenError) -> None:
        if error.retryable:
            await self._claims.release(claim)
            return
        state: Settled = "unknown" if isinstance(error, EffectUnknown) else "failed"
        await self._claims.settle(claim, state, {"error": error.as_json()})

    async def _replay(self, call: _Call, earlier: EarlierAnswer) -> SkillInvocationResponse:
        """Answer from the key's record; the log shows that a call was made and nothing was sent."""
        finished = self._micros()
        output, error = earlier.response.get("output"), earlier.response.get("error")
        receipt = self._record(call, finished, output=output if error is None else error, tags=(CACHED,))
        if call.context.durable:
            await receipt
        return self._response(call, finished, output=output, error=error, replayed=True)

    def _record(
        self,
        call: _Call,
        finished: int,
        *,
        output: Any = None,
        error: TwinRavenError | None = None,
        tags: tuple[str, ...] = (),
    ) -> Receipt:
        request, context = call.request, call.context
        observer = self._collector.observe(context.session_id, tenant_id=request.tenant_id, task_id=request.task_id)
        return observer.record(
            call.entry.tool_id,
            call.params,
            output=output if error is None else {"error": error.message},
            latency_ms=max(0, finished - call.started) // 1000,
            outcome=Outcome.PARTIAL if error is None else Outcome.FAILURE,
            timestamp=call.started,
            tags=context.tags + tags,
            turn=context.turn,
            outside_input=context.outside_input,
            parent_event_id=context.parent_event_id,
            event_id=call.event_id,
            correlation_id=request.correlation_id or request.id,
            raised=error is not None,
            error_code=None if error is None else error.code,
        )

    def _response(
        self,
        call: _Call,
        finished: int,
        *,
        output: Any = None,
        error: dict[str, Any] | None = None,
        replayed: bool = False,
    ) -> SkillInvocationResponse:
        return SkillInvocationResponse(
            request_id=call.request.id,
            status="success" if error is None else "failed",
            output=output,
            error=error,
            audit=CallAudit(started_at=from_micros(call.started), finished_at=from_micros(finished)),
            event_id=call.event_id,
            replayed=replayed,
            confidence_score=1.0 if error is None else 0.0,
        )

    def _contract(self, entry: ToolEntry) -> _Contract:
        contract = self._contracts.get(entry.tool_id)
        if contract is None or contract.entry is not entry:
            output = None if entry.output_schema is None else compile_schema(entry.output_schema)
            contract = _Contract(entry, compile_schema(entry.input_schema), output)
            self._contracts[entry.tool_id] = contract
        return contract

    def _timeout(self, entry: ToolEntry) -> int:
        return entry.timeout_ms or self._default_timeout_ms
