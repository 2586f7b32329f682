"""Model tools in both dialects, against a server of our own; what a real model makes of it runs in `make soak`."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from tests.servers.bindings import Bindings, bound, entry, frame
from tests.servers.http_server import HttpServer, Reply, serving
from tests.servers.model_server import KEY, ModelServer
from tests.servers.server_process import server_process
from twinraven.calls import CallContext, Calls, Claims, SkillInvocationRequest
from twinraven.catalog import Catalog, ToolAnswer, ToolEntry
from twinraven.connectors import AddressGuard, AddressRules, HttpDelivery, HttpTransport, LlmConnector
from twinraven.foundation.errors import (
    InvalidDefinition,
    InvalidOutput,
    ToolError,
    ToolUnavailable,
)
from twinraven.muninn import Collector
from twinraven.storage import Database

PROMPT: dict[str, Any] = {
    "type": "llm_call",
    "system_prompt": "You are {{manner}}.",
    "prompt_template": "{{instruction}}\n\n{{#each items}}- {{this}}\n{{/each}}",
}
ARGUMENTS = {"manner": "brief", "instruction": "Name the capital of {{France}}.", "items": ["a", "b"]}
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
BOTH = pytest.mark.parametrize("dialect", ["openai", "anthropic"])


class Desk:
    """A connector to models and its bindings."""

    def __init__(self) -> None:
        self.bindings = Bindings()
        self.pauses: list[float] = []
        transport = HttpTransport(AddressGuard(AddressRules.of(["127.0.0.1"])))
        self.connector = LlmConnector(self.bindings, HttpDelivery(transport, sleep=self._sleep))

    async def ask(
        self, server: HttpServer, *, output: dict[str, Any] | None = None, secret: str = KEY, **stated: Any
    ) -> ToolAnswer:
        params = {"model": "small", **stated}
        self.bindings.hold(bound(PROMPT, server.url, secret=secret, **params))
        return await self.connector.invoke(entry(connector="llm", output=output), ARGUMENTS, call=frame())

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    made = Desk()
    yield made
    await made.connector.aclose()


@BOTH
@pytest.mark.req("AD-02")
async def test_a_prompt_goes_out_and_text_comes_back(desk: Desk, dialect: str) -> None:
    """The template is filled, values are not read as templates, and the answer carries tokens and money."""
    pricing = {"input_per_million": "3", "output_per_million": 15, "currency": "EUR"}
    async with serving(ModelServer(lambda _: "<think>Hm.</think>\n Paris. ")) as server:
        answer = await desk.ask(server, dialect=dialect, temperature=0.5, maxTokens=64, pricing=pricing)
    body = server.received[0].json
    user = {"role": "user", "content": "Name the capital of {{France}}.\n\n- a\n- b\n"}
    assert answer == ToolAnswer("Paris.", tokens=120, currency="EUR", amount="0.0006")
    assert body["model"] == "small"
    assert (body["temperature"], body["max_tokens"]) == (0.5, 64)
    if dialect == "openai":
        assert body["messages"] == [{"role": "system", "content": "You are brief."}, user]
    else:
        assert (body["system"], body["messages"]) == ("You are brief.", [user])


@BOTH
async def test_an_output_schema_binds_the_answer(desk: Desk, dialect: str) -> None:
    """A tool that promises an object gets one, checked, by the means its provider has."""
    said: Any = {"city": "Paris", "people": 2_100_000}
    async with serving(ModelServer(lambda _: said if dialect == "anthropic" else json.dumps(said))) as server:
        answer = await desk.ask(server, dialect=dialect, output=CITY)
    body = server.received[0].json
    asked = (
        body["tools"][0]["input_schema"] if dialect == "anthropic" else body["response_format"]["json_schema"]["schema"]
    )
    assert answer.output == said
    assert asked == CITY
    assert dialect == "openai" or body["tool_choice"] == {"type": "tool", "name": "answer"}


@BOTH
async def test_a_list_is_asked_for_inside_an_object(desk: Desk, dialect: str) -> None:
    """Providers want an object at the top; the tool still gives what it promises."""
    schema = {"type": "array", "items": {"$ref": "#/$defs/city"}, "$defs": {"city": {"type": "string"}}}
    said: Any = {"value": ["Paris", "Lyon"]}
    async with serving(ModelServer(lambda _: said if dialect == "anthropic" else json.dumps(said))) as server:
        assert (await desk.ask(server, dialect=dialect, output=schema)).output == ["Paris", "Lyon"]


@pytest.mark.parametrize(
    "said",
    [
        'Here it is:\n```json\n{"city": "Paris"}\n```',
        '```\n{"city": "Paris"}\n```',
        '<think>{"city": "Rome"}?</think>{"city": "Paris"}',
        'Sure! {"city": "Paris"} Anything else?',
    ],
)
async def test_json_is_found_in_what_models_say(desk: Desk, said: str) -> None:
    """Fences, thoughts and politeness around an object do not hide it."""
    async with serving(ModelServer(lambda _: said)) as server:
        assert (await desk.ask(server, output=CITY)).output == {"city": "Paris"}
    assert len(server.received) == 1


@BOTH
async def test_a_misfit_is_sent_back_once(desk: Desk, dialect: str) -> None:
    """The model hears what was wrong and may answer again; both askings are paid for."""
    answers: list[Any] = [{"city": 7}, {"city": "Paris"}]

    def say(_: dict[str, Any]) -> Any:
        return answers.pop(0) if dialect == "anthropic" else json.dumps(answers.pop(0))

    async with serving(ModelServer(say)) as server:
        answer = await desk.ask(server, dialect=dialect, output=CITY)
    turns = server.received[1].json["messages"][-2:]
    assert answer == ToolAnswer({"city": "Paris"}, tokens=240)
    assert turns[0] == {"role": "assistant", "content": turns[0]["content"]}
    assert "7" in turns[0]["content"]
    assert "city" in turns[1]["content"]
    assert turns[1]["role"] == "user"


async def test_a_model_that_cannot_is_an_invalid_output(desk: Desk) -> None:
    """Two misfits are enough; the error says what is wrong and what was spent."""
    async with serving(ModelServer(lambda _: "I would rather not say.")) as server:
        with pytest.raises(InvalidOutput, match="not JSON") as refusal:
            await desk.ask(server, output=CITY)
    assert refusal.value.details["tokens"] == 240
    assert len(server.received) == 2


async def test_a_cut_answer_says_so(desk: Desk) -> None:
    """Text that ran into its limit is marked; JSON that did is refused with the remedy."""
    async with serving(ModelServer(lambda _: '{"city": "Par', stop="length")) as server:
        assert (await desk.ask(server)).risk_tags == ("truncated",)
        with pytest.raises(InvalidOutput, match="max_tokens"):
            await desk.ask(server, output=CITY)


@BOTH
async def test_a_refusal_is_an_error(desk: Desk, dialect: str) -> None:
    """A model that refuses did not answer."""
    stop = "refusal" if dialect == "anthropic" else "content_filter"
    async with serving(ModelServer(lambda _: "I cannot help with that.", stop=stop)) as server:
        with pytest.raises(ToolError, match="cannot help with that"):
            await desk.ask(server, dialect=dialect)


@BOTH
async def test_a_wrong_key_is_named_and_not_repeated(desk: Desk, dialect: str) -> None:
    """The error says that the credentials were refused, without the credentials."""
    async with serving(ModelServer(lambda _: "x")) as server:
        with pytest.raises(ToolError, match="refuses the credentials") as refusal:
            await desk.ask(server, dialect=dialect, secret="sk-wrong-key")
    assert "sk-wrong-key" not in repr(refusal.value.as_json())
    assert not refusal.value.retryable


@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_an_overloaded_model_is_asked_again(desk: Desk, status: int) -> None:
    """Asking changes nothing, so a busy provider is asked again, after as long as it wishes."""
    answers: list[Any] = [Reply(status, {"error": {}}, {"Retry-After": "1"}), "Paris."]
    async with serving(ModelServer(lambda _: answers.pop(0))) as server:
        assert (await desk.ask(server)).output == "Paris."
    assert desk.pauses == [1.0]
    assert len(server.received) == 2


async def test_a_model_that_stays_busy_is_unavailable(desk: Desk) -> None:
    """The last failure is the caller's to see, with its status."""
    async with serving(ModelServer(lambda _: Reply(529, {"error": {"message": "Overloaded"}}))) as server:
        with pytest.raises(ToolUnavailable, match="Overloaded") as refusal:
            await desk.ask(server)
    assert refusal.value.details["status"] == 529


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"choices": []},
        {"choices": [{"message": None}]},
        [],
        "text",
        None,
    ],
)
async def test_an_answer_of_another_shape_is_an_error(desk: Desk, answer: Any) -> None:
    """A server that speaks no dialect at all gets no further than a clear error."""
    async with serving(ModelServer(lambda _: Reply(200, answer))) as server:
        for dialect in ("openai", "anthropic"):
            with pytest.raises(InvalidOutput, match="has no"):
                await desk.ask(server, dialect=dialect)


@pytest.mark.parametrize(
    ("stated", "named"),
    [
        ({"model": 7}, "model"),
        ({"dialect": "klingon"}, "dialect"),
        ({"options": []}, "options"),
        ({"pricing": {"input_per_million": "1"}}, "pricing"),
        ({"pricing": {"input_per_million": "-1", "output_per_million": "1"}}, "pricing"),
        ({"pricing": "cheap"}, "pricing"),
    ],
)
async def test_what_is_wrong_with_a_binding_is_named(desk: Desk, stated: dict[str, Any], named: str) -> None:
    """The error names the connection parameter, and nothing is sent."""
    async with serving(ModelServer(lambda _: "x")) as server:
        with pytest.raises(InvalidDefinition) as refusal:
            await desk.ask(server, **stated)
    assert refusal.value.details["field"] == f"connection_params.{named}"
    assert server.received == []


@BOTH
async def test_a_probe_asks_for_models(desk: Desk, dialect: str) -> None:
    """Health costs no tokens, and a refused key is seen before the first call."""
    async with serving(ModelServer(lambda _: "x")) as server:
        good = await desk.connector.probe(bound(PROMPT, server.url, secret=KEY, model="m", dialect=dialect), user="ada")
        bad = await desk.connector.probe(bound(PROMPT, server.url, secret="no", model="m", dialect=dialect), user="ada")
        odd = await desk.connector.probe(bound(PROMPT, server.url, secret="no", model="m", dialect="x"), user="ada")
    assert [health.status for health in (good, bad, odd)] == ["healthy", "down", "down"]
    assert {request.target for request in server.received} == {"/v1/models"}


class _Shelf:
    """A catalogue of one tool."""

    def __init__(self, tool: ToolEntry) -> None:
        self._tool = tool

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return self._tool if tool_id == self._tool.tool_id else None

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return [self._tool]


@pytest.mark.soak
@pytest.mark.req("AD-02")
class TestRealModel:
    """SmolLM2 with 135 million parameters, served by llama.cpp on loopback: small, and honestly bad at most things."""

    @BOTH
    async def test_it_answers_in_words(self, desk: Desk, real_model: str, dialect: str) -> None:
        """A model of flesh and blood answers, and its tokens are counted."""
        params: dict[str, Any] = {"model": "smollm2", "dialect": dialect, "max_tokens": 24, "temperature": 0}
        desk.bindings.hold(bound(PROMPT, real_model, secret=KEY, **params))
        answer = await desk.connector.invoke(entry(connector="llm", timeout_ms=60_000), ARGUMENTS, call=frame())
        assert isinstance(answer.output, str)
        assert answer.output
        assert 20 < answer.tokens < 120

    async def test_a_schema_holds_it(self, desk: Desk, real_model: str) -> None:
        """Bound by a schema even a small model gives an object that fits."""
        schema = {**CITY, "properties": {"city": {"type": "string", "maxLength": 20}, "people": {"type": "integer"}}}
        desk.bindings.hold(bound(PROMPT, real_model, secret=KEY, model="smollm2", max_tokens=80, temperature=0))
        tool = entry(connector="llm", output=schema, timeout_ms=60_000)
        answer = await desk.connector.invoke(tool, ARGUMENTS, call=frame())
        assert isinstance(answer.output["city"], str)

    @BOTH
    async def test_its_server_refuses_a_wrong_key(self, desk: Desk, real_model: str, dialect: str) -> None:
        """Credentials are shown as a server that is not ours wants to see them."""
        binding = bound(PROMPT, real_model, secret=KEY, model="smollm2", dialect=dialect)
        assert (await desk.connector.probe(binding, user="ada")).status == "healthy"
        desk.bindings.hold(bound(PROMPT, real_model, secret="wrong", model="smollm2", dialect=dialect))
        with pytest.raises(ToolError, match="refuses the credentials"):
            await desk.connector.invoke(entry(connector="llm"), ARGUMENTS, call=frame())


@pytest.fixture(scope="session")
def real_model() -> Generator[str]:
    """The address of a real model."""
    with server_process("real_model", KEY) as address:
        yield address


@pytest.mark.req("CH-09")
async def test_what_a_call_cost_stands_in_its_audit(desk: Desk, sqlite_database: Database) -> None:
    """Through the one call path, tokens and money are part of the response's audit."""
    pricing = {"input_per_million": "2.50", "output_per_million": "10"}
    collector = Collector(sqlite_database)
    calls = Calls(Catalog(_Shelf(entry(connector="llm"))), collector, Claims(sqlite_database), [desk.connector])
    async with serving(ModelServer(lambda _: "Paris.")) as server:
        desk.bindings.hold(bound(PROMPT, server.url, secret=KEY, model="small", pricing=pricing))
        request = SkillInvocationRequest(tool_name="tool", payload=ARGUMENTS)
        response = await calls.invoke(request, CallContext("session", caller="ada"))
    collector.close()
    assert response.output == "Paris."
    assert response.as_json()["audit"]["cost_estimate"] == {"tokens": 120, "currency": "USD", "amount": "0.00045"}
