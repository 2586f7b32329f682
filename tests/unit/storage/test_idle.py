"""The pool of idle connections: few are opened, each has one user, and all are closed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from twinraven.storage import Transaction
from twinraven.storage.idle import IdleConnections


class Counted:
    """A connection that says whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def transaction(self, tenant_id: str, *, write: bool) -> AbstractContextManager[Transaction]:
        del tenant_id, write
        nothing: Any = None
        return nullcontext(nothing)

    def close(self) -> None:
        self.is_closed = True


def test_who_comes_after_another_gets_the_same_connection() -> None:
    """Opening is dear, so one that came back is lent before another is opened, the last one first."""
    pool = IdleConnections(Counted)
    first, second = pool.take(), pool.take()
    assert first is not second
    pool.give(first)
    pool.give(second)
    assert pool.take() is second
    assert pool.take() is first


def test_a_closed_pool_closes_what_is_idle_and_what_comes_back() -> None:
    """Nothing stays open behind a store that was closed while somebody still read."""
    pool = IdleConnections(Counted)
    lent, idle = pool.take(), pool.take()
    pool.give(idle)
    pool.close()
    assert idle.is_closed
    assert not lent.is_closed
    pool.give(lent)
    assert lent.is_closed
