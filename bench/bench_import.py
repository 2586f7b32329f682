"""What importing recorded calls costs: processor time beside `json.loads` over the same lines.

The files are generated, with lines of about the length of real ones; the import is durable and starts with an empty
database in each repeat.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

from bench.dense_spans import CONVENTIONS, calls_in, dense_lines
from bench.harness import Harness, Row, cpu_timed
from bench.samples import fresh_sqlite
from twinraven.muninn import Importer

SESSIONS = 1_500
SPAN_SESSIONS = 600
SPAN_CALLS = 6
DENSE_BYTES = 6 << 20
TOOLS = ("find_user_by_email", "get_user_details", "get_order_details", "get_product_details", "return_items")


def measure(harness: Harness) -> list[Row]:
    lines, spans = generated_lines(SESSIONS), generated_spans(SPAN_SESSIONS)
    return [
        harness.compare(
            "calls format, durable",
            ours=lambda: _import(lines),
            theirs=cpu_timed(lambda: [json.loads(line) for line in lines]),
            against="json.loads over the same lines",
            aim=8.0,
        ),
        harness.compare(
            "OTLP spans of tools and models, durable",
            ours=lambda: _import(spans, calls=SPAN_SESSIONS * SPAN_CALLS),
            theirs=cpu_timed(lambda: [json.loads(line) for line in spans]),
            against="json.loads over the same lines",
            aim=8.0,
        ),
        *(_dense(harness, convention) for convention in CONVENTIONS),
    ]


def _dense(harness: Harness, convention: str) -> Row:
    lines = list(dense_lines(convention, DENSE_BYTES))
    return harness.compare(
        f"OTLP, many small spans, {convention}, durable",
        ours=lambda: _import(lines, calls=calls_in(lines)),
        theirs=cpu_timed(lambda: [json.loads(line) for line in lines]),
        against="json.loads over the same lines",
        aim=8.0,
    )


def _import(lines: list[bytes], *, calls: int | None = None) -> float:
    with fresh_sqlite() as (database, _):
        begun = time.process_time()
        report = asyncio.run(Importer(database).import_trace("default", lines))
        spent = time.process_time() - begun
    assert (report.events, report.errors) == (calls or len(lines), [])
    return spent


def generated_lines(sessions: int, *, seed: int = 11) -> list[bytes]:
    """Sessions of four to ten calls; the same arguments always give the same lines."""
    chance = random.Random(seed)
    return [line for number in range(sessions) for line in _session(chance, number)]


def _session(chance: random.Random, number: int) -> list[bytes]:
    outcome = chance.choice(("success", "success", "failure"))
    return [
        json.dumps(
            {
                "session_id": f"session-{number:06d}",
                "seq": seq,
                "tool": chance.choice(TOOLS),
                "params": {"order_id": _code(chance), "reason": "ordered by mistake", "items": [_code(chance)]},
                "output": _output(chance),
                "ok": chance.random() > 0.05,
                "session_outcome": outcome,
                "user_before": "I would like to return the tea kettle from my last order." if seq == 0 else None,
                "llm_turn": seq,
                "task_id": number % 115,
                "trial": 0,
                "source": "generated",
            }
        ).encode()
        + b"\n"
        for seq in range(chance.randint(4, 10))
    ]


def generated_spans(sessions: int, *, seed: int = 11) -> list[bytes]:
    """Traces of an agent, one a line: a model span with the whole conversation before each tool span."""
    chance = random.Random(seed)
    return [_trace(chance, number) for number in range(sessions)]


def _trace(chance: random.Random, number: int) -> bytes:
    trace, said = f"{chance.getrandbits(128):032x}", "I would like to return the tea kettle from my last order."
    messages: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": said}]}]
    spans: list[dict[str, Any]] = []
    for place in range(SPAN_CALLS):
        began = 1_760_000_000_000_000_000 + (number * SPAN_CALLS + place) * 10**9
        tool, call_id, output = chance.choice(TOOLS), f"call_{_code(chance)}", json.dumps(_output(chance))
        arguments = {"order_id": _code(chance), "reason": "ordered by mistake"}
        asked = {"type": "tool_call", "id": call_id, "name": tool, "arguments": arguments}
        answer = {"role": "assistant", "parts": [asked]}
        talk = {"gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": json.dumps([answer])}
        spans.append(_span(chance, trace, began, {"gen_ai.operation.name": "chat", **talk}))
        call = {"gen_ai.tool.name": tool, "gen_ai.tool.call.id": call_id, "gen_ai.tool.call.result": output}
        given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": json.dumps(arguments)}
        spans.append(_span(chance, trace, began + 10**8, {**given, **call}))
        response = {"type": "tool_call_response", "id": call_id, "response": output}
        messages += [answer, {"role": "tool", "parts": [response]}]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode() + b"\n"


def _span(chance: random.Random, trace: str, began: int, attributes: dict[str, str]) -> dict[str, Any]:
    stated = {"gen_ai.conversation.id": trace, "gen_ai.request.model": "some-model", **attributes}
    return {
        "traceId": trace,
        "spanId": f"{chance.getrandbits(64):016x}",
        "parentSpanId": "00000000000000aa",
        "name": attributes["gen_ai.operation.name"],
        "kind": 1,
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + 9 * 10**7),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in stated.items()],
        "status": {},
    }


def _output(chance: random.Random) -> dict[str, Any]:
    return {
        "order_id": _code(chance),
        "user_id": f"user_{_code(chance)}",
        "address": {"city": "Denver", "country": "USA", "zip": str(chance.randrange(10_000, 99_999))},
        "items": [
            {
                "name": chance.choice(("Tea Kettle", "Mechanical Keyboard", "Desk Lamp")),
                "item_id": _code(chance),
                "price": round(chance.uniform(5, 900), 2),
                "options": {"material": "glass", "capacity": "2 liters", "compatibility": "electric"},
            }
            for _ in range(chance.randint(1, 5))
        ],
        "payments": [{"type": "payment", "amount": round(chance.uniform(5, 900), 2), "method": _code(chance)}],
        "status": chance.choice(("delivered", "pending", "processed")),
    }


def _code(chance: random.Random) -> str:
    return str(chance.randrange(10**9, 10**10))
