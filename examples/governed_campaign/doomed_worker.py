"""`python -m examples.governed_campaign.doomed_worker HOME`: a worker that dies in the middle of its first payment.

It is killed right after the bank has taken the order, before anything could be written down about that: the worst
moment there is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from twinraven.app import open_home
from twinraven.effects import EffectOrder, FileOutbox, ProviderAnswer


class DeadlyBank(FileOutbox):
    """The bank's folder, and a power cut."""

    async def send(self, order: EffectOrder) -> ProviderAnswer:
        await super().send(order)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody survives this")


async def _work(home: Path) -> None:
    with open_home(home) as raven:
        raven.delivery.replace_provider(DeadlyBank(home / "bank", name="bank"))
        async with raven.working():
            await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1])))
