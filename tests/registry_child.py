"""One act of the registry in a process of its own, on one thread, so that a tracer can count its system calls.

python -m tests.registry_child DATABASE_URL FOLDER ACT
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tests.registry_kit import TENANT, House, make_verdict
from twinraven.registry import RetirementReason
from twinraven.storage import Connection, Database, Dialect, Work, open_database

T = TypeVar("T")


class OnThisThread:
    """A database whose work runs where it is asked."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database.connect()

    @property
    def dialect(self) -> Dialect:
        return self._database.dialect

    async def read(self, tenant_id: str, work: Work[T]) -> T:
        return self.read_here(tenant_id, work)

    def read_here(self, tenant_id: str, work: Work[T]) -> T:
        with self._connection.transaction(tenant_id, write=False) as tx:
            return work(tx)

    async def write(self, tenant_id: str, work: Work[T]) -> T:
        with self._connection.transaction(tenant_id, write=True) as tx:
            return work(tx)

    def connect(self) -> Connection:
        return self._database.connect()

    def migrate(self) -> list[str]:
        return self._database.migrate()

    def applied(self) -> dict[int, str]:
        return self._database.applied()

    def close(self) -> None:
        self._connection.close()
        self._database.close()


async def prepare(house: House) -> None:
    """What the acts begin with: a tool with two versions in its past, one that waits, and one that was never served."""
    await house.promote()
    await house.promote(description="Better.")
    await house.register(description="Better still.")
    await house.draft(description="Best.", evidence="best")
    await house.register("waiting", steps=("search", "summarize"))


async def register(house: House) -> None:
    (draft,) = [each for each in await house.registry.drafts(TENANT) if each.evidence_hash == "best"]
    await house.registry.register(TENANT, draft.definition, make_verdict())


async def promote(house: House) -> None:
    await house.registry.promote(TENANT, "search_read", version=3, by="ann")


async def roll_back(house: House) -> None:
    await house.registry.rollback(TENANT, "search_read", to_version=1, by="ann")


async def retire(house: House) -> None:
    await house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="ann")


async def quarantine(house: House) -> None:
    await house.registry.quarantine(TENANT, "search_read", reason="odd", by="ann")


async def reject(house: House) -> None:
    await house.registry.reject(TENANT, "search_read", reason="no", by="ann")


async def promote_renamed(house: House) -> None:
    await house.registry.promote(TENANT, "waiting", new_id="renamed", by="ann")


async def recover(house: House) -> None:
    await house.registry.recover(TENANT)


ACTS: dict[str, Callable[[House], Coroutine[Any, Any, None]]] = {
    act.__name__: act for act in (register, promote, roll_back, retire, quarantine, reject, promote_renamed)
}


async def _at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def main(url: str, folder: str, act: str) -> None:
    asyncio.to_thread = _at_once  # pyright: ignore[reportAttributeAccessIssue]
    database = OnThisThread(open_database(url))
    house = House(database, Path(folder), poll_s=3600)
    asyncio.run({**ACTS, recover.__name__: recover}[act](house))
    sys.stdout.write("done")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
