"""How a group of works is tried: as it is, and behind savepoints only where one of them refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from twinraven.foundation.errors import Conflict
from twinraven.storage.grouped import GroupCommit


class _Store:
    """Writes down what a group asks of its transaction."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def transact(self, tenant_id: str, work: Callable[[Any], Any]) -> Any:
        self.asked.append(f"begin {tenant_id}")
        answer = work(self)
        self.asked.append("commit")
        return answer

    def act_for(self, tenant_id: str) -> None:
        self.asked.append(f"act for {tenant_id}")

    def begin_part(self, tenant_id: str) -> None:
        self.asked.append(f"part {tenant_id}")

    def undo_part(self) -> None:
        self.asked.append("undo")


async def _together(group: GroupCommit, works: list[tuple[str, Callable[[Any], Any]]]) -> list[Any]:
    """What works answer that come while a transaction is on its way."""
    go, entered = Event(), Event()

    def hold(_: object) -> None:
        entered.set()
        assert go.wait(10)

    holding = asyncio.ensure_future(group.write("held", hold))
    await asyncio.to_thread(entered.wait, 10)
    waiting = [asyncio.ensure_future(group.write(tenant_id, work)) for tenant_id, work in works]
    await asyncio.sleep(0)
    go.set()
    await holding
    return await asyncio.gather(*waiting, return_exceptions=True)


def _refuse(_: object) -> None:
    raise Conflict("no")


async def test_a_group_that_nobody_refuses_needs_no_savepoint() -> None:
    """Works of a group run one after another; only a change of tenant costs a statement."""
    store = _Store()
    with ThreadPoolExecutor(1) as pool:
        group = GroupCommit(pool, store.transact)
        works: list[tuple[str, Callable[[Any], Any]]] = [(tenant, lambda _: 1) for tenant in ("a", "a", "b")]
        await _together(group, works)
    assert store.asked[2:] == ["begin a", "act for b", "commit"]


async def test_after_a_refusal_groups_are_wary_for_a_while() -> None:
    """A refusal runs its group again behind savepoints, and the next ones so at once; later ones are tried again."""
    store = _Store()
    with ThreadPoolExecutor(1) as pool:
        group = GroupCommit(pool, store.transact)
        answers = await _together(group, [("a", lambda _: 1), ("a", _refuse)])
        assert (answers[0], type(answers[1])) == (1, Conflict)
        assert store.asked[2:] == ["begin a", "begin a", "part a", "part a", "undo", "commit"]
        patterns: list[list[str]] = []
        for _ in range(20):
            store.asked.clear()
            assert await _together(group, [("a", lambda _: 1), ("a", lambda _: 2)]) == [1, 2]
            patterns.append(store.asked[2:])
    assert patterns[0] == ["begin a", "part a", "part a", "commit"]
    assert patterns[-1] == ["begin a", "commit"]


@pytest.mark.parametrize("fault", [ZeroDivisionError("x"), Conflict("no")])
async def test_every_work_is_told_what_came_of_it(fault: Exception) -> None:
    """Whatever a work raises, its neighbours get their answers."""

    def broken(_: object) -> None:
        raise fault

    store = _Store()
    with ThreadPoolExecutor(1) as pool:
        answers = await _together(
            GroupCommit(pool, store.transact), [("a", lambda _: 1), ("a", broken), ("b", lambda _: 3)]
        )
    assert [answers[0], type(answers[1]), answers[2]] == [1, type(fault), 3]
