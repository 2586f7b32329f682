"""`otlp`: spans in OTLP's JSON encoding, as collectors write them to files and exporters send them.

A line is a `TracesData` object; a file may also be one such object over many lines. Spans of tool calls are calls;
spans of models give turns, what the user said, and the calls themselves where no span tells of them (see `spans`).
Which instrumentation made them shows in their attributes (see `span_facts`). A call's session is its conversation, else
its trace; when it began and how long it took are known; a status of error means that it raised.

The id of an event follows from the ids of trace and span, so a span that is exported twice is one event. What
OpenTelemetry's console exporter prints (`context.trace_id`, plain attributes) is understood as well.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, cast
from uuid import UUID

from twinraven.foundation.actors import ACTOR_TYPES, SYSTEM, Actor, parse_actor
from twinraven.foundation.clock import parse_iso, to_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats import genai
from twinraven.muninn.formats.span_facts import Get, ToolFacts, kind_of, label_of, messages_of, session_of, tool_facts
from twinraven.muninn.formats.spans import (
    WINDOW,
    Contexts,
    ModelSpan,
    SpanKey,
    SpanLog,
    ToolSpan,
    derived_id,
)
from twinraven.muninn.formats.trace import ForeignCall, Heard, LineError, Seen, items_of, members_of, parse_object
from twinraven.muninn.model import check_turn

_TRACE_ID, _SPAN_ID = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}")
_ERROR = (2, "STATUS_CODE_ERROR", "ERROR")
_LATEST = 2**53

Members = dict[str, Any]


def recognises(value: Any) -> bool:
    """Whether this holds spans, of OTLP or of the console exporter."""
    if not isinstance(value, dict):
        return False
    members = cast("Members", value)
    if "resourceSpans" in members or "resource_spans" in members:
        return True
    context = members.get("context")
    return isinstance(context, dict) and "trace_id" in context and "span_id" in context


class OtlpParser:
    """Reads spans one by one and leaves what they have to do with each other to a span log."""

    keeps_ids = True

    def __init__(self, tenant_id: str, *, window: int = WINDOW, contexts: Contexts | None = None) -> None:
        self._log = SpanLog(tenant_id, "otlp", window=window, contexts=contexts)
        self.seen = Seen("spans", "is a tool call, or a model's turn with tool calls in its messages")

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        yield from self.take(parse_object(line), number, len(line))

    def take(self, document: Members, number: int, size: int) -> Iterator[Heard]:
        """The same for a document that is parsed already."""
        for span in spans_in(document):
            try:
                held = self.read(members_of(span, "the span"), number)
            except TwinRavenError as error:
                yield LineError(number, f"span {_shown_id(span)}: {error.message}")
            else:
                if held is not None:
                    yield from self._log.hold(held)
        yield from self._log.weigh(size)

    def finish(self) -> Iterator[Heard]:
        yield from self._log.finish()

    def has_met(self, key: SpanKey) -> bool:
        """Whether a span was joined with others before."""
        return self._log.has_met(key)

    def join(self, spans: Iterable[ToolSpan | ModelSpan]) -> Iterator[Heard]:
        """The calls of spans that were read and belong together."""
        yield from self._log.join(spans)

    def read(self, span: Members, number: int) -> ToolSpan | ModelSpan | None:
        """One span; None where it is neither a call nor a model's turn."""
        attributes = _attributes(span.get("attributes"))
        get = attributes.get
        name = str(span.get("name") or "")
        kind = kind_of(get, name)
        session = session_of(get)
        parent = _hex(span.get("parentSpanId"), _SPAN_ID)
        if kind == "other":
            self.seen.count(label_of(get))
            trace, own = _hex(span.get("traceId"), _TRACE_ID), _hex(span.get("spanId"), _SPAN_ID)
            if session is not None:
                self._log.state_session(trace, session)
            if parent:
                self._log.state_parent((trace, own), (trace, parent))
            return None
        key = (_id(span, "traceId", _TRACE_ID), _id(span, "spanId", _SPAN_ID))
        around = (key[0], parent) if parent else None
        if session is not None:
            self._log.state_session(key[0], session)
        if around is not None:
            self._log.state_parent(key, around)
        if kind == "tool":
            call, facts = _tool(span, key, session, get)
            return ToolSpan(key, around, call, session, number, facts.call_id, facts.is_complete)
        self.seen.count(label_of(get))
        messages = partial(_messages, attributes, span.get("events"))
        began, ended = (nanos // 1000 for nanos in _span_of(span))
        return ModelSpan(key, around, session, began, ended, number, messages)


def spans_in(document: Members) -> Iterator[Any]:
    """The spans of a document, whatever they are."""
    listed = document.get("resourceSpans", document.get("resource_spans"))
    if listed is None:
        if not recognises(document):
            raise InvalidInput("resourceSpans is missing: the line holds no spans", field="resourceSpans")
        yield _printed(document)
        return
    for resource in items_of(listed, "resourceSpans"):
        members = members_of(resource, "an item of resourceSpans")
        scopes = members.get("scopeSpans", members.get("scope_spans", members.get("instrumentationLibrarySpans")))
        for scope in items_of(scopes, "scopeSpans"):
            yield from items_of(members_of(scope, "an item of scopeSpans").get("spans"), "spans")


def trace_of(span: Members) -> str:
    """The trace a span belongs to, empty where it states none."""
    return _hex(span.get("traceId"), _TRACE_ID)


def _printed(span: Members) -> Members:
    """A span of the console exporter as OTLP has it."""
    context, status = members_of(span.get("context"), "context"), span.get("status")
    code = cast("Members", status) if isinstance(status, dict) else {}
    return {
        "traceId": str(context.get("trace_id")).removeprefix("0x"),
        "spanId": str(context.get("span_id")).removeprefix("0x"),
        "parentSpanId": str(span.get("parent_id") or "").removeprefix("0x"),
        "name": span.get("name"),
        "startTimeUnixNano": _iso_nanos(span.get("start_time")),
        "endTimeUnixNano": _iso_nanos(span.get("end_time")),
        "attributes": span.get("attributes") or {},
        "status": {"code": code.get("status_code"), "message": code.get("description")},
    }


def _iso_nanos(stated: Any) -> int | None:
    return to_micros(parse_iso(stated)) * 1000 if isinstance(stated, str) else None


def _tool(span: Members, key: SpanKey, session: str | None, get: Get) -> tuple[ForeignCall, ToolFacts]:
    began, ended = _times(span)
    facts = tool_facts(get, str(span.get("name") or ""))
    is_known = ended is not None and ended >= began and get(genai.TIME_KNOWN) is not False
    status = members_of(span.get("status") or {}, "status")
    raised = facts.raised or status.get("code") in _ERROR
    output = facts.output
    if output is None and raised and status.get("message"):
        output = {"error": str(status["message"])}
    turn = get(genai.TURN)
    call = ForeignCall(
        identity=f"otlp:{key[0]}:{key[1]}",
        session_id=session or key[0],
        tool_id=facts.tool,
        params=facts.params,
        timestamp=began // 1000,
        time_known=is_known,
        output=output,
        latency_ms=0 if ended is None or not is_known else (ended - began + 500_000) // 1_000_000,
        raised=raised,
        error_code=_text(get, genai.ERROR_TYPE),
        outcome=_text(get, genai.OUTCOME),
        turn=None if turn is None else check_turn(turn),
        task_id=_text(get, genai.TASK_ID),
        outside_input=_text(get, genai.OUTSIDE_INPUT),
        tags=tuple(map(str, items_of(get(genai.TAGS), genai.TAGS))),
        correlation_id=_text(get, genai.CORRELATION_ID),
        actor=_actor(get),
        event_id=_uuid(get, genai.EVENT_ID) or derived_id("otlp", key),
        parent_event_id=_uuid(get, genai.PARENT_EVENT_ID),
        corrects=_uuid(get, genai.CORRECTS),
    )
    return call, facts


def _messages(attributes: Members, events: Any) -> tuple[list[Any], list[Any]]:
    asked, answered = messages_of(attributes)
    return (asked, answered) if asked else _messages_in_events(events)


def _messages_in_events(events: Any) -> tuple[list[Any], list[Any]]:
    """Messages that an instrumentation keeps as events of the span."""
    asked: list[Any] = []
    answered: list[Any] = []
    for event in cast("list[Any]", events) if isinstance(events, list) else ():
        if not isinstance(event, dict):
            continue
        members = cast("Members", event)
        plain = _attributes(members.get("attributes"))
        name = str(members.get("name") or "")
        if name == "gen_ai.client.inference.operation.details":
            return messages_of(plain)
        if name == "gen_ai.choice":
            found = plain.get("message", plain)
            answered += [{"role": "assistant", **found}] if isinstance(found, dict) else []
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            asked.append({"role": name.split(".")[1], **plain})
    return asked, answered


def _span_of(span: Members) -> tuple[int, int]:
    began, ended = _times(span)
    return began, began if ended is None else ended


def _times(span: Members) -> tuple[int, int | None]:
    began, ended = _nanos(span, "startTimeUnixNano"), _nanos(span, "endTimeUnixNano")
    if began is None:
        raise InvalidInput("startTimeUnixNano is missing", field="startTimeUnixNano")
    return began, ended


def _id(span: Members, name: str, form: re.Pattern[str]) -> str:
    found = _hex(span.get(name), form)
    if not found:
        raise InvalidInput(f"{name} must be {16 if form is _SPAN_ID else 32} hexadecimal digits", field=name)
    return found


def _hex(stated: Any, form: re.Pattern[str]) -> str:
    """An id in hexadecimal digits, or in base64 as protobuf's own JSON has it."""
    found = str(stated or "").lower()
    if form.fullmatch(found):
        return found
    if isinstance(stated, str) and len(stated) in (12, 24):
        try:
            found = base64.b64decode(stated, validate=True).hex()
        except (binascii.Error, ValueError):
            return ""
        return found if form.fullmatch(found) else ""
    return ""


def _shown_id(span: Any) -> str:
    return repr(cast("Members", span).get("spanId")) if isinstance(span, dict) else repr(span)[:40]


def _nanos(span: Members, name: str) -> int | None:
    """64-bit numbers are texts in OTLP's JSON, and accepted as numbers; zero is how protobuf says nothing."""
    found = span.get(name)
    if found in (None, 0, "0", ""):
        return None
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 21:
        found = int(found)
    if type(found) is not int or not 0 < found // 1000 < _LATEST:
        raise InvalidInput(f"{name} must be nanoseconds since 1970, not {found!r}", field=name)
    return found


def _text(get: Get, name: str) -> str | None:
    found = get(name)
    return None if found is None else str(found)


def _actor(get: Get) -> Actor | None:
    kind, name = (_text(get, genai.attribute_of(field)) for field in ("actor_type", "actor_id"))
    if kind is None or (kind, name) == ("system", None):
        return None if kind is None else SYSTEM
    if kind not in ACTOR_TYPES:
        known = ", ".join(ACTOR_TYPES)
        raise InvalidInput(f"{genai.attribute_of('actor_type')} must be one of {known}, not {kind!r}", field="actor")
    return parse_actor(f"{kind}:{name or ''}", field=genai.attribute_of("actor_id"))


def _uuid(get: Get, name: str) -> UUID | None:
    found = get(name)
    if found is None:
        return None
    try:
        return UUID(str(found))
    except ValueError:
        raise InvalidInput(f"{name} must be a UUID, not {found!r}", field=name) from None


def _attributes(listed: Any) -> Members:
    """Attributes by name; nearly all are texts, so these are taken without a further look."""
    if isinstance(listed, dict):
        return cast("Members", listed)
    found: Members = {}
    for item in items_of(listed, "attributes"):
        pair = members_of(item, "an attribute")
        tagged = pair.get("value")
        text = cast("Members", tagged).get("stringValue") if isinstance(tagged, dict) else None
        found[str(pair.get("key"))] = _value(tagged) if text is None else text
    return found


def _value(tagged: Any) -> Any:
    """One of OTLP's tagged values as plain JSON."""
    if tagged is None or tagged == {}:
        return None
    ((kind, value), *_) = members_of(tagged, "an attribute's value").items()
    if kind in ("intValue", "doubleValue"):
        return _number(value, kind)
    if kind == "arrayValue":
        return [_value(item) for item in items_of(members_of(value, "arrayValue").get("values"), "values")]
    if kind == "kvlistValue":
        return _attributes(members_of(value, "kvlistValue").get("values") or [])
    return value


def _number(value: Any, kind: str) -> int | float:
    try:
        return int(value) if kind == "intValue" else float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"an attribute's {kind} is {value!r}", field=kind) from None
