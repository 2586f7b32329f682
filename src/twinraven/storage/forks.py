"""Closes connections before a fork and restarts threads after it: an open SQLite file must not be inherited.

A child that inherits an open SQLite connection inherits the belief in locks that only the parent has, and closing the
connection there can undo what the parent is just writing. So connections are put away before the fork, when nobody is
inside a transaction, and opened again by whoever uses them next. Everything else starts anew in the child.

Objects register themselves once and are held weakly, so registering never keeps anything alive.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object that restarts in the child after a fork."""

    def after_fork(self) -> None: ...


class ClosedForFork(Protocol):
    """An object that must be closed while the process forks."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork(self) -> None: ...


_forkables: weakref.WeakSet[Forkable] = weakref.WeakSet()
_putaways: weakref.WeakSet[ClosedForFork] = weakref.WeakSet()
_put_away: list[ClosedForFork] = []
_registration = threading.Lock()


def forget_after_fork(thing: Forkable) -> None:
    """Call `thing.after_fork()` in every child this process forks."""
    with _registration:
        _forkables.add(thing)


def put_away_before_fork(thing: ClosedForFork) -> None:
    """Call `thing.before_fork()` before every fork, and one of its other two methods after it."""
    with _registration:
        _putaways.add(thing)


def _before() -> None:
    _registration.acquire()
    _put_away.extend(_putaways)
    for thing in _put_away:
        thing.before_fork()


def _in_parent() -> None:
    # Python reports an error of a hook and goes on: a lock that one left behind would be waited for for ever.
    try:
        for thing in _put_away:
            thing.after_fork_in_parent()
    finally:
        _put_away.clear()
        _registration.release()


def _in_child() -> None:
    try:
        for thing in _put_away:
            thing.after_fork()
    finally:
        _put_away.clear()
        _registration.release()
    for thing in list(_forkables):
        thing.after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
