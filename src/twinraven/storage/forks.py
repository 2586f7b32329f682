"""What must be made anew in a forked child: threads and connections do not survive a fork.

Objects register themselves once and are held weakly, so registering never keeps anything alive.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    def after_fork(self) -> None: ...


_registered: weakref.WeakSet[Forkable] = weakref.WeakSet()


def forget_after_fork(thing: Forkable) -> None:
    """Call `thing.after_fork()` in every child this process forks."""
    _registered.add(thing)


def _in_child() -> None:
    for thing in list(_registered):
        thing.after_fork()


os.register_at_fork(after_in_child=_in_child)
