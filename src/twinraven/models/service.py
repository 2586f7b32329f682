"""Asks the configured model: for text, for JSON that fits a schema, or as a stream.

Every question is a call of `twinraven.ask_model` on the call path. A failure is an error of the call path, by its code:
MODEL_NOT_CONFIGURED where the settings name no model, POLICY_VIOLATION where a rule forbids it, TOOL_UNAVAILABLE,
TOOL_TIMEOUT or TOOL_FAILED where no answer came, OUTPUT_INVALID where no answer fits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final, cast

from twinraven.calls import CallContext, Calls, SkillInvocationRequest
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput, InvalidOutput, TwinRavenError, error_from_json
from twinraven.foundation.json_schema import compile_schema
from twinraven.models.errors import ModelNotConfigured
from twinraven.models.json_mending import mend_json
from twinraven.models.model import ModelAnswer, ModelQuestion
from twinraven.models.tool import ASK_MODEL, ModelTool, listening

REPAIRS: Final = 2
"""How often a model is told what is wrong with its JSON before the answer counts as no answer."""


class Models:
    """The configured model, asked through the call path."""

    def __init__(self, calls: Callable[[], Calls], tool: ModelTool) -> None:
        self._calls = calls
        self._tool = tool

    @property
    def name(self) -> str | None:
        """The name of the configured model; None where there is none."""
        return self._tool.model

    def require(self) -> str:
        """Return the name of the configured model, or an error that says how to configure one."""
        if self._tool.model is None:
            raise ModelNotConfigured
        return self._tool.model

    async def ask(self, question: ModelQuestion, context: CallContext, *, tenant_id: str) -> ModelAnswer:
        """Return the model's answer, unvalidated; raise the call's error where there is none."""
        self.require()
        request = SkillInvocationRequest(tool_name=ASK_MODEL, payload=question.as_json(), tenant_id=tenant_id)
        response = await self._calls().invoke(request, context)
        if response.error is not None:
            raise error_from_json(response.error)
        return ModelAnswer.from_json(response.output)

    async def ask_json(
        self, question: ModelQuestion, context: CallContext, *, tenant_id: str, repairs: int = REPAIRS
    ) -> ModelAnswer:
        """Return an answer whose `value` fits the question's schema.

        A provider that knows schemas is bound to this one; an answer that does not fit all the same goes back to the
        model with what is wrong with it, at most `repairs` times. Tokens of all askings are added up.
        """
        if question.schema is None:
            raise InvalidInput("a question for JSON needs a schema", field="schema")
        schema, spent = compile_schema(dict(question.schema)), (0, 0)
        for left in range(repairs, -1, -1):
            answer = await self.ask(question, context, tenant_id=tenant_id)
            spent = (spent[0] + answer.input_tokens, spent[1] + answer.output_tokens)
            try:
                value = answer.value if answer.value is not None else _read(answer.text)
                schema.check(value, field="answer")
            except (InvalidInput, InvalidOutput) as error:
                if left == 0:
                    raise InvalidOutput(
                        f"the model's answer does not fit after {repairs} corrections: {error.message}",
                        tool_id=ASK_MODEL,
                        tokens=sum(spent),
                    ) from None
                question = question.continued(_said(answer), f"{problems_of(error)}. Answer again, with JSON alone.")
                continue
            return replace(answer, value=value, input_tokens=spent[0], output_tokens=spent[1])
        raise AssertionError("the last repair returns or raises")

    @asynccontextmanager
    async def stream(
        self, question: ModelQuestion, context: CallContext, *, tenant_id: str
    ) -> AsyncGenerator[ModelStream]:
        """Stream the answer while it is generated; leaving the block early cancels the request."""
        stream = ModelStream(lambda: self.ask(question, context, tenant_id=tenant_id))
        try:
            yield stream
        finally:
            await stream.aclose()


class ModelStream:
    """Pieces of text while a model speaks, then its whole answer."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._task: asyncio.Task[ModelAnswer] = asyncio.create_task(self._run(ask))

    async def _run(self, ask: Callable[[], Any]) -> ModelAnswer:
        listening.set(self._pieces.put_nowait)
        try:
            return await ask()
        finally:
            self._pieces.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[str]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def answer(self) -> ModelAnswer:
        """Return the whole answer, with tokens and cost; raises what went wrong."""
        return await self._task

    async def aclose(self) -> None:
        """End the asking, if it goes on."""
        self._task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._task


def _read(text: str) -> Any:
    """Read the JSON in an answer, mended where that leaves no doubt."""
    found = mend_json(text)
    if found.is_cut:
        raise InvalidOutput("the answer breaks off in the middle of a value")
    return found.value


def problems_of(error: TwinRavenError) -> str:
    """Return everything that is wrong with an answer, in one line that a model can act on."""
    found = cast("list[dict[str, str]]", error.details.get("errors") or [])
    return "; ".join(f"{each['path']}: {each['problem']}" for each in found[:5]) or error.message


def _said(answer: ModelAnswer) -> str:
    return answer.text or canonical_json(answer.value).decode()
