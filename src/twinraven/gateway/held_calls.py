"""Holds calls whose server waits for an answer that the client gives with its next request (`input_required`).

The call goes on in a task of its own. Its first request is answered with the questions and a state; the client's next
request brings that state and its answers, and waits for the same call. It is one call throughout: one event, one key,
one audit trail. A held call lives in this process, for as long as a client may take to answer, and is its caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from twinraven.foundation.errors import ToolError
from twinraven.foundation.ids import new_id
from twinraven.gateway.answers import Result
from twinraven.gateway.channels import HELD, ClientChannel, Context, Question

_MOST: Final = 1_000
"""How many calls may be held at once."""


@dataclass(slots=True)
class HeldCall:
    """One call under way, with the questions that its client has not answered."""

    owner: str
    """Who may go on with it, with which tool and arguments."""
    channel: ClientChannel
    questions: dict[str, tuple[Question, asyncio.Future[dict[str, Any]]]] = field(default_factory=dict[str, Any])
    work: asyncio.Future[Result] | None = None
    expiry: asyncio.TimerHandle | None = None
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, question: Question) -> dict[str, Any]:
        """Wait until the client has answered this."""
        name, answer = new_id(), asyncio.get_running_loop().create_future()
        self.questions[name] = (question, answer)
        self._asked.set()
        try:
            return await answer
        finally:
            self.questions.pop(name, None)

    def take(self, answers: Mapping[str, Any]) -> None:
        """Hand the client's answers to the waiting call."""
        for name, (_, waiting) in list(self.questions.items()):
            answer = answers.get(name)
            if isinstance(answer, dict) and not waiting.done():
                waiting.set_result(cast("dict[str, Any]", answer))
                del self.questions[name]
        if not self.questions:
            self._asked.clear()

    async def settled(self) -> bool:
        """Return whether the call is over; else the client is asked something."""
        assert self.work is not None
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait([self.work, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        return self.work.done()

    def end(self) -> None:
        """Give the call up."""
        if self.work is not None:
            self.work.cancel()
        for _, waiting in list(self.questions.values()):
            if not waiting.done():
                waiting.set_exception(ToolError("the client did not come back with an answer"))


class HeldCalls:
    """The calls that are held in this process."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._calls: dict[str, HeldCall] = {}

    async def run(self, channel: ClientChannel, owner: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Make a call; the answer, or what its client is asked first."""
        call = HeldCall(owner, channel)
        if len(self._calls) < _MOST:
            channel.holding = call
        call.work = asyncio.ensure_future(work)
        return await self._attend(call)

    async def resume(self, context: Context, owner: str) -> Result:
        """Go on with a call that is held, with what the client answers."""
        said = context.params or {}
        call = self._calls.pop(said["requestState"], None)
        if call is None or call.owner != owner:
            if call is not None:
                self._calls[said["requestState"]] = call
            raise MCPError(INVALID_PARAMS, "no call waits here for this requestState; make the call anew")
        if call.expiry is not None:
            call.expiry.cancel()
        call.channel.go_on(context)
        answers: Any = said.get("inputResponses")
        call.take(cast("Mapping[str, Any]", answers) if isinstance(answers, Mapping) else {})
        return await self._attend(call)

    async def close(self) -> None:
        """Give all of them up."""
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            call.end()
        await asyncio.gather(*(call.work for call in calls if call.work is not None), return_exceptions=True)

    async def _attend(self, call: HeldCall) -> Result:
        assert call.work is not None
        try:
            if await call.settled():
                return call.work.result()
        except asyncio.CancelledError:
            # The client went away, and the call with it.
            call.work.cancel()
            await asyncio.wait([call.work])
            raise
        state = HELD + new_id()
        self._calls[state] = call
        call.expiry = asyncio.get_running_loop().call_later(self._patience_s, self._expire, state)
        asked = {name: {"method": method, "params": params} for name, ((method, params), _) in call.questions.items()}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}

    def _expire(self, state: str) -> None:
        call = self._calls.pop(state, None)
        if call is not None:
            call.end()
