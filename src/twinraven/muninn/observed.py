"""`@observed`: record every call of a function, sync or async, without touching its body.

The call is recorded into the session that `Collector.observe` opened around it. Outside of one there is nothing to
record into, and saying so beats losing the call silently.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from time import perf_counter_ns
from typing import Any, ParamSpec, TypeVar, cast

from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.collector import SessionObserver, current_observer
from twinraven.muninn.model import Outcome

P = ParamSpec("P")
R = TypeVar("R")


def observed(
    tool_id: str | None = None, *, durable: bool = True, outcome: Outcome = Outcome.PARTIAL
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that each call becomes an event named `tool_id` (default: the function's name).

    With `durable=False` the call does not wait for the event to be on disk.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = tool_id or function.__name__
        bind = _argument_binder(function)
        if inspect.iscoroutinefunction(function):
            wrapped = _observe_async(function, name, bind, durable=durable, outcome=outcome)
        else:
            wrapped = _observe_sync(function, name, bind, durable=durable, outcome=outcome)
        return cast("Callable[P, R]", functools.wraps(function)(wrapped))

    return decorate


def _observe_sync(
    function: Callable[..., Any], name: str, bind: Callable[..., dict[str, Any]], *, durable: bool, outcome: Outcome
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        observer = _observer(name)
        started = perf_counter_ns()
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            receipt = observer.record_failure(
                name, bind(args, kwargs), error=error, latency_ms=(perf_counter_ns() - started) // 1_000_000
            )
            receipt.result()
            raise
        receipt = observer.record(
            name,
            bind(args, kwargs),
            output=result,
            latency_ms=(perf_counter_ns() - started) // 1_000_000,
            outcome=outcome,
        )
        if durable:
            receipt.result()
        return result

    return call


def _observe_async(
    function: Callable[..., Coroutine[Any, Any, Any]],
    name: str,
    bind: Callable[..., dict[str, Any]],
    *,
    durable: bool,
    outcome: Outcome,
) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        observer = _observer(name)
        started = perf_counter_ns()
        try:
            result = await function(*args, **kwargs)
        except Exception as error:
            await observer.record_failure(
                name, bind(args, kwargs), error=error, latency_ms=(perf_counter_ns() - started) // 1_000_000
            )
            raise
        receipt = observer.record(
            name,
            bind(args, kwargs),
            output=result,
            latency_ms=(perf_counter_ns() - started) // 1_000_000,
            outcome=outcome,
        )
        if durable:
            await receipt
        return result

    return call


def _observer(name: str) -> SessionObserver:
    observer = current_observer.get()
    if observer is None:
        raise InvalidInput(
            f"{name} is @observed but no session is open; call it inside `with collector.observe(session_id):`",
            field="session_id",
        )
    return observer


def _argument_binder(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """How positional and keyword arguments become named params, cheaply for the plain case."""
    signature = inspect.signature(function)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    skip = len(signature.parameters) - len(names)
    if inspect.Parameter.VAR_POSITIONAL not in kinds and inspect.Parameter.VAR_KEYWORD not in kinds:
        return lambda args, kwargs: {**dict(zip(names, args[skip:], strict=False)), **kwargs}

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = dict(signature.bind(*args, **kwargs).arguments)
        for name in ("self", "cls"):
            bound.pop(name, None)
        return bound

    return bind
