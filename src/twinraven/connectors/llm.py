"""Calls language models: renders a prompt from the arguments and returns text or JSON with its cost.

One small client for two dialects stands on the same HTTP layer as REST, so that a model's endpoint is held to the same
rules: checked addresses, bounded answers, breaker, retries. Asking a model changes nothing, so a failed request may
always be sent again. A tool whose output schema is not that of a string gets JSON that fits it; an answer that does not
is sent back once, with what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from twinraven.catalog import Health, LlmCall, ToolAnswer, ToolEntry
from twinraven.connectors.binding import Binding, BindingSource, bind_call
from twinraven.connectors.bodies import read_body
from twinraven.connectors.delivery import DeliveryTerms, HttpDelivery
from twinraven.connectors.endpoints import (
    Probe,
    certificate_of,
    check_endpoint,
    credential_of,
    endpoint_of,
    probe_http,
)
from twinraven.connectors.http_model import Credential, HttpRequest
from twinraven.connectors.llm_answers import AnswerShape, Price, without_thoughts
from twinraven.connectors.llm_dialects import Completion, Dialect, ModelChoice, Prompt, PromptTurn, dialect_of
from twinraven.connectors.llm_streams import AnswerListener
from twinraven.connectors.urls import Url
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidOutput, ToolError

if TYPE_CHECKING:
    from twinraven.calls import CallFrame

REPAIRS = 1
TRUNCATED = "truncated"


class LlmConnector:
    """Reaches `llm_provider` services."""

    name = "llm"

    def __init__(self, bindings: BindingSource, delivery: HttpDelivery) -> None:
        self._bindings = bindings
        self._delivery = delivery

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> ToolAnswer:
        """Ask the model; the answer carries the tokens and, where prices are known, the money it took."""
        binding: Binding[LlmCall] = await bind_call(self._bindings, entry, call)
        asked = binding.operation.request(params)
        timeout_ms = entry.timeout_ms or self._delivery.transport.limits.timeout_ms
        terms = DeliveryTerms(call.tenant_id, entry.tool_id, timeout_ms, is_repeatable=True, owner_id=binding.owner_id)
        conversation = await open_conversation(binding, self._delivery, terms, user=call.caller)
        shape = _shape(entry)
        prompt = Prompt(asked.system, (PromptTurn("user", asked.prompt),), None if shape is None else shape.asked)
        return await conversation.hold(prompt, shape)

    async def probe(self, binding: Binding[Any], *, user: str | None = None) -> Health:
        """Ask for the list of models, which every provider offers and which costs nothing."""

        def prepare() -> Probe:
            endpoint = endpoint_of(binding)
            dialect = _dialect(binding, endpoint)
            return Probe(dialect.address(endpoint, "models"), dialect.auth, dialect.headers)

        return await probe_http(self._delivery.transport, binding, prepare, user=user)

    @staticmethod
    def check(binding: Binding[Any]) -> None:
        """Raise unless a call could use these connection parameters."""
        check_endpoint(binding)
        _dialect(binding, endpoint_of(binding))
        _choice(binding)
        Price.of(binding.param("pricing"))

    async def aclose(self) -> None:
        await self._delivery.transport.aclose()


@dataclass(slots=True)
class ModelExchange:
    """The exchanges with one model that make one call."""

    delivery: HttpDelivery
    endpoint: Url
    dialect: Dialect
    choice: ModelChoice
    price: Price | None
    credential: Credential | None
    ca_certificate: str | None
    terms: DeliveryTerms
    input_tokens: int = 0
    output_tokens: int = 0

    async def hold(self, prompt: Prompt, shape: AnswerShape | None) -> ToolAnswer:
        """Ask until an answer serves; what each asking took is added up, whatever becomes of it."""
        for repairs_left in range(REPAIRS, -1, -1):
            completion = await self.ask(prompt)
            if completion.stop == "refusal":
                raise ToolError(f"the model refuses: {completion.text[:300]}", **self._spent())
            if shape is None:
                return self._answer(without_thoughts(completion.text).strip(), completion)
            if completion.stop == "length":
                raise InvalidOutput("the model's answer was cut off; give it more max_tokens", **self._spent())
            try:
                return self._answer(shape.read(completion), completion)
            except InvalidOutput as error:
                if repairs_left == 0:
                    raise InvalidOutput(error.message, **self._spent()) from None
                said = completion.text or canonical_json(completion.value).decode()
                prompt = prompt.continued(said, f"{error.message}. Answer again, with JSON alone.")
        raise AssertionError("the last repair returns or raises")

    async def ask(self, prompt: Prompt, hear: Callable[[str], None] | None = None) -> Completion:
        """Return one exchange, whatever its answer is worth; `hear` is given the text piece by piece as it is said."""
        body = self.dialect.body(prompt, self.choice, self.endpoint)
        listener = None if hear is None else AnswerListener(self.dialect.name, hear)
        request = HttpRequest(
            method="POST",
            url=self.dialect.address(self.endpoint, "ask"),
            headers=(("Content-Type", "application/json"), *self.dialect.headers),
            body=canonical_json(body if listener is None else listener.streamed(body)),
            credential=self.credential,
            ca_certificate=self.ca_certificate,
            listener=listener,
        )
        response = await self.delivery.deliver(request, self.terms)
        if listener is not None and "event-stream" in response.content_type:
            answer = listener.whole()
        else:
            answer = read_body(response.body, response.content_type, reading="json")
        completion = self.dialect.read(answer)
        if listener is not None:
            listener.finish(completion.text)
        self.input_tokens += completion.input_tokens
        self.output_tokens += completion.output_tokens
        return completion

    def _answer(self, output: Any, completion: Completion) -> ToolAnswer:
        price = self.price
        return ToolAnswer(
            output,
            tokens=self.input_tokens + self.output_tokens,
            currency=None if price is None else price.currency,
            amount=None if price is None else price.amount(self.input_tokens, self.output_tokens),
            risk_tags=(TRUNCATED,) if completion.stop == "length" else (),
        )

    def _spent(self) -> dict[str, Any]:
        return {"tool_id": self.terms.tool_id, "tokens": self.input_tokens + self.output_tokens}


async def open_conversation(
    binding: Binding[Any], delivery: HttpDelivery, terms: DeliveryTerms, *, user: str | None
) -> ModelExchange:
    """Ready to ask the model that a binding names, with its secret opened for this user."""
    endpoint = endpoint_of(binding)
    dialect = _dialect(binding, endpoint)
    return ModelExchange(
        delivery=delivery,
        endpoint=endpoint,
        dialect=dialect,
        choice=_choice(binding),
        price=Price.of(binding.param("pricing")),
        credential=await credential_of(binding, user, default=dialect.auth),
        ca_certificate=certificate_of(binding),
        terms=terms,
    )


def _shape(entry: ToolEntry) -> AnswerShape | None:
    schema = entry.output_schema
    return None if schema is None or schema.get("type") == "string" else AnswerShape.of(schema)


def _dialect(binding: Binding[Any], endpoint: Url) -> Dialect:
    dialect = dialect_of(binding.param("dialect"), endpoint)
    if dialect is None:
        raise binding.invalid("dialect", "must be openai or anthropic")
    return dialect


def _choice(binding: Binding[Any]) -> ModelChoice:
    model, options = binding.param("model"), binding.param("options")
    if not isinstance(model, str) or not model.strip():
        raise binding.invalid("model", "must name a model")
    if options is not None and not isinstance(options, Mapping):
        raise binding.invalid("options", "must be an object")
    temperature, max_tokens = binding.param("temperature"), binding.param("max_tokens")
    if temperature is not None and (isinstance(temperature, bool) or not isinstance(temperature, (int, float))):
        raise binding.invalid("temperature", "must be a number")
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise binding.invalid("max_tokens", "must be a whole number from 1")
    return ModelChoice(model, temperature, max_tokens, cast("Mapping[str, Any]", options or {}))
