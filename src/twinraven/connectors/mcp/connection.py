"""One living connection to an upstream server: which revision it speaks, what it offers, and calling it.

The newest revision is tried first, and the older handshake where a server does not know it. We offer a server nothing
in return: no sampling, no files, no questions to a person, and nothing of what our own caller sent besides the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import anyio
import anyio.abc
import httpx2
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, METHOD_NOT_FOUND, REQUEST_TIMEOUT
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel, ValidationError

from twinraven.connectors.mcp.child import child_link
from twinraven.connectors.mcp.errors import UpstreamLost
from twinraven.connectors.mcp.listening import ResourceWatch, follow
from twinraven.connectors.mcp.listing import LIST_TOOLS, describe, joined, sift
from twinraven.connectors.mcp.model import Abilities, Definition, Listing, NewsKind
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.web import web_link
from twinraven.connectors.mcp.wire import NOT_SENT
from twinraven.foundation.errors import InvalidOutput, ToolError, ToolTimeout, ToolUnavailable

_CLIENT: Final = types.Implementation(name="twinraven", version="0.1")
_MOST_PAGES: Final = 100
_MOST_TOOLS: Final = 2_000

_REQUESTS: Final[dict[str, type[types.Request[Any, Any]]]] = {
    "prompts/list": types.ListPromptsRequest,
    "prompts/get": types.GetPromptRequest,
    "resources/list": types.ListResourcesRequest,
    "resources/templates/list": types.ListResourceTemplatesRequest,
    "resources/read": types.ReadResourceRequest,
    "resources/subscribe": types.SubscribeRequest,
    "resources/unsubscribe": types.UnsubscribeRequest,
    "completion/complete": types.CompleteRequest,
}
"""What a server may be asked besides tools."""


class _Raw(RootModel[dict[str, Any]]):
    """An answer as it came."""


class _Faults:
    """Notes what is wrong with a connection, and the first thing for which we ended it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.reason: str | None = None
        self.is_over = False
        self._tell = tell

    def note(self, reason: str) -> None:
        # What is said of a connection that is over is how the server ended, not why we ended it.
        if self.reason is None and not self.is_over:
            self.reason = reason
        self._tell(reason)


class _Watched(Dispatcher[Any]):
    """A dispatcher of which somebody wants to know when it ends, and that passes on only what is a tool."""

    def __init__(self, inner: Dispatcher[Any], faults: _Faults) -> None:
        self.lost = asyncio.Event()
        self.faults = faults
        self.version: Callable[[], str | None] = lambda: None
        self._inner = inner

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        answer = await self._inner.send_raw_request(method, params, opts)
        return sift(answer, self.version() or LATEST_HANDSHAKE_VERSION) if method == LIST_TOOLS else answer

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self._inner.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await self._inner.run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self.faults.is_over = True
            self.lost.set()


class Connection:
    """An upstream server we can talk to right now."""

    def __init__(self, server: ServerConfig, session: ClientSession, link: _Watched) -> None:
        self._server = server
        self._session = session
        self._watch = ResourceWatch(session)
        self._link = link
        self.lost = link.lost

    @property
    def protocol_version(self) -> str:
        return self._session.protocol_version or ""

    @property
    def is_newer(self) -> bool:
        """Whether it announces changes in streams that are asked for."""
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def abilities(self) -> Abilities:
        said = self._session.server_capabilities or types.ServerCapabilities()
        subscribe = said.resources is not None and bool(said.resources.subscribe)
        return Abilities(said.prompts is not None, said.resources is not None, subscribe, said.completions is not None)

    async def tools(self) -> Listing:
        """The definitions of all tools; a server without any may not even know the question."""
        said = self._session.server_capabilities
        try:
            return await self._tools()
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND and said is not None and said.tools is None:
                return Listing([])
            raise
        except ValidationError as error:
            raise _wrong_answer(self._server, LIST_TOOLS, error) from error

    async def _tools(self) -> Listing:
        """Page by page, as the server wrote them."""
        pages: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
            page = (await self._session.send_request(request, _Raw)).root
            pages.append(page)
            cursor = page.get("nextCursor")
            if cursor is None or sum(len(each["tools"]) for each in pages) > _MOST_TOOLS:
                break
        found = joined(pages)
        if len(found.tools) > _MOST_TOOLS:
            raise InvalidOutput(f"{self._server.name!r} lists more than {_MOST_TOOLS} tools")
        return found

    async def greet(self) -> None:
        """Ask for something that every server answers."""
        try:
            await self.tools()
        except MCPError as error:
            raise self._translated(error, "tools/list") from error

    def call(self, tool: str, arguments: dict[str, Any]) -> Awaitable[dict[str, Any]]:
        """The server's answer, as it came."""
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=arguments))
        return self._send(request, tool)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The server's answer to one of the questions that are not about tools, as it came."""
        return await self._send(_REQUESTS[method].model_validate({"method": method, "params": params}), method)

    async def listed(self, method: str, member: str, *, most: int) -> list[Definition]:
        """All that the server lists, page by page; beyond so many it is not read any further."""
        found: list[Definition] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self.ask(method, {} if cursor is None else {"cursor": cursor})
            found += cast("list[Definition]", page[member])
            cursor = page.get("nextCursor")
            if cursor is None or len(found) > most:
                break
        return found

    async def subscribe(self, uri: str) -> None:
        """Be told when a resource changes."""
        if self.is_newer:
            await self._watch.add(uri)
        else:
            await self.ask("resources/subscribe", {"uri": uri})

    async def unsubscribe(self, uri: str) -> None:
        """Be told no longer."""
        if self.is_newer:
            await self._watch.remove(uri)
        else:
            await self.ask("resources/unsubscribe", {"uri": uri})

    async def _send(self, request: types.Request[Any, Any], what: str) -> dict[str, Any]:
        try:
            answer = (await self._session.send_request(request, _Raw)).root
        except MCPError as error:
            raise self._translated(error, what) from error
        except ValidationError as error:
            raise _wrong_answer(self._server, what, error) from error
        if answer.get("resultType") == "input_required":
            raise ToolError(f"{what!r} asks a person for input, which cannot be given here", server=self._server.name)
        return answer

    def _translated(self, error: MCPError, tool: str) -> ToolError:
        name = self._server.name
        gone = error.code == INVALID_REQUEST and error.message == "Session terminated"
        if error.code == NOT_SENT or gone:
            self.lost.set()
            reason = "it forgot our session" if gone else error.message
            return ToolUnavailable(f"{name!r} is not available: {reason}", server=name)
        if error.code == CONNECTION_CLOSED:
            how = f"{name!r} ended the connection while {tool!r} was running"
            reason = self._link.faults.reason
            if reason is not None:
                how = f"the connection to {name!r} was ended while {tool!r} was running: {reason}"
            return UpstreamLost(how, server=name)
        if error.code == REQUEST_TIMEOUT:
            return ToolTimeout(f"{name!r} did not answer {tool!r} in time", server=name)
        return ToolError(f"{name!r} refused {tool!r}: {error.message}", server=name, rpc_code=error.code)

    async def watch_lists(self) -> None:
        """Where the server's revision wants to be asked, ask it to announce other lists, as long as this runs."""
        if self.is_newer:
            said = self.abilities
            await follow(self._session, tools=True, prompts=said.prompts, resources=said.resources)

    def close(self) -> None:
        """End what runs beside the requests."""
        self._watch.close()


@asynccontextmanager
async def connect(
    server: ServerConfig,
    *,
    max_bytes: int,
    on_fault: Callable[[str], None],
    on_change: Callable[[], None],
    on_news: Callable[[NewsKind, str | None], None],
    handshake_only: bool = False,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> AsyncGenerator[Connection]:
    """Start or reach the server and agree on a revision; some old servers do not survive being asked for the newest.

    `transport` sends the requests to a server that is an address, where not every address will do.
    """

    faults = _Faults(on_fault)

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_change()
        elif isinstance(message, types.PromptListChangedNotification):
            on_news("prompts", None)
        elif isinstance(message, types.ResourceListChangedNotification):
            on_news("resources", None)
        elif isinstance(message, types.ResourceUpdatedNotification):
            on_news("updated", str(message.params.uri))
        elif isinstance(message, Exception):
            faults.note("it sent something that is not JSON-RPC")

    async def on_broken(error: Exception) -> None:
        await on_message(error)

    if server.transport == "stdio":
        link = child_link(server, max_bytes=max_bytes, on_fault=faults.note)
    else:
        link = web_link(server, max_bytes=max_bytes, on_fault=faults.note, transport=transport)
    async with link as dispatcher:
        if isinstance(dispatcher, JSONRPCDispatcher):
            dispatcher.on_stream_exception = on_broken
        watched = _Watched(dispatcher, faults)
        async with ClientSession(dispatcher=watched, client_info=_CLIENT, message_handler=on_message) as session:
            watched.version = lambda: session.protocol_version
            await _agree(server, session, handshake_only=handshake_only)
            connection = Connection(server, session, watched)
            try:
                yield connection
            finally:
                connection.close()


def _wrong_answer(server: ServerConfig, what: str, error: ValidationError) -> InvalidOutput:
    return InvalidOutput(f"{server.name!r} answered {what!r} wrongly: {describe(error)}")


async def _agree(server: ServerConfig, session: ClientSession, *, handshake_only: bool) -> None:
    """The newest revision where the server knows it, else the handshake."""
    if not handshake_only:
        try:
            await session.discover()
        except (MCPError, RuntimeError, ValidationError) as error:
            if isinstance(error, MCPError) and error.code in (CONNECTION_CLOSED, NOT_SENT):
                raise
        else:
            return
    try:
        await session.initialize()
    except ValidationError as error:
        raise _wrong_answer(server, "initialize", error) from error
