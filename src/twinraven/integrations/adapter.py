"""Implements what every adapter shares: a door, a turn tracker, a call recorder and the session id."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from twinraven.foundation.errors import InvalidInput, InvalidSetting, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.integrations.call_recording import FLUSH_S, PATIENCE_S, CallRecorder, TurnTracker
from twinraven.integrations.door import Behind, OfferedAgentTool, Scope, TurnPosition, door_of
from twinraven.sdk import ServerUnreachable

_logger = logging.getLogger("twinraven.integrations")

SESSION: Final = "twinraven/session_id"
TURN: Final = "twinraven/turn"
USER_INPUT: Final = "twinraven/user_input"
"""What the gateway takes from `_meta`; it tells whoever names a session the id of the call's event."""
EVENT: Final = "twinraven/event_id"


class Adapter:
    """Both directions of one library: what its agents do is remembered, and what was learned is offered to them."""

    def __init__(
        self,
        behind: Behind,
        *,
        session_id: str | None = None,
        scope: Scope = "learned",
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`session_id` names the session of everything seen and called through this adapter.

        Without it a session is what the library calls a conversation; where it names none, this adapter's life.
        `patience_s` is how long an agent waits at most to be offered tools, and for each of its calls to be recorded.
        """
        if not patience_s > 0:
            raise InvalidInput(f"an agent must wait for more than {patience_s} seconds", field="patience_s")
        self._door = door_of(behind)
        self._watch = CallRecorder(self._door, patience_s=patience_s)
        self._patience_s = patience_s
        self._book = TurnTracker()
        self._session_id = session_id
        self._own_session = f"agent-{new_id()}"
        self._scope: Scope = scope

    async def offers(self) -> list[OfferedAgentTool]:
        """Return the tools that are offered now."""
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._door.offers(self._scope)
        except TimeoutError as error:
            raise ServerUnreachable(f"no tools were offered within {self._patience_s:g} s") from error

    async def flush(self, *, within_s: float = FLUSH_S) -> int:
        """Record what could not be recorded at its time; says how many calls still wait when the time is over."""
        return await self._watch.flush(within_s=within_s)

    async def offers_of_a_run(self) -> list[OfferedAgentTool]:
        """Return the same for a run that begins: an agent works with its own tools where no others can be had."""
        if self._watch.is_resting:
            return []
        try:
            return await self.offers()
        except TwinRavenError as error:
            if not error.retryable:
                raise
            self._watch.rest()
            _logger.error("nothing is offered to this run: %s: %s", error.code, error.message)  # noqa: TRY400
            return []

    def _session(self, named: object) -> str:
        """Return the session of a call, by what the library says of it."""
        if self._session_id is not None:
            return self._session_id
        return named if isinstance(named, str) and named else self._own_session

    def _place_meta(self, place: TurnPosition) -> dict[str, Any]:
        """Return the place of a call as `_meta` of a request to a gateway, which records the call there."""
        said = {USER_INPUT: place.outside_input, TURN: place.turn}
        return {SESSION: place.session_id, **{name: value for name, value in said.items() if value is not None}}

    async def _call(self, tool_id: str, arguments: dict[str, Any], session_id: str) -> Any:
        return await self._door.call(tool_id, arguments, self._book.take(session_id))


def missing(extra: str, error: ModuleNotFoundError) -> InvalidSetting:
    """Build the error that names the package to install where an agent library is missing."""
    return InvalidSetting(
        f"this adapter needs {error.name}, which is not installed", fix=f"pip install 'twinraven[{extra}]'"
    )
