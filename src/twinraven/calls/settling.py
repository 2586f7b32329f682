"""Settles a call and records it in one transaction, and in two where one is refused.

The settlement commits anyway, so the event of the call rides with it. An event never keeps a settlement from being
stored: where the store refuses both together, the call is settled alone and its event goes through the queue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from twinraven.calls.claims import Along
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.muninn import TransactionalEvent

Settle = Callable[[Along | None], Awaitable[None]]
"""Settles a call; what it is given is written in the same transaction."""


async def settle_with(event: TransactionalEvent, settle: Settle) -> None:
    """Settle a call together with its event."""
    try:
        await settle(event.write)
    except (Conflict, InvalidInput, AppendOnly):
        event.queue()
        await settle(None)
    except BaseException:
        event.queue()
        raise


def all_of(*parts: Along | None) -> Along | None:
    """Several things that one transaction writes, in their order."""
    wanted = [part for part in parts if part is not None]
    if len(wanted) < 2:
        return wanted[0] if wanted else None

    def along(tx: Transaction) -> None:
        for part in wanted:
            part(tx)

    return along
