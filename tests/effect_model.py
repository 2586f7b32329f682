"""A simple model of effects, wallets and a budget, and providers whose next answer a test chooses.

The model knows no database, no runs and no ledger: it says what a wish, a delivery, a cancellation or a person's word
must come to, in a few dozen lines that can be read against docs/effects.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from twinraven.effects import EffectKind, EffectOrder, ProviderAnswer
from twinraven.effects.errors import ProviderRefused, ProviderSilent, ProviderUnreachable

MOST_ATTEMPTS: Final = 8
FAULTS: Final = (
    "none", "none", "refuse", "unreachable", "drop_before", "drop_after", "bug_after", "mute", "die_before",
    "die_after",
)  # fmt: skip
DONE: Final = {"publish": "published", "message": "sent", "transaction": "executed"}


class Died(BaseException):
    """The process ends here, as kill -9 would have it: nothing after this runs."""


class ScriptedProvider:
    """A provider that does what it is told the next time it is asked, and counts what really happened."""

    def __init__(self, name: str, *kinds: EffectKind, is_keyed: bool) -> None:
        self.name = name
        self.kinds = frozenset(kinds)
        self.recognises_keys = self.can_be_asked = is_keyed
        self.fault = "none"
        self.happened: Counter[str] = Counter()

    async def send(self, order: EffectOrder) -> ProviderAnswer:
        if self.fault == "refuse":
            raise ProviderRefused("no")
        if self.fault == "unreachable":
            raise ProviderUnreachable("away")
        if self.fault == "drop_before":
            raise ProviderSilent("nothing was heard")
        if self.fault == "die_before":
            raise Died
        if not (self.recognises_keys and self.happened[order.effect_id]):
            self.happened[order.effect_id] += 1
        if self.fault == "drop_after":
            raise ProviderSilent("nothing was heard")
        if self.fault == "bug_after":
            raise ValueError("a mistake in somebody's provider")
        if self.fault == "die_after":
            raise Died
        return ProviderAnswer(f"ext-{order.effect_id}")

    async def find(self, order: EffectOrder) -> ProviderAnswer | None:
        if self.fault == "mute":
            raise ProviderSilent("nothing was heard")
        return ProviderAnswer(f"ext-{order.effect_id}") if self.happened[order.effect_id] else None


@dataclass
class KnownWallet:
    """A wallet as the model has it, in cents."""

    is_local: bool
    status: str = "open"
    free: int = 0
    held: int = 0
    funded: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class KnownTask:
    """A task as effects see it."""

    max_budget: int | None
    status: str = "review"
    attempts: int = 1


@dataclass
class KnownEffect:
    """An effect as the model has it."""

    kind: EffectKind
    wish: tuple[object, ...]
    task: str
    wallet: str | None = None
    amount: int = 0
    status: str = "scheduled"
    attempts: int = 0
    was_sent: bool = False
    """Whether an attempt that is not settled may have reached the provider."""
    happened: bool = False
    is_reversed: bool = False

    @property
    def done(self) -> str:
        return DONE[self.kind]

    @property
    def is_counted(self) -> bool:
        """Whether it counts against its task's max_budget."""
        return self.status not in ("failed", "cancelled") and not self.is_reversed


@dataclass
class EffectModel:
    """Everything that the machine knows."""

    tasks: dict[str, KnownTask] = field(default_factory=dict[str, KnownTask])
    wallets: dict[str, KnownWallet] = field(default_factory=dict[str, KnownWallet])
    effects: dict[str, KnownEffect] = field(default_factory=dict[str, KnownEffect])
    keys: dict[str, str] = field(default_factory=dict[str, str])
    is_paused: bool = False
    budget_total: int = 0
    is_budget_open: bool = True

    @property
    def budget_spent(self) -> int:
        return sum(each.amount for each in self.effects.values() if each.is_counted)

    def task_spent(self, task: str) -> int:
        return sum(each.amount for each in self.effects.values() if each.task == task and each.is_counted)

    def passes_gate(self, task: str) -> bool:
        return self.tasks[task].status == "complete" and not self.is_paused

    def may_pay(self, task: str, wallet: str, amount: int) -> bool:
        limit, place = self.tasks[task].max_budget, self.wallets[wallet]
        return (
            self.passes_gate(task)
            and (limit is None or self.task_spent(task) + amount <= limit)
            and place.status == "open"
            and self.is_budget_open
            and amount <= min(place.free, self.budget_total - self.budget_spent)
        )

    def add(self, effect_id: str, key: str, effect: KnownEffect) -> None:
        self.effects[effect_id], self.keys[key] = effect, effect_id
        if effect.wallet is not None:
            effect.status = "approved"
            self._hold(effect, effect.amount)

    def judge(self, task: str, verdict: str, *, most_attempts: int) -> None:
        known = self.tasks[task]
        back = "pending" if known.attempts < most_attempts else "rejected"
        known.status = {"approve": "complete", "reject": back, "escalate": "escalated"}[verdict]

    def may_cancel(self, effect: KnownEffect) -> bool:
        is_new = effect.status in ("scheduled", "approved", "cancelled")
        return is_new or (effect.kind != "transaction" and effect.status == "failed")

    def cancel(self, effect: KnownEffect) -> None:
        if effect.status != "cancelled":
            self._give_back(effect)
            effect.status = "cancelled"

    def may_reverse(self, effect: KnownEffect) -> bool:
        if effect.wallet is None or effect.is_reversed:
            return effect.is_reversed
        wallet = self.wallets[effect.wallet]
        return effect.status == "executed" and wallet.is_local and wallet.status != "closed"

    def reverse(self, effect: KnownEffect) -> None:
        assert effect.wallet is not None
        if not effect.is_reversed:
            self.wallets[effect.wallet].free += effect.amount
            effect.is_reversed = True

    def deliver(self, effect: KnownEffect, fault: str, *, is_keyed: bool) -> None:
        """What one delivery comes to where the provider does as `fault` says."""
        if effect.status == "unknown":
            if is_keyed and fault != "mute" and effect.happened:
                self.settle(effect)
        elif effect.status == "sending" and effect.was_sent:
            effect.attempts += 1
            self._send_again(effect, fault, is_keyed=is_keyed)
        elif effect.status in ("scheduled", "approved", "sending"):
            if self._is_withdrawn(effect):
                self.fail(effect)
            elif effect.wallet is not None and self.wallets[effect.wallet].is_local:
                self.settle(effect)
            else:
                effect.attempts += 1
                self._send(effect, fault, is_keyed=is_keyed)

    def settle(self, effect: KnownEffect) -> None:
        effect.status = effect.done
        if effect.wallet is not None:
            self.wallets[effect.wallet].held -= effect.amount

    def fail(self, effect: KnownEffect) -> None:
        self._give_back(effect)
        effect.status = "failed"

    def _send_again(self, effect: KnownEffect, fault: str, *, is_keyed: bool) -> None:
        if not is_keyed:
            effect.status = "unknown"
        elif fault == "mute":
            self._wait_or(effect, "unknown")
        elif effect.happened:
            self.settle(effect)
        elif self._is_withdrawn(effect):
            effect.status = "unknown"
        else:
            self._send(effect, fault, is_keyed=is_keyed)

    def _send(self, effect: KnownEffect, fault: str, *, is_keyed: bool) -> None:
        was_sent, effect.status = effect.was_sent, "sending"
        effect.happened |= fault in ("none", "mute", "drop_after", "bug_after", "die_after")
        if fault in ("none", "mute"):
            self.settle(effect)
        elif fault == "refuse":
            self.fail(effect)
        elif fault == "unreachable":
            self._wait_or(effect, "unknown" if was_sent else "failed")
        elif fault in ("die_before", "die_after"):
            effect.was_sent = True
        elif is_keyed:
            self._wait_or(effect, "unknown")
        else:
            effect.status = "unknown"

    def _wait_or(self, effect: KnownEffect, last: str) -> None:
        if effect.attempts < MOST_ATTEMPTS:
            effect.was_sent = last == "unknown"
        elif last == "failed":
            self.fail(effect)
        else:
            effect.status = "unknown"

    def _is_withdrawn(self, effect: KnownEffect) -> bool:
        is_shut = effect.wallet is not None and self.wallets[effect.wallet].status != "open"
        return is_shut or not self.passes_gate(effect.task)

    def _hold(self, effect: KnownEffect, amount: int) -> None:
        assert effect.wallet is not None
        self.wallets[effect.wallet].free -= amount
        self.wallets[effect.wallet].held += amount

    def _give_back(self, effect: KnownEffect) -> None:
        if effect.wallet is not None:
            self._hold(effect, -effect.amount)
