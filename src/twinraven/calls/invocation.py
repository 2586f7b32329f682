"""One call on its way through the path: what is known of it so far, and the event it will leave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson

from twinraven.calls.claims import Claim
from twinraven.calls.derived_keys import derive_key
from twinraven.calls.model import (
    CallAudit,
    CallContext,
    SkillInvocationRequest,
    SkillInvocationResponse,
    side_effect_of,
)
from twinraven.calls.ports import CallFrame
from twinraven.catalog import Sensitivity, ToolAnswer, ToolEntry
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import InvalidInput, InvalidOutput
from twinraven.foundation.json_schema import Schema
from twinraven.muninn import Observation, Outcome, clean_text, encode_output, encode_params, has_odd_float

_PLAIN = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)

_NO_REMARKS = ToolAnswer(None)


@dataclass(frozen=True, slots=True)
class Contract:
    """An entry's compiled schemas."""

    entry: ToolEntry
    inputs: Schema
    output: Schema | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's output as JSON, both as a value and as text, and what it said of the call besides."""

    output: Any = None
    encoded: bytes | None = None
    remarks: ToolAnswer = _NO_REMARKS


@dataclass(slots=True)
class Invocation:
    """One call under way."""

    request: SkillInvocationRequest
    context: CallContext
    entry: ToolEntry
    event_id: UUID
    started: int
    params: dict[str, Any]
    encoded: bytes | None = None
    claim: Claim | None = None
    is_sent: bool = False
    is_recorded: bool = False

    def admit(self, contract: Contract) -> None:
        """Take the arguments, with defaults filled in, or refuse them before anything is sent."""
        self.params = contract.inputs.fill(self.request.payload)
        contract.inputs.check(self.params)
        self.encoded = encode_params(self.params)

    @property
    def is_sensitive(self) -> bool:
        """Whether the call leaves evidence even if it only reads."""
        return self.entry.sensitivity is Sensitivity.HIGH

    def derive_key(self, now: int) -> None:
        """Where the caller gave no key, take the one that the tool's own rule gives."""
        if self.request.idempotency_key is None:
            key = derive_key(self.entry, self.params, self.context, now=now)
            if key is not None:
                self.request = replace(self.request, idempotency_key=key)

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

    def observation(
        self, finished: int, *, output: bytes | None, error_code: str | None, tags: tuple[str, ...] = ()
    ) -> Observation:
        """The event this call leaves."""
        request, context = self.request, self.context
        return Observation(
            request.tenant_id,
            self.event_id,
            context.session_id,
            self.entry.tool_id,
            _refused_params(self.params) if self.encoded is None else self.encoded,
            output,
            self.started,
            max(0, finished - self.started) // 1000,
            Outcome.PARTIAL if error_code is None else Outcome.FAILURE,
            context.tags + tags,
            context.parent_event_id,
            error_code is not None,
            error_code,
            context.turn,
            request.task_id,
            None if context.outside_input is None else clean_text(context.outside_input),
            None,
            True,
            clean_text(request.correlation_id or request.id),
        )

    def response(
        self, finished: int, *, answer: Answer, error: dict[str, Any] | None = None, replayed: bool = False
    ) -> SkillInvocationResponse:
        """What the caller is told."""
        remarks = answer.remarks
        return SkillInvocationResponse(
            request_id=self.request.id,
            status="success" if error is None else "failed",
            output=answer.output,
            error=error,
            audit=CallAudit(
                from_micros(self.started), from_micros(finished), remarks.tokens, remarks.currency, remarks.amount
            ),
            event_id=self.event_id,
            replayed=replayed,
            confidence_score=remarks.confidence_score if error is None else 0.0,
            risk_tags=remarks.risk_tags,
            side_effect=side_effect_of(self.entry.effect),
            sensitivity=self.entry.sensitivity.value,
        )


def to_answer(returned: Any, tool_id: str) -> Answer:
    """What a tool returned, as JSON; an answer that JSON cannot carry is the tool's fault."""
    remarks = returned if isinstance(returned, ToolAnswer) else _NO_REMARKS
    output = remarks.output if remarks is returned else returned
    if output is None:
        return Answer(remarks=remarks)
    try:
        encoded = orjson.dumps(output, option=_PLAIN)
        if b"null" not in encoded or not has_odd_float(output):
            return Answer(output, encoded, remarks)
    except (TypeError, RecursionError):
        pass
    try:
        encoded = encode_output(output)
    except InvalidInput as error:
        raise InvalidOutput(f"{tool_id!r} answered what JSON cannot carry: {error.message}", tool_id=tool_id) from error
    return Answer(parse_json(encoded, field="output"), encoded, remarks)


def _refused_params(params: Any) -> bytes:
    """Arguments that were refused, as far as they can be recorded."""
    try:
        return encode_params(params)
    except InvalidInput as error:
        return encode_params({"not_recordable": error.message})
