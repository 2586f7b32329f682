"""Implements a circuit breaker: an endpoint that keeps failing is not called for a while.

Callers of a service that is down should hear so at once and not wait for a time-out each, and a service that comes
back should not be met by all of them together. After some failures in a row calls are refused; when the pause is over
one call is let through, and what becomes of it decides: closed again, or a pause twice as long.

Endpoints are counted per tenant and owner of the tools that call them, so that nobody's failures, and nobody's
impatience, close a door to somebody else.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass

from twinraven.foundation.errors import ToolUnavailable

MAX_CIRCUITS = 4_096


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    pause_s: float = 0.0
    open_until: float = 0.0
    on_trial: bool = False


@dataclass(slots=True)
class BreakerAttempt:
    """One call through a breaker; without a verdict it says nothing about the endpoint."""

    is_trial: bool
    succeeded: bool | None = None


class CircuitBreaker:
    """Counts failures in a row by endpoint."""

    def __init__(
        self,
        *,
        threshold: int = 5,
        pause_s: float = 5.0,
        longest_pause_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threshold = threshold
        self._pause_s = pause_s
        self._longest_pause_s = longest_pause_s
        self._clock = clock
        self._circuits: OrderedDict[Hashable, _Circuit] = OrderedDict()
        # Calls come from several threads, each with an event loop of its own.
        self._counting = threading.Lock()

    @contextmanager
    def attempt(self, key: Hashable, *, name: str) -> Generator[BreakerAttempt]:
        """Let one call through, or raise ToolUnavailable; the caller states the verdict on what it is given."""
        with self._counting:
            attempt = self._admit(key, name)
        try:
            yield attempt
        finally:
            with self._counting:
                self._count(key, attempt)

    def is_open(self, key: Hashable) -> bool:
        circuit = self._circuits.get(key)
        return circuit is not None and circuit.failures >= self._threshold

    def _count(self, key: Hashable, attempt: BreakerAttempt) -> None:
        circuit = self._circuits.get(key)
        if circuit is not None and attempt.is_trial:
            circuit.on_trial = False
        if attempt.succeeded is True:
            self._circuits.pop(key, None)
        elif attempt.succeeded is False:
            self._count_failure(key, is_trial=attempt.is_trial)

    def _admit(self, key: Hashable, name: str) -> BreakerAttempt:
        circuit = self._circuits.get(key)
        if circuit is None or circuit.failures < self._threshold:
            return BreakerAttempt(is_trial=False)
        remaining = circuit.open_until - self._clock()
        if remaining > 0 or circuit.on_trial:
            wait = round(max(remaining, 0.1), 1)
            raise ToolUnavailable(
                f"{name} failed {circuit.failures} times in a row and is left alone for {wait} s",
                retry_after_s=wait,
                endpoint=name,
            )
        circuit.on_trial = True
        return BreakerAttempt(is_trial=True)

    def _count_failure(self, key: Hashable, *, is_trial: bool) -> None:
        circuit = self._circuits.setdefault(key, _Circuit())
        self._circuits.move_to_end(key)
        was_open = circuit.failures >= self._threshold
        circuit.failures += 1
        # Calls that were under way when it opened fail too; only a trial says that the pause was too short.
        if circuit.failures >= self._threshold and (is_trial or not was_open):
            circuit.pause_s = min(self._longest_pause_s, circuit.pause_s * 2 or self._pause_s)
            circuit.open_until = self._clock() + circuit.pause_s
        while len(self._circuits) > MAX_CIRCUITS:
            self._circuits.popitem(last=False)
