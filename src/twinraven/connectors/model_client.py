"""Asks one model directly and returns its answer verbatim, with the token usage.

A tool of the catalogue promises an answer that fits its schema, and raises otherwise. Whoever wants a model's opinion
must see the answer even if it is nonsense, because what was said is kept. A server that does not know how to bind an
answer to a schema says 400 to the asking; it is asked again without one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from twinraven.connectors.binding import Binding, RevealSecret
from twinraven.connectors.delivery import DeliveryTerms, HttpDelivery
from twinraven.connectors.llm import open_conversation
from twinraven.connectors.llm_answers import Price
from twinraven.connectors.llm_dialects import Completion, Prompt
from twinraven.connectors.urls import parse_url
from twinraven.foundation.errors import ToolError

RevealFor = Callable[[str], Awaitable[str]]
"""Opens the model's key for a tenant."""

_NOT_UNDERSTOOD = (400, 422)
HOMES: Mapping[str, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}


class ModelClient:
    """Speaks to the one model that the settings name."""

    def __init__(
        self,
        delivery: HttpDelivery,
        *,
        model: str,
        protocol: str,
        url: str | None,
        reveal: RevealFor | None,
        timeout_ms: int,
        params: Mapping[str, Any],
    ) -> None:
        """`params` are further connection parameters, as of a model's tool: max_tokens, temperature, pricing."""
        self.name = model
        self.price = Price.of(params.get("pricing"))
        self._delivery = delivery
        self._endpoint = url or HOMES[protocol]
        self._params = {**params, "endpoint": self._endpoint, "dialect": protocol, "model": model}
        self._reveal = reveal
        self._timeout_ms = timeout_ms

    async def ask(
        self, tenant_id: str, tool_id: str, prompt: Prompt, *, hear: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the model's answer; a failure to reach it, or its refusal, raises."""
        terms = DeliveryTerms(tenant_id, tool_id, self._timeout_ms, is_repeatable=True)
        conversation = await open_conversation(self._binding(tenant_id, tool_id), self._delivery, terms, user=None)
        try:
            answer = await conversation.ask(prompt, hear)
        except ToolError as error:
            if prompt.schema is None or error.details.get("status") not in _NOT_UNDERSTOOD:
                raise
            answer = await conversation.ask(replace(prompt, schema=None), hear)
        if answer.stop == "refusal":
            raise ToolError(f"the model refuses: {answer.text[:300]}", tool_id=tool_id)
        return answer

    async def aclose(self) -> None:
        await self._delivery.transport.aclose()

    def _binding(self, tenant_id: str, tool_id: str) -> Binding[Any]:
        scheme = parse_url(self._endpoint, field="model.url").origin.scheme
        return Binding(tool_id, scheme, self._params, None, self._opener(tenant_id))

    def _opener(self, tenant_id: str) -> RevealSecret | None:
        source = self._reveal
        if source is None:
            return None

        async def reveal(_: str | None) -> str:
            return await source(tenant_id)

        return reveal
