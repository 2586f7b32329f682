"""Reaches back to MCP clients: passes on progress, log messages and the questions of upstream servers.

A client with a handshake is asked on its connection while the call waits. A client of the newest revision takes no
questions: its call is answered with them (`input_required`), and it calls again with the answers. Where the server is
of that revision, too, question and answers pass through and nothing is kept here; where the server waits for an answer
on its connection, the call is held meanwhile (`held_calls`).

Every question is in the audit chain: who asked whom for what, and how it ended. What was said is not kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import Outbound
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, LOG_LEVEL_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.foundation.errors import ToolError
from twinraven.foundation.ids import new_id

if TYPE_CHECKING:
    from twinraven.gateway.callers import Caller

_ABILITIES: Final = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_LEVEL: Final = "twinraven.log_level"
"""Where the level that an older client set is kept, in the state of its connection."""
_PATIENCE_S: Final = 5.0
"""A client that does not read is not waited for any longer than this."""

_GLANCE_S: Final = 0.05

Context = ServerRequestContext[Any, Any]
Question = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class QuestionLimits:
    """Limits on questions of servers to clients: kinds, number per call, and timeout."""

    abilities: frozenset[str]
    ask_s: float
    most: int

    def offered(self, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """Of what a client can do, what servers are told."""
        return {name: value for name, value in capabilities.items() if name in self.abilities}


class CallHolder(Protocol):
    """Keeps a call that waits while its client is asked by way of an answer."""

    async def put(self, question: Question) -> dict[str, Any]: ...


class ClientChannel:
    """The client of one request."""

    def __init__(self, context: Context, caller: Caller, limits: QuestionLimits, audit: AuditLog) -> None:
        self.context = context
        self.caller = caller
        self._limits = limits
        self._audit = audit
        self._asked = 0
        self.holding: CallHolder | None = None
        """Set where the call is held while its client is asked."""
        # Without a session every request may be another client's.
        self.client = caller.process or caller.protocol or new_id()
        self.is_newer = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.capabilities = limits.offered(capabilities_of(context))

    @property
    def log_level(self) -> str | None:
        if self.is_newer:
            level: Any = (self.context.meta or {}).get(LOG_LEVEL_META_KEY)
            return level if level in LEVELS else None
        return level_of(connection_of(self.context))

    @property
    def inputs(self) -> Mapping[str, Any]:
        if not self.is_newer or self.is_resumed:
            return {}
        said = self.context.params or {}
        return {name: said[name] for name in ("inputResponses", "requestState") if said.get(name) is not None}

    @property
    def takes_questions(self) -> bool:
        return self.is_newer

    @property
    def is_resumed(self) -> bool:
        """Whether the client goes on with a call that is held."""
        state = (self.context.params or {}).get("requestState")
        return isinstance(state, str) and state.startswith(HELD)

    def go_on(self, context: Context) -> None:
        """Switch to the client's new request for the same call, by which it is reached from now on."""
        self.context = context

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        # Without a token of the client this does nothing.
        await _patiently(outbound_of(self.context).progress(progress, total, message))

    async def log(self, message: dict[str, Any]) -> None:
        if _is_wanted(message, self.log_level, is_opt_in=self.is_newer):
            await _patiently(outbound_of(self.context).notify("notifications/message", message))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._admit(method)
        question = (method, params)
        if self.holding is not None:
            return await self._witnessed(question, self.holding.put(question))
        if self.is_newer or not self.context.session.can_send_request:
            raise ToolError(f"{method} was asked, and this client cannot be asked on its connection", method=method)
        return await self._witnessed(question, ask_on(outbound_of(self.context), question, self._limits.ask_s))

    def _admit(self, method: str) -> None:
        needed = _ABILITIES[method]
        if needed not in self.capabilities:
            raise ToolError(f"{method} was asked, and the client does not support {needed}", method=method)
        self._asked += 1
        if self._asked > self._limits.most:
            raise ToolError(f"a call may ask its client {self._limits.most} times, and not more", method=method)

    async def _witnessed(self, question: Question, asking: Any) -> dict[str, Any]:
        try:
            answer = cast("dict[str, Any]", await asking)
        except ToolError as error:
            await self._note(question[0], code=error.code)
            raise
        await self._note(question[0], action=answer.get("action"))
        return answer

    async def _note(self, method: str, *, action: Any = None, code: str | None = None) -> None:
        principal = self.caller.principal
        data = {"method": method, **({"action": action} if isinstance(action, str) else {})}
        entry = NewAuditEntry(
            tenant_id=principal.tenant_id,
            event_type="upstream.client_asked",
            subject_type="client",
            subject_id=self.client,
            actor=principal.actor,
            data=data,
            code=code,
        )
        await self._audit.write(entry)


HELD: Final = "twinraven:held:"
"""How the state begins that stands for a call that is held here."""


class StandingChannel:
    """The one older client there is, for what a server says and asks outside of calls, such as for roots at start."""

    def __init__(self, connection: Callable[[], Connection | None], limits: QuestionLimits) -> None:
        self._connection = connection
        self._limits = limits
        self.client = "standing"
        self.inputs: Mapping[str, Any] = {}
        self.takes_questions = False

    @property
    def capabilities(self) -> Mapping[str, Any]:
        connection = self._connection()
        said = None if connection is None else connection.client_capabilities
        return {} if said is None else self._limits.offered(_dumped(said))

    @property
    def log_level(self) -> str | None:
        connection = self._connection()
        return None if connection is None else level_of(connection)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Do nothing: progress belongs to a call."""

    async def log(self, message: dict[str, Any]) -> None:
        connection = self._connection()
        if connection is not None and _is_wanted(message, level_of(connection), is_opt_in=False):
            await _patiently(connection.outbound.notify("notifications/message", message))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        connection = await self._arrived()
        if connection is None or _ABILITIES[method] not in self.capabilities:
            raise ToolError(f"{method} was asked, and there is no client that could answer", method=method)
        return await ask_on(connection.outbound, (method, params), min(self._limits.ask_s, 2 * _PATIENCE_S))

    async def _arrived(self) -> Connection | None:
        """Return the client, which may come a little later than the servers."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while (connection := self._connection()) is None:  # noqa: ASYNC110 - the SDK has no such event
                    await asyncio.sleep(_GLANCE_S)
                return connection
        return None


async def ask_on(outbound: Outbound, question: Question, patience_s: float) -> dict[str, Any]:
    """Send a client a question, and wait for its answer."""
    method, params = question
    try:
        return await outbound.send_raw_request(method, params, {"timeout": patience_s})
    except MCPError as error:
        code = error.code if error.code != INTERNAL_ERROR else INVALID_REQUEST
        raise ToolError(f"the client refused {method}: {error.message}", method=method, rpc_code=code) from error


def set_level(connection: Connection, level: str) -> None:
    """Remember the level from which on an older client wants log messages."""
    connection.state[_LEVEL] = level


def level_of(connection: Connection) -> str | None:
    level: Any = connection.state.get(_LEVEL)
    return level if level in LEVELS else None


def capabilities_of(context: Context) -> dict[str, Any]:
    """Return the capabilities that the client of a request declares, as on the wire."""
    said = context.session.client_capabilities
    return {} if said is None else _dumped(said)


def connection_of(context: Context) -> Connection:
    """Return the connection of a client, where clean-up is pushed that is due when it ends."""
    # The SDK means handlers to do so and has no public way to it yet.
    return context.session._connection  # pyright: ignore[reportPrivateUsage]


def outbound_of(context: Context) -> Any:
    """Return the way back that belongs to a request; over HTTP, the stream of its answer."""
    return context.session._request_outbound  # pyright: ignore[reportPrivateUsage]


def _dumped(capabilities: Any) -> dict[str, Any]:
    return capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)


def _is_wanted(message: Mapping[str, Any], level: str | None, *, is_opt_in: bool) -> bool:
    if level is None:
        return not is_opt_in
    said: Any = message.get("level")
    return said in LEVELS and LEVELS.index(said) >= LEVELS.index(level)


async def _patiently(telling: Any) -> None:
    """Tell a client something that it may well miss."""
    with suppress(TimeoutError, MCPError, OSError):
        async with asyncio.timeout(_PATIENCE_S):
            await telling
