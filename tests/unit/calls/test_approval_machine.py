"""The life of approvals against a model of it: whatever people and callers do, in whatever order."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.approving import BOB, TTL_S, House, code
from twinraven.foundation.errors import IllegalTransition
from twinraven.storage import open_database

T = TypeVar("T")
KEYS = st.sampled_from(["a", "b", None])


@dataclass
class Expected:
    """What the model knows of one request."""

    approval_id: str
    asked_at: int
    verdict: Literal["granted", "denied"] | None = None
    is_used: bool = False

    def state(self, now: int) -> str:
        if self.verdict == "denied":
            return "denied"
        if self.is_used:
            return "used"
        if now >= self.asked_at + TTL_S * 1_000_000:
            return "expired"
        return self.verdict or "pending"


class ApprovalLife(RuleBasedStateMachine):
    """Calls under two keys and under none, decisions, failures and time."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self._database = open_database(f"sqlite:///{folder / 'twinraven.db'}")
        self._database.migrate()
        self._loop = asyncio.new_event_loop()
        self.house = House(self._database, folder)
        self.latest: dict[str | None, Expected] = {}
        self.all: list[Expected] = []
        self.effects = 0
        self.made = 0

    def teardown(self) -> None:
        self.house.collector.close()
        self._database.close()
        self._loop.close()
        self._folder.cleanup()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    @rule(key=KEYS, is_down=st.booleans())
    def call(self, key: str | None, is_down: bool) -> None:
        """The answer is the one the model's state of the request calls for."""
        self.house.desk.is_down = is_down
        now = self.house.now
        self.made += 1
        response = self.run(self.house.ask(key=key, spare=f"spare-{self.made}"))
        known = self.latest.get(key)
        state = "none" if known is None else known.state(now)
        is_over = known is not None and now >= known.asked_at + TTL_S * 1_000_000
        if known is None or state == "expired" or (state == "denied" and is_over) or (state == "used" and key is None):
            assert code(response) == "APPROVAL_PENDING"
            assert response.error is not None
            made = Expected(response.error["details"]["approval_id"], now)
            assert made.approval_id not in {one.approval_id for one in self.all}
            self.latest[key] = made
            self.all.append(made)
        elif state == "used":
            assert response.replayed
        elif state == "granted" and not is_down:
            assert response.status == "success"
            known.is_used = True
            self.effects += 1
        else:
            wanted = {"pending": "APPROVAL_PENDING", "denied": "APPROVAL_DENIED", "granted": "TOOL_UNAVAILABLE"}
            assert code(response) == wanted[state]

    @rule(number=st.integers(0, 9), grants=st.booleans())
    def decide(self, number: int, grants: bool) -> None:
        """Only what is pending can be decided."""
        if not self.all:
            return
        known = self.all[number % len(self.all)]
        act = self.house.approvals.grant if grants else self.house.approvals.deny
        try:
            self.run(act("default", known.approval_id, by=BOB))
        except IllegalTransition:
            assert known.state(self.house.now) != "pending"
        else:
            assert known.state(self.house.now) == "pending"
            known.verdict = "granted" if grants else "denied"

    @rule(seconds=st.sampled_from([1, TTL_S // 2, TTL_S]))
    def wait(self, seconds: int) -> None:
        self.house.pass_s(seconds)

    @invariant()
    def states_and_effects_agree(self) -> None:
        """As many effects as grants were spent, and every request is what the model says it is."""
        assert len(self.house.desk.refunded) == self.effects
        found = self.run(self.house.approvals.list("default"))
        assert {one.approval_id: one.state for one in found} == {
            known.approval_id: known.state(self.house.now) for known in self.all
        }


ApprovalLife.TestCase.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestApprovalLife = ApprovalLife.TestCase
