"""Opens the parts of a home on first use and closes them in reverse order: the mechanism of the composition root.

A part is a function that takes the home and makes one thing; other parts that it needs are asked for by calling them
with the home. `TwinRaven` names the parts that doors use, one line each. A part is remembered when it has been made, so
what it is built on stands before it, and closing goes from the last to the first. What can be closed is, without being
listed anywhere: `close` at the end of the home, `aclose` before that on the event loop that goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from threading import RLock
from typing import Any, Generic, Protocol, TypeVar, cast, overload, runtime_checkable

from twinraven.app.settings import Settings
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.clock import now_micros

T = TypeVar("T")


@runtime_checkable
class Closeable(Protocol):
    """A part that lets go of something when the home closes."""

    def close(self) -> None: ...


@runtime_checkable
class LoopBound(Protocol):
    """A part that has something open on event loops, and closes what the running one has."""

    async def aclose(self) -> None: ...


class Part(Generic[T]):
    """One part of a home: called with the home, or read as its attribute, it is opened once and kept."""

    def __init__(self, open_part: Callable[[Home], T]) -> None:
        self._open = open_part
        self.__doc__ = open_part.__doc__

    def __call__(self, home: Home) -> T:
        return home.open(self, self._open)

    @overload
    def __get__(self, home: None, owner: type[Home]) -> Part[T]: ...

    @overload
    def __get__(self, home: Home, owner: type[Home]) -> T: ...

    def __get__(self, home: Home | None, owner: type[Home]) -> Part[T] | T:
        return self if home is None else home.open(self, self._open)


class Home:
    """The parts that were opened so far, and what all of them are made from."""

    def __init__(
        self,
        settings: Settings,
        *,
        functions: Iterable[Callable[..., Any]] = (),
        micros: Callable[[], int] = now_micros,
        operator: Callable[[], Actor] = lambda: SYSTEM,
    ) -> None:
        """`operator` says who is recorded for what is done to tenants, users and keys without a principal."""
        self.settings = settings
        self.given = tuple(functions)
        self.micros = micros
        self.operator = operator
        self._opened: dict[Part[Any], Any] = {}
        self._opening = RLock()

    @property
    def home(self) -> Path:
        return self.settings.home

    @property
    def opened(self) -> tuple[Any, ...]:
        """List the parts opened so far, each after its dependencies."""
        return tuple(self._opened.values())

    def open(self, part: Part[T], open_part: Callable[[Home], T]) -> T:
        """Return the part, opened now if this is its first use."""
        if part not in self._opened:
            with self._opening:
                if part not in self._opened:
                    made = open_part(self)
                    self._opened[part] = made
        return cast("T", self._opened[part])

    async def aclose(self) -> None:
        """`close`, inside a loop that goes on: connections to services are closed first, and nothing blocks it."""
        import asyncio

        async with AsyncExitStack() as unwinding:
            unwinding.push_async_callback(asyncio.to_thread, self.close)
            for part in self.opened:
                if isinstance(part, LoopBound):
                    unwinding.push_async_callback(part.aclose)

    def close(self) -> None:
        """Write what is queued and let go of everything; connections to services end with the loop that opened them."""
        with ExitStack() as unwinding:
            for part in self.opened:
                if isinstance(part, Closeable):
                    unwinding.callback(part.close)
