"""Declares the port through which adapters reach TwinRaven: a home in this process, or a server.

An adapter offers tools, calls them and records calls that were made elsewhere. It does not know whether a database or a
wire stands behind that.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from twinraven.app import TwinRaven
from twinraven.foundation.actors import Actor, agent, parse_actor
from twinraven.foundation.errors import Conflict, InvalidInput
from twinraven.sdk import AsyncClient, Client, ObservedCall, ToolInfo
from twinraven.storage import DEFAULT_TENANT
from twinraven.tenancy import LOCAL_USER

T = TypeVar("T")

Scope = Literal["learned", "all"]
"""Which tools are offered: those that were learned, or everything the caller may call."""


@dataclass(frozen=True, slots=True)
class OfferedAgentTool:
    """A tool as it is offered to an agent."""

    tool_id: str
    name: str
    """Its name in the form that every model accepts."""
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TurnPosition:
    """The session and turn of a call, with the outside input before it."""

    session_id: str
    turn: int | None = None
    outside_input: str | None = None


@runtime_checkable
class Door(Protocol):
    """A way into TwinRaven."""

    async def offers(self, scope: Scope) -> list[OfferedAgentTool]:
        """Return the tools that the caller may call now."""
        ...

    async def call(self, tool_id: str, arguments: dict[str, Any], place: TurnPosition) -> Any:
        """Return a tool's output, or the error raised; the call is recorded on the way."""
        ...

    async def record(self, calls: Sequence[ObservedCall]) -> None:
        """Remember calls that were made elsewhere; Conflict says that some of them were there already."""
        ...


Behind = TwinRaven | Client | AsyncClient | Door
"""What an adapter can be given."""


def door_of(behind: Behind) -> Door:
    """The way in to whatever this is."""
    if isinstance(behind, TwinRaven):
        return HomeDoor(behind)
    if isinstance(behind, Client):
        return BlockingDoor(behind)
    if isinstance(behind, AsyncClient):
        return ServerDoor(behind)
    if isinstance(behind, Door):  # pyright: ignore[reportUnnecessaryIsInstance]
        return behind
    raise InvalidInput(f"an adapter needs an open home or a client, not {type(behind).__name__}", field="behind")


class HomeDoor:
    """A home opened in this process."""

    def __init__(
        self,
        raven: TwinRaven,
        *,
        tenant_id: str = DEFAULT_TENANT,
        caller: str | None = LOCAL_USER,
        actor: Actor | None = None,
    ) -> None:
        """`caller` is the user whose rights apply, `actor` who is recorded: by default an agent known by that name."""
        self._raven = raven
        self._tenant_id = tenant_id
        self._caller = caller
        self._actor = actor or agent(caller or LOCAL_USER)

    async def offers(self, scope: Scope) -> list[OfferedAgentTool]:
        await self._raven.learned.refresh(self._tenant_id)
        offered = self._raven.catalog.offered(self._tenant_id, self._caller)
        return [
            _offer(entry.tool_id, entry.description, entry.input_schema)
            for entry in offered
            if scope == "all" or entry.parts
        ]

    async def call(self, tool_id: str, arguments: dict[str, Any], place: TurnPosition) -> Any:
        from twinraven.calls import CallContext

        context = CallContext(
            place.session_id,
            turn=place.turn,
            outside_input=place.outside_input,
            caller=self._caller,
            actor=self._actor,
        )
        return await self._raven.calls.call(tool_id, arguments, context, tenant_id=self._tenant_id)

    async def record(self, calls: Sequence[ObservedCall]) -> None:
        conflict: Conflict | None = None
        for call in calls:
            try:
                await self._record(call)
            except Conflict as error:
                conflict = error
        if conflict is not None:
            raise conflict

    async def _record(self, call: ObservedCall) -> None:
        collector = self._raven.collector
        await collector.room()
        observer = collector.observe(call.session_id, tenant_id=self._tenant_id, task_id=call.task_id)
        facts: dict[str, Any] = {
            "latency_ms": call.latency_ms,
            "timestamp": call.timestamp,
            "turn": call.turn,
            "outside_input": call.outside_input,
            "tags": call.tags,
            "event_id": call.event_id,
            "actor": self._actor if call.actor is None else parse_actor(call.actor, field="actor"),
        }
        if call.error is None:
            await observer.record(call.tool_id, call.params, output=call.output, **facts)
        else:
            await observer.record(
                call.tool_id,
                call.params,
                output={"error": call.error},
                outcome="failure",
                raised=True,
                error_code=call.error_code or "TOOL_FAILED",
                **facts,
            )


class ServerDoor:
    """A server, spoken to on an event loop."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def offers(self, scope: Scope) -> list[OfferedAgentTool]:
        return _offers([tool async for tool in self._client.tools()], scope)

    async def call(self, tool_id: str, arguments: dict[str, Any], place: TurnPosition) -> Any:
        return await self._client.call(
            tool_id, arguments, session_id=place.session_id, turn=place.turn, outside_input=place.outside_input
        )

    async def record(self, calls: Sequence[ObservedCall]) -> None:
        await self._client.record(calls)


class BlockingDoor:
    """A server, spoken to on threads, from any loop or none."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def offers(self, scope: Scope) -> list[OfferedAgentTool]:
        return _offers(await _beside(lambda: list(self._client.tools())), scope)

    async def call(self, tool_id: str, arguments: dict[str, Any], place: TurnPosition) -> Any:
        return await _beside(
            lambda: self._client.call(
                tool_id, arguments, session_id=place.session_id, turn=place.turn, outside_input=place.outside_input
            )
        )

    async def record(self, calls: Sequence[ObservedCall]) -> None:
        await _beside(lambda: self._client.record(calls))


async def _beside(work: Callable[[], T]) -> T:
    """Return what work gives, done on a thread that keeps neither a loop nor the program from ending.

    The threads of a loop's executor would: whoever closes it waits for all of them.
    """
    given: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        if not given.set_running_or_notify_cancel():
            return
        try:
            given.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to whoever waits
            given.set_exception(error)

    threading.Thread(target=run, name="twinraven-door", daemon=True).start()
    return await asyncio.wrap_future(given)


def _offers(tools: Sequence[ToolInfo], scope: Scope) -> list[OfferedAgentTool]:
    return [
        _offer(tool.tool_id, tool.description, tool.input_schema)
        for tool in tools
        if tool.is_callable and (scope == "all" or tool.is_learned)
    ]


def _offer(tool_id: str, description: str, schema: dict[str, Any]) -> OfferedAgentTool:
    from twinraven.connectors import legal_name

    return OfferedAgentTool(tool_id, legal_name(tool_id), description, {"properties": {}, **schema, "type": "object"})
