"""Serves prompts and resources: forwards each request to the upstream server that has it, and audits reads.

Getting a prompt or reading a resource is no call of a tool: nothing is learned from it, and Muninn has no event of it.
Who read what is evidence all the same, so each reading is in the audit chain before its content goes out. A server is
told the name or the address and the arguments, and nothing else of what the client sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, SERVER_INFO_META_KEY, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.connectors import CallSide, UpstreamCapabilities
from twinraven.foundation.errors import InvalidInput, NotFound, ToolTimeout, TwinRavenError
from twinraven.gateway.answers import ERROR, Result
from twinraven.gateway.callers import Caller, Callers
from twinraven.gateway.channels import ClientChannel, connection_of
from twinraven.gateway.client_notifier import ClientNotifier
from twinraven.gateway.exact_answers import exactly
from twinraven.gateway.prompt_resource_index import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    Definition,
    ListKind,
    LocatedItem,
    PromptResourceIndex,
)
from twinraven.gateway.subscriptions import Subscriptions
from twinraven.gateway.tool_listings import UNCACHED
from twinraven.gateway.uris import qualified

_NO_RESOURCE: Final = -32_002
"""What revisions with a handshake call a resource that is not there."""

Context = ServerRequestContext[Any, Any]
P = TypeVar("P")


class RequestedServers(Protocol):
    """Forwards requests to the upstream servers."""

    def abilities(self) -> dict[str, UpstreamCapabilities]: ...

    def undecided(self) -> bool: ...

    async def ask(
        self, tenant_id: str, server: str, method: str, params: dict[str, Any], *, side: CallSide | None = None
    ) -> dict[str, Any]: ...


class PromptsAndResources:
    """Handles all requests about prompts and resources."""

    def __init__(
        self,
        upstreams: RequestedServers,
        library: PromptResourceIndex,
        *,
        callers: Callers,
        subscriptions: Subscriptions,
        notifier: ClientNotifier,
        audit: AuditLog,
        declarable: Callable[[], Awaitable[None]],
        channel: Callable[[Context, Caller], ClientChannel],
    ) -> None:
        """`channel` is the way back to a request's client.

        `declarable` returns when it is known what the servers offer, or has been waited for long enough.
        """
        self.declarable = declarable
        self._upstreams = upstreams
        self._library = library
        self._callers = callers
        self._subscriptions = subscriptions
        self._notifier = notifier
        self._audit = audit
        self._channel = channel

    def offered(self) -> UpstreamCapabilities:
        """Return the capabilities besides tools; a server that is still starting counts as having all of them."""
        offered = (
            UpstreamCapabilities(True, True, True, True, True)
            if self._upstreams.undecided()
            else UpstreamCapabilities()
        )
        for able in self._upstreams.abilities().values():
            offered |= able
        return offered

    def serve(self, server: Server[Any]) -> None:
        """Answer a server's clients."""
        discover = server.get_request_handler("server/discover")
        assert discover is not None

        async def declare(context: Context, params: types.RequestParams) -> Any:
            await self.declarable()
            return await discover.handler(context, params)

        server.add_request_handler("server/discover", types.RequestParams, declare)
        for kind in (PROMPTS, RESOURCES, TEMPLATES):
            listing = exactly(_guarded(self._listing_of(kind)))
            server.add_request_handler(kind.method, types.PaginatedRequestParams, listing)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, exactly(_guarded(self._get_prompt)))
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, exactly(_guarded(self._read)))
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, _guarded(self._subscribe))
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, _guarded(self._unsubscribe))
        server.add_request_handler("completion/complete", types.CompleteRequestParams, _guarded(self._suggest))

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of notifier, to clients of the newest revision."""
        uris = params.notifications.resource_subscriptions or []
        async with self._subscriptions.held(id(context), self._callers.of(context), uris):
            return await self._notifier.listen(context, params)

    def _listing_of(self, kind: ListKind) -> Callable[[Context, types.PaginatedRequestParams], Awaitable[Result]]:
        async def listing(context: Context, params: types.PaginatedRequestParams) -> Result:
            del params
            caller = self._callers.of(context)
            found = await self._library.listing(caller.principal.tenant_id, caller.name, kind)
            version = context.protocol_version
            return _complete({kind.member: _fitted(kind, found, version)}, version, cached=True)

        return listing

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> Result:
        caller = self._callers.of(context)
        found = await self._library.find_prompt(caller.principal.tenant_id, caller.name, params.name)
        asked = {"name": found.identity} | ({} if params.arguments is None else {"arguments": params.arguments})
        answer = await self._witnessed(context, caller, found, "prompts/get", asked)
        return _complete(answer, context.protocol_version)

    async def _read(self, context: Context, params: types.ReadResourceRequestParams) -> Result:
        caller = self._callers.of(context)
        found = await self._library.find_resource(caller.principal.tenant_id, caller.name, str(params.uri))
        answer = await self._witnessed(context, caller, found, "resources/read", {"uri": found.identity})
        if found.is_qualified and "contents" in answer:
            # Whoever asked by such an address goes on with such addresses.
            contents = cast("list[Definition]", answer["contents"])
            answer["contents"] = [{**part, "uri": qualified(found.server, part["uri"])} for part in contents]
        return _complete(answer, context.protocol_version, cached=True)

    async def _suggest(self, context: Context, params: types.CompleteRequestParams) -> Result:
        caller, ref = self._callers.of(context), params.ref
        tenant_id = caller.principal.tenant_id
        asked = params.model_dump(by_alias=True, mode="json", exclude_none=True, include={"argument", "context"})
        if isinstance(ref, types.PromptReference):
            found = await self._library.find_prompt(tenant_id, caller.name, ref.name)
            asked["ref"] = {"type": ref.type, "name": found.identity}
        else:
            found = await self._library.find_template(tenant_id, caller.name, ref.uri)
            asked["ref"] = {"type": ref.type, "uri": found.identity}
        if not self._upstreams.abilities()[found.server].completions:
            return _complete({"completion": {"values": []}}, context.protocol_version)
        answer = await self._upstreams.ask(tenant_id, found.server, "completion/complete", asked)
        return _complete(answer, context.protocol_version)

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> Result:
        connection = connection_of(context)
        client = id(connection)
        if not self._subscriptions.knows(client):
            connection.exit_stack.push_async_callback(self._subscriptions.leave, client)
        await self._subscriptions.add(client, self._callers.of(context), str(params.uri))
        return {}

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> Result:
        await self._subscriptions.remove(id(connection_of(context)), str(params.uri))
        return {}

    async def _witnessed(
        self, context: Context, caller: Caller, found: LocatedItem, method: str, asked: dict[str, Any]
    ) -> Result:
        """Ask a server, and leave evidence of who asked it for what before anything is passed on."""
        side = CallSide(self._channel(context, caller))
        try:
            answer = await self._upstreams.ask(caller.principal.tenant_id, found.server, method, asked, side=side)
        except TwinRavenError as error:
            await self._note(caller, found, method, asked, code=error.code)
            raise
        await self._note(caller, found, method, asked)
        return _without_hop(answer)

    async def _note(
        self, caller: Caller, found: LocatedItem, method: str, asked: dict[str, Any], *, code: str | None = None
    ) -> None:
        kind = "prompt" if method == "prompts/get" else "resource"
        arguments = cast("dict[str, str]", asked.get("arguments") or {})
        await self._audit.write(
            NewAuditEntry(
                tenant_id=caller.principal.tenant_id,
                event_type=f"upstream.{kind}_read",
                subject_type="upstream_server",
                subject_id=found.server,
                actor=caller.principal.actor,
                # Addresses may hold people's names, and arguments anything, so both can be erased or are not kept.
                body={kind: found.identity, **({"arguments": sorted(arguments)} if arguments else {})},
                code=code,
            )
        )


def _guarded(serve: Callable[[Context, P], Awaitable[Result]]) -> Callable[[Context, P], Awaitable[Result]]:
    """Return what goes wrong, as the protocol says it."""

    async def guarded(context: Context, params: P) -> Result:
        try:
            return await serve(context, params)
        except TimeoutError:
            raise _protocol_error(ToolTimeout("the server did not answer in time"), context) from None
        except TwinRavenError as error:
            raise _protocol_error(error, context) from error

    return guarded


def _protocol_error(error: TwinRavenError, context: Context) -> MCPError:
    is_older = context.protocol_version not in MODERN_PROTOCOL_VERSIONS
    stated: Any = error.details.get("rpc_code")
    code = stated if isinstance(stated, int) else INTERNAL_ERROR
    if isinstance(error, NotFound) and context.method.startswith("resources/"):
        code = _NO_RESOURCE
    elif isinstance(error, (NotFound, InvalidInput)):
        code = INVALID_PARAMS
    if code == _NO_RESOURCE and not is_older:
        code = INVALID_PARAMS
    return MCPError(code, error.message, {ERROR: error.as_json()})


def _complete(answer: Result, version: str, *, cached: bool = False) -> Result:
    """Complete a result with what the client's revision requires; only this client may cache it."""
    if version not in MODERN_PROTOCOL_VERSIONS:
        return answer
    if answer.get("resultType") == "input_required":
        return answer
    if not cached:
        return {**answer, "resultType": "complete"}
    return {**UNCACHED, **answer, "cacheScope": "private", "resultType": "complete"}


def _without_hop(answer: Result) -> Result:
    """Return an answer without what only concerns the hop it came by."""
    hop = ("_meta",) if answer.get("resultType") == "input_required" else ("resultType", "_meta")
    kept = {name: value for name, value in answer.items() if name not in hop}
    meta = cast("dict[str, Any]", answer.get("_meta") or {})
    said = {name: value for name, value in meta.items() if name != SERVER_INFO_META_KEY}
    return {**kept, "_meta": said} if said else kept


def _fitted(kind: ListKind, definitions: list[Definition], version: str) -> list[Definition]:
    """Return the definitions that a revision can say; one that it cannot must not cost all the others."""
    if _is_valid(kind, definitions, version):
        return definitions
    return [definition for definition in definitions if _is_valid(kind, [definition], version)]


def _is_valid(kind: ListKind, definitions: list[Definition], version: str) -> bool:
    try:
        methods.validate_server_result(kind.method, version, {kind.member: definitions, **UNCACHED})
    except ValidationError:
        return False
    return True
