"""What belongs to one event loop: a connection opened on one is of no use on another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import TypeVar

T = TypeVar("T")


def of_this_loop(by_loop: MutableMapping[asyncio.AbstractEventLoop, T], make: Callable[[], T]) -> T:
    """The running loop's own, made on first use; what closed loops left behind is let go of then."""
    loop = asyncio.get_running_loop()
    if loop not in by_loop:
        for closed in [each for each in by_loop if each.is_closed()]:
            del by_loop[closed]
        by_loop[loop] = make()
    return by_loop[loop]
