"""Holds one open connection to an upstream server: its protocol revision, its capabilities, and calls.

The newest revision is tried first, and the older handshake where a server does not know it. A server is told what the
client in front of us can do, and may ask it during a call; of what the client sent it gets nothing besides the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import httpx2
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import INVALID_REQUEST, METHOD_NOT_FOUND, REQUEST_TIMEOUT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel, ValidationError

from twinraven.connectors.mcp.backchannel import Backchannel, CallSide, ClientMeta, ClientSide, current_stamp
from twinraven.connectors.mcp.child import child_link
from twinraven.connectors.mcp.errors import UpstreamLost
from twinraven.connectors.mcp.link import LinkFaults, WatchedLink
from twinraven.connectors.mcp.listening import ResourceListener, follow
from twinraven.connectors.mcp.listing import LIST_TOOLS, describe, joined
from twinraven.connectors.mcp.model import Definition, Listing, UpstreamCapabilities, UpstreamChangeKind
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.task_calls import run_task
from twinraven.connectors.mcp.web import web_link
from twinraven.connectors.mcp.wire import NOT_SENT, is_closed
from twinraven.foundation.errors import InvalidOutput, ToolError, ToolTimeout, ToolUnavailable

INPUT_REQUIRED: Final = "input_required"
_CLIENT: Final = types.Implementation(name="twinraven", version="0.1")
_MOST_PAGES: Final = 100
_MOST_TOOLS: Final = 2_000
_MOST_ROUNDS: Final = 16
"""How often one call may come back with questions."""
_DISCOVERED_WITHIN_S: Final = 10.0
"""After so long without an answer a server is also asked the older way; the first way stays open."""
_LONGEST_INSTRUCTIONS: Final = 16_384

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


class UpstreamConnection:
    """An upstream server we can talk to right now."""

    def __init__(self, server: ServerConfig, session: ClientSession, link: WatchedLink, back: Backchannel) -> None:
        self._server = server
        self._session = session
        self._back = back
        self._watch = ResourceListener(session)
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
    def abilities(self) -> UpstreamCapabilities:
        said = self._session.server_capabilities or types.ServerCapabilities()
        subscribe = said.resources is not None and bool(said.resources.subscribe)
        return UpstreamCapabilities(
            prompts=said.prompts is not None,
            resources=said.resources is not None,
            subscribe=subscribe,
            completions=said.completions is not None,
            logging=said.logging is not None,
        )

    @property
    def instructions(self) -> str | None:
        """The server's instructions to the model that uses it."""
        said = self._session.initialize_result or self._session.discover_result
        words = None if said is None else said.instructions
        return None if not words or not words.strip() else words.strip()[:_LONGEST_INSTRUCTIONS]

    async def tools(self) -> Listing:
        """Return the definitions of all tools; a server without any may not even know the question."""
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

    async def call(self, tool: str, arguments: dict[str, Any], call: CallSide | None = None) -> dict[str, Any]:
        """Return the server's answer, as it came; its questions are answered by the client, where that can be asked."""
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=arguments))
        with self._back.during(call):
            if call is not None and call.needs_task and not self.is_newer:
                return await self._as_task(tool, arguments, call)
            return await self._rounds(request, tool, call)

    async def _as_task(self, tool: str, arguments: dict[str, Any], call: CallSide) -> dict[str, Any]:
        async def send(method: str, params: dict[str, Any]) -> dict[str, Any]:
            headers = {MCP_PROTOCOL_VERSION_HEADER: self.protocol_version}
            return await self._link.send_raw_request(method, params, {"headers": headers, "on_progress": call.progress})

        try:
            return await run_task(send, tool, arguments, call)
        except MCPError as error:
            raise self._translated(error, tool) from error

    async def _rounds(self, request: types.CallToolRequest, tool: str, call: CallSide | None) -> dict[str, Any]:
        channel = None if call is None else call.channel
        more = {} if channel is None else dict(channel.inputs)
        for _ in range(_MOST_ROUNDS):
            answer = await self._send(request, tool, call, more)
            if answer.get("resultType") != INPUT_REQUIRED or channel is None or channel.takes_questions:
                return answer
            assert call is not None
            more = await _answers(answer, call)
        raise ToolError(f"{tool!r} asks more than {_MOST_ROUNDS} times for input", server=self._server.name)

    async def ask(self, method: str, params: dict[str, Any], call: CallSide | None = None) -> dict[str, Any]:
        """Return the server's answer to one of the questions that are not about tools, as it came."""
        request = _REQUESTS[method].model_validate({"method": method, "params": params})
        more = None if call is None or call.channel is None else call.channel.inputs
        with self._back.during(call):
            answer = await self._send(request, method, call, more)
        is_open = call is not None and call.channel is not None and call.channel.takes_questions
        if answer.get("resultType") == INPUT_REQUIRED and not is_open:
            raise ToolError(f"{method!r} asks for input, which cannot be given here", server=self._server.name)
        return answer

    async def set_log_level(self, level: str) -> None:
        """Have the server send log messages from this level on, where its revision is told so beforehand."""
        if self.abilities.logging and not self.is_newer:
            request = types.SetLevelRequest(params=types.SetLevelRequestParams(level=cast("Any", level)))
            await self._send(request, "logging/setLevel")

    async def roots_changed(self) -> None:
        """Tell the server that its client's folders are others now."""
        if not self.is_newer and "roots" in self._back.side.capabilities:
            await self._session.send_notification(types.RootsListChangedNotification())

    async def listed(self, method: str, member: str, *, most: int) -> list[Definition]:
        """Return all that the server lists, page by page; beyond so many it is not read any further."""
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

    async def _send(
        self,
        request: types.Request[Any, Any],
        what: str,
        call: CallSide | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        token = current_stamp.set(None if call is None else _stamp(call, more or {}))
        try:
            on_progress = None if call is None else call.progress
            return (await self._session.send_request(request, _Raw, progress_callback=on_progress)).root
        except MCPError as error:
            raise self._translated(error, what) from error
        except ValidationError as error:
            raise _wrong_answer(self._server, what, error) from error
        finally:
            current_stamp.reset(token)

    def _translated(self, error: MCPError, tool: str) -> ToolError:
        name = self._server.name
        gone = error.code == INVALID_REQUEST and error.message == "Session terminated"
        if error.code == NOT_SENT or gone:
            self.lost.set()
            reason = "it forgot our session" if gone else error.message
            return ToolUnavailable(f"{name!r} is not available: {reason}", server=name)
        if is_closed(error):
            how = f"{name!r} ended the connection while {tool!r} was running"
            reason = self._link.faults.reason
            if reason is not None:
                how = f"the connection to {name!r} was ended while {tool!r} was running: {reason}"
            return UpstreamLost(how, server=name)
        if error.code == REQUEST_TIMEOUT:
            return ToolTimeout(f"{name!r} did not answer {tool!r} in time", server=name)
        return ToolError(f"{name!r} refused {tool!r}: {error.message}", server=name, rpc_code=error.code)

    async def watch_lists(self) -> None:
        """Subscribe to list changes for as long as this runs, where the server's revision requires it."""
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
    on_news: Callable[[UpstreamChangeKind, str | None], None],
    handshake_first: bool = False,
    side: ClientSide | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> AsyncGenerator[UpstreamConnection]:
    """Start or reach the server and agree on a revision; some old servers do not survive being asked for the newest.

    `handshake_first` is for servers that do not, and for those whose tools know older ways to ask alone.

    `side` knows the clients that the server may ask; `transport` sends the requests to a server that is an address,
    where not every address will do.
    """

    faults = LinkFaults(on_fault)

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
        back = Backchannel(side or ClientSide())
        watched = WatchedLink(dispatcher, faults, back)
        async with ClientSession(dispatcher=watched, client_info=_CLIENT, message_handler=on_message) as session:
            watched.version = lambda: session.protocol_version
            await _agree(server, session, handshake_first=handshake_first)
            connection = UpstreamConnection(server, session, watched, back)
            try:
                yield connection
            finally:
                connection.close()


def _wrong_answer(server: ServerConfig, what: str, error: ValidationError) -> InvalidOutput:
    return InvalidOutput(f"{server.name!r} answered {what!r} wrongly: {describe(error)}")


def _stamp(call: CallSide, more: Mapping[str, Any]) -> ClientMeta:
    channel = call.channel
    return ClientMeta({}) if channel is None else ClientMeta(channel.capabilities, channel.log_level, more)


async def _answers(asked: dict[str, Any], call: CallSide) -> dict[str, Any]:
    """Return a client's answers to the questions of an unfinished call, as they are sent with the next try."""
    questions = cast("dict[str, dict[str, Any]]", asked.get("inputRequests") or {})
    answers = {name: await call.ask(one["method"], one.get("params") or {}) for name, one in questions.items()}
    state = asked.get("requestState")
    return {"inputResponses": answers, **({} if state is None else {"requestState": state})}


async def _agree(server: ServerConfig, session: ClientSession, *, handshake_first: bool) -> None:
    """The newest revision where the server knows it, else the handshake; or the other way round."""
    if handshake_first and await _is_handshake(server, session):
        return
    discovering = asyncio.ensure_future(session.discover())
    try:
        await asyncio.wait([discovering], timeout=_DISCOVERED_WITHIN_S)
        if discovering.done():
            if not _is_discovered(discovering):
                await _shake_hands(server, session)
            return
        await _agree_late(server, session, discovering)
    finally:
        discovering.cancel()


async def _is_handshake(server: ServerConfig, session: ClientSession) -> bool:
    """Return whether the server shakes hands; raises where it is gone."""
    try:
        await _shake_hands(server, session)
    except MCPError as error:
        if _is_gone(error):
            raise
        return False
    return True


async def _agree_late(server: ServerConfig, session: ClientSession, discovering: asyncio.Future[Any]) -> None:
    """Take the first answer of a server that is slow to start, or that drops questions it does not know."""
    shaking = asyncio.ensure_future(_shake_hands(server, session))
    try:
        await asyncio.wait([discovering, shaking], return_when=asyncio.FIRST_COMPLETED)
        if not shaking.done() and not _is_discovered(discovering):
            await asyncio.wait([shaking])
        elif shaking.done() and shaking.exception() is not None:
            # It refuses the handshake where it has answered the other question, or is about to.
            await asyncio.wait([discovering])
        is_discovered = discovering.done() and _is_discovered(discovering)
        if shaking.done() and not is_discovered:
            shaking.result()
    finally:
        shaking.cancel()


def _is_discovered(discovering: asyncio.Future[Any]) -> bool:
    """Return whether the server speaks the newest revision; raises where it is gone."""
    error = discovering.exception()
    if isinstance(error, MCPError) and _is_gone(error):
        raise error
    if error is not None and not isinstance(error, (MCPError, RuntimeError, ValidationError)):
        raise error
    return error is None


async def _shake_hands(server: ServerConfig, session: ClientSession) -> None:
    try:
        await session.initialize()
    except ValidationError as error:
        raise _wrong_answer(server, "initialize", error) from error


def _is_gone(error: MCPError) -> bool:
    return error.code == NOT_SENT or is_closed(error)
