"""Models one call on its way through the path, and builds the event that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import orjson

from twinraven.calls.call_redaction import CallRedaction
from twinraven.calls.claims import Claim
from twinraven.calls.derived_keys import derive_key
from twinraven.calls.model import (
    CallAudit,
    CallContext,
    Grant,
    SkillInvocationRequest,
    SkillInvocationResponse,
    side_effect_of,
)
from twinraven.calls.ports import CallFrame
from twinraven.catalog import Sensitivity, ToolAnswer, ToolEntry
from twinraven.foundation.canonical import NULL, parse_json
from twinraven.foundation.errors import InvalidInput, InvalidOutput, TwinRavenError
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
class ToolContract:
    """An entry's compiled schemas."""

    entry: ToolEntry
    inputs: Schema
    output: Schema | None
    timeout_s: float
    is_marked: bool = False
    """Whether a schema marks something as secret."""
    is_plain: bool = False
    """Whether a call without a key is a mere read of nothing sensitive, and so needs no guard."""


@dataclass(slots=True)
class ToolOutput:
    """A tool's output as JSON, both as a value and as text, and what it said of the call besides."""

    output: Any = None
    encoded: bytes | None = None
    remarks: ToolAnswer = _NO_REMARKS


@dataclass(slots=True)
class CallEnd:
    """What came of a call: an answer, or an error as its caller is told of it."""

    finished: int
    answer: ToolOutput
    error: dict[str, Any] | None = None
    replayed: bool = False


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
    veil: CallRedaction | None = None
    grant: Grant | None = None
    """The grant of an approval."""
    has_spare_key: bool = False
    """Whether the key was made for this request alone."""
    is_let_in: bool = False
    """Whether policy has let it pass, and its service was about to be reached."""
    is_sent: bool = False
    is_recorded: bool = False
    raw: Any = None
    """The answer as a server sent it, also one that says that the tool failed."""
    end: CallEnd = field(init=False)
    """Set when the call has come to its end."""

    def admit(self, contract: ToolContract) -> None:
        """Take the arguments, with defaults filled in, or refuse them before anything is sent."""
        self.params = contract.inputs.fill(self.request.payload)
        contract.inputs.check(self.params)
        self.encoded = encode_params(self.params)

    @property
    def is_sensitive(self) -> bool:
        """Whether the call leaves evidence even if it only reads."""
        return self.entry.sensitivity is Sensitivity.HIGH

    @property
    def needs_guard(self) -> bool:
        """Whether it is more than a plain read."""
        return self.entry.writes or self.request.idempotency_key is not None or self.is_sensitive

    def derive_key(self, now: int, hash_text: Callable[[bytes], str]) -> None:
        """Derive the key that the caller did not give: by the tool's own rule, else the spare one for a write."""
        if self.request.idempotency_key is None:
            key = derive_key(self.entry, self.params, self.context, now=now, hash_text=hash_text)
            if key is not None:
                self.request = replace(self.request, idempotency_key=key)
            elif self.entry.writes and self.context.spare_key is not None:
                self.take_spare_key(self.context.spare_key)

    def take_spare_key(self, key: str) -> None:
        """Run under a key that stands for this request alone."""
        self.request = replace(self.request, idempotency_key=key)
        self.has_spare_key = True

    @property
    def correlation_id(self) -> str:
        """The correlation id of the request: the id it came with, else its own."""
        return self.request.correlation_id or self.request.id

    @property
    def shown_params(self) -> Any:
        """The arguments as they may be recorded."""
        return self.params if self.veil is None else parse_json(self.veil.params(self.params), field="params")

    def shown_answer(self, answer: ToolOutput) -> ToolOutput:
        """Return the answer as it may be recorded."""
        if self.veil is None or answer.encoded is None:
            return answer
        encoded = self.veil.output(self.params, answer.output, answer.encoded)
        return ToolOutput(parse_json(encoded, field="output"), encoded, answer.remarks)

    def shown_error(self, error: TwinRavenError) -> TwinRavenError:
        """Return the error as it may be recorded."""
        return error if self.veil is None else self.veil.error(self.params, error)

    @property
    def frame(self) -> CallFrame:
        request, context = self.request, self.context
        return CallFrame(
            tenant_id=request.tenant_id,
            session_id=context.session_id,
            event_id=self.event_id,
            turn=context.turn,
            key=request.idempotency_key,
            correlation_id=self.correlation_id,
            task_id=request.task_id,
            caller=context.caller,
            actor=context.actor,
            durable=context.durable,
            grant=self.grant,
            spare_key=context.spare_key,
            epoch=context.epoch,
            channel=context.channel,
        )

    def observation(
        self, finished: int, *, output: bytes | None, error_code: str | None, tags: tuple[str, ...] = ()
    ) -> Observation:
        """Return the event this call leaves."""
        request, context = self.request, self.context
        said, tags = self._outside_input, context.tags + tags
        if request.campaign_id is not None or request.goal_id is not None:
            tags += tuple(tag for tag in request.lineage_tags if tag not in tags)
        if self.veil is not None:
            said = None if said is None else self.veil.text(self.params, said)
            tags = tuple(self.veil.text(self.params, tag) for tag in tags)
        return Observation(
            tenant_id=request.tenant_id,
            event_id=self.event_id,
            session_id=context.session_id,
            tool_id=self.entry.tool_id,
            params=self.recorded_params(),
            output=output,
            timestamp=self.started,
            latency_ms=max(0, finished - self.started) // 1000,
            outcome=Outcome.PARTIAL if error_code is None else Outcome.FAILURE,
            tags=tags,
            parent_event_id=context.parent_event_id,
            raised=error_code is not None,
            error_code=error_code,
            turn=context.turn,
            task_id=request.task_id,
            outside_input=None if said is None else clean_text(said),
            correlation_id=clean_text(self.correlation_id),
            actor_type=None if context.actor is None else context.actor.type,
            actor_id=None if context.actor is None else context.actor.id,
        )

    @property
    def _outside_input(self) -> str | None:
        """Return the outside input before this call; an approval is one."""
        if self.context.outside_input is None and self.grant is not None and not self.context.is_inner:
            return f"approved by {self.grant.granted_by}"
        return self.context.outside_input

    def recorded_params(self) -> bytes:
        """Return the arguments for the log; of those that were refused, as much as can be recorded."""
        if self.veil is None and self.encoded is not None:
            return self.encoded
        try:
            return encode_params(self.params) if self.veil is None else self.veil.params(self.params)
        except InvalidInput as error:
            return encode_params({"not_recordable": error.message})

    def response(self, end: CallEnd | None = None) -> SkillInvocationResponse:
        """Build the response to the caller; a settlement says `end` before the call has come to it."""
        end = end or self.end
        answer, error = end.answer, end.error
        remarks = answer.remarks
        return SkillInvocationResponse(
            request_id=self.request.id,
            status="failed" if error is not None else "partial" if remarks.is_partial else "success",
            output=answer.output,
            error=error,
            audit=CallAudit(self.started, end.finished, remarks.tokens, remarks.currency, remarks.amount),
            event_id=self.event_id,
            replayed=end.replayed,
            confidence_score=remarks.confidence_score if error is None else 0.0,
            risk_tags=remarks.risk_tags,
            side_effect=side_effect_of(self.entry.effect),
            sensitivity=self.entry.sensitivity.value,
            raw=self.raw,
        )


def to_answer(returned: Any, tool_id: str) -> ToolOutput:
    """Encode a tool's output as JSON; one that JSON cannot carry is the tool's error."""
    remarks = returned if isinstance(returned, ToolAnswer) else _NO_REMARKS
    output = remarks.output if remarks is returned else returned
    if output is None:
        return ToolOutput(remarks=remarks)
    try:
        encoded = orjson.dumps(output, option=_PLAIN)
        if encoded.find(NULL) < 0 or not has_odd_float(output):
            return ToolOutput(output, encoded, remarks)
    except (TypeError, RecursionError):
        pass
    try:
        encoded = encode_output(output)
    except InvalidInput as error:
        raise InvalidOutput(f"{tool_id!r} answered what JSON cannot carry: {error.message}", tool_id=tool_id) from error
    return ToolOutput(parse_json(encoded, field="output"), encoded, remarks)
