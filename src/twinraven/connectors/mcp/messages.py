"""Matches JSON-RPC answers with their requests and serves those of the peer, on whatever transport lies below.

The SDK's own dispatcher passes each message through streams and tasks, and each of these hops costs a turn of the event
loop; a gateway pays for all of them twice per call. Here a message that arrives resolves its waiter at once. Transports
hand in what they receive and write what is put out: pipes, requests to an upstream server, the gateway's HTTP door.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import (
    CallOptions,
    Dispatcher,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    Outbound,
    ProgressFnT,
    as_request_id,
    coerce_request_id,
    run_notify_intercept,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import INVALID_REQUEST, REQUEST_TIMEOUT, ProgressToken, RequestId

from twinraven.connectors.mcp.wire import (
    Message,
    MessageContext,
    as_wire_error,
    closed,
    contained,
    notification_message,
    peer_error,
)

_UNASKED_BURST: Final = 5_000
_UNASKED_PER_S: Final = 500.0
"""How many notifications and requests of its own a peer may send: so many at once, and so many a second after that."""


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """Where a message came from, on a transport on which each request has its own response."""

    line: Outbound
    """The way back that belongs to the message."""
    metadata: MessageMetadata
    transport: TransportContext


@dataclass(slots=True)
class _Waiting:
    """A request of ours that has no answer yet."""

    answer: asyncio.Future[Message]
    on_progress: ProgressFnT | None


class Way(Protocol):
    """A way to the peer: the connection itself, or the response to one of the peer's own requests."""

    def can_write_now(self) -> bool:
        """Return whether a message would be written rather than kept in memory."""
        ...

    async def write(self, message: Message, opts: CallOptions | None = None) -> None:
        """Write a message as soon as the peer takes it."""
        ...

    def write_now(self, message: Message) -> None:
        """Write a message without waiting, for callers that are being cancelled."""
        ...


class MessageDispatcher(Dispatcher[TransportContext]):
    """Both directions of one connection, above its transport."""

    def __init__(
        self,
        *,
        on_fault: Callable[[str], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_fault` is told why a peer that is not trusted was given up; without it the peer is trusted."""
        self.is_closed = False
        self._on_fault = on_fault
        self._monotonic = monotonic
        self._unasked, self._unasked_since = 0.0, monotonic()
        self._next_id = 0
        self._waiting: dict[RequestId, _Waiting] = {}
        self._serving: dict[RequestId, tuple[asyncio.Task[None], MessageContext]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: tuple[OnRequest, OnNotify, OnNotifyIntercept | None] | None = None
        self._early: list[tuple[Message, MessageOrigin | None]] = []
        self._ended = asyncio.Event()

    # What a transport does.

    @abstractmethod
    async def write(self, message: Message, opts: CallOptions | None = None) -> None: ...

    @abstractmethod
    def write_now(self, message: Message) -> None: ...

    def can_write_now(self) -> bool:
        return not self.is_closed

    async def reply(self, context: MessageContext, message: Message) -> None:
        """Answer a request of the peer."""
        del context
        await self.write(message)

    def unanswered(self, context: MessageContext) -> None:
        """Note that a request of the peer ends without an answer, because the peer cancelled it."""

    # What the SDK calls.

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hand messages to these handlers until the connection ends; what came before that is handed over first."""
        self._handlers = (on_request, on_notify, on_notify_intercept)
        task_status.started()
        early, self._early = self._early, []
        for message, origin in early:
            self.dispatch(message, origin)
        try:
            await self._ended.wait()
        finally:
            self.close()
            for task in self._tasks:
                task.cancel()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Message:
        """Send a request and wait for its answer."""
        return await self.request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification; one that the peer can no longer get is dropped."""
        if not self.is_closed:
            await self.write(notification_message(method, params), opts)

    # What transports call.

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        way: Way | None = None,
    ) -> Message:
        """Send a request, perhaps within the response to one of the peer's, and wait for its answer."""
        way = way or self
        options: CallOptions = opts or {}
        request_id = options.get("request_id", self._take_id())
        key, on_progress = coerce_request_id(request_id), options.get("on_progress")
        if key in self._waiting:
            raise ValueError(f"request id {request_id!r} is already in flight")
        sent = dict(params or {})
        if on_progress is not None:
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": request_id}
        message: Message = {"jsonrpc": "2.0", "id": request_id, "method": method} | ({"params": sent} if sent else {})
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[key] = _Waiting(answer, on_progress)
        limit = asyncio.timeout(options.get("timeout"))
        try:
            await way.write(message, options)
            async with limit:
                return await answer
        except TimeoutError:
            if not limit.expired():
                raise
            self.abandon(request_id, options, way)
            await asyncio.sleep(0)
            raise MCPError(code=REQUEST_TIMEOUT, message=f"Request {method!r} timed out") from None
        except asyncio.CancelledError:
            self.abandon(request_id, options, way)
            raise
        finally:
            self._waiting.pop(key, None)

    def abandon(self, request_id: RequestId, options: CallOptions, way: Way) -> None:
        """Tell the peer that the request is abandoned; never waits itself, since its caller may be cancelled."""
        if options.get("cancel_on_abandon", True) and way.can_write_now():
            params = {"requestId": request_id, "reason": "nobody waits for the answer any more"}
            with suppress(MCPError):
                way.write_now(notification_message("notifications/cancelled", params))

    def dispatch(self, message: Message, origin: MessageOrigin | None = None) -> None:
        """Hand a received message to whoever waits for it."""
        if "method" not in message:
            self._resolve(message)
        elif self._handlers is None:
            self._early.append((message, origin))
        elif "id" in message:
            self._serve(message, origin)
        else:
            self._notice(message, origin)

    def fail(self, request_id: RequestId, error: MCPError) -> None:
        """Have a request of ours fail, because its answer can never come."""
        waiting = self._waiting.get(coerce_request_id(request_id))
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_exception(error)

    def close(self) -> None:
        """End everything that waits on this connection."""
        if self.is_closed:
            return
        self.is_closed = True
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(closed())
        self._waiting.clear()
        self._ended.set()

    def give_up(self, reason: str) -> None:
        """Close the connection because of what the peer did."""
        if self._on_fault is not None and not self.is_closed:
            self._on_fault(reason)
        self.close()

    def spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        """Run this beside the messages, at most as long as the connection."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Inside.

    def _take_id(self) -> int:
        self._next_id += 1
        while self._next_id in self._waiting:
            self._next_id += 1
        return self._next_id

    def _resolve(self, message: Message) -> None:
        request_id = as_request_id(message.get("id"))
        waiting = None if request_id is None else self._waiting.get(coerce_request_id(request_id))
        if waiting is None or waiting.answer.done():
            self._count_unasked()
        elif isinstance(message.get("result"), dict):
            waiting.answer.set_result(message["result"])
        else:
            waiting.answer.set_exception(peer_error(message.get("error")))

    def _context(
        self, request_id: RequestId | None, token: ProgressToken | None, origin: MessageOrigin | None
    ) -> MessageContext:
        if origin is None:
            return MessageContext(self, request_id, token)
        return MessageContext(origin.line, request_id, token, origin.metadata, origin.transport)

    def _serve(self, message: Message, origin: MessageOrigin | None) -> None:
        request_id = as_request_id(message.get("id"))
        params = message.get("params")
        if request_id is None or not isinstance(message["method"], str) or not isinstance(params, (dict, type(None))):
            error = {"code": INVALID_REQUEST, "message": "Invalid Request"}
            self.write_now({"jsonrpc": "2.0", "id": request_id, "error": error})
            return
        self._count_unasked()
        stated = cast("Message | None", params)
        arrived = self._context(request_id, progress_token_from_params(stated), origin)
        task = self.spawn(self._answer(arrived, message["method"], stated))
        self._serving[coerce_request_id(request_id)] = (task, arrived)

    async def _answer(self, arrived: MessageContext, method: str, params: Message | None) -> None:
        assert self._handlers is not None
        assert arrived.request_id is not None
        key = coerce_request_id(arrived.request_id)
        reply: Message = {"jsonrpc": "2.0", "id": arrived.request_id}
        try:
            reply["result"] = await self._handlers[0](arrived, method, params)
        except Exception as error:  # noqa: BLE001 - the edge of the wire: every request is answered
            reply["error"] = as_wire_error(error)
        finally:
            if self._serving.get(key, (None, None))[1] is arrived:
                del self._serving[key]
            if arrived.cancel_requested.is_set():
                self.unanswered(arrived)
        if not arrived.cancel_requested.is_set() and not self.is_closed:
            await self.reply(arrived, reply)

    def _notice(self, message: Message, origin: MessageOrigin | None) -> None:
        assert self._handlers is not None
        method, params = message["method"], message.get("params")
        if not isinstance(method, str) or not isinstance(params, (dict, type(None))):
            return
        self._count_unasked()
        stated = cast("Message | None", params)
        if method == "notifications/cancelled":
            self._stop_serving(as_request_id((stated or {}).get("requestId")))
        elif method == "notifications/progress":
            self._pass_progress(stated or {})
        if not run_notify_intercept(self._handlers[2], method, stated):
            notice = partial(self._handlers[1], self._context(None, None, origin), method, stated)
            self.spawn(contained(notice))

    def _stop_serving(self, request_id: RequestId | None) -> None:
        served = None if request_id is None else self._serving.get(coerce_request_id(request_id))
        if served is not None:
            task, arrived = served
            arrived.cancel_requested.set()
            task.cancel()

    def _pass_progress(self, stated: Message) -> None:
        token, progress, total = as_request_id(stated.get("progressToken")), stated.get("progress"), stated.get("total")
        waiting = None if token is None else self._waiting.get(coerce_request_id(token))
        if waiting is None or waiting.on_progress is None or not isinstance(progress, (int, float)):
            return
        words = stated.get("message")
        known_total = float(total) if isinstance(total, (int, float)) else None
        tell = partial(waiting.on_progress, float(progress), known_total, words if isinstance(words, str) else None)
        self.spawn(contained(tell))

    def _count_unasked(self) -> None:
        """A peer whose messages we asked for is never too fast; one that talks by itself has a budget."""
        if self._on_fault is None:
            return
        now = self._monotonic()
        self._unasked = max(0.0, self._unasked - (now - self._unasked_since) * _UNASKED_PER_S) + 1
        self._unasked_since = now
        if self._unasked > _UNASKED_BURST:
            self.give_up(f"it floods us: more than {_UNASKED_BURST} messages that nobody asked for")
