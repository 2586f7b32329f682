"""One of several processes that work on the same registry at the same time.

    python -m tests.registry_racer DATABASE_URL FOLDER ROLE TIMES

It waits for a line on its input, so that all begin together, and answers with one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.registry_kit import TENANT, House, RealClock
from twinraven.calls import CallContext
from twinraven.foundation.errors import TwinRavenError
from twinraven.registry import RetirementReason
from twinraven.storage import open_database


async def synthesize(house: House, times: int) -> list[int]:
    """The version numbers it got."""
    return [(await house.draft()).version for _ in range(times)]


async def promote(house: House, times: int) -> list[str]:
    """What came of promoting each version once."""
    return [await _outcome(house.registry.promote(TENANT, "search_read", version=n + 1, by="x")) for n in range(times)]


async def retire(house: House, times: int) -> list[str]:
    """What came of retiring the tool."""
    return [
        await _outcome(house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="x"))
        for _ in range(times)
    ]


async def use(house: House, times: int) -> int:
    """How many calls it made; each is recorded when it ends."""
    await house.learned.refresh(TENANT)
    for number in range(times):
        context = CallContext(f"s{number % 50}", durable=number % 100 == 99)
        await house.calls.call("search_read", {"q": str(number)}, context)
    await asyncio.to_thread(house.collector.flush)
    return times


async def use_until_killed(house: House, times: int) -> None:
    """Calls whose number is printed as soon as they are durable."""
    for number in range(times):
        await house.call("search_read", {"q": str(number)})
        sys.stdout.write(f"{number + 1}\n")
        sys.stdout.flush()


async def _outcome(attempt: Coroutine[Any, Any, Any]) -> str:
    try:
        await attempt
    except TwinRavenError as error:
        return error.code
    return "done"


ROLES: dict[str, Callable[[House, int], Coroutine[Any, Any, Any]]] = {
    role.__name__: role for role in (synthesize, promote, retire, use, use_until_killed)
}


def main(url: str, folder: str, role: str, times: str) -> None:
    database = open_database(url)
    house = House(database, Path(folder), clock=RealClock())
    sys.stdin.readline()
    answer = asyncio.run(ROLES[role](house, int(times)))
    house.close()
    database.close()
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
