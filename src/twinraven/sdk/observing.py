"""Records a session from the client: calls are batched, and flushed at the latest when the block ends.

Several tasks or threads may record into one session. One of them sends at a time, and what was sent is let go only when
the server has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from twinraven.foundation.errors import TwinRavenError
from twinraven.foundation.ids import new_uuid
from twinraven.sdk.delivery import MOST_AT_ONCE, BlockingFifoLock, FifoLock, Send, Turns, deliver
from twinraven.sdk.model import JsonObject, ObservedCall, Outcome
from twinraven.sdk.wire import finish

_AT_ONCE: Final = 100


class AsyncSessionRecorder:
    """Records the calls of one session: `async with client.observe("ticket-17") as session:`."""

    def __init__(self, send: Send, session_id: str, *, task_id: str | None = None, turns: Turns | None = None) -> None:
        self._send = send
        self._gathered: list[ObservedCall] = []
        self._turns = FifoLock() if turns is None else turns
        self._trouble: TwinRavenError | None = None
        self._refused: list[tuple[ObservedCall, TwinRavenError]] = []
        self.session_id = session_id
        self.task_id = task_id

    async def record(  # noqa: PLR0913 - a call has that many facts, each optional and by name
        self,
        tool_id: str,
        params: JsonObject,
        *,
        output: Any = None,
        error: BaseException | str | None = None,
        latency_ms: int = 0,
        timestamp: datetime | None = None,
        outcome: Outcome | None = None,
        turn: int | None = None,
        outside_input: str | None = None,
        tags: Iterable[str] = (),
        actor: str | None = None,
    ) -> UUID:
        """Remember one call; its id is known at once, and it is on the server when the block has ended."""
        call = ObservedCall(
            self.session_id,
            tool_id,
            params,
            output=output,
            latency_ms=latency_ms,
            timestamp=timestamp,
            outcome=outcome,
            tags=tuple(tags),
            turn=turn,
            task_id=self.task_id,
            outside_input=outside_input,
            event_id=(event_id := new_uuid()),
            actor=actor,
        )
        self._gathered.append(call if error is None else failed(call, error))
        if len(self._gathered) >= _AT_ONCE:
            await self.flush()
        return event_id

    async def flush(self) -> None:
        """Send what was gathered; what could not be sent is kept for the next time.

        A call that the server will never accept is let go, and raised once the others are stored.
        """
        known = self._trouble
        async with self._turns:
            if self._trouble is not None and self._trouble is not known:
                # Whoever was first has waited for this server long enough for all who stand behind.
                raise self._trouble
            self._trouble = None
            try:
                await self._send_all()
            except TwinRavenError as error:
                self._trouble = error if error.retryable else None
                raise

    async def _send_all(self) -> None:
        # Only whoever has the turn takes calls out, and others add at the end: what was sent stands in front.
        while sending := self._gathered[:MOST_AT_ONCE]:
            self._refused += await deliver(self._send, sending)
            del self._gathered[: len(sending)]
        refused, self._refused = self._refused, []
        if refused:
            error = refused[0][1]
            error.details = {**error.details, "event_ids": [str(call.event_id) for call, _ in refused]}
            raise error

    async def __aenter__(self) -> AsyncSessionRecorder:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.flush()


class SessionRecorder:
    """The same for programs without an event loop: `with client.observe("ticket-17") as session:`."""

    def __init__(self, send: Send, session_id: str, *, task_id: str | None = None) -> None:
        self._inner = AsyncSessionRecorder(send, session_id, task_id=task_id, turns=BlockingFifoLock())

    @property
    def session_id(self) -> str:
        return self._inner.session_id

    def record(  # noqa: PLR0913 - as above
        self,
        tool_id: str,
        params: JsonObject,
        *,
        output: Any = None,
        error: BaseException | str | None = None,
        latency_ms: int = 0,
        timestamp: datetime | None = None,
        outcome: Outcome | None = None,
        turn: int | None = None,
        outside_input: str | None = None,
        tags: Iterable[str] = (),
        actor: str | None = None,
    ) -> UUID:
        """Remember one call; its id is known at once, and it is on the server when the block has ended."""
        return finish(
            self._inner.record(
                tool_id,
                params,
                output=output,
                error=error,
                latency_ms=latency_ms,
                timestamp=timestamp,
                outcome=outcome,
                turn=turn,
                outside_input=outside_input,
                tags=tags,
                actor=actor,
            )
        )

    def flush(self) -> None:
        """Send what was gathered; what could not be sent is kept for the next time."""
        finish(self._inner.flush())

    def __enter__(self) -> SessionRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


def failed(call: ObservedCall, error: BaseException | str) -> ObservedCall:
    """Return the call as one that raised: the error's words, and a code that stays searchable."""
    if isinstance(error, str):
        return replace(call, output=None, error=error or "failed")
    code = error.code if isinstance(error, TwinRavenError) else type(error).__name__
    return replace(call, output=None, error=str(error) or type(error).__name__, error_code=code)
