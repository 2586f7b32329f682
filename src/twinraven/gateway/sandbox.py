"""Runs scripts in the monty sandbox: a Python interpreter of its own, in worker processes, without any power.

monty has no files, no environment, no network and no imports of the host's modules. A script that calls a function it
does not know is suspended, and what it called is answered from here. So all it can do is what `ScriptFunctions` does
for it. The limits are monty's own where it has them (computing time, memory, recursion) and kept here where it has not
(time in all, calls, length of result and prints). A worker that hangs or dies is replaced; this process goes on.
"""

from __future__ import annotations

import asyncio
import io
import tokenize
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

import orjson

from twinraven.app import CodeSettings
from twinraven.foundation.errors import InvalidSetting, ScriptFailed, ScriptStopped, TwinRavenError

if TYPE_CHECKING:
    from pydantic_monty import (
        AsyncFunctionSnapshot,
        AsyncMonty,
        AsyncMontySession,
        AsyncSnapshot,
        ExternalSettledResult,
        MontyError,
        ResourceLimits,
    )

SCRIPT_NAME: Final = "script.py"
_GRACE_S: Final = 1.0
_DEEPEST: Final = 100
_LONGEST_MESSAGE: Final = 4_000
_LONGEST_SLEEP_S: Final = 10.0
_STOPPERS: Final = (
    ("TimeoutError", "time limit exceeded", "code.max_cpu_seconds"),
    ("TimeoutError", "sleep limit exceeded", "code.max_seconds"),
    ("MemoryError", "memory limit", "code.max_memory_bytes"),
    ("RecursionError", "maximum recursion depth exceeded", "code.max_depth"),
    ("RuntimeError", "suspension limit", "code.max_calls"),
)


class ScriptFunctions(Protocol):
    """The host functions that a script can call."""

    def knows(self, function: str) -> bool: ...

    def begin(self, function: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        """Return a call of a function, counted and about to be made.

        What it raises is raised in the script by its text.
        """
        ...


@dataclass(frozen=True, slots=True)
class ScriptOutput:
    """The output of a script that ended by itself."""

    result: Any
    printed: str


class Sandbox:
    """Worker processes for scripts; they are started with the first script."""

    def __init__(self, limits: CodeSettings) -> None:
        self._limits = limits
        self._stack = AsyncExitStack()
        self._starting = asyncio.Lock()
        self._pool: AsyncMonty | None = None

    async def run(self, code: str, powers: ScriptFunctions) -> ScriptOutput:
        """Run a script to its end, or raise ScriptFailed, ScriptStopped or what went wrong with its last call."""
        from pydantic_monty import MontyError

        limits, prints = self._limits, _Prints(self._limits.max_print_bytes)
        pool = await self._workers()
        clock = asyncio.timeout(limits.max_seconds)
        try:
            async with clock, pool.checkout(script_name=SCRIPT_NAME, limits=_monty_limits(limits)) as session:
                value = await _Run(session, code, powers, prints).finish()
        except TimeoutError as error:
            if clock.expired():
                raise stopped("code.max_seconds", f"it took more than {limits.max_seconds:g} s") from error
            raise
        except MontyError as error:
            raise _translated(error) from None
        return ScriptOutput(_as_json(value, limits.max_output_bytes), prints.text)

    async def close(self) -> None:
        """End the workers."""
        self._pool = None
        await self._stack.aclose()

    async def _workers(self) -> AsyncMonty:
        from pydantic_monty import AsyncMonty

        async with self._starting:
            if self._pool is None:
                limits = self._limits
                self._pool = await self._stack.enter_async_context(
                    AsyncMonty(
                        max_processes=limits.max_scripts,
                        request_timeout=limits.max_cpu_seconds + 2 * _GRACE_S,
                        feed_duration_limit_grace=_GRACE_S,
                    )
                )
            return self._pool


def check_installed() -> None:
    """Refuse to begin where the sandbox is not installed."""
    from importlib.util import find_spec

    if find_spec("pydantic_monty") is None:
        raise InvalidSetting(
            "gateway.mode is code, and the sandbox for scripts is not installed",
            field="gateway.mode",
            fix="pip install 'twinraven[code]', or set gateway.mode to search or tools",
        )


class _Run:
    """One script under way: answers what it calls until it ends."""

    def __init__(self, session: AsyncMontySession, code: str, powers: ScriptFunctions, prints: _Prints) -> None:
        self._session = session
        self._code = code
        self._powers = powers
        self._prints = prints
        self._awaits = has_await(code)
        self._calls: dict[int, asyncio.Task[Any]] = {}

    async def finish(self) -> Any:
        """Return the value of the last expression, else of `result`; every call that was begun has ended by then."""
        from pydantic_monty import MontyComplete

        try:
            step = await self._session.feed_start(
                self._code, print_callback=cast("Callable[[Literal['stdout', 'stderr'], str], None]", self._prints)
            )
            while not isinstance(step, MontyComplete):
                step = await self._answer(step)
            if self._calls:
                await asyncio.wait(self._calls.values())
            value: Any = step.output
        finally:
            await self._end_calls()
        return await self._named_result() if value is None else value

    async def _answer(self, step: AsyncSnapshot) -> AsyncSnapshot:
        from pydantic_monty import AsyncFunctionSnapshot, AsyncFutureSnapshot, AsyncNameLookupSnapshot

        if isinstance(step, AsyncFutureSnapshot):
            waiting = [self._calls[call_id] for call_id in step.pending_call_ids]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done = [call_id for call_id in step.pending_call_ids if self._calls[call_id].done()]
            return await step.resume({call_id: _settled(self._calls.pop(call_id)) for call_id in done})
        if isinstance(step, AsyncNameLookupSnapshot):
            known = self._powers.knows(step.variable_name)
            return await (step.resume(value=_named(step.variable_name)) if known else step.resume())
        assert isinstance(step, AsyncFunctionSnapshot)
        return await (step.resume_not_handled() if step.is_os_function else self._call(step))

    async def _call(self, step: AsyncFunctionSnapshot) -> AsyncSnapshot:
        name = str(step.function_name)
        if not self._powers.knows(name):
            text = f"name {name!r} is not defined; search_tools(query) says what can be called"
            return await step.resume({"exception": NameError(text)})
        call = asyncio.ensure_future(self._powers.begin(name, step.args, step.kwargs))
        self._calls[step.call_id] = call
        if self._awaits:
            return await step.resume({"future": ...})
        await asyncio.wait([call])
        return await step.resume(_settled(self._calls.pop(step.call_id)))

    async def _named_result(self) -> Any:
        if "result" not in self._code:
            return None
        from pydantic_monty import MontyComplete

        step = await self._session.feed_start("result")
        return step.output if isinstance(step, MontyComplete) else None

    async def _end_calls(self) -> None:
        for call in self._calls.values():
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls.values())


class _Prints:
    """Keeps the beginning of what a script prints; it is called on a thread of the workers."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._kept: list[bytes] = []
        self._dropped = 0

    def __call__(self, stream: str, text: str) -> None:
        del stream
        said = text.encode("utf-8", "replace")
        kept = said[: self._left]
        if kept:
            self._kept.append(kept)
        self._left -= len(kept)
        self._dropped += len(said) - len(kept)

    @property
    def text(self) -> str:
        kept = b"".join(self._kept).decode("utf-8", "ignore")
        return f"{kept}\n[{self._dropped} bytes more were printed]" if self._dropped else kept


def has_await(code: str) -> bool:
    """Return whether a script awaits anything; one that does not gets the results of its calls themselves."""
    if "await" not in code:
        return False
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):
        return True
    return any(token.type == tokenize.NAME and token.string == "await" for token in tokens)


def _monty_limits(limits: CodeSettings) -> ResourceLimits:
    return {
        "max_feed_duration_secs": limits.max_cpu_seconds,
        "max_memory": limits.max_memory_bytes,
        "max_recursion_depth": limits.max_depth,
        # Each call is suspended once to be made and once to be awaited; names and clocks come besides.
        "max_suspensions": 4 * limits.max_calls + 1_000,
        "max_total_sleep_secs": min(limits.max_seconds, _LONGEST_SLEEP_S),
    }


def _named(function: str) -> Callable[[], None]:
    """Return what stands for a function where a script names it without calling it."""

    def stand_in() -> None: ...

    stand_in.__name__ = function
    return stand_in


def _settled(call: asyncio.Task[Any]) -> ExternalSettledResult:
    """Return what a call came to, for the script: its value, or an exception that says code and message."""
    try:
        return {"return_value": call.result()}
    except TwinRavenError as error:
        return {"exception": RuntimeError(f"{error.code}: {error.message}")}


def stopped(limit: str, why: str) -> ScriptStopped:
    """Build the error of a script that exceeded a limit; it names the setting."""
    return ScriptStopped(f"the script was stopped: {why}", limit=limit, fix=f"do less in one script, or raise {limit}")


def _translated(error: MontyError) -> TwinRavenError:
    """Return what a script ended with, in words that name nothing but the script."""
    from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

    if isinstance(error, MontyCrashedError):
        if error.timed_out:
            return stopped("code.max_cpu_seconds", "it computed without an end")
        return stopped("code.max_memory_bytes", "its process died")
    kind, text = type(error.exception()).__name__, str(error)[:_LONGEST_MESSAGE]
    for stopper, words, limit in _STOPPERS:
        if kind == stopper and words in text:
            return stopped(limit, text)
    frames = error.traceback() if isinstance(error, MontyRuntimeError | MontySyntaxError) else []
    line = frames[-1].line if frames else None
    place = "" if line is None else f" (line {line})"
    said = text if text.startswith(kind) else f"{kind}: {text}"
    return ScriptFailed(f"{said}{place}", exception=kind, line=line)


def _as_json(value: Any, most: int) -> Any:
    """Return a script's value as JSON, or why it cannot be."""
    plain = _plain(value, 0)
    try:
        size = len(orjson.dumps(plain))
    except TypeError as error:
        raise ScriptFailed(f"the result is not JSON: {error}", fix="return plain values") from error
    if size > most:
        raise stopped("code.max_output_bytes", f"its result has {size} bytes, more than {most}")
    return plain


def _plain(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ScriptFailed(f"the result is nested more than {_DEEPEST} deep", fix="return something flatter")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {_member_name(name): _plain(member, depth + 1) for name, member in members.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(member, depth + 1) for member in cast("list[Any]", value)]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    attributes: Any = getattr(value, "attributes", None)
    if isinstance(attributes, dict):
        return _plain(attributes, depth + 1)
    raise ScriptFailed(f"the result holds a {type(value).__name__}, which JSON cannot say", fix="return plain values")


def _member_name(name: Any) -> str:
    if isinstance(name, str):
        return name
    if name is None or isinstance(name, bool | int | float):
        return orjson.dumps(name).decode()
    raise ScriptFailed("the result has a key that is no text", fix="use texts as keys")
