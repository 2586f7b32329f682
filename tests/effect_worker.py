"""Forks workers that ask for effects and deliver them, each to be killed in the middle of it.

`python -m tests.effect_worker HOME TASK WALLET...` imports once and reads numbers from its input; for each it forks a
worker that asks for the effects of that number and those after it, and delivers whatever is due. A worker says its
process id, then the number whenever one of its wishes is acknowledged; its end is told by `dead`. `Workers` is the
other side, and counts what it hears: a kill after so many words strikes at work, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from twinraven.app import TwinRaven, open_home
from twinraven.effects import MessageRequest, PaymentRequest, PublishRequest
from twinraven.tenancy import LOCAL

ROOT = Path(__file__).resolve().parents[1]
OF_A_NUMBER = {"published": 2, "sent": 1, "executed": 2}
"""How many effects of each end one number asks for."""
_MOST_WORDS = 12
_LONGEST_S = 0.1


async def ask_for(
    raven: TwinRaven, task_id: str, wallets: Sequence[str], number: int, said: Callable[[], None] = lambda: None
) -> None:
    """One post to the outbox, one to the bank, one message, and one payment out of each wallet."""
    for channel, provider in (("blog", "outbox"), ("wire", "bank")):
        wish = PublishRequest(task_id, channel, f"t{number}", f"{channel}-{number}", provider=provider)
        await raven.effects.publish(wish, by=LOCAL)
        said()
    await raven.effects.message(MessageRequest(task_id, "mail", "ann", f"t{number}", f"mail-{number}"), by=LOCAL)
    said()
    for place, wallet_id in enumerate(wallets):
        payment = PaymentRequest(task_id, wallet_id, "1.00", "EUR", "printer", f"pay-{place}-{number}")
        await raven.effects.pay(payment, by=LOCAL)
        said()


class Workers:
    """Starts workers one after the other, kills each, and knows what was acknowledged."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.asked = 0
        """The last number of which a wish was acknowledged: all before it were asked for whole."""

    async def kill_one(self) -> None:
        """Start a worker and kill it at any moment of its work."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(f"{self.asked}\n")
        stdin.flush()
        worker = int(await self._line())
        for _ in range(random.randint(0, _MOST_WORDS)):
            self.asked = int(await self._line())
        await asyncio.sleep(random.uniform(0.0, _LONGEST_S))
        os.kill(worker, signal.SIGKILL)
        while (line := await self._line()) != "dead":
            self.asked = int(line)

    async def _line(self) -> str:
        stdout = self._process.stdout
        assert stdout is not None
        line = await asyncio.to_thread(stdout.readline)
        assert line, "the process that forks workers is gone"
        return line.strip()


@contextmanager
def effect_workers(raven: TwinRaven, task_id: str, wallets: Sequence[str]) -> Generator[Workers]:
    """Workers of a home that ask for effects of a task."""
    command = [sys.executable, "-m", "tests.effect_worker", str(raven.home), task_id, *wallets]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Workers(process)
        finally:
            process.kill()


async def _work(home: str, task_id: str, wallets: Sequence[str], first: int) -> None:
    with open_home(Path(home)) as raven:
        _say(os.getpid())
        async with raven.working():
            for number in range(first, sys.maxsize):
                await ask_for(raven, task_id, wallets, number, lambda number=number: _say(number))


async def _look_around(raven: TwinRaven) -> None:
    raven.worker()
    await raven.effects.list("publish", by=LOCAL, limit=1)


def _say(word: object) -> None:
    os.write(1, f"{word}\n".encode())  # in one piece, so that a kill leaves no half of a line


def main(home: str, task_id: str, *wallets: str) -> None:
    with open_home(Path(home)) as raven:  # imports what forks then need not
        asyncio.run(_look_around(raven))
    for line in sys.stdin:
        worker = os.fork()
        if not worker:
            asyncio.run(_work(home, task_id, wallets, int(line)))
        os.waitpid(worker, 0)
        _say("dead")


if __name__ == "__main__":
    main(*sys.argv[1:])
