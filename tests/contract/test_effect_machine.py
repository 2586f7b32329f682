"""Whatever agents, judges, providers and people do in any order, money and effects are as a simple model has them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.effect_model import (
    FAULTS,
    Died,
    EffectModel,
    KnownEffect,
    KnownTask,
    KnownWallet,
    ScriptedProvider,
)
from tests.effect_model import MOST_ATTEMPTS as MOST_DELIVERIES
from tests.governing import AGENT, decision, outside, result
from tests.homes import make_home
from tests.postgres import PostgresServer
from twinraven.app import TwinRaven, open_home
from twinraven.effects import MessageRequest, PaymentRequest, PublishRequest
from twinraven.flow import Waiting
from twinraven.foundation.errors import TwinRavenError
from twinraven.governance import format_minor
from twinraven.inbox import InboxAnswer, InboxItem
from twinraven.tenancy import LOCAL

T = TypeVar("T")
MOST_ATTEMPTS: Final = 3
"""Of a task, as retry policies have it unless a plan says otherwise."""
MOST_TASKS, MOST_EFFECTS = 4, 24
LOOK_EVERY: Final = 5
NUMBER = st.integers(0, 99)
KEY = st.sampled_from([f"key-{number}" for number in range(32)])
FAULT = st.sampled_from(FAULTS)
CENTS = st.sampled_from([100, 250, 999])


class EffectMachine(RuleBasedStateMachine):
    """Does things to tasks, wallets, a budget, effects and the inbox, and expects what the model says."""

    server: PostgresServer | None = None
    visited: Counter[str]
    """The states that effects were in, so that a machine which goes nowhere does not pass for one that works."""

    def __init__(self) -> None:
        super().__init__()
        self.runner, self.stack, self.opened, self.steps = asyncio.Runner(), ExitStack(), ExitStack(), 0
        folder = Path(self.stack.enter_context(TemporaryDirectory()))
        login = None if self.server is None else self.stack.enter_context(self.server.fresh_database())
        self.home = make_home(folder, postgres=login, policy={"judge": "outside"})
        self.bank = ScriptedProvider("bank", "transaction", is_keyed=False)
        self.press = ScriptedProvider("press", "publish", "message", is_keyed=True)
        self.model = EffectModel(budget_total=3_000)
        self.raven = self.open()
        campaign = self.run(self.raven.campaigns.create("spring", by=LOCAL))
        self.campaign_id, self.campaign_version = campaign.campaign_id, 1
        self.goal_id = self.run(self.raven.campaigns.add_goal(self.campaign_id, "be seen", by=LOCAL)).goal_id
        making = self.raven.campaigns.add_budget(self.campaign_id, total="30.00", currency="EUR", by=LOCAL)
        self.budget_id, self.budget_version = self.run(making).budget_id, 1
        for provider in ("ledger", "bank"):
            wallet = self.run(self.raven.wallets.open("spring", "EUR", by=LOCAL, provider=provider)).wallet
            self.model.wallets[wallet.wallet_id] = KnownWallet(is_local=provider == "ledger")
            self.fund(len(self.model.wallets) - 1, 2_000, "f0")
        for number, limit in enumerate((None, 600)):
            self.plan(limit)
            self.judge(number, "approve")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def open(self) -> TwinRaven:
        raven = self.opened.enter_context(open_home(self.home))
        raven.delivery.replace_provider(self.bank)
        raven.delivery.replace_provider(self.press)
        return raven

    def attempted(self, work: Coroutine[Any, Any, T], *, succeeds: bool) -> T | None:
        """Do something that the model expects to succeed, or to be refused without a change."""
        try:
            done = self.run(work)
        except TwinRavenError as error:
            assert not succeeds, error
            return None
        assert succeeds, done
        return done

    def task(self, number: int) -> str:
        return list(self.model.tasks)[number % len(self.model.tasks)]

    def wallet(self, number: int) -> str:
        return list(self.model.wallets)[number % len(self.model.wallets)]

    def effect(self, number: int, *statuses: str) -> tuple[str, KnownEffect]:
        """One of the effects, if there are any in these states one of those."""
        fitting = [each for each in self.model.effects.items() if each[1].status in statuses]
        found = fitting or list(self.model.effects.items())
        return found[number % len(found)]

    @rule(limit=st.sampled_from([None, 600]))
    def plan(self, limit: int | None) -> None:
        if len(self.model.tasks) < MOST_TASKS and not self.model.is_paused:
            bound = {} if limit is None else {"constraints": {"max_budget": "6.00", "currency": "EUR"}}
            wanted = [outside(f"t{len(self.model.tasks)}", **bound)]
            (task,) = self.run(self.raven.planner.plan(self.goal_id, wanted, by=LOCAL))
            self.run(self.raven.attempts.submit(result(task), by=AGENT))
            self.model.tasks[task.task_id] = KnownTask(limit)

    @precondition(lambda self: self.model.tasks)
    @rule(number=NUMBER, verdict=st.sampled_from(["approve", "approve", "approve", "reject", "escalate"]))
    def judge(self, number: int, verdict: str) -> None:
        task = self.task(number)
        may = self.model.tasks[task].status in ("review", "escalated", "complete", "rejected")
        detail = self.run(self.raven.tasks.get("default", task))
        if self.attempted(self.raven.judge.decide(decision(detail, verdict), by=LOCAL), succeeds=may):
            self.model.judge(task, verdict, most_attempts=MOST_ATTEMPTS)
            self.attempted(self.raven.judge.decide(decision(detail, verdict), by=LOCAL), succeeds=False)

    @precondition(lambda self: any(task.status == "pending" for task in self.model.tasks.values()))
    @rule(number=NUMBER)
    def rework(self, number: int) -> None:
        waiting = [task for task, known in self.model.tasks.items() if known.status == "pending"]
        task = waiting[number % len(waiting)]
        known = self.model.tasks[task]
        reporting = self.raven.attempts.submit(result(task, known.attempts + 1), by=AGENT)
        if self.attempted(reporting, succeeds=not self.model.is_paused):
            known.status, known.attempts = "review", known.attempts + 1

    @rule(number=NUMBER, cents=CENTS, key=st.sampled_from(["f1", "f2", "f3"]))
    def fund(self, number: int, cents: int, key: str) -> None:
        wallet = self.wallet(number)
        known = self.model.wallets[wallet]
        may = known.status == "open" and known.funded.get(key, cents) == cents
        if self.attempted(self.raven.wallets.fund(wallet, format_minor(cents, "EUR"), key=key, by=LOCAL), succeeds=may):
            known.free += 0 if key in known.funded else cents
            known.funded[key] = cents

    @precondition(lambda self: self.model.tasks)
    @rule(number=NUMBER, wallet=NUMBER, cents=CENTS, key=KEY, faults=st.lists(FAULT, max_size=3))
    def pay(self, number: int, wallet: int, cents: int, key: str, faults: list[str]) -> None:
        task, place = self.task(number), self.wallet(wallet)
        made = KnownEffect("transaction", ("pay", task, place, cents), task, place, cents)
        wish = PaymentRequest(task, place, format_minor(cents, "EUR"), "EUR", "printer", key)
        self._wished(key, made, self.raven.effects.pay(wish, by=LOCAL), may=self.model.may_pay(task, place, cents))
        self._deliver_key(key, faults)

    @precondition(lambda self: self.model.tasks)
    @rule(number=NUMBER, text=st.sampled_from("ab"), key=KEY, faults=st.lists(FAULT, max_size=3))
    def message(self, number: int, text: str, key: str, faults: list[str]) -> None:
        task = self.task(number)
        made = KnownEffect("message", ("message", task, text), task)
        wish = MessageRequest(task, "mail", "ann", text, key, provider="press")
        self._wished(key, made, self.raven.effects.message(wish, by=LOCAL), may=self.model.passes_gate(task))
        self._deliver_key(key, faults)

    @precondition(lambda self: self.model.tasks)
    @rule(number=NUMBER, text=st.sampled_from("ab"), key=KEY, faults=st.lists(FAULT, max_size=3))
    def publish(self, number: int, text: str, key: str, faults: list[str]) -> None:
        task = self.task(number)
        made = KnownEffect("publish", ("publish", task, text), task)
        wish = PublishRequest(task, "blog", text, key, provider="press")
        self._wished(key, made, self.raven.effects.publish(wish, by=LOCAL), may=self.model.passes_gate(task))
        self._deliver_key(key, faults)

    def _wished(self, key: str, made: KnownEffect, asking: Coroutine[Any, Any, Any], *, may: bool) -> None:
        """A key that was used gives the effect that is there, or is refused; a new one makes an effect."""
        known = self.model.keys.get(key)
        if known is None and len(self.model.effects) >= MOST_EFFECTS:
            asking.close()
            return
        if known is not None:
            may = self.model.effects[known].wish == made.wish
        found = self.attempted(asking, succeeds=may)
        if found is not None:
            said = found.as_json()
            effect_id = said[f"{made.kind}_id"]
            assert known in (None, effect_id)
            if known is None:
                self.model.add(effect_id, key, made)

    @precondition(lambda self: self.model.effects)
    @rule(number=NUMBER, faults=st.lists(FAULT, min_size=1, max_size=4))
    def deliver(self, number: int, faults: list[str]) -> None:
        """Deliveries of one effect, as workers do them until it is settled."""
        effect_id, known = self.effect(number, "scheduled", "approved", "sending", "unknown")
        for fault in faults:
            self._deliver(effect_id, known, fault)

    @precondition(lambda self: self.model.effects)
    @rule(number=NUMBER, fault=st.sampled_from(["unreachable", "drop_before", "mute"]))
    def deliver_in_vain(self, number: int, fault: str) -> None:
        """As many deliveries of one effect as there are attempts."""
        effect_id, known = self.effect(number, "scheduled", "approved")
        while known.attempts < MOST_DELIVERIES and known.status in ("scheduled", "approved", "sending"):
            self._deliver(effect_id, known, fault)

    def _deliver_key(self, key: str, faults: list[str]) -> None:
        """Deliveries of what was asked for under a key, if it was allowed."""
        effect_id = self.model.keys.get(key)
        for fault in faults if effect_id is not None else ():
            self._deliver(str(effect_id), self.model.effects[str(effect_id)], fault)

    def _deliver(self, effect_id: str, known: KnownEffect, fault: str) -> None:
        """One delivery; a provider may fail, and the process may die in the middle."""
        provider = self.bank if known.kind == "transaction" else self.press
        provider.fault = fault
        try:
            self.run(self.raven.delivery.deliver("default", {"kind": known.kind, "effect_id": effect_id}))
        except Waiting:
            pass
        except Died:
            self.reopen()
        provider.fault = "none"
        self.model.deliver(known, fault, is_keyed=provider.recognises_keys)
        self.visited[known.status] += 1

    @precondition(lambda self: self.model.effects)
    @rule(number=NUMBER)
    def cancel(self, number: int) -> None:
        effect_id, known = self.effect(number)
        cancelling = self.raven.effects.cancel(known.kind, effect_id, by=LOCAL)
        if self.attempted(cancelling, succeeds=self.model.may_cancel(known)):
            self.model.cancel(known)
            self.visited["cancelled"] += 1

    @precondition(lambda self: any(each.wallet for each in self.model.effects.values()))
    @rule(number=NUMBER)
    def reverse(self, number: int) -> None:
        payments = [(name, each) for name, each in self.model.effects.items() if each.wallet is not None]
        effect_id, known = payments[number % len(payments)]
        reversing = self.raven.effects.reverse(effect_id, by=LOCAL, note="a mistake")
        if self.attempted(reversing, succeeds=self.model.may_reverse(known)):
            self.model.reverse(known)

    @rule(number=NUMBER, status=st.sampled_from(["open", "open", "open", "frozen", "closed"]))
    def turn_wallet(self, number: int, status: Any) -> None:
        wallet = self.wallet(number)
        known = self.model.wallets[wallet]
        follows = {"open": ("frozen", "closed"), "frozen": ("open", "closed"), "closed": ()}[known.status]
        may = status in follows and (status != "closed" or not (known.free or known.held))
        if self.attempted(self.raven.wallets.set_status(wallet, status, by=LOCAL), succeeds=may):
            known.status = status

    @rule(cents=st.sampled_from([500, 3_000, 9_000]), status=st.sampled_from(["open", "open", "closed"]))
    def turn_budget(self, cents: int, status: Any) -> None:
        total, seen = format_minor(cents, "EUR"), self.budget_version
        changing = self.raven.campaigns.change_budget
        self.run(changing(self.budget_id, by=LOCAL, state_version=seen, total=total, status=status))
        self.budget_version += 1
        self.model.budget_total, self.model.is_budget_open = cents, status == "open"
        late = changing(self.budget_id, by=LOCAL, state_version=seen, total=total)
        self.attempted(late, succeeds=False)

    @rule(status=st.sampled_from(["active", "active", "paused"]))
    def pause_or_resume(self, status: Any) -> None:
        seen = self.campaign_version
        self.run(self.raven.campaigns.change(self.campaign_id, by=LOCAL, state_version=seen, status=status))
        self.model.is_paused, self.campaign_version = status == "paused", seen + 1

    @precondition(lambda self: self.expected_items())
    @rule(number=NUMBER, approves=st.booleans())
    def answer(self, number: int, approves: bool) -> None:
        """A person decides what waits, truthfully where it is about what happened; a second answer is refused."""
        items = self.run(self.raven.inbox.list(by=LOCAL))
        item = items[number % len(items)]
        said = InboxAnswer("approve" if approves else "reject", item.bound_to, note="looked at it")
        if item.kind == "unknown_effect":
            known = self.model.effects[item.ref.partition(":")[2]]
            known_as = InboxAnswer("happened", item.bound_to, answer="ext-1")
            said = known_as if known.happened else InboxAnswer("did_not_happen", item.bound_to)
            (self.model.settle if known.happened else self.model.fail)(known)
        else:
            self.model.judge(item.target, said.choice, most_attempts=MOST_ATTEMPTS)
        self.run(self.raven.inbox.decide(item.item_id, said, by=LOCAL))
        self.attempted(self.raven.inbox.decide(item.item_id, said, by=LOCAL), succeeds=False)

    @rule()
    def reopen(self) -> None:
        self.opened.close()
        self.raven = self.open()

    def expected_items(self) -> set[str]:
        unknown = {name for name, each in self.model.effects.items() if each.status == "unknown"}
        return unknown | {name for name, each in self.model.tasks.items() if each.status == "escalated"}

    @invariant()
    def agrees_now_and_then(self) -> None:
        """Look at everything after some of the steps, and at the end: most of what a history costs is looking."""
        self.steps += 1
        if self.steps % LOOK_EVERY == 0:
            self.agrees()

    def agrees(self) -> None:
        self.effects_agree()
        self.money_agrees()
        self.inbox_agrees()

    def effects_agree(self) -> None:
        """Every effect stands where the model has it, and happened outside once or not at all."""
        for effect_id, known in self.model.effects.items():
            found: Any = self.run(self.raven.effects.get(known.kind, effect_id, by=LOCAL))
            attempts = found.attempts if known.kind == "transaction" else found.outgoing.attempts
            assert (found.status, attempts) == (known.status, known.attempts)
            times = self.bank.happened[effect_id] + self.press.happened[effect_id]
            assert times == int(known.happened)
            if known.status in ("failed", "cancelled"):
                assert times == 0

    def money_agrees(self) -> None:
        """Wallets and the budget hold what the model says, and every currency adds up to zero."""
        for wallet_id, known in self.model.wallets.items():
            found = self.run(self.raven.wallets.get("default", wallet_id))
            assert (found.wallet.status, found.free, found.held) == (known.status, known.free, known.held)
        report = self.run(self.raven.ledger.verify("default"))
        assert report.ok, report
        if any(each.wallet for each in self.model.effects.values()):
            spent = self.run(self.raven.ledger.account("default", f"spent:{self.budget_id}"))
            assert spent.balance == self.model.budget_spent

    def inbox_agrees(self) -> None:
        """What waits for people is what nobody knows about, and what a judge left to them."""

        def subject(item: InboxItem) -> str:
            return item.ref.partition(":")[2] if item.kind == "unknown_effect" else item.target

        assert {subject(item) for item in self.run(self.raven.inbox.list(by=LOCAL))} == self.expected_items()
        for task, known in self.model.tasks.items():
            assert self.run(self.raven.tasks.get("default", task)).task.status == known.status

    def teardown(self) -> None:
        self.agrees()
        report = self.run(self.raven.audit.verify("default"))
        assert (report.ok, report.unlinked) == (True, ())
        self.opened.close()
        self.stack.close()
        self.runner.close()


_SLOW: Final = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
_QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate], suppress_health_check=_SLOW)
_LONG = settings(deadline=None, suppress_health_check=_SLOW)
ENDS: Final = frozenset({"executed", "published", "sent", "failed", "cancelled", "unknown", "sending"})
STORES = pytest.mark.parametrize("store", ["sqlite", "postgres"])


def _machine(store: str, request: pytest.FixtureRequest) -> type[EffectMachine]:
    server = request.getfixturevalue("postgres_server") if store == "postgres" else None
    return type("EffectMachineHere", (EffectMachine,), {"server": server, "visited": Counter[str]()})


@pytest.mark.req("CH-16", "CH-20", "CH-24")
@STORES
def test_every_fault_ends_as_the_model_says(store: str, request: pytest.FixtureRequest) -> None:
    """Each fault of a provider that knows keys and of one that does not, then a delivery without one; then people."""
    machine = _machine(store, request)()
    agrees = machine.agrees
    for number, fault in enumerate(dict.fromkeys(FAULTS)):
        (machine.message if number % 2 else machine.publish)(0, "a", f"post-{number}", [fault, "none"])
        machine.pay(0, 1, 100, f"bank-{number}", [fault, "none"])
        agrees()
    machine.pay(0, 0, 250, "own", ["none"])
    machine.publish(0, "a", "far", [])
    machine.deliver_in_vain(0, "drop_before")
    machine.pay(0, 0, 100, "late", [])
    machine.turn_wallet(0, "frozen")
    machine.deliver(0, ["none"])
    agrees()
    for number in range(len(machine.model.effects)):
        machine.cancel(number)
        machine.cancel(number)
        machine.reverse(number)
    agrees()
    machine.judge(0, "escalate")
    while machine.expected_items():
        machine.answer(0, approves=True)
    agrees()
    machine.teardown()
    assert machine.visited.keys() >= ENDS, machine.visited


@STORES
def test_effects_agree_with_the_model(store: str, request: pytest.FixtureRequest) -> None:
    """A few histories, the same ones in every run."""
    few = settings(_QUICK, max_examples=3 if store == "sqlite" else 2, stateful_step_count=30)
    run_state_machine_as_test(_machine(store, request), settings=few)


@pytest.mark.soak
@STORES
def test_effects_agree_with_the_model_for_long(store: str, request: pytest.FixtureRequest) -> None:
    """A hundred thousand steps on both stores together, new ones each time, through every end there is."""
    machine = _machine(store, request)
    many = settings(_LONG, max_examples=400 if store == "sqlite" else 100, stateful_step_count=200)
    run_state_machine_as_test(machine, settings=many)
    assert machine.visited.keys() >= ENDS, machine.visited
