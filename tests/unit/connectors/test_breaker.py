"""The circuit breaker, on a clock of the test's own."""

from __future__ import annotations

import pytest

from twinraven.connectors import CircuitBreaker
from twinraven.connectors.breaker import MAX_CIRCUITS
from twinraven.foundation.errors import ToolUnavailable


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Endpoint:
    """A breaker with one endpoint behind it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.breaker = CircuitBreaker(threshold=3, pause_s=10, longest_pause_s=30, clock=self.clock)

    def call(self, succeeded: bool | None, key: str = "a") -> None:
        with self.breaker.attempt(key, name=key) as attempt:
            attempt.succeeded = succeeded

    def fail(self, times: int, key: str = "a") -> None:
        for _ in range(times):
            self.call(False, key)


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


def test_it_opens_after_failures_in_a_row(endpoint: Endpoint) -> None:
    """The threshold counts failures without a success between them."""
    endpoint.fail(2)
    endpoint.call(True)
    endpoint.fail(2)
    endpoint.call(None)
    assert not endpoint.breaker.is_open("a")
    endpoint.fail(1)
    with pytest.raises(ToolUnavailable, match="failed 3 times in a row") as refusal:
        endpoint.call(True)
    assert refusal.value.details["retry_after_s"] == 10


def test_one_call_tries_after_the_pause(endpoint: Endpoint) -> None:
    """Of all who come when the pause is over, one is let through; its success closes the circuit."""
    endpoint.fail(3)
    endpoint.clock.now += 10
    with endpoint.breaker.attempt("a", name="a") as trial:
        with pytest.raises(ToolUnavailable):
            endpoint.call(True)
        trial.succeeded = True
    endpoint.call(True)
    assert not endpoint.breaker.is_open("a")


def test_a_failed_trial_doubles_the_pause(endpoint: Endpoint) -> None:
    """Each failed trial doubles the pause, up to the longest."""
    endpoint.fail(3)
    for pause in (10, 20, 30, 30):
        endpoint.clock.now += pause - 0.1
        with pytest.raises(ToolUnavailable):
            endpoint.call(True)
        endpoint.clock.now += 0.1
        endpoint.call(False)


def test_late_failures_do_not_lengthen_the_pause(endpoint: Endpoint) -> None:
    """Calls that were under way when it opened say nothing new."""
    with endpoint.breaker.attempt("a", name="a") as early:
        endpoint.fail(3)
        early.succeeded = False
    endpoint.clock.now += 10
    endpoint.call(True)


def test_a_trial_that_says_nothing_leaves_room_for_another(endpoint: Endpoint) -> None:
    """A caller who goes away in the middle of a trial does not close the door for good."""
    endpoint.fail(3)
    endpoint.clock.now += 10
    with pytest.raises(RuntimeError), endpoint.breaker.attempt("a", name="a"):
        raise RuntimeError
    endpoint.call(True)


def test_endpoints_are_counted_apart(endpoint: Endpoint) -> None:
    """One tenant's failures do not concern another."""
    endpoint.fail(3, "a")
    endpoint.call(True, "b")
    assert endpoint.breaker.is_open("a")


def test_memory_is_bounded(endpoint: Endpoint) -> None:
    """Whoever calls a new endpoint each time fills no table without end."""
    for number in range(MAX_CIRCUITS + 10):
        endpoint.fail(3, f"endpoint {number}")
    assert not endpoint.breaker.is_open("endpoint 0")
    assert endpoint.breaker.is_open(f"endpoint {MAX_CIRCUITS + 9}")
