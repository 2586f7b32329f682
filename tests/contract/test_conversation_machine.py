"""Conversations against a model of them that fits on a page, on both stores: whatever is said, branched or cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.postgres import PostgresLogin
from tests.talking import Speaker, talking_home, talking_process
from twinraven.app import TwinRaven
from twinraven.conversations import AnswerUnfinished, ConversationArchived, ConversationTurn, count_tokens
from twinraven.engine import RunEnd
from twinraven.storage import Transaction
from twinraven.tenancy import LOCAL

T = TypeVar("T")
PICK = st.integers(0, 1_000)
SHORT = 60
STEPS = 100_000
PARTS = 10


@dataclass
class Said:
    """An alternative of the model."""

    id: str
    text: str | None
    responds_to: str | None
    number: int
    state: str = "done"
    quotes: tuple[str, ...] = ()


@dataclass
class Place:
    """A turn of the model."""

    id: str
    speaker: str
    parent: str | None
    depth: int
    alternatives: list[Said] = field(default_factory=list[Said])
    active: str = ""

    @property
    def current(self) -> Said:
        return next(each for each in self.alternatives if each.id == self.active)


class Cut(Exception):
    """What ends a process in the middle of a transaction."""


class Talks(RuleBasedStateMachine):
    """Drives one conversation and the model side by side."""

    def __init__(self, raven: TwinRaven, runner: asyncio.Runner) -> None:
        super().__init__()
        self.raven, self.runner = raven, runner
        self.talk = raven.conversations
        self.id = self.run(self.talk.create(by=LOCAL)).conversation_id
        self.places: dict[str, Place] = {}
        self.current: str | None = None
        self.archived = False
        self.said = 0
        self.steps = -1

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    # What the model knows.

    def path(self) -> list[Place]:
        found: list[Place] = []
        place = None if self.current is None else self.places[self.current]
        while place is not None:
            found.insert(0, place)
            place = None if place.parent is None else self.places[place.parent]
        return found

    def deepest(self, place: Place) -> str:
        """Always the newest that answers what is active."""
        while True:
            after = [
                each
                for each in self.places.values()
                if each.parent == place.id and each.current.responds_to == place.active
            ]
            if not after:
                return place.id
            place = max(after, key=lambda each: each.current.number)

    def alternative(self, alternative_id: str) -> Said:
        return next(each for place in self.places.values() for each in place.alternatives if each.id == alternative_id)

    def pick(self, number: int) -> Place:
        return list(self.places.values())[number % len(self.places)]

    def take(self, turn: ConversationTurn) -> None:
        """Learn the ids of what was just added; everything else the model knew before."""
        new = turn.active
        answered = None if turn.parent_turn is None else self.places[turn.parent_turn].active
        place = self.places.setdefault(
            turn.turn_id,
            Place(
                turn.turn_id,
                turn.speaker,
                turn.parent_turn,
                1 if turn.parent_turn is None else self.places[turn.parent_turn].depth + 1,
            ),
        )
        self.said += 1
        state = "generating" if turn.speaker == "agent" else "done"
        place.alternatives.append(Said(new.alternative_id, new.content, answered, self.said, state, new.quotes))
        place.active = new.alternative_id
        self.current = place.id

    def refused(self, answered: str | None) -> type[Exception] | None:
        """What an addition below an alternative is refused with, if it is."""
        if self.archived:
            return ConversationArchived
        if answered is not None and self.alternative(answered).state == "generating":
            return AnswerUnfinished
        return None

    def attempt(
        self, work: Callable[[], Coroutine[Any, Any, ConversationTurn]], refusal: type[Exception] | None
    ) -> None:
        if refusal is None:
            self.take(self.run(work()))
            return
        with pytest.raises(refusal):
            self.run(work())

    # What is done.

    @rule(where=PICK, below_current=st.booleans())
    def say(self, where: int, below_current: bool) -> None:
        parent = self.current
        if not below_current and self.places:
            parent = self.pick(where).id
        answered = None if parent is None else self.places[parent].active
        text = f"said {self.said}"
        self.attempt(lambda: self.talk.say(self.id, text, parent_turn=parent, by=LOCAL), self.refused(answered))

    @precondition(lambda self: self.places)
    @rule(where=PICK)
    def answer(self, where: int) -> None:
        parent = self.pick(where)
        self.attempt(
            lambda: self.talk.answer(self.id, process_id="plain", parent_turn=parent.id, by=LOCAL),
            self.refused(parent.active),
        )

    @precondition(lambda self: self.places)
    @rule(where=PICK)
    def add_alternative(self, where: int) -> None:
        place = self.pick(where)
        answered = None if place.parent is None else self.places[place.parent].active
        if place.speaker == "agent":
            self.attempt(lambda: self.talk.regenerate(self.id, place.id, by=LOCAL), self.refused(answered))
        else:
            text = f"edited {self.said}"
            self.attempt(lambda: self.talk.edit(self.id, place.id, text, by=LOCAL), self.refused(answered))

    @precondition(lambda self: self.places)
    @rule(where=PICK, which=PICK)
    def switch(self, where: int, which: int) -> None:
        place = self.pick(where)
        chosen = place.alternatives[which % len(place.alternatives)]
        work = self.talk.switch(self.id, place.id, chosen.id, by=LOCAL)
        if self.archived:
            with pytest.raises(ConversationArchived):
                self.run(work)
            return
        self.run(work)
        place.active = chosen.id
        self.current = self.deepest(place)

    @precondition(lambda self: self.current is not None and not self.archived)
    @rule(where=PICK, which=PICK)
    def quote(self, where: int, which: int) -> None:
        place = self.pick(where)
        quoted = place.alternatives[which % len(place.alternatives)]
        assert self.current is not None
        on_path = {each.active for each in self.path()}
        below = self.places[self.current].active
        if quoted.state != "done" or quoted.id in on_path or self.refused(below) is not None:
            return
        text = f"quoting {self.said}"
        self.take(self.run(self.talk.say(self.id, text, quotes=[quoted.id], by=LOCAL)))

    @rule(which=PICK, succeeds=st.booleans())
    def end_an_answer(self, which: int, succeeds: bool) -> None:
        """A run ends, and what it says later of the same answer counts for nothing."""
        open_ones = [s for place in self.places.values() for s in place.alternatives if s.state == "generating"]
        if not open_ones:
            return
        chosen = open_ones[which % len(open_ones)]
        text = f"answer {chosen.number}"
        error: dict[str, Any] = {"code": "X", "message": "m", "retryable": False, "details": {}}
        self.end(chosen.id, text if succeeds else None, None if succeeds else error)
        self.end(chosen.id, None if succeeds else text, error if succeeds else None)
        chosen.state, chosen.text = ("done", text) if succeeds else ("failed", None)

    def end(self, alternative_id: str, text: str | None, error: dict[str, Any] | None) -> None:
        state = "succeeded" if error is None else "failed"
        end = RunEnd("default", f"turn-{alternative_id}", state, text, error)
        self.run(self.raven.database.write("default", lambda tx: self.talk.on_run_end(tx, end)))

    @rule()
    def archive(self) -> None:
        work = self.talk.unarchive if self.archived else self.talk.archive
        self.run(work(self.id, by=LOCAL))
        self.archived = not self.archived

    @precondition(lambda self: self.current is not None and not self.archived)
    @rule()
    def fork(self) -> None:
        path = self.path()
        if path[-1].current.state == "generating":
            return
        if any(place.current.state == "generating" for place in path):
            return
        made = self.run(self.talk.fork(self.id, by=LOCAL))
        copied = self.run(self.talk.path(made.conversation_id, by=LOCAL))
        assert [(turn.speaker, turn.active.content) for turn in copied] == [
            (place.speaker, place.current.text) for place in path
        ]
        assert made.forked_from is not None
        assert made.forked_from.alternative_id == path[-1].active

    @precondition(lambda self: not self.archived)
    @rule(where=PICK)
    def crash(self, where: int) -> None:
        """A process that ends before the commit leaves nothing behind."""
        database = self.raven.database
        kept = self.talk._database  # pyright: ignore[reportPrivateUsage]

        class CutOff:
            def __getattr__(self, name: str) -> Any:
                return getattr(database, name)

            async def write(self, tenant_id: str, work: Callable[[Transaction], Any]) -> Any:
                def cut(tx: Transaction) -> None:
                    work(tx)
                    raise Cut

                return await database.write(tenant_id, cut)

        self.talk._database = CutOff()  # type: ignore[assignment]  # pyright: ignore
        try:
            place = self.pick(where) if self.places else None
            refusal = self.refused(None if place is None else place.active)
            with pytest.raises(refusal or Cut):
                self.run(self.talk.say(self.id, "lost", parent_turn=None if place is None else place.id, by=LOCAL))
        finally:
            self.talk._database = kept  # pyright: ignore[reportPrivateUsage]

    # What must hold.

    @invariant()
    def working_memory_is_the_active_path(self) -> None:
        memory = self.run(self.talk.memory(self.id, by=LOCAL))
        expected = [place for place in self.path() if place.current.state == "done"]
        assert [item.alternative_id for item in memory.of("path")] == [place.active for place in expected]
        assert [item.text for item in memory.of("path")] == [place.current.text for place in expected]
        quoted = {each for place in expected for each in place.current.quotes}
        assert {item.alternative_id for item in memory.of("quote")} == quoted
        assert memory.total_tokens == sum(count_tokens(item.text) for item in memory.items)

    @invariant()
    def counted(self) -> None:
        self.steps += 1  # invariants are checked once before the first step

    @invariant()
    def the_tree_is_as_the_model_says(self) -> None:
        turns = {turn.turn_id: turn for turn in self.run(self.talk.turns(self.id, by=LOCAL, limit=1_000))}
        assert turns.keys() == self.places.keys()
        for place in self.places.values():
            turn = turns[place.id]
            assert (turn.sequence, turn.parent_turn, turn.speaker) == (place.depth, place.parent, place.speaker)
            assert [each.alternative_id for each in turn.alternatives if each.is_active] == [place.active]
            assert [each.sequence for each in turn.alternatives] == list(range(1, len(place.alternatives) + 1))
            for stored, known in zip(turn.alternatives, place.alternatives, strict=True):
                answered = known.responds_to
                assert (stored.content, stored.state, stored.responds_to) == (known.text, known.state, answered)
                stale = known.state != "generating" and place.speaker == "agent" and place.parent is not None
                stale = stale and self.places[str(place.parent)].active != answered
                expected = "generating" if known.state == "generating" else "stale" if stale else "valid"
                assert stored.cache_status == expected
                children = [
                    s for other in self.places.values() for s in other.alternatives if s.responds_to == known.id
                ]
                assert stored.has_children == bool(children)


def drive(store: str, folder: Path, request: pytest.FixtureRequest, *, steps: int) -> None:
    """Drive conversations of one home for so many steps at least, in examples of some dozens."""
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if store == "postgres" else None
    with talking_home(folder, Speaker(), postgres=login) as raven, asyncio.Runner() as runner:
        runner.run(raven.processes.save(talking_process("plain"), by=LOCAL))
        done = 0

        class TalksHere(Talks):
            def __init__(self) -> None:
                super().__init__(raven, runner)

            def teardown(self) -> None:
                nonlocal done
                done += self.steps

        while done < steps:
            run_state_machine_as_test(
                TalksHere,
                settings=settings(
                    max_examples=max(6, (steps - done) // 50),
                    stateful_step_count=50 if steps > SHORT else 25,
                    deadline=None,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
                ),
            )


@pytest.mark.req("AD-17", "AD-19", "AD-22")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_conversations_are_as_their_model(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Turns, edits, regenerations, switches, quotes, forks, archiving and crashes, in any order."""
    drive(store, tmp_path, request, steps=SHORT)


@pytest.mark.soak
@pytest.mark.req("AD-17", "AD-19", "AD-22")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize("part", range(PARTS), ids=lambda part: f"part{part}")
def test_conversations_are_as_their_model_for_long(
    store: str, part: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The same for a hundred thousand steps on each store; parts run alone (`-k part7-sqlite`) or at once (`-n 2`)."""
    del part
    drive(store, tmp_path, request, steps=STEPS // PARTS)
