"""Recording a session where it happens: calls are gathered and sent together, at the latest when the block ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from twinraven.foundation.errors import TwinRavenError
from twinraven.foundation.ids import new_uuid
from twinraven.sdk.model import JsonObject, ObservedCall, Outcome
from twinraven.sdk.wire import finish

_AT_ONCE: Final = 100

Send = Callable[[Iterable[ObservedCall]], Awaitable[object]]


class AsyncSessionRecorder:
    """Records the calls of one session: `async with client.observe("ticket-17") as session:`."""

    def __init__(self, send: Send, session_id: str, *, task_id: str | None = None) -> None:
        self._send = send
        self._gathered: list[ObservedCall] = []
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
        )
        self._gathered.append(call if error is None else failed(call, error))
        if len(self._gathered) >= _AT_ONCE:
            await self.flush()
        return event_id

    async def flush(self) -> None:
        """Send what was gathered; what could not be sent is kept for the next time."""
        sending = list(self._gathered)
        if sending:
            await self._send(sending)
            del self._gathered[: len(sending)]

    async def __aenter__(self) -> AsyncSessionRecorder:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.flush()


class SessionRecorder:
    """The same for programs without an event loop: `with client.observe("ticket-17") as session:`."""

    def __init__(self, inner: AsyncSessionRecorder) -> None:
        self._inner = inner

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
            )
        )

    def flush(self) -> None:
        """Send what was gathered."""
        finish(self._inner.flush())

    def __enter__(self) -> SessionRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


def failed(call: ObservedCall, error: BaseException | str) -> ObservedCall:
    """The call as one that raised: the error's words, and a code that stays searchable."""
    if isinstance(error, str):
        return replace(call, output=None, error=error or "failed")
    code = error.code if isinstance(error, TwinRavenError) else type(error).__name__
    return replace(call, output=None, error=str(error) or type(error).__name__, error_code=code)
