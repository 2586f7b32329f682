"""Delivers effects through providers, as work of durable runs: marked as sending, sent, settled.

Before anything is sent again that may have been sent before, the provider is asked what became of the key. A provider
that recognises keys gets the same key again; one that can only be asked and knows nothing of it, or neither, leaves the
effect unknown. An unknown effect is settled by a person, or by its provider, which is asked again from time to time.
The key is the same for ever. Nothing is sent without an approval in force, however many attempts came before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

from twinraven.calls import Claims, EffectWord
from twinraven.effects.audit_trail import EffectAuditTrail
from twinraven.effects.errors import ProviderRefused, ProviderSilent, ProviderUnreachable
from twinraven.effects.model import (
    LOCAL_LEDGER,
    TABLES,
    WAS_SENT,
    EffectKind,
    EffectOrder,
    ProviderAnswer,
    StoredEffect,
    leaving_of,
    refuse_closed_wallet,
)
from twinraven.effects.money import PaymentBooks
from twinraven.effects.ports import EffectProvider
from twinraven.effects.sql import EffectStore
from twinraven.engine import RunEnd, Runs
from twinraven.flow import Waiting
from twinraven.foundation.actors import SYSTEM
from twinraven.foundation.canonical import JsonObject, canonical_json
from twinraven.foundation.errors import (
    IllegalTransition,
    InvalidInput,
    PolicyViolation,
    StorageError,
    TwinRavenError,
)
from twinraven.governance import Judge
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

T = TypeVar("T")

EFFECT_WORK: Final = "effect"
"""What the engine calls the delivery of an effect."""

_ENDS: Final = {"cancelled": "was cancelled", "set_aside": "was set aside"}
MOST_ATTEMPTS: Final = 8
MOST_UNKNOWN: Final = 1_000
_SECOND: Final = 1_000_000
_LONGEST_PAUSE: Final = 3_600 * _SECOND
"""How long at most a provider is left alone that may learn what became of an unknown effect."""


@dataclass(frozen=True, slots=True)
class DeliveryParts:
    """The dependencies of delivery."""

    database: Database
    runs: Callable[[], Runs]
    claims: Claims
    judge: Callable[[], Judge]
    books: PaymentBooks
    witness: EffectAuditTrail
    micros: Callable[[], int]
    first_pause_s: float = 1.0
    """How long a failed attempt is waited after; each further one twice as long."""


class Delivery:
    """Carries effects out."""

    def __init__(
        self,
        parts: DeliveryParts,
        providers: Iterable[EffectProvider],
        channels: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """`channels` has the patterns of the channels that providers serve; what it does not name serves all."""
        self._parts = parts
        self._channels = channels
        self._store = EffectStore()
        self._providers: Mapping[str, EffectProvider] = {provider.name: provider for provider in providers}

    def provider_for(self, kind: EffectKind, name: str | None, channel: str | None = None) -> str:
        """Return the name of the provider for a kind and a channel: the requested one, else the first able one."""
        able = [each.name for each in self._providers.values() if kind in each.kinds and self._serves(each, channel)]
        if name is None and able:
            return able[0]
        if name not in able:
            where = "" if channel is None else f" on {channel!r}"
            raise InvalidInput(
                f"provider must be one of {', '.join(able) or 'none'} for a {kind}{where}", field="provider"
            )
        return str(name)

    def _serves(self, provider: EffectProvider, channel: str | None) -> bool:
        patterns = self._channels.get(provider.name)
        return channel is None or patterns is None or any(fnmatchcase(channel, each) for each in patterns)

    def replace_provider(self, provider: EffectProvider) -> None:
        """Use a provider of one's own, or another one under a name that settings gave."""
        self._providers = {**self._providers, provider.name: provider}

    def is_local(self, provider: str) -> bool:
        """Return whether a wallet's money is in our own ledger, so that nothing has to be sent."""
        return provider == LOCAL_LEDGER

    def check_wallet_provider(self, name: str) -> str:
        """Return a provider that money can be moved with, our own ledger among them."""
        return name if self.is_local(name) else self.provider_for("transaction", name)

    def enqueue(self, tx: Transaction, effect: StoredEffect) -> None:
        """Let a worker deliver an effect, in the transaction that stores it."""
        given = {"kind": effect.kind, "effect_id": effect.effect_id}
        runs, run_id = self._parts.runs(), f"{EFFECT_WORK}:{effect.effect_id}"
        runs.start_house_work_in(tx, effect.tenant_id, f"house:{EFFECT_WORK}", given, run_id=run_id)

    def announce(self) -> None:
        """Let workers of this process look at once."""
        self._parts.runs().announce()

    async def deliver(self, tenant_id: str, given: JsonObject) -> dict[str, Any]:
        """Bring one effect to its end; raises Waiting for what must be tried or looked at again."""
        kind: EffectKind = given["kind"]
        effect_id = str(given["effect_id"])
        begun = await self._parts.database.write(tenant_id, lambda tx: self._begin(tx, kind, tenant_id, effect_id))
        effect, may_be_sent = begun
        if effect.status == "unknown":
            effect = await self.ask(effect)
        elif effect.status == "sending":
            effect = await self._send(effect, may_be_sent=may_be_sent)
        if effect.status == "unknown" and self._can_be_asked(effect):
            raise Waiting(self._parts.micros() + self._pause_of(effect))
        return {"effect_id": effect_id, "status": effect.status}

    def on_end(self, tx: Transaction, end: RunEnd) -> None:
        """Settle an effect whose delivery was cancelled, failed or was set aside, so none is under way for ever."""
        effect = self._of_run(tx, end)
        if effect is None or not effect.is_open or end.state == "succeeded":
            return
        told = f"its delivery {end.run_id!r} {_ENDS.get(end.state, 'failed')}"
        if effect.status == "sending" and effect.may_be_sent:
            self._park_in(tx, effect, ProviderSilent(f"{told} after something may have been sent", run_id=end.run_id))
        elif end.state != "set_aside":  # what was set aside and never sent goes on when its run does
            self._failed(tx, effect, ProviderUnreachable(f"{told} before anything was sent", run_id=end.run_id))

    def _of_run(self, tx: Transaction, end: RunEnd) -> StoredEffect | None:
        """Return the effect that a run delivers; None where a run of other work has such a name."""
        effect_id = end.run_id.removeprefix(f"{EFFECT_WORK}:")
        looks = (self._store.look(tx, kind, end.tenant_id, effect_id) for kind in TABLES)
        return next(filter(None, looks), None)

    async def unknown(self, tenant_id: str) -> list[StoredEffect]:
        """List effects whose outcome is unknown, for a person to look at."""

        def work(tx: Transaction) -> list[StoredEffect]:
            return [
                effect
                for kind in TABLES
                for effect in self._store.listing(tx, kind, tenant_id, limit=MOST_UNKNOWN, status="unknown")
            ]

        return await self._parts.database.read(tenant_id, work)

    async def find(self, tenant_id: str, kind: EffectKind, effect_id: str) -> StoredEffect:
        """Find one effect as it is stored, or NotFound."""
        return await self._parts.database.read(tenant_id, lambda tx: self._store.find(tx, kind, tenant_id, effect_id))

    async def ask(self, effect: StoredEffect) -> StoredEffect:
        """Ask the provider what became of an unknown effect, and settle it by what it knows; sends nothing."""
        provider = self._providers.get(effect.provider)
        if provider is None or not provider.can_be_asked:
            return effect
        try:
            answer = await _heard(provider, provider.find(EffectOrder.of(effect)))
        except ProviderRefused as error:
            refusal = error
            return await self._settle(effect, lambda tx, now: self._failed(tx, now, refusal))
        except (ProviderSilent, ProviderUnreachable):
            return effect
        return effect if answer is None else await self._settle(effect, lambda tx, now: self._done(tx, now, answer))

    async def resolve(
        self, kind: EffectKind, effect_id: str, word: EffectWord, *, by: Principal, external_id: str | None = None
    ) -> StoredEffect:
        """Store a person's word on an effect with an unknown outcome: it happened, or it did not."""
        if word == "happened" and not external_id:
            raise InvalidInput("say what the provider calls it", field="external_id")

        def work(tx: Transaction) -> StoredEffect:
            effect = self._store.find(tx, kind, by.tenant_id, effect_id)
            if effect.status != "unknown":
                raise IllegalTransition(
                    f"{kind} {effect_id!r} is {effect.status}; only what is unknown can be resolved",
                    subject_id=effect_id,
                    status=effect.status,
                )
            if word == "happened":
                answer = ProviderAnswer(str(external_id), {"stated_by": by.user_id})
                return self._done(tx, effect, answer, by=by)
            refusal = ProviderRefused("a person looked and says that it did not happen", stated_by=by.user_id)
            return self._failed(tx, effect, refusal, by=by)

        return await self._parts.database.write(by.tenant_id, work)

    def _can_be_asked(self, effect: StoredEffect) -> bool:
        provider = self._providers.get(effect.provider)
        return provider is not None and provider.can_be_asked

    def _pause_of(self, effect: StoredEffect) -> int:
        """Return how long to wait before an unknown effect is asked about: as long as it was unknown, up to an hour."""
        first = round(self._parts.first_pause_s * _SECOND * 2**MOST_ATTEMPTS)
        return min(_LONGEST_PAUSE, max(first, self._parts.micros() - int(effect.row["updated_at"])))

    def _begin(self, tx: Transaction, kind: EffectKind, tenant_id: str, effect_id: str) -> tuple[StoredEffect, bool]:
        """Mark an effect as being sent, if it is due and still allowed; says whether it may have been sent before."""
        parts, now = self._parts, self._parts.micros()
        effect = self._store.find(tx, kind, tenant_id, effect_id)
        if not effect.is_open:
            return effect, False
        if effect.scheduled_at is not None and effect.scheduled_at > now:
            raise Waiting(effect.scheduled_at)
        if effect.status == "sending" and effect.may_be_sent:
            again = self._store.move(tx, effect, "sending", now=now, attempts=effect.attempts + 1, error_json=None)
            return again, True
        try:
            self._refuse_withdrawn(tx, effect)
        except (PolicyViolation, IllegalTransition) as error:
            return self._failed(tx, effect, error), False
        if self.is_local(effect.provider) and kind == "transaction":
            return self._done(tx, effect, ProviderAnswer(effect.effect_id)), False
        # Without the error of the attempt before, an effect counts as one that may have been sent.
        sending = self._store.move(tx, effect, "sending", now=now, attempts=effect.attempts + 1, error_json=None)
        if effect.status != "sending":
            parts.witness.note(tx, sending)
        return sending, False

    def _refuse_withdrawn(self, tx: Transaction, effect: StoredEffect) -> None:
        """Refuse an effect whose approval is gone, which a check forbids by now, or whose wallet was frozen."""
        leaving, judge = leaving_of(effect.kind, effect.request), self._parts.judge()
        judge.gate(tx, effect.tenant_id, str(effect.task_id), allowed_by=effect.decision_id, leaving=leaving)
        if effect.kind == "transaction":
            refuse_closed_wallet(effect.row["wallet_id"], effect.row["wallet_status"])

    async def _send(self, effect: StoredEffect, *, may_be_sent: bool) -> StoredEffect:
        provider, order = self._providers.get(effect.provider), EffectOrder.of(effect)
        if provider is None:
            away = ProviderUnreachable(f"no provider {effect.provider!r} is set up")
            return await self._wait_or(effect, away, "unknown" if may_be_sent else "failed")
        try:
            answer = await _reconcile(provider, order) if may_be_sent else None
            if answer is None:
                if may_be_sent:
                    await self._parts.database.read(effect.tenant_id, lambda tx: self._refuse_withdrawn(tx, effect))
                answer = await _heard(provider, provider.send(order))
        except ProviderRefused as error:
            refusal = error
            return await self._settle(effect, lambda tx, now: self._failed(tx, now, refusal))
        except ProviderUnreachable as error:
            # Nothing was sent this time; what was sent before may still have happened.
            return await self._wait_or(effect, error, "unknown" if may_be_sent else "failed")
        except ProviderSilent as error:
            if provider.recognises_keys or provider.can_be_asked:
                return await self._wait_or(effect, error, "unknown")
            return await self._park(effect, error)
        except (PolicyViolation, IllegalTransition) as error:
            # It is not sent again; what was sent before may still happen.
            return await self._park(effect, error)
        except _NoAnswerPossible as error:
            return await self._park(effect, ProviderSilent(str(error), provider=provider.name))
        return await self._settle(effect, lambda tx, now: self._done(tx, now, answer))

    async def _wait_or(
        self, effect: StoredEffect, error: TwinRavenError, last: Literal["failed", "unknown"]
    ) -> StoredEffect:
        """Retry later; after the last attempt, settle as failed or leave the outcome unknown."""
        parts = self._parts
        if effect.attempts < MOST_ATTEMPTS:
            await self._note_attempt(effect, error, was_sent=last == "unknown")
            raise Waiting(parts.micros() + round(parts.first_pause_s * _SECOND * 2 ** (effect.attempts - 1)))
        if last == "failed":
            return await self._settle(effect, lambda tx, now: self._failed(tx, now, error))
        return await self._park(effect, error)

    async def _note_attempt(self, effect: StoredEffect, error: TwinRavenError, *, was_sent: bool) -> None:
        """Store and audit an attempt that came to nothing, and whether anything may have been sent by then."""
        told = {**error.as_json(), "details": {**error.details, WAS_SENT: was_sent}}

        def work(tx: Transaction) -> None:
            text = canonical_json(told).decode()
            self._store.move(tx, effect, effect.status, now=self._parts.micros(), error_json=text)
            self._parts.witness.note(tx, effect, error=told, attempt=effect.attempts)

        await self._parts.database.write(effect.tenant_id, work)

    async def _park(self, effect: StoredEffect, error: TwinRavenError) -> StoredEffect:
        """Leave an effect unknown, for a person to look."""
        return await self._settle(effect, lambda tx, now: self._park_in(tx, now, error))

    def _park_in(self, tx: Transaction, effect: StoredEffect, error: TwinRavenError) -> StoredEffect:
        if effect.status == "unknown":
            return effect
        told = error.as_json()
        after = self._store.move(
            tx, effect, "unknown", now=self._parts.micros(), error_json=canonical_json(told).decode()
        )
        self._parts.claims.conclude(tx, after.tenant_id, after.key, "unknown", {"error": told})
        self._parts.witness.note(tx, after, error=told)
        return after

    async def _settle(
        self, effect: StoredEffect, settle: Callable[[Transaction, StoredEffect], StoredEffect]
    ) -> StoredEffect:
        """Store the outcome of an effect; one that was settled meanwhile stays, unless it is unknown."""

        def work(tx: Transaction) -> StoredEffect:
            now = self._store.find(tx, effect.kind, effect.tenant_id, effect.effect_id)
            return settle(tx, now) if now.status in (effect.status, "unknown") else now

        try:
            return await self._parts.database.write(effect.tenant_id, work)
        except StorageError as error:
            # Whether it was stored shows when the run is taken up again; the provider is asked then.
            raise Waiting(self._parts.micros() + _SECOND) from error

    def _done(
        self, tx: Transaction, effect: StoredEffect, answer: ProviderAnswer, *, by: Principal | None = None
    ) -> StoredEffect:
        parts, words, now = self._parts, TABLES[effect.kind], self._parts.micros()
        stored: dict[str, Any] = {"answer_json": canonical_json(answer.details).decode(), words.done_at: now}
        if effect.kind == "transaction":
            parts.books.settle(tx, effect)
            stored["chain_tx_hash"] = answer.details.get("chain_tx_hash")
        stored[words.external] = answer.external_id
        after = self._store.move(tx, effect, words.done, now=now, **stored)
        told = {"effect_id": effect.effect_id, "external_id": answer.external_id}
        parts.claims.conclude(tx, effect.tenant_id, effect.key, "success", {"output": told})
        actor = SYSTEM if by is None else by.actor
        parts.witness.note(tx, after, external_id=answer.external_id, attempts=after.attempts, actor=actor)
        return after

    def _failed(
        self, tx: Transaction, effect: StoredEffect, error: TwinRavenError, *, by: Principal | None = None
    ) -> StoredEffect:
        parts, told = self._parts, error.as_json()
        if effect.kind == "transaction":
            parts.books.release(tx, effect)
        stored = {"error_json": canonical_json(told).decode()}
        after = self._store.move(tx, effect, "failed", now=parts.micros(), **stored)
        parts.claims.conclude(tx, effect.tenant_id, effect.key, "failed", {"error": told})
        actor = SYSTEM if by is None else by.actor
        parts.witness.note(tx, after, error=told, actor=actor)
        return after


class _NoAnswerPossible(Exception):
    """A provider that does not recognise keys was asked, or cannot be, and does not know."""


async def _heard(provider: EffectProvider, asking: Awaitable[T]) -> T:
    """Return what a provider says.

    An error that is none of the port's may come after the effect, so it counts as silence.
    """
    try:
        return await asking
    except (ProviderRefused, ProviderUnreachable, ProviderSilent):
        raise
    except Exception as error:
        raise ProviderSilent(
            f"{provider.name!r} broke off: {type(error).__name__}: {error}"[:500], provider=provider.name
        ) from error


async def _reconcile(provider: EffectProvider, order: EffectOrder) -> ProviderAnswer | None:
    """Return what became of something that may have been sent; None where the same key may be sent again."""
    if provider.can_be_asked:
        found = await _heard(provider, provider.find(order))
        if found is not None:
            return found
    if not provider.recognises_keys:
        raise _NoAnswerPossible(f"{provider.name!r} cannot say whether it happened")
    return None
