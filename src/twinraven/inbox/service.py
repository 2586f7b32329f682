"""Lists inbox items, shows them and decides them.

A decision is checked against the item as it stands now: the hash that the decider saw, its time, and who may decide.
The part that keeps the item then decides in its own transaction, which is where two deciders become one winner.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from twinraven.foundation.errors import IllegalTransition, InvalidInput, NotFound, PolicyViolation, StaleState
from twinraven.foundation.json_schema import compile_schema
from twinraven.inbox.model import ITEM_KINDS, SHORTEST_HASH, InboxAnswer, InboxItem, ItemKind, Reservation
from twinraven.inbox.reservations import Reservations
from twinraven.inbox.source import InboxSource
from twinraven.tenancy import Principal

LONGEST_NOTE: Final = 2_000


class Inbox:
    """Lists and decides everything that waits for a person."""

    def __init__(self, sources: Iterable[InboxSource], reservations: Reservations) -> None:
        self._sources = {source.kind: source for source in sources}
        self._reservations = reservations

    async def list(self, *, by: Principal, kind: ItemKind | None = None) -> list[InboxItem]:
        """List the items that this user may decide, the oldest first."""
        if kind is not None and kind not in ITEM_KINDS:
            raise InvalidInput(f"kind must be one of {', '.join(ITEM_KINDS)}, not {kind!r}", field="kind")
        wanted = [source for name, source in self._sources.items() if kind in (None, name)]
        lists = await asyncio.gather(*(source.open_items(by.tenant_id) for source in wanted))
        found = [item for items in lists for item in items if item.state == "open" and item.is_for(by)]
        return sorted(found, key=lambda item: (item.asked_at, item.item_id))

    async def counts(self, *, by: Principal) -> dict[str, int]:
        """Count the waiting items by kind."""
        return dict(Counter(item.kind for item in await self.list(by=by)))

    async def get(self, item_id: str, *, by: Principal) -> InboxItem:
        """Return one item, also one that is over; what is not for this person is not there."""
        kind, _, ref = item_id.partition(":")
        source = self._sources.get(kind)  # pyright: ignore[reportArgumentType, reportCallIssue]
        if source is None or not ref:
            raise _missing(item_id)
        try:
            found = await source.find(by.tenant_id, ref)
        except NotFound:
            raise _missing(item_id) from None
        if not found.is_for(by):
            raise _missing(item_id)
        return found

    async def decide(self, item_id: str, said: InboxAnswer, *, by: Principal) -> InboxItem:
        """Decide an item exactly as it was shown; the first of two deciders wins, the other is told."""
        item = await self.get(item_id, by=by)
        _refuse_agent(item_id, by)
        _refuse_over(item)
        _check(item, said)
        await self._sources[item.kind].decide(item, said, by=by)
        await self._reservations.release(by.tenant_id, item_id)
        after = await self.get(item_id, by=by)
        # What is decided may no longer be for this person's eyes, and is then known from here alone.
        return after if after.state != "open" else replace(after, decision=said.choice)

    async def reserve(self, item_id: str, *, by: Principal) -> list[Reservation]:
        """Say that this person is looking at an open item, and return all who are; decisions stay free to everybody."""
        item = await self.get(item_id, by=by)
        _refuse_agent(item_id, by)
        _refuse_over(item)
        return await self._reservations.take(by.tenant_id, item_id, by.user_id)

    async def release(self, item_id: str, *, by: Principal) -> None:
        """Say that this person no longer looks at an item."""
        await self.get(item_id, by=by)
        await self._reservations.release(by.tenant_id, item_id, by.user_id)

    async def reservations(self, *, by: Principal) -> list[Reservation]:
        """Return who is looking at what; whoever may not decide everything sees their own."""
        found = await self._reservations.current(by.tenant_id)
        return [each for each in found if by.may_decide or each.user_id == by.user_id]


def _missing(item_id: str) -> NotFound:
    return NotFound(f"nothing in the inbox is called {item_id!r}", item_id=item_id, fix="twinraven inbox list")


def _refuse_agent(item_id: str, by: Principal) -> None:
    if by.kind == "agent":
        raise PolicyViolation("a person must decide what waits for people", item_id=item_id, user_id=by.user_id)


def _refuse_over(item: InboxItem) -> None:
    if item.state != "open":
        raise IllegalTransition(
            f"{item.item_id!r} is {item.state}; only what is open can be decided",
            item_id=item.item_id,
            state=item.state,
            decided_by=item.decided_by,
        )


def _check(item: InboxItem, said: InboxAnswer) -> None:
    """Refuse a decision that is not one of the choices, lacks what the choice needs, or was made on something else."""
    if len(said.bound_to) < SHORTEST_HASH:
        raise InvalidInput(
            f"bound_to must repeat at least {SHORTEST_HASH} characters of the hash that was shown", field="bound_to"
        )
    if not item.bound_to.startswith(said.bound_to):
        raise StaleState(
            "what would be decided is not what was shown; look again and decide on that",
            item_id=item.item_id,
            expected=said.bound_to,
            current=item.bound_to,
        )
    choice = item.choice(said.choice)
    if choice is None:
        names = ", ".join(each.name for each in item.choices)
        raise InvalidInput(f"choice must be one of {names}, not {said.choice!r}", field="choice")
    if len(said.note) > LONGEST_NOTE:
        raise InvalidInput(f"note must have at most {LONGEST_NOTE} characters", field="note")
    if choice.needs == "note" and not said.note.strip():
        raise InvalidInput(f"{choice.name} needs a note that says why", field="note")
    if choice.needs != "answer" and said.answer is not None:
        raise InvalidInput(f"{choice.name} takes no answer", field="answer")
    if choice.needs == "answer" and choice.answer_schema is not None:
        compile_schema(dict(choice.answer_schema)).check(said.answer, field="answer")
