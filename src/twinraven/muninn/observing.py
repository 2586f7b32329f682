"""`@observed`: record every call of a function, sync or async, without touching its body.

The call is recorded into the session that `Collector.observe` opened around it. Outside of one the function just runs,
with a line in the debug log: tests, scripts and other callers of a decorated function need no session. A call that is
cancelled or interrupted is recorded too; what cannot be recorded of a call (an argument nested too deep, say) is
replaced by the reason, because the call happened.

A sync function waits for durability unless it runs on an event loop's thread, where waiting would stop every other
task; there its event is queued, as with `durable=False`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Coroutine
from time import perf_counter_ns
from typing import Any, ParamSpec, TypeVar, cast, overload

from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.collector import SessionObserver, current_observer, recordable_output, recordable_params
from twinraven.muninn.model import Outcome
from twinraven.muninn.receipt import Receipt

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger(__name__)
Bind = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]


@overload
def observed(tool_id: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def observed(
    tool_id: str | None = None, *, durable: bool = True, outcome: Outcome = Outcome.PARTIAL
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def observed(
    tool_id: str | Callable[..., Any] | None = None, *, durable: bool = True, outcome: Outcome = Outcome.PARTIAL
) -> Any:
    """Decorate a function so that each call becomes an event named `tool_id` (default: the function's name).

    With `durable=False` the call does not wait for the event to be on disk. Outside of a session the function
    runs, and the call is not recorded. `@observed` without parentheses is `@observed()`.
    """
    if callable(tool_id):
        return observed(durable=durable, outcome=outcome)(tool_id)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        record = _Recorder(tool_id or function.__name__, _argument_binder(function), outcome)
        if inspect.iscoroutinefunction(function):
            wrapped = _observe_async(function, record, durable=durable)
        else:
            wrapped = _observe_sync(function, record, durable=durable)
        return cast("Callable[P, R]", functools.wraps(function)(wrapped))

    return decorate


class _Recorder:
    """Records the calls of one function."""

    __slots__ = ("_name", "_outcome", "bind")

    def __init__(self, name: str, bind: Bind, outcome: Outcome) -> None:
        self._name = name
        self.bind = bind
        self._outcome = outcome

    def observer(self) -> SessionObserver | None:
        observer = current_observer.get()
        if observer is None:
            _log.debug("%s ran outside of `with collector.observe(session_id):` and was not recorded", self._name)
        return observer

    def success(self, observer: SessionObserver, params: dict[str, Any], result: Any, started: int) -> Receipt:
        latency = (perf_counter_ns() - started) // 1_000_000
        try:
            return observer.record(self._name, params, output=result, latency_ms=latency, outcome=self._outcome)
        except InvalidInput:
            return observer.record(
                self._name,
                recordable_params(params),
                output=recordable_output(result),
                latency_ms=latency,
                outcome=self._outcome,
            )

    def failure(self, observer: SessionObserver, params: dict[str, Any], error: BaseException, started: int) -> Receipt:
        latency = (perf_counter_ns() - started) // 1_000_000
        return observer.record_failure(self._name, recordable_params(params), error=error, latency_ms=latency)


def _observe_sync(function: Callable[..., Any], record: _Recorder, *, durable: bool) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        observer = record.observer()
        if observer is None:
            return function(*args, **kwargs)
        started = perf_counter_ns()
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            receipt = record.failure(observer, record.bind(args, kwargs), error, started)
            if durable and not _on_event_loop():
                receipt.result()
            raise
        except BaseException as error:
            # An interrupted program should end; the event is queued and written on the way out.
            record.failure(observer, record.bind(args, kwargs), error, started)
            raise
        receipt = record.success(observer, record.bind(args, kwargs), result, started)
        if durable and not _on_event_loop():
            receipt.result()
        return result

    return call


def _observe_async(
    function: Callable[..., Coroutine[Any, Any, Any]], record: _Recorder, *, durable: bool
) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        observer = record.observer()
        if observer is None:
            return await function(*args, **kwargs)
        await observer.room()
        started = perf_counter_ns()
        try:
            result = await function(*args, **kwargs)
        except Exception as error:
            receipt = record.failure(observer, record.bind(args, kwargs), error, started)
            if durable:
                await receipt
            raise
        except BaseException as error:
            # A cancelled task should end at once; the event is queued and needs no one to wait for it.
            record.failure(observer, record.bind(args, kwargs), error, started)
            raise
        receipt = record.success(observer, record.bind(args, kwargs), result, started)
        if durable:
            await receipt
        return result

    return call


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _argument_binder(function: Callable[..., Any]) -> Bind:
    """Return how positional and keyword arguments become named params, cheaply for the plain case."""
    signature = inspect.signature(function)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    names = list(signature.parameters)
    is_method = bool(names) and names[0] in ("self", "cls")
    named = names[1:] if is_method else names
    skip = len(names) - len(named)
    if inspect.Parameter.VAR_POSITIONAL not in kinds and inspect.Parameter.VAR_KEYWORD not in kinds:
        return lambda args, kwargs: {**dict(zip(named, args[skip:], strict=False)), **kwargs}

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:
            # The call itself failed for this reason; what was passed is still what was passed.
            return {"args": list(args[skip:]), **kwargs}
        if is_method:
            bound.pop(names[0], None)
        return bound

    return bind
