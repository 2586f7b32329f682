"""The two clients. `AsyncClient` is the operations themselves; `Client` runs each of them to its end.

An operation is written once, with its signature: `finished` and `listed` give `Client` the same methods with the same
parameters, for type checkers and editors as well, and the only difference is that nothing has to be awaited.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from twinraven.foundation.errors import InvalidInput
from twinraven.sdk.exchange import Exchange
from twinraven.sdk.observing import AsyncSessionRecorder, SessionRecorder
from twinraven.sdk.operations import Operations
from twinraven.sdk.wire import BlockingWire, LoopWire, Wire, check_url, each, finish

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S: Final = 60.0
"""How long an answer may take; a tool may take half of it by default."""


class AsyncClient(Operations):
    """A server's API, on an event loop: `async with AsyncClient(url, key) as client:`."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        super().__init__(_exchange(LoopWire(timeout), url, key))

    def observe(self, session_id: str, *, task_id: str | None = None) -> AsyncSessionRecorder:
        """Records the calls of one session, made elsewhere; sends them at the latest when its block ends."""
        return AsyncSessionRecorder(self.record, session_id, task_id=task_id)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._exchange.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def finished(
    operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """The operation as a method that returns what it gives."""

    @wraps(operation)
    def method(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        own = client._operations  # pyright: ignore[reportPrivateUsage] - this makes methods of that class
        return finish(operation(own, *args, **kwargs))

    return method


def listed(
    operation: Callable[Concatenate[Operations, P], AsyncGenerator[T]],
) -> Callable[Concatenate[Client, P], Iterator[T]]:
    """The operation as a method that returns an iterator of what it gives."""

    @wraps(operation)
    def method(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        own = client._operations  # pyright: ignore[reportPrivateUsage] - as above
        return each(operation(own, *args, **kwargs))

    # What `help` shows would otherwise be what the operation itself returns.
    shown = signature(operation)
    given = str(shown.return_annotation).replace("AsyncGenerator", "Iterator")
    method.__signature__ = shown.replace(return_annotation=given)  # pyright: ignore[reportAttributeAccessIssue]
    return method


class Client:
    """A server's API, for programs without an event loop; several threads may share one."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        self._exchange = _exchange(BlockingWire(timeout), url, key)
        self._operations = Operations(self._exchange)

    me = finished(Operations.me)

    call = finished(Operations.call)
    invoke = finished(Operations.invoke)

    tools = listed(Operations.tools)
    tool = finished(Operations.tool)
    tool_definition = finished(Operations.tool_definition)
    add_tool = finished(Operations.add_tool)
    change_tool = finished(Operations.change_tool)
    delete_tool = finished(Operations.delete_tool)

    services = listed(Operations.services)
    service = finished(Operations.service)
    add_service = finished(Operations.add_service)
    change_service = finished(Operations.change_service)
    delete_service = finished(Operations.delete_service)
    check_service = finished(Operations.check_service)

    service_templates = listed(Operations.service_templates)
    service_template = finished(Operations.service_template)
    add_service_template = finished(Operations.add_service_template)
    change_service_template = finished(Operations.change_service_template)
    archive_service_template = finished(Operations.archive_service_template)
    make_service = finished(Operations.make_service)

    tool_templates = listed(Operations.tool_templates)
    tool_template = finished(Operations.tool_template)
    add_tool_template = finished(Operations.add_tool_template)
    change_tool_template = finished(Operations.change_tool_template)
    archive_tool_template = finished(Operations.archive_tool_template)
    make_tool = finished(Operations.make_tool)

    record = finished(Operations.record)
    events = listed(Operations.events)
    event = finished(Operations.event)
    follow = listed(Operations.follow)
    sessions = listed(Operations.sessions)
    session = finished(Operations.session)
    state_verdict = finished(Operations.state_verdict)

    chains = listed(Operations.chains)
    chain = finished(Operations.chain)

    start_learning = finished(Operations.start_learning)
    learning_round = finished(Operations.learning_round)

    learned_tools = listed(Operations.learned_tools)
    learned_tool = finished(Operations.learned_tool)
    definition = finished(Operations.definition)
    review = finished(Operations.review)
    promote = finished(Operations.promote)
    reject = finished(Operations.reject)
    roll_back = finished(Operations.roll_back)
    retire = finished(Operations.retire)
    quarantine = finished(Operations.quarantine)
    release = finished(Operations.release)

    approvals = listed(Operations.approvals)
    approval = finished(Operations.approval)
    grant = finished(Operations.grant)
    deny = finished(Operations.deny)

    secrets = listed(Operations.secrets)
    secret = finished(Operations.secret)
    add_secret = finished(Operations.add_secret)
    rotate_secret = finished(Operations.rotate_secret)
    change_secret = finished(Operations.change_secret)
    delete_secret = finished(Operations.delete_secret)

    audit = listed(Operations.audit)
    audit_entry = finished(Operations.audit_entry)
    verify_audit = finished(Operations.verify_audit)

    users = listed(Operations.users)
    user = finished(Operations.user)
    add_user = finished(Operations.add_user)
    change_user = finished(Operations.change_user)
    keys = listed(Operations.keys)
    issue_key = finished(Operations.issue_key)
    revoke_key = finished(Operations.revoke_key)

    def observe(self, session_id: str, *, task_id: str | None = None) -> SessionRecorder:
        """Records the calls of one session, made elsewhere; sends them at the latest when its block ends."""
        return SessionRecorder(self._operations.record, session_id, task_id=task_id)

    def close(self) -> None:
        """Close the connections."""
        finish(self._exchange.close())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _exchange(wire: Wire, url: str, key: str | None) -> Exchange:
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key and key):
        raise InvalidInput("the key holds characters that no key has", field="key")
    return Exchange(wire, check_url(url), key)
