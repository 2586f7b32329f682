"""The model port: one model, asked through the call path, against a scripted model over real HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.homes import opened_home
from tests.scripted import RunningModel, scripted_model
from twinraven.app import TwinRaven
from twinraven.calls import CallContext
from twinraven.foundation.errors import InvalidOutput, PolicyViolation, ToolError, TwinRavenError
from twinraven.models import ASK_MODEL, ModelNotConfigured, ModelQuestion, ModelToolCall, OfferedTool, PromptTurn
from twinraven.muninn import EventFilter
from twinraven.storage import DEFAULT_TENANT
from twinraven.tenancy import LOCAL

BOTH = pytest.mark.parametrize("protocol", ["openai", "anthropic"])
CONTEXT = CallContext("model:test")
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def home(folder: Path, model: RunningModel, **stated: Any) -> Any:
    policy = stated.pop("policy", {})
    return opened_home(folder, policy=policy, **model.settings(**stated))


async def ask(raven: TwinRaven, text: str = "Where?", **question: Any) -> Any:
    return await raven.models.ask(ModelQuestion.of(text, **question), CONTEXT, tenant_id=DEFAULT_TENANT)


@BOTH
async def test_a_question_is_a_recorded_call(tmp_path: Path, protocol: str) -> None:
    """The answer comes with tokens and cost, and the log has the prompt, the answer and what it took."""
    answer = {"say": "In Oslo.", "usage": {"input_tokens": 1000, "output_tokens": 500}}
    async with scripted_model(answer) as model:
        with home(tmp_path, model, protocol=protocol, input_price=2, output_price=4) as raven:
            said = await ask(raven, system="Be brief.")
            [event] = await raven.events.events(DEFAULT_TENANT, EventFilter(session_id="model:test"))
            [output] = (await raven.events.outputs(DEFAULT_TENANT, [str(event.output_hash)])).values()
            await raven.aclose()
    assert (said.text, said.stop, said.input_tokens, said.output_tokens) == ("In Oslo.", "end", 1000, 500)
    assert (said.amount, said.currency) == ("0.004", "USD")
    assert event.tool_id == ASK_MODEL
    assert event.input_params == {"messages": [{"role": "user", "content": "Where?"}], "system": "Be brief."}
    assert output["usage"] == {"input_tokens": 1000, "output_tokens": 500}
    assert output["cost"] == {"currency": "USD", "amount": "0.004"}
    [exchange] = model.exchanges
    assert (exchange.dialect, exchange.asked.system, exchange.asked.last) == (protocol, "Be brief.", "Where?")


@BOTH
async def test_text_comes_in_pieces(tmp_path: Path, protocol: str) -> None:
    """A stream gives the text as it is said, without thoughts, and then the whole answer with its usage."""
    answer = {"say": "<think>Hm, hm.</think>\nIn Oslo, I think.", "piece_chars": 3}
    async with scripted_model(answer) as model:
        with home(tmp_path, model, protocol=protocol) as raven:
            question = ModelQuestion.of("Where?")
            async with raven.models.stream(question, CONTEXT, tenant_id=DEFAULT_TENANT) as stream:
                pieces = [piece async for piece in stream]
                said = await stream.answer()
            await raven.aclose()
    assert len(pieces) > 3
    assert "".join(pieces) == "In Oslo, I think."
    assert said.text.endswith("In Oslo, I think.")
    assert said.output_tokens > 0


@BOTH
async def test_a_stream_that_breaks_off_is_an_error(tmp_path: Path, protocol: str) -> None:
    """Pieces that were heard are not said twice: the question is not sent again, and the answer raises."""
    async with scripted_model({"say": "In Oslo, I think.", "piece_chars": 2, "break_off": True}) as model:
        with home(tmp_path, model, protocol=protocol) as raven:
            question = ModelQuestion.of("Where?")
            async with raven.models.stream(question, CONTEXT, tenant_id=DEFAULT_TENANT) as stream:
                pieces = [piece async for piece in stream]
                with pytest.raises(ToolError):
                    await stream.answer()
            await raven.aclose()
    assert 0 < len("".join(pieces)) < len("In Oslo, I think.")
    assert len(model.exchanges) == 1


@BOTH
async def test_json_that_fits(tmp_path: Path, protocol: str) -> None:
    """An answer that misses the schema goes back with what is wrong; tokens of all askings are added up."""
    answers: list[Any] = [
        {"when": {"messages": 1}, "say": "I would say Oslo.", "usage": {"input_tokens": 5, "output_tokens": 1}},
        {"when": {"messages": 3}, "json": {"town": "Oslo"}, "usage": {"input_tokens": 7, "output_tokens": 2}},
        {"json": {"city": "Oslo"}, "usage": {"input_tokens": 9, "output_tokens": 3}},
    ]
    async with scripted_model(*answers) as model:
        with home(tmp_path, model, protocol=protocol) as raven:
            question = ModelQuestion.of("Where?", schema=CITY)
            said = await raven.models.ask_json(question, CONTEXT, tenant_id=DEFAULT_TENANT)
            await raven.aclose()
    assert said.value == {"city": "Oslo"}
    assert (said.input_tokens, said.output_tokens) == (21, 6)
    assert [exchange.asked.wants_json for exchange in model.exchanges] == [True] * 3
    assert "city" in model.exchanges[2].asked.last


async def test_json_that_never_fits(tmp_path: Path) -> None:
    """After two corrections the answer counts as none, and the error says what is wrong."""
    async with scripted_model({"json": {"town": "Oslo"}}) as model:
        with home(tmp_path, model) as raven:
            with pytest.raises(InvalidOutput, match=r"after 2 corrections.*town"):
                await raven.models.ask_json(ModelQuestion.of("Where?", schema=CITY), CONTEXT, tenant_id=DEFAULT_TENANT)
            await raven.aclose()
    assert len(model.exchanges) == 3


@BOTH
async def test_tools_that_the_model_wants(tmp_path: Path, protocol: str) -> None:
    """A model asks for a tool, whole or in a stream, is given the result, and answers."""
    tool = OfferedTool("find_city", "Finds a city.", {"type": "object", "properties": {"name": {"type": "string"}}})
    wanted = {"when": {"messages": 1}, "tool_calls": [{"name": "find_city", "arguments": {"name": "Oslo"}}]}
    async with scripted_model(wanted, {"when": "59.9", "say": "At 59.9 north."}) as model:
        with home(tmp_path, model, protocol=protocol) as raven:
            question = ModelQuestion((PromptTurn("user", "Where is Oslo?"),), tools=(tool,))
            said = await raven.models.ask(question, CONTEXT, tenant_id=DEFAULT_TENANT)
            async with raven.models.stream(question, CONTEXT, tenant_id=DEFAULT_TENANT) as stream:
                assert [piece async for piece in stream] == []
                streamed = await stream.answer()
            [call] = said.tool_calls
            result = PromptTurn("tool", '{"north": 59.9}', tool_call_id=call.id)
            then = ModelQuestion((*question.turns, PromptTurn("assistant", "", said.tool_calls), result), tools=(tool,))
            last = await raven.models.ask(then, CONTEXT, tenant_id=DEFAULT_TENANT)
            await raven.aclose()
    assert said.stop == streamed.stop == "tools"
    assert call == ModelToolCall("call_0", "find_city", '{"name":"Oslo"}')
    assert [(each.name, json.loads(each.arguments)) for each in streamed.tool_calls] == [
        ("find_city", {"name": "Oslo"})
    ]
    assert last.text == "At 59.9 north."


async def test_failures_are_retried_and_then_said(tmp_path: Path) -> None:
    """A busy provider is asked again; one that stays away, or answers nonsense, is an error with its code."""
    busy = {"when": "busy", "status": 503, "times": 1}
    answers: list[Any] = [busy, {"when": "busy", "say": "now"}, {"when": "nonsense", "raw": "<html>"}]
    async with scripted_model(*answers) as model:
        with home(tmp_path, model) as raven:
            assert (await ask(raven, "busy?")).text == "now"
            with pytest.raises(TwinRavenError, match="not JSON"):
                await ask(raven, "nonsense?")
            with pytest.raises(ToolError, match="the script has no answer"):
                await ask(raven, "else?")
            await raven.aclose()


async def test_no_model(tmp_path: Path) -> None:
    """Where no model is configured, the error says how to configure one."""
    with opened_home(tmp_path) as raven:
        with pytest.raises(ModelNotConfigured) as raised:
            await ask(raven)
        assert raven.models.name is None
        with pytest.raises(ModelNotConfigured):
            raven.models.require()
    assert raised.value.code == "MODEL_NOT_CONFIGURED"
    assert "model.name" in raised.value.details["fix"]
    assert not raised.value.retryable


async def test_policy_and_secrets_hold_for_models(tmp_path: Path) -> None:
    """A rule may forbid asking, and a secret of the vault does not leave in a question."""
    rules = [{"tool": ASK_MODEL, "then": "deny", "effect": "read", "reason": "no models here"}]
    async with scripted_model("Yes.") as model:
        with home(tmp_path / "a", model) as raven:
            await raven.vault.create(
                DEFAULT_TENANT, LOCAL.user_id, name="key", type="api_key", value="sk-canary-123456789"
            )
            await ask(raven, "Is it sk-canary-123456789?")
            await raven.aclose()
        assert "canary" not in json.dumps(model.exchanges[0].body)
        assert "[secret:" in json.dumps(model.exchanges[0].body)
        with home(tmp_path / "b", model, policy={"rules": rules}) as raven:
            with pytest.raises(PolicyViolation):
                await ask(raven)
            await raven.aclose()
    assert len(model.exchanges) == 1


async def test_the_tool_is_in_no_list(tmp_path: Path) -> None:
    """Agents are not offered the model as a tool; who knows its name may call it."""
    async with scripted_model("Yes.") as model:
        with home(tmp_path, model) as raven:
            assert ASK_MODEL not in [entry.tool_id for entry in raven.catalog.offered(DEFAULT_TENANT, None)]
            params = {"messages": [{"role": "user", "content": "Yes?"}]}
            output = await raven.calls.call(ASK_MODEL, params, CONTEXT)
            await raven.aclose()
    assert output["text"] == "Yes."
