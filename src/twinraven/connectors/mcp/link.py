"""Watches one connection's messages: passes on what is a tool, answers what a server asks of us, notes how it ends.

It lies between the SDK's session and its transport. The SDK types every message and knows one client; here messages
are still as they came, so that questions and log messages of a server reach the client they are for, word by word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions, DispatchContext, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.transport_context import TransportContext
from mcp_types import CLIENT_CAPABILITIES_META_KEY, INVALID_REQUEST, LOG_LEVEL_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from twinraven.connectors.mcp.backchannel import LOG, QUESTIONS, Backchannel, ClientMeta, current_stamp
from twinraven.connectors.mcp.listing import LIST_TOOLS, sift
from twinraven.foundation.errors import TwinRavenError

DISCOVER: Final = "server/discover"
INITIALIZE: Final = "initialize"
_UNSAID: Final = {"resultType": "complete"}
_UNCACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
_CACHEABLE: Final = frozenset(
    {DISCOVER, LIST_TOOLS, "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
)

Arrived = DispatchContext[TransportContext]
Params = Mapping[str, Any] | None


class LinkFaults:
    """Records the faults of a connection, and the first one for which it was closed."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.reason: str | None = None
        self.is_over = False
        self._tell = tell

    def note(self, reason: str) -> None:
        # What is said of a connection that is over is how the server ended, not why we ended it.
        if self.reason is None and not self.is_over:
            self.reason = reason
        self._tell(reason)


class WatchedLink(Dispatcher[Any]):
    """A dispatcher that calls back when it ends."""

    def __init__(self, inner: Dispatcher[Any], faults: LinkFaults, back: Backchannel) -> None:
        self.lost = asyncio.Event()
        self.faults = faults
        self.version: Callable[[], str | None] = lambda: None
        self._inner = inner
        self._back = back

    async def send_raw_request(self, method: str, params: Params, opts: CallOptions | None = None) -> dict[str, Any]:
        options: CallOptions = {**opts} if opts is not None else {}
        if method == DISCOVER:
            # A server that is slow to start answers late. How long to wait is decided by whoever asks.
            options.pop("timeout", None)
        stamped = _stamped(method, params, self._back.side.capabilities)
        answer = await self._inner.send_raw_request(method, stamped, options)
        if _is_newer(stamped):
            # Some servers leave out what the newest revision wants beside every answer.
            answer = {**_UNSAID, **(_UNCACHED if method in _CACHEABLE else {}), **answer}
        return sift(answer, self.version() or LATEST_HANDSHAKE_VERSION) if method == LIST_TOOLS else answer

    async def notify(self, method: str, params: Params, opts: CallOptions | None = None) -> None:
        await self._inner.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async def answer(context: Arrived, method: str, params: Params) -> dict[str, Any]:
            if method in QUESTIONS:
                return await self._pass_on(method, dict(params or {}))
            return await on_request(context, method, params)

        async def note(context: Arrived, method: str, params: Params) -> None:
            if method == LOG:
                await self._back.said(dict(params or {}))
            else:
                await on_notify(context, method, params)

        try:
            await self._inner.run(answer, note, on_notify_intercept, task_status=task_status)
        finally:
            self.faults.is_over = True
            self.lost.set()

    async def _pass_on(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._back.asked(method, params)
        except TwinRavenError as error:
            code: Any = error.details.get("rpc_code")
            raise MCPError(code if isinstance(code, int) else INVALID_REQUEST, error.message) from error


def _stamped(method: str, params: Params, declared: Mapping[str, Any]) -> Params:
    """Return a request's parameters with what its client can do, instead of what the SDK's session could."""
    if method == INITIALIZE:
        return {**(params or {}), "capabilities": dict(declared)}
    stamp = current_stamp.get() or ClientMeta(declared)
    if not _is_newer(params):
        return {**(params or {}), **stamp.more} if stamp.more else params
    said = params or {}
    meta = {**cast("Mapping[str, Any]", said["_meta"]), CLIENT_CAPABILITIES_META_KEY: dict(stamp.capabilities)}
    if stamp.log_level is not None:
        meta[LOG_LEVEL_META_KEY] = stamp.log_level
    return {**said, **stamp.more, "_meta": meta}


def _is_newer(params: Params) -> bool:
    meta: Any = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta
