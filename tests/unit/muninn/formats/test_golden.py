"""Samples of each format, made by the libraries or after their documentation, and what must be understood of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.traces import GOLDEN, as_facts, read
from twinraven.muninn.formats import TraceReader

WRITTEN = {
    "openai.jsonl": "openai",
    "openai-array.json": "openai",
    "request-log.jsonl": "openai",
    "tau-bench.json": "openai",
    "sharegpt.jsonl": "openai",
    "ai-sdk.jsonl": "openai",
    "anthropic.jsonl": "anthropic",
    "gemini.json": "gemini",
    "responses.jsonl": "responses",
    "codex.jsonl": "responses",
    "otlp.jsonl": "otlp",
    "otlp-document.json": "otlp",
    "claude-code.jsonl": "claude-code",
    "stream-json.jsonl": "claude-code",
    "langfuse.jsonl": "langfuse",
    "langfuse-trace.json": "langfuse",
    "openhands.json": "openhands",
    "openhands-sdk.jsonl": "openhands",
    "swe-agent.json": "swe-agent",
    "swe-agent-tools.json": "swe-agent",
}
"""Written by us after the formats' documentation."""
MADE = {
    "openinference-langchain.json": "otlp",  # openinference-instrumentation-langchain 0.1.80
    "openinference-openai.json": "otlp",  # openinference-instrumentation-openai 0.1.66
    "openinference-openai-agents.json": "otlp",  # openinference-instrumentation-openai-agents 2.6.0
    "traceloop-langchain.json": "otlp",  # opentelemetry-instrumentation-langchain 0.62.4
    "traceloop-openai.json": "otlp",  # opentelemetry-instrumentation-openai 0.62.4
    "pydantic-ai.json": "otlp",  # pydantic-ai's own instrumentation
    "console-spans.txt": "otlp",  # OpenTelemetry's ConsoleSpanExporter
    "mlflow.json": "mlflow",  # Trace.to_json
    "langsmith.jsonl": "langsmith",  # runs of LangChain's tracer, as langsmith's client sends them
    "langchain-dumpd.json": "langchain",
    "langchain-messages_to_dict.json": "langchain",
    "langchain-model_dump.json": "langchain",
    "pydantic-ai-messages.json": "pydantic-ai",  # all_messages_json
    "responses-items.json": "responses",  # to_input_list of openai-agents
}
"""Made by the libraries themselves, of one agent that looks a customer and then her orders up."""
SAMPLES = WRITTEN | MADE


def lines_of(name: str) -> list[bytes]:
    return (GOLDEN / name).read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_understood_as_written_down_beside_it(name: str) -> None:
    """Every call of a sample is found with all that is known of it, and every broken line is named."""
    expected = json.loads((GOLDEN / f"{Path(name).stem}.expected.json").read_bytes())
    assert as_facts(*read(lines_of(name), SAMPLES[name])) == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_the_format_of_a_sample_is_found_out(name: str) -> None:
    """`auto` reads each sample as its format would, and names it."""
    assert TraceReader(lines_of(name), "t").format == SAMPLES[name]
    assert as_facts(*read(lines_of(name), "auto")) == as_facts(*read(lines_of(name), SAMPLES[name]))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_read_twice_names_its_calls_alike(name: str) -> None:
    """A call's identity depends on the trace alone, and no two calls of a sample share one."""
    first, second = (read(lines_of(name))[0] for _ in range(2))
    keys = [call.source_key for call in first]
    assert keys == [call.source_key for call in second]
    assert len(set(keys)) == len(keys) > 0


@pytest.mark.parametrize("name", MADE)
def test_what_the_libraries_write_is_the_same_two_calls(name: str) -> None:
    """One agent's work is the same two calls with the same arguments, whichever library wrote it down."""
    calls, errors = read(lines_of(name))
    assert errors == []
    assert [(call.tool_id, json.loads(call.params)) for call in calls] == [
        ("find_customer", {"email": "ada@x.org"}),
        ("list_orders", {"customer_id": "c-ada"}),
    ]
    assert len({call.session_id for call in calls}) == 1
    if name != "mlflow.json":  # its sample has no spans of a model
        assert [(call.turn, call.outside_input) for call in calls] == [(1, "Orders of ada@x.org please"), (2, None)]
