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
from functools import lru_cache, partial
from typing import Any, cast
from uuid import UUID

from twinraven.foundation.actors import ACTOR_TYPES, SYSTEM, Actor, parse_actor
from twinraven.foundation.clock import parse_iso, to_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats import genai
from twinraven.muninn.formats.span_documents import parse_spans
from twinraven.muninn.formats.span_facts import (
    USER,
    AttributeNames,
    Attributes,
    kind_of,
    label_of,
    messages_of,
    names_in,
    session_of,
    tool_facts,
    user_of,
)
from twinraven.muninn.formats.spans import (
    WINDOW,
    Contexts,
    ModelSpan,
    SpanKey,
    SpanLog,
    ToolSpan,
    derived_id,
    make_model_span,
    make_tool_span,
)
from twinraven.muninn.formats.trace import (
    ForeignCall,
    Heard,
    LineError,
    TraceCounts,
    items_of,
    make_call,
    members_of,
)
from twinraven.muninn.model import check_turn

_TRACE_ID, _SPAN_ID = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}")
_ERROR = (2, "STATUS_CODE_ERROR", "ERROR")
_FIRST, _LATEST = 1000, 2**53 * 1000
_SHARED = 4096
"""How many ids of traces and parents are kept: many spans name the same, which is checked and held once."""
_ACTOR_TYPE, _ACTOR_ID = map(genai.attribute_of, ("actor_type", "actor_id"))

Members = dict[str, Any]


def recognises(value: Any) -> bool:
    """Return whether this holds spans, of OTLP or of the console exporter."""
    if not isinstance(value, dict):
        return False
    members = cast("Members", value)
    if _resources_in(members) is not None:
        return True
    context = members.get("context")
    return isinstance(context, dict) and "trace_id" in context and "span_id" in context


class OtlpParser:
    """Reads spans one by one and leaves what they have to do with each other to a span log."""

    keeps_ids = True

    def __init__(self, tenant_id: str, *, window: int = WINDOW, contexts: Contexts | None = None) -> None:
        self._log = SpanLog(tenant_id, "otlp", window=window, contexts=contexts)
        self.seen = TraceCounts("spans", "is a tool call, or a model's turn with tool calls in its messages")

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        return self.take(parse_spans(line, _attributes), number, len(line))

    def take(self, document: Members, number: int, size: int) -> Iterator[Heard]:
        """Yield the same for a document that is parsed already."""
        read, hold = self.read, self._log.hold
        for span in spans_in(document):
            try:
                held = read(members_of(span, "the span"), number)
            except TwinRavenError as error:
                yield LineError(number, f"span {_shown_id(span)}: {error.message}")
            else:
                if held is not None:
                    yield from hold(held)
        yield from self._log.weigh(size)

    def finish(self) -> Iterator[Heard]:
        return self._log.finish()

    def has_met(self, key: SpanKey) -> bool:
        """Return whether a span was joined with others before."""
        return self._log.has_met(key)

    def join(self, spans: Iterable[ToolSpan | ModelSpan]) -> Iterator[Heard]:
        """Yield the calls of spans that were read and belong together."""
        yield from self._log.join(spans)

    def read(self, span: Members, number: int) -> ToolSpan | ModelSpan | None:
        """Read one span; None where it is neither a call nor a model's turn."""
        get = span.get
        attributes = _attributes(get("attributes"))
        names = names_in(attributes)
        kind = kind_of(attributes, names, str(get("name") or ""))
        session = session_of(attributes, names) if names.sessions else None
        trace, stated, outer = get("traceId"), get("spanId"), get("parentSpanId")
        key = (_trace_id(trace) if isinstance(trace, str) else "", _hex(stated, _SPAN_ID))
        parent = _parent_id(outer) if outer and isinstance(outer, str) else ""
        if kind != "other" and not (key[0] and key[1]):
            raise _unnamed(key)
        if session is not None:
            self._log.state_session(key[0], session)
        user = user_of(attributes, names) if names.users else None
        if user is not None:
            self._log.state_user(key[0], user)
        around = (key[0], parent) if parent else None
        if kind == "tool":
            call, call_id, is_complete = _tool(span, key, session, attributes, names)
            return make_tool_span((key, around, call, session, number, call_id, is_complete, names.is_ours))
        if parent:
            self._log.state_parent(key, parent)
        self.seen.count(label_of(attributes))
        if kind == "other":
            return None
        messages = partial(_messages, attributes, get("events"))
        began, ended = _times(span)
        return make_model_span((key, around, session, began // 1000, (ended or began) // 1000, number, messages))


def spans_in(document: Members) -> Iterator[Any]:
    """Yield the spans of a document, whatever they are."""
    listed = _resources_in(document)
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


def _resources_in(document: Members) -> Any:
    """Return the spans by resource, also as Tempo answers with them: under `batches`, or inside a `trace`."""
    for name in ("resourceSpans", "resource_spans", "batches"):
        if name in document:
            return document[name]
    inner = document.get("trace")
    return cast("Members", inner).get("resourceSpans") if isinstance(inner, dict) else None


def trace_of(span: Members) -> str:
    """Return the trace a span belongs to, empty where it states none."""
    stated = span.get("traceId")
    return _trace_id(stated) if isinstance(stated, str) else ""


def place_of(span: Members) -> Members:
    """Return what a span that is no call tells of those inside it: what is around it, its conversation and its user."""
    attributes = _attributes(span.get("attributes"))
    names = names_in(attributes)
    stated = {genai.CONVERSATION: session_of(attributes, names), USER: user_of(attributes, names)}
    told = {name: span.get(name) for name in ("traceId", "spanId", "parentSpanId")}
    return {**told, "attributes": {name: value for name, value in stated.items() if value is not None}}


def _printed(span: Members) -> Members:
    """Return a span of the console exporter as OTLP has it."""
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


def _tool(
    span: Members, key: SpanKey, session: str | None, attributes: Attributes, names: AttributeNames
) -> tuple[ForeignCall, str | None, bool]:
    began, ended = _times(span)
    facts = tool_facts(attributes, names, str(span.get("name") or ""))
    tool, params, output, raised, call_id, is_complete = facts[:]  # A plain tuple is unpacked without walking it.
    status = span.get("status")
    if status:
        stated = members_of(status, "status")
        raised = raised or stated.get("code") in _ERROR
        if output is None and raised and stated.get("message"):
            output = {"error": str(stated["message"])}
    is_known = ended is not None and ended >= began
    latency_ms = 0 if ended is None or not is_known else (ended - began + 500_000) // 1_000_000
    error_code = _text(attributes, genai.ERROR_TYPE) if raised else None
    identity, stated_session, event_id = f"otlp:{key[0]}:{key[1]}", session or key[0], derived_id("otlp", key)
    found = (identity, stated_session, tool, params, began // 1000, is_known, output, latency_ms, raised, error_code)
    call = make_call((*found, None, None, None, None, (), None, event_id, None, None, None))
    return _with_our_own(call, attributes) if names.is_ours else call, call_id, is_complete


def _with_our_own(call: ForeignCall, attributes: Attributes) -> ForeignCall:
    """Return a call with what the conventions have no name for, as our own exports state it."""
    turn = attributes.get(genai.TURN)
    is_timed = call.time_known and attributes.get(genai.TIME_KNOWN) is not False
    return call._replace(
        time_known=is_timed,
        latency_ms=call.latency_ms if is_timed else 0,
        outcome=_text(attributes, genai.OUTCOME),
        turn=None if turn is None else check_turn(turn),
        task_id=_text(attributes, genai.TASK_ID),
        outside_input=_text(attributes, genai.OUTSIDE_INPUT),
        tags=tuple(map(str, items_of(attributes.get(genai.TAGS), genai.TAGS))),
        correlation_id=_text(attributes, genai.CORRELATION_ID),
        actor=_actor(attributes),
        event_id=_uuid(attributes, genai.EVENT_ID) or call.event_id,
        parent_event_id=_uuid(attributes, genai.PARENT_EVENT_ID),
        corrects=_uuid(attributes, genai.CORRECTS),
    )


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


def _times(span: Members) -> tuple[int, int | None]:
    began, ended = _nanos(span, "startTimeUnixNano"), _nanos(span, "endTimeUnixNano")
    if began is None:
        raise InvalidInput("startTimeUnixNano is missing", field="startTimeUnixNano")
    return began, ended


def _unnamed(key: SpanKey) -> InvalidInput:
    name, digits = ("spanId", 16) if key[0] else ("traceId", 32)
    return InvalidInput(f"{name} must be {digits} hexadecimal digits", field=name)


@lru_cache(_SHARED)
def _trace_id(stated: str) -> str:
    return _hex(stated, _TRACE_ID)


@lru_cache(_SHARED)
def _parent_id(stated: str) -> str:
    return _hex(stated, _SPAN_ID)


def _hex(stated: Any, form: re.Pattern[str]) -> str:
    """Return an id in hexadecimal digits, or in base64 as protobuf's own JSON has it."""
    if not isinstance(stated, str):
        return ""
    if form.fullmatch(stated):
        return stated
    found = stated.lower()
    if form.fullmatch(found):
        return found
    if len(stated) in (12, 24):
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
    if isinstance(found, str) and len(found) < 21 and found.isdecimal() and found.isascii():
        found = int(found)
    if type(found) is int and _FIRST <= found < _LATEST:
        return found
    if found in (None, 0, ""):
        return None
    raise InvalidInput(f"{name} must be nanoseconds since 1970, not {found!r}", field=name)


def _text(attributes: Attributes, name: str) -> str | None:
    found = attributes.get(name)
    return None if found is None else str(found)


def _actor(attributes: Attributes) -> Actor | None:
    kind, name = _text(attributes, _ACTOR_TYPE), _text(attributes, _ACTOR_ID)
    if kind is None or (kind, name) == ("system", None):
        return None if kind is None else SYSTEM
    if kind not in ACTOR_TYPES:
        known = ", ".join(ACTOR_TYPES)
        raise InvalidInput(f"{_ACTOR_TYPE} must be one of {known}, not {kind!r}", field="actor")
    return parse_actor(f"{kind}:{name or ''}", field=_ACTOR_ID)


def _uuid(attributes: Attributes, name: str) -> UUID | None:
    found = attributes.get(name)
    if found is None:
        return None
    try:
        return UUID(str(found))
    except ValueError:
        raise InvalidInput(f"{name} must be a UUID, not {found!r}", field=name) from None


def _attributes(listed: Any) -> Members:
    """Attributes by name; most are texts, which are taken without a call."""
    if isinstance(listed, dict):
        return cast("Members", listed)
    found: Members = {}
    try:
        for item in listed:
            text = item["value"].get("stringValue")
            found[item["key"]] = _no_text(item["value"]) if text is None else text
    except (AttributeError, KeyError, TypeError):
        return _odd_attributes(listed)
    return found


def _odd_attributes(listed: Any) -> Members:
    """Attributes by name, where some are not made as they should be."""
    found: Members = {}
    for item in items_of(listed, "attributes"):
        try:
            text = item["value"].get("stringValue")
            found[item["key"]] = _no_text(item["value"]) if text is None else text
        except (AttributeError, KeyError, TypeError):
            pair = members_of(item, "an attribute")
            found[str(pair.get("key"))] = _value(pair.get("value"))
    return found


def _no_text(value: Members) -> Any:
    number = value.get("intValue") if len(value) == 1 else None
    return _value(value) if number is None else _number(number, "intValue")


def _value(tagged: Any) -> Any:
    """Return one of OTLP's tagged values as plain JSON."""
    if tagged is None or tagged == {}:
        return None
    kind, value = next(iter(members_of(tagged, "an attribute's value").items()))
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
