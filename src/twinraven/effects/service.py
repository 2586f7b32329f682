"""Takes requests for effects: checks them, asks for the decision in force, and stores the intent to be delivered.

One transaction takes the idempotency key, stores the effect, holds its money, appends the audit entry and enqueues the
run that will send it. The same wish again is answered with the effect that is there; the same key with other words is
refused, whatever kind of effect or call it was used for. What is refused is audited.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twinraven.audit import NewAuditEntry
from twinraven.calls import Claims
from twinraven.effects.audit_trail import EffectAuditTrail
from twinraven.effects.delivery import Delivery
from twinraven.effects.intents import Intent, message_intent, payment_intent, publish_intent
from twinraven.effects.model import (
    TABLES,
    EffectKind,
    MessageRequest,
    PaymentRequest,
    PublishRequest,
    StoredEffect,
    leaving_of,
)
from twinraven.effects.money import PaymentBooks
from twinraven.effects.references import EffectReferences
from twinraven.effects.sql import EffectRecord, EffectStore, missing, to_record
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.correlation import correlation_or_new
from twinraven.foundation.errors import (
    CallInProgress,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    PolicyViolation,
    StorageError,
    TwinRavenError,
)
from twinraven.foundation.ids import new_id
from twinraven.governance import Judge, JudgeDecision, Money, PlanStore
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal


@dataclass(frozen=True, slots=True)
class EffectParts:
    """The dependencies of effects."""

    database: Database
    claims: Claims
    judge: Callable[[], Judge]
    books: PaymentBooks
    witness: EffectAuditTrail
    delivery: Delivery
    holds_secret: Callable[[str, bytes], bool]
    micros: Callable[[], int]
    disclosure: str | None
    """What is put under a publication that brings no words of its own."""


class Effects:
    """Publications, messages and payments of all tenants."""

    def __init__(self, parts: EffectParts) -> None:
        self._parts = parts
        self._store = EffectStore()
        self._plans = PlanStore()
        self._places = EffectReferences()

    async def publish(self, wish: PublishRequest, *, by: Principal) -> EffectRecord:
        """Publish on a channel, now or at a time, for a task whose result was approved."""
        provider = self._parts.delivery.provider_for("publish", wish.provider, wish.channel)
        return await self._intend(publish_intent(wish, provider, self._parts.disclosure), by=by)

    async def message(self, wish: MessageRequest, *, by: Principal) -> EffectRecord:
        """Send a message to a person or a channel, for a task whose result was approved."""
        provider = self._parts.delivery.provider_for("message", wish.provider, wish.channel)
        return await self._intend(message_intent(wish, provider), by=by)

    async def pay(self, wish: PaymentRequest, *, by: Principal) -> EffectRecord:
        """Pay out of a wallet, for a task whose result was approved; wallet and budget are never overdrawn."""
        return await self._intend(payment_intent(wish), by=by)

    async def reverse(self, transaction_id: str, *, by: Principal, note: str) -> EffectRecord:
        """Take an executed payment of our own ledger back by transfers the other way, once."""
        if not by.may_decide or by.kind != "person":
            raise PolicyViolation(
                "only a person who is an approver or an administrator takes a payment back", user_id=by.user_id
            )
        if not note.strip():
            raise InvalidInput("note must say why the payment is taken back", field="note")
        return to_record(
            await self._parts.database.write(
                by.tenant_id, lambda tx: self._reverse(tx, transaction_id, by=by, note=note)
            )
        )

    async def cancel(self, kind: EffectKind, effect_id: str, *, by: Principal) -> EffectRecord:
        """Cancel what has not been sent; money that was held is given back. What is cancelled stays so."""

        def work(tx: Transaction) -> StoredEffect:
            before = self._own(tx, kind, effect_id, by)
            if before.status == "cancelled":
                return before
            after = self._store.move(tx, before, "cancelled", now=self._parts.micros())
            self._conclude(tx, after, actor=by, told={"error": {"code": "CANCELLED", "message": "it was cancelled"}})
            return after

        return to_record(await self._parts.database.write(by.tenant_id, work))

    async def reconcile(self, kind: EffectKind, effect_id: str, *, by: Principal) -> EffectRecord:
        """Ask the provider what became of an unknown effect; what it knows settles it, and nothing is sent."""
        effect = await self._parts.database.read(by.tenant_id, lambda tx: self._own(tx, kind, effect_id, by))
        if effect.status != "unknown":
            raise IllegalTransition(
                f"{kind} {effect_id!r} is {effect.status}; only what is unknown is asked about",
                subject_id=effect_id,
                status=effect.status,
            )
        return to_record(await self._parts.delivery.ask(effect))

    async def get(self, kind: EffectKind, effect_id: str, *, by: Principal) -> EffectRecord:
        """Return one effect as it stands; for members, their own."""
        return to_record(await self._parts.database.read(by.tenant_id, lambda tx: self._own(tx, kind, effect_id, by)))

    async def list(
        self,
        kind: EffectKind,
        *,
        by: Principal,
        limit: int = 100,
        after: str | None = None,
        status: str | None = None,
        task_id: str | None = None,
    ) -> list[EffectRecord]:
        """Effects of a kind by id; for members, their own."""

        def work(tx: Transaction) -> list[StoredEffect]:
            return self._store.listing(
                tx,
                kind,
                by.tenant_id,
                limit=limit,
                after=after,
                status=status,
                task_id=task_id,
                requested_by=None if by.may_decide else by.user_id,
            )

        return [to_record(each) for each in await self._parts.database.read(by.tenant_id, work)]

    async def _intend(self, intent: Intent, *, by: Principal) -> EffectRecord:
        parts, tenant_id = self._parts, by.tenant_id
        intent.check()
        body = canonical_json(intent.request)
        if parts.holds_secret(tenant_id, body):
            raise InvalidInput("what leaves the house holds one of your secrets", field="request")
        made: list[StoredEffect] = []

        def along(tx: Transaction) -> None:
            made.append(self._store_intent(tx, intent, body, by=by))

        try:
            with suppress(CallInProgress):  # the same wish, under way: its effect is there
                await parts.claims.claim(
                    tenant_id,
                    intent.key,
                    tool_id=f"effect:{intent.kind}",
                    body=body,
                    timeout_ms=None,
                    along=along,
                )
            known = await parts.database.read(tenant_id, lambda tx: self._known(tx, intent, tenant_id))
        except StorageError:
            raise  # nobody refused it, and it may be stored: the same wish again shows
        except TwinRavenError as error:
            await self._note_refusal(intent, error, by=by)
            raise
        if made:
            parts.delivery.announce()
        return to_record(known)

    def _store_intent(self, tx: Transaction, intent: Intent, body: bytes, *, by: Principal) -> StoredEffect:
        parts, now = self._parts, self._parts.micros()
        decision = self._allowed(tx, intent, by.tenant_id)
        columns = self._places.checked(tx, by.tenant_id, str(decision.lineage.campaign_id), intent)
        effect_id, words = new_id(), TABLES[intent.kind]
        row = {
            "tenant_id": by.tenant_id,
            words.key: effect_id,
            "campaign_id": decision.lineage.campaign_id,
            "goal_id": decision.lineage.goal_id,
            "task_id": intent.task_id,
            "decision_id": decision.decision_id,
            "request_json": body.decode(),
            "request_hash": parts.claims.hash_text(by.tenant_id, body),
            "idempotency_key": intent.key,
            "correlation_id": correlation_or_new(),
            "attempts": 0,
            "updated_at": now,
            **columns,
        }
        if intent.kind == "transaction":
            self._store.add(
                tx, "transaction", {**row, "status": "pending", "requested_by": by.user_id, "requested_at": now}
            )
            effect = self._approve_payment(tx, effect_id, by=by)
        else:
            self._store.add(
                tx, intent.kind, {**row, "status": words.first, "created_by": by.user_id, "created_at": now}
            )
            effect = self._store.find(tx, intent.kind, by.tenant_id, effect_id)
        parts.delivery.enqueue(tx, effect)
        parts.witness.note(tx, effect, actor=by.actor, body={"request": intent.request}, result_id=decision.result_id)
        return effect

    def _allowed(self, tx: Transaction, intent: Intent, tenant_id: str) -> JudgeDecision:
        """Return the decision in force that lets this leave the house, within the limits of its task."""
        amount = intent.amount
        if amount is not None:
            spent = self._store.spent_for(tx, tenant_id, intent.task_id, amount.currency)
            amount = Money(spent + amount.minor, amount.currency)
        leaving = leaving_of(intent.kind, intent.request)
        return self._parts.judge().gate(tx, tenant_id, intent.task_id, leaving=leaving, amount=amount)

    def _approve_payment(self, tx: Transaction, effect_id: str, *, by: Principal) -> StoredEffect:
        """Hold the money of a payment and move it to `approved`."""
        parts = self._parts
        effect = self._store.find(tx, "transaction", by.tenant_id, effect_id)
        budget_id = effect.row["budget_id"]
        parts.books.hold(tx, effect, None if budget_id is None else self._plans.budget(tx, by.tenant_id, budget_id))
        return self._store.move(tx, effect, "approved", now=parts.micros())

    def _reverse(self, tx: Transaction, transaction_id: str, *, by: Principal, note: str) -> StoredEffect:
        parts, now = self._parts, self._parts.micros()
        paid = self._store.find(tx, "transaction", by.tenant_id, transaction_id)
        key = f"reverse:{transaction_id}"
        known = self._store.of_key(tx, "transaction", by.tenant_id, key)
        if known is not None:
            return known
        if paid.status != "executed" or paid.row["reverses"] is not None or not parts.delivery.is_local(paid.provider):
            raise IllegalTransition(
                "only an executed payment of the local ledger can be taken back; elsewhere, ask the provider",
                subject_id=transaction_id,
                status=paid.status,
            )
        if paid.row["wallet_status"] == "closed":
            raise IllegalTransition(
                f"wallet {paid.row['wallet_id']!r} is closed; nothing is paid back into it", subject_id=transaction_id
            )
        parts.books.release(tx, paid)
        copied = (
            "tenant_id", "wallet_id", "campaign_id", "goal_id", "task_id", "decision_id", "budget_id", "amount",
            "currency", "counterparty",
        )  # fmt: skip
        request = canonical_json({"reverses": transaction_id, "note": note})
        effect_id = new_id()
        row = {name: paid.row[name] for name in copied} | {
            "transaction_id": effect_id,
            "direction": "credit",
            "description": note,
            "status": "executed",
            "reverses": transaction_id,
            "request_json": request.decode(),
            "request_hash": parts.claims.hash_text(by.tenant_id, request),
            "idempotency_key": key,
            "correlation_id": correlation_or_new(),
            "attempts": 1,
            "requested_by": by.user_id,
            "requested_at": now,
            "executed_at": now,
            "updated_at": now,
        }
        self._store.add(tx, "transaction", row)
        made = self._store.find(tx, "transaction", by.tenant_id, effect_id)
        parts.witness.note(tx, made, actor=by.actor, reverses=transaction_id, body={"note": note})
        return made

    def _conclude(self, tx: Transaction, effect: StoredEffect, *, actor: Principal, told: dict[str, Any]) -> None:
        parts = self._parts
        if effect.kind == "transaction":
            parts.books.release(tx, effect)
        parts.claims.conclude(tx, effect.tenant_id, effect.key, "failed", told)
        parts.witness.note(tx, effect, actor=actor.actor)

    def _own(self, tx: Transaction, kind: EffectKind, effect_id: str, by: Principal) -> StoredEffect:
        found = self._store.find(tx, kind, by.tenant_id, effect_id)
        if not by.may_decide and found.requested_by != by.user_id:
            raise missing(kind, effect_id)  # not theirs is not there
        return found

    def _known(self, tx: Transaction, intent: Intent, tenant_id: str) -> StoredEffect:
        found = self._store.of_key(tx, intent.kind, tenant_id, intent.key)
        assert found is not None  # stored with the claim, which a call under this key could not have made
        if found.task_id != intent.task_id:
            raise IdempotencyConflict(
                f"idempotency key {intent.key!r} was used for the same wish of another task; use a new key",
                idempotency_key=intent.key,
            )
        return found

    async def _note_refusal(self, intent: Intent, error: TwinRavenError, *, by: Principal) -> None:
        """Audit what was refused: policy, limits, money, a key that means something else."""
        entry = NewAuditEntry(
            tenant_id=by.tenant_id,
            event_type=f"{intent.kind}.refused",
            subject_type="task",
            subject_id=intent.task_id,
            actor=by.actor,
            data={"idempotency_key": intent.key, "kind": intent.kind, "is_policy": isinstance(error, PolicyViolation)},
            code=error.code,
            message=error.message[:500],
        )
        await self._parts.witness.refused(entry, intent.task_id)
