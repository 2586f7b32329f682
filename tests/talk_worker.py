"""A process that has a conversation and writes its episodes, to be killed.

    python -m tests.talk_worker HOME [CONVERSATION]

It says one thing, lets a process answer, and works until both are episodes. Killed, it leaves what it had committed.
Without a conversation it has those that stdin names, each in a fork (tests/dying.py).
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.dying import serve
from tests.talking import Speaker, bound, settled
from tests.working import working
from twinraven.app import open_home
from twinraven.tenancy import LOCAL


async def _main(home: Path, conversation_id: str) -> None:
    with open_home(home, functions=[Speaker().speak]) as raven:
        async with working(raven):
            _, answer = await raven.conversations.converse(
                conversation_id, f"hello from {conversation_id}", process_id="plain", by=LOCAL
            )
            await settled(raven, answer)
            await bound(raven, conversation_id)


if __name__ == "__main__":
    place, named = Path(sys.argv[1]), sys.argv[2:]
    if named:
        asyncio.run(_main(place, named[0]))
    else:
        serve(lambda conversation_id: asyncio.run(_main(place, conversation_id)))
