"""Generates OTLP traces of many small spans, in three conventions, as lines and as one document.

Each trace has an agent's span around everything, a model span before each pair of calls, and calls whose arguments and
results are short: what costs by the number of spans shows, and not what costs by their bytes. A line is what the
collector's file exporter writes, some hundred spans of several traces. The same arguments always give the same file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, Final

Attributes = dict[str, Any]
Span = dict[str, Any]

CONVENTIONS: Final = ("genai", "openinference", "traceloop")
CALLS: Final = 8
"""How many calls a trace has."""
_PER_LINE: Final = 400
_MODEL: Final = "some-model-2025-04-14"
_TOOLS: Final = ("search_customer", "load_customer", "get_invoice", "get_plan", "get_status", "send_reply")
_ASKED: Final = "What does customer {} owe us?"


def dense_lines(convention: str, size: int, *, seed: int = 7) -> Iterator[bytes]:
    """Lines of spans that are `size` bytes together, or little more."""
    spans, written = _spans(convention, random.Random(seed)), 0
    while written < size:
        line = document_of(list(islice(spans, _PER_LINE))) + b"\n"
        written += len(line)
        yield line


def dense_document(convention: str, size: int, *, seed: int = 7) -> bytes:
    """The same spans as one document without line breaks."""
    spans: list[Span] = []
    for line in dense_lines(convention, size, seed=seed):
        spans += json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return document_of(spans)


def calls_in(lines: Iterator[bytes] | list[bytes]) -> int:
    """How many spans of calls some lines hold."""
    return sum(line.count(b'"name":"call ') for line in lines)


def document_of(spans: list[Span]) -> bytes:
    """One `TracesData` object with these spans."""
    resource = {"attributes": _listed({"service.name": "billing", "telemetry.sdk.language": "python"})}
    scoped = {"scope": {"name": "instrumentation.billing", "version": "0.4.1"}, "spans": spans}
    document = {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}
    return json.dumps(document, separators=(",", ":")).encode()


def _spans(convention: str, chance: random.Random) -> Iterator[Span]:
    for number in count():
        yield from trace_spans(convention, chance, number)


def trace_spans(convention: str, chance: random.Random, number: int) -> Iterator[Span]:
    """The spans of a trace in the order in which they end: the agent's last."""
    trace, root = f"{chance.getrandbits(128):032x}", f"{chance.getrandbits(64):016x}"
    began = 1_760_000_000_000_000_000 + number * 10**10
    customer = f"C-{chance.randrange(10**9)}"
    for place in range(CALLS):
        at = began + place * 10**9
        if place % 2 == 0:
            told = _model(convention, customer)
            yield _span(chance, (trace, root), "chat " + _MODEL, at, told)
        tool = chance.choice(_TOOLS)
        arguments = json.dumps({"customer_id": customer, "page": chance.randrange(9)})
        result = json.dumps({"id": f"INV{chance.randrange(10**9)}", "total": chance.randrange(9999)})
        told = _call(convention, tool, f"call_{chance.getrandbits(40):x}", arguments, result)
        yield _span(chance, (trace, root), "call " + tool, at + 4 * 10**8, told)
    agent = _span(chance, (trace, ""), "billing agent", began, _agent(convention, f"chat-{number:07d}"))
    yield {**agent, "spanId": root}


def _span(chance: random.Random, around: tuple[str, str], name: str, began: int, attributes: Attributes) -> Span:
    trace, parent = around
    return {
        "traceId": trace,
        "spanId": f"{chance.getrandbits(64):016x}",
        "parentSpanId": parent,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + chance.randrange(10**6, 3 * 10**8)),
        "attributes": _listed(attributes),
        "status": {},
    }


def _call(convention: str, tool: str, call_id: str, arguments: str, result: str) -> Attributes:
    if convention == "genai":
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.tool.call.result": result,
        }
    if convention == "openinference":
        return {
            "openinference.span.kind": "TOOL",
            "tool.name": tool,
            "input.value": arguments,
            "input.mime_type": "application/json",
            "output.value": result,
            "output.mime_type": "application/json",
        }
    return {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": tool,
        "traceloop.workflow.name": "billing",
        "traceloop.entity.input": json.dumps({"inputs": json.loads(arguments), "input_str": arguments}),
        "traceloop.entity.output": json.dumps({"output": result}),
    }


def _model(convention: str, customer: str) -> Attributes:
    asked = _ASKED.format(customer)
    used = {"input_tokens": 212, "output_tokens": 31}
    if convention == "genai":
        message = [{"role": "user", "parts": [{"type": "text", "content": asked}]}]
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": _MODEL,
            **{f"gen_ai.usage.{name}": number for name, number in used.items()},
            "gen_ai.input.messages": json.dumps(message),
        }
    if convention == "openinference":
        return {
            "openinference.span.kind": "LLM",
            "llm.model_name": _MODEL,
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": asked,
            "llm.token_count.prompt": used["input_tokens"],
            "llm.token_count.completion": used["output_tokens"],
        }
    return {
        "llm.request.type": "chat",
        "gen_ai.request.model": _MODEL,
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": asked,
        **{f"gen_ai.usage.{name}": number for name, number in used.items()},
    }


def _agent(convention: str, conversation: str) -> Attributes:
    if convention == "genai":
        return {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": conversation}
    if convention == "openinference":
        return {"openinference.span.kind": "AGENT", "session.id": conversation}
    stated = "traceloop.association.properties.session_id"
    return {"traceloop.span.kind": "workflow", "traceloop.entity.name": "billing", stated: conversation}


def _listed(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": name, "value": _tagged(value)} for name, value in attributes.items()]


def _tagged(value: Any) -> dict[str, str]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
