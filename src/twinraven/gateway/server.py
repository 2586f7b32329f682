"""Implements the MCP server: the tool list, calls through the one path, and list-changed notifications.

Prompts and resources are another matter, and another module's: they come straight from the servers that have them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from twinraven import __version__
from twinraven.calls import CallContext, Calls, SkillInvocationRequest
from twinraven.catalog import RUN_CODE, ToolEntry
from twinraven.connectors import ToolQuarantined, UpstreamCapabilities, to_result
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import ApprovalPending, InputRequired, InvalidInput, NotFound, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.gateway import answers
from twinraven.gateway.answers import Result
from twinraven.gateway.callers import Caller, Callers
from twinraven.gateway.channels import ClientChannel
from twinraven.gateway.client_notifier import ClientNotifier
from twinraven.gateway.client_side import Clients
from twinraven.gateway.coercion import COERCED, coerced
from twinraven.gateway.exact_answers import exactly, restore
from twinraven.gateway.keys import argument_key, request_key, stated_key
from twinraven.gateway.prompts_and_resources import PromptsAndResources
from twinraven.gateway.repeated_reads import RepeatableRead, RepeatedReads
from twinraven.gateway.sessions import CallSession, SessionCall, Sessions
from twinraven.gateway.tasks import CAPABILITY, ClientTasks
from twinraven.gateway.tool_exposure import CALL_TOOL, RUN_CODE_NAME, SEARCH_TOOLS, ToolExposure, unwrapped

_CORRELATIONS: Final = ("twinraven/correlation_id", "correlation_id", "correlationId")
_LONGEST: Final = 200

Context = ServerRequestContext[Any, Any]


class _NewsServer(Server[Any]):
    """A server that promises, wherever the SDK asks, to tell of changes, and declares what there is and no more."""

    offered: Callable[[], UpstreamCapabilities] = UpstreamCapabilities
    said: Callable[[], str | None] = lambda: None

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        found = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        # Whoever asks for capabilities takes the instructions right after.
        self.instructions = self.said()
        offered = self.offered()
        resources = types.ResourcesCapability(subscribe=offered.subscribe, list_changed=True)
        return found.model_copy(
            update={
                "prompts": found.prompts if offered.prompts else None,
                "resources": resources if offered.resources else None,
                "completions": found.completions if offered.completions else None,
                "logging": found.logging if offered.logging else None,
                "tasks": None if protocol_version in MODERN_PROTOCOL_VERSIONS else CAPABILITY,
            }
        )

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        news = notification_options or NotificationOptions(
            tools_changed=True, prompts_changed=True, resources_changed=True
        )
        return super().create_initialization_options(news, experimental_capabilities, extensions)


class GatewayServer:
    """Serves one catalogue to any number of clients."""

    def __init__(  # noqa: PLR0913 - everything the server stands on, each by name
        self,
        calls: Calls,
        toolbox: ToolExposure,
        *,
        callers: Callers,
        sessions: Sessions,
        notifier: ClientNotifier,
        reading: PromptsAndResources,
        clients: Clients,
        tasks: ClientTasks,
        ready: Callable[[], Awaitable[None]],
        await_reads: bool = False,
        repeats: RepeatedReads | None = None,
    ) -> None:
        """`ready` returns when the first list of tools can be made."""
        self.declarable = reading.declarable
        self._calls = calls
        self._toolbox = toolbox
        self._offers = offers = toolbox.offers
        self._callers = callers
        self._sessions = sessions
        self._ready = ready
        self._await_reads = await_reads
        self._repeats = repeats
        self._clients = clients
        self._held = clients.held
        self._tasks = tasks
        server = _NewsServer(
            "twinraven",
            version=__version__,
            title="TwinRaven",
            get_tool_input_schema=partial(offers.header_schema, callers.local.tenant_id),
            on_subscriptions_listen=reading.listen,
        )
        server.offered = reading.offered
        server.said = clients.instructions
        self.mcp: Server[Any] = server
        reading.serve(self.mcp)
        clients.serve(self.mcp)
        tasks.serve(self.mcp)
        self.mcp.add_request_handler("tools/list", types.PaginatedRequestParams, exactly(self._list_tools))
        self.mcp.add_request_handler("tools/call", types.CallToolRequestParams, exactly(self._call_tool))
        # First of all, since a handshake waits for servers, which wait to be told what the client can do.
        self.mcp.middleware.append(clients.hear)
        self.mcp.middleware.append(notifier.notice)
        self.mcp.middleware.append(self._hear)
        self.mcp.middleware.append(restore)

    async def _hear(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """As the server's middleware: every request tells something about whose connection it came on."""
        with self._sessions.hearing(self._callers.of(ctx), ctx.method):
            return await call_next(ctx)

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams) -> Result:
        del params
        await self._ready()
        caller = self._callers.of(context)
        return self._toolbox.listing(caller.principal.tenant_id, caller.name, context.protocol_version)

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> Result:
        caller = self._callers.of(context)
        channel = self._clients.channel(context, caller)
        if params.task is not None and not channel.is_newer:
            return self._tasks.begin(context, self._called(channel, params), params.task.ttl)
        if not channel.is_newer or not channel.capabilities:
            return await self._called(channel, params)
        owner = f"{caller.key}\0{params.name}\0{canonical_json(params.arguments or {}).decode()}"
        if channel.is_resumed:
            return await self._held.resume(context, owner)
        return await self._held.run(channel, owner, self._called(channel, params))

    async def _called(self, channel: ClientChannel, params: types.CallToolRequestParams) -> Result:
        version = channel.context.protocol_version
        try:
            result = await self._answer(channel, params.name, params.arguments or {})
        except (ToolQuarantined, InvalidInput) as error:
            result = answers.refusal(error)
        except NotFound as error:
            raise MCPError(INVALID_PARAMS, error.message, {"code": error.code}) from error
        except TwinRavenError as error:
            raise MCPError(INTERNAL_ERROR, f"{error.code}: {error.message}", {"code": error.code}) from error
        return answers.fitted(result, version)

    async def _answer(self, channel: ClientChannel, name: str, arguments: Result) -> Result:
        """Return a call of a tool, or of what stands for all tools in this mode."""
        mode, caller = self._toolbox.mode, channel.caller
        if mode != "tools" and name == SEARCH_TOOLS:
            await self._ready()
            return to_result(self._toolbox.search(caller.principal.tenant_id, caller.name, arguments))
        if mode == "search" and name == CALL_TOOL:
            name, arguments = unwrapped(arguments)
            try:
                entry = await self._find(caller, name)
            except NotFound as error:
                # The client's own call was in order, so this is the model's to read and not the protocol's.
                return answers.refusal(error)
            return await self._invoke(channel, entry, arguments)
        if mode == "code" and name == RUN_CODE_NAME:
            await self._ready()
            name = RUN_CODE
        return await self._invoke(channel, await self._find(caller, name), arguments)

    async def _find(self, caller: Caller, name: str) -> ToolEntry:
        """Find the tool of this name; a client that knows it from before need not have asked for the list first."""
        try:
            return self._offers.find(caller.principal.tenant_id, caller.name, name)
        except NotFound:
            await self._ready()
            return self._offers.find(caller.principal.tenant_id, caller.name, name)

    async def _invoke(self, channel: ClientChannel, entry: ToolEntry, arguments: Result) -> Result:
        with self._sessions.staying(channel.caller, channel.context.meta or {}, arguments) as stay:
            return await self._invoke_in(stay, channel, entry, arguments)

    async def _invoke_in(
        self, stay: SessionCall, channel: ClientChannel, entry: ToolEntry, arguments: Result
    ) -> Result:
        context, caller = channel.context, channel.caller
        tenant_id, meta = caller.principal.tenant_id, context.meta or {}
        key = stated_key(meta)
        if entry.tool_id == RUN_CODE:
            # A model cannot write `_meta`, so a script's key may stand beside it; it is no part of what is run.
            arguments = dict(arguments)
            key = key or argument_key(arguments.pop("key", None))
        payload = coerced(entry.input_schema, arguments)
        request = SkillInvocationRequest(
            tool_name=entry.tool_id,
            payload=payload,
            tenant_id=tenant_id,
            idempotency_key=key,
            correlation_id=_correlation(meta),
        )
        with self._asking(caller, stay.place, entry) as asking:
            placed = self._call_context(channel, entry, stay.place)
            placed = placed if payload is arguments else replace(placed, tags=(*placed.tags, COERCED))
            placed = placed if asking is None else replace(placed, recall=asking.recall)
            response = await self._calls.invoke(request, placed, entry=entry)
        stay.output = response.output
        earlier = None if asking is None else asking.found
        if response.error is None:
            if asking is not None and not entry.writes:
                asking.keep(response.output, response.raw, response.event_id)
            exact = response if earlier is None else replace(response, raw=earlier.exact)
            result = answers.success(exact, form=self._offers.form(entry))
            result = result if earlier is None else answers.from_record(result, earlier.meta(response.audit.finished))
            return answers.with_event(result, response.event_id) if stay.is_ours else result
        if response.error["code"] == InputRequired.code and response.raw is not None:
            return response.raw
        if response.error["code"] == ApprovalPending.code:
            return answers.pending(response.error, tool=entry.tool_id, event_id=str(response.event_id))
        return answers.failure(response.error, event_id=str(response.event_id), exact=response.raw)

    def _asking(
        self, caller: Caller, place: CallSession, entry: ToolEntry
    ) -> AbstractContextManager[RepeatableRead | None]:
        """Return the call as repeated reads see it, where they may be answered from the record."""
        if self._repeats is None:
            return nullcontext()
        return self._repeats.asking(caller.principal.tenant_id, place.session_id, caller.name, entry)

    def _call_context(self, channel: ClientChannel, entry: ToolEntry, place: CallSession) -> CallContext:
        caller = channel.caller
        return CallContext(
            session_id=place.session_id,
            turn=place.turn,
            outside_input=place.outside_input,
            tags=place.tags,
            durable=entry.writes or self._await_reads,
            caller=caller.name,
            actor=caller.principal.actor,
            spare_key=_spare_key(channel.context, caller),
            channel=channel,
        )


def _spare_key(context: Context, caller: Caller) -> str:
    if caller.protocol is None or context.request_id is None:
        return new_id()
    # Used once in a protocol session, which need not be the session of the log: a repeated id is the same request.
    return request_key(f"mcp-{caller.protocol}", context.request_id)


def _correlation(meta: Mapping[str, Any]) -> str | None:
    """Return the id by which a client finds its request again, if it can be one; nothing depends on it."""
    for name in _CORRELATIONS:
        value = meta.get(name)
        if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
            return value
    return None
