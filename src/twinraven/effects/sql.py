"""Stores effects: posts, messages and transactions, each with its intent, its key and what came of it."""

from __future__ import annotations

from typing import Any, Final

from twinraven.effects.model import TABLES, EffectKind, StoredEffect
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import NotFound
from twinraven.governance import (
    Lineage,
    MoneyTransaction,
    Outgoing,
    OutgoingMessage,
    PublishEvent,
    check_transition,
)
from twinraven.storage import Row, Transaction

EffectRecord = PublishEvent | OutgoingMessage | MoneyTransaction
_KINDS: Final = {"publish": "publish event", "message": "message", "transaction": "transaction"}
_ASKER: Final = {"publish": "created_by", "message": "created_by", "transaction": "requested_by"}
_MONEY: Final = (
    "SELECT t.*, w.provider, w.status AS wallet_status FROM transactions t "
    "JOIN wallets w ON w.tenant_id = t.tenant_id AND w.wallet_id = t.wallet_id WHERE t.tenant_id = :tenant"
)


def missing(kind: EffectKind, effect_id: str) -> NotFound:
    """Build the NotFound error of an effect that is absent, or belongs to another user."""
    return NotFound(f"there is no {_KINDS[kind]} {effect_id!r}", subject=TABLES[kind].subject, subject_id=effect_id)


class EffectStore:
    """The three tables of effects; every statement names its tenant."""

    def add(self, tx: Transaction, kind: EffectKind, row: dict[str, Any]) -> None:
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        tx.execute(f"INSERT INTO {TABLES[kind].table} ({columns}) VALUES ({marks})", **row)

    def find(self, tx: Transaction, kind: EffectKind, tenant_id: str, effect_id: str) -> StoredEffect:
        """Find one effect, or NotFound."""
        found = self.look(tx, kind, tenant_id, effect_id)
        if found is None:
            raise missing(kind, effect_id)
        return found

    def look(self, tx: Transaction, kind: EffectKind, tenant_id: str, effect_id: str) -> StoredEffect | None:
        """Return one effect, or None."""
        row = tx.fetch_one(f"{_select(kind)} AND t.{TABLES[kind].key} = :id", tenant=tenant_id, id=effect_id)
        return None if row is None else _to_effect(kind, row)

    def of_key(self, tx: Transaction, kind: EffectKind, tenant_id: str, key: str) -> StoredEffect | None:
        row = tx.fetch_one(f"{_select(kind)} AND t.idempotency_key = :key", tenant=tenant_id, key=key)
        return None if row is None else _to_effect(kind, row)

    def move(self, tx: Transaction, effect: StoredEffect, status: str, *, now: int, **values: Any) -> StoredEffect:
        """Give an effect another status, and what goes with it; what stands otherwise by now is left alone."""
        if status != effect.status:
            check_transition(_KINDS[effect.kind], effect.effect_id, effect.status, status)
        words = TABLES[effect.kind]
        changes = {"status": status, "updated_at": now, **values}
        tx.execute(
            f"UPDATE {words.table} SET {', '.join(f'{name} = :{name}' for name in changes)} "
            f"WHERE tenant_id = :tenant AND {words.key} = :id AND status = :before",
            tenant=effect.tenant_id,
            id=effect.effect_id,
            before=effect.status,
            **changes,
        )
        return self.find(tx, effect.kind, effect.tenant_id, effect.effect_id)

    def listing(
        self,
        tx: Transaction,
        kind: EffectKind,
        tenant_id: str,
        *,
        limit: int,
        after: str | None = None,
        status: str | None = None,
        task_id: str | None = None,
        requested_by: str | None = None,
    ) -> list[StoredEffect]:
        """Effects of a kind by id, which is as good an order as any for pages."""
        words, given = TABLES[kind], {"status": status, "task_id": task_id, _ASKER[kind]: requested_by}
        stated = {name: value for name, value in given.items() if value is not None}
        where = "".join(f" AND t.{name} = :{name}" for name in stated)
        if after is not None:
            where += f" AND t.{words.key} > :after"
            stated["after"] = after
        query = f"{_select(kind)}{where} ORDER BY t.{words.key} LIMIT :limit"
        return [_to_effect(kind, row) for row in tx.fetch_all(query, tenant=tenant_id, limit=limit, **stated)]

    def spent_for(self, tx: Transaction, tenant_id: str, task_id: str, currency: str) -> int:
        """Return the money paid or committed for a task, without refunds."""
        row = tx.fetch_one(
            "SELECT COALESCE(SUM(t.amount), 0) AS total FROM transactions t WHERE t.tenant_id = :tenant "
            "AND t.task_id = :task AND t.currency = :currency AND t.direction = 'debit' "
            "AND t.status NOT IN ('failed', 'cancelled') AND NOT EXISTS (SELECT 1 FROM transactions r "
            "WHERE r.tenant_id = t.tenant_id AND r.reverses = t.transaction_id)",
            tenant=tenant_id,
            task=task_id,
            currency=currency,
        )
        assert row is not None
        return int(row["total"])

    def external(self, tx: Transaction, tenant_id: str, external_id: str) -> list[StoredEffect]:
        """Return the effects that the outside knows by this id."""
        found: list[StoredEffect] = []
        for kind, words in TABLES.items():
            query = f"{_select(kind)} AND t.{words.external} = :id"
            found += [_to_effect(kind, row) for row in tx.fetch_all(query, tenant=tenant_id, id=external_id)]
        query = f"{_MONEY} AND t.chain_tx_hash = :id"
        found += [_to_effect("transaction", row) for row in tx.fetch_all(query, tenant=tenant_id, id=external_id)]
        return found

    def of_task(self, tx: Transaction, tenant_id: str, task_id: str) -> list[StoredEffect]:
        found: list[StoredEffect] = []
        for kind in TABLES:
            rows = tx.fetch_all(f"{_select(kind)} AND t.task_id = :task", tenant=tenant_id, task=task_id)
            found += [_to_effect(kind, row) for row in rows]
        return found


def _select(kind: EffectKind) -> str:
    if kind == "transaction":
        return _MONEY
    return f"SELECT t.* FROM {TABLES[kind].table} t WHERE t.tenant_id = :tenant"


def _to_effect(kind: EffectKind, row: Row) -> StoredEffect:
    return StoredEffect(
        kind=kind,
        tenant_id=row["tenant_id"],
        effect_id=row[TABLES[kind].key],
        status=row["status"],
        campaign_id=row["campaign_id"],
        goal_id=row["goal_id"],
        task_id=row["task_id"],
        decision_id=row["decision_id"],
        provider=row["provider"],
        request=parse_json(row["request_json"], field="request"),
        request_hash=row["request_hash"],
        key=row["idempotency_key"],
        correlation_id=row["correlation_id"],
        attempts=row["attempts"],
        scheduled_at=row.get("scheduled_at"),
        requested_by=row[_ASKER[kind]],
        row=row,
    )


def to_record(effect: StoredEffect) -> EffectRecord:
    """Return an effect as the model of its kind."""
    if effect.kind == "transaction":
        return _to_transaction(effect)
    row = effect.row
    if effect.kind == "publish":
        return PublishEvent(
            publish_id=effect.effect_id,
            status=row["status"],
            outgoing=_to_outgoing(effect),
            media_asset_id=row["media_asset_id"],
            external_post_id=row["external_post_id"],
            disclosure_applied=bool(row["disclosure_applied"]),
            published_at=_moment(row["published_at"]),
        )
    return OutgoingMessage(
        message_id=effect.effect_id,
        status=row["status"],
        outgoing=_to_outgoing(effect),
        recipient=row["recipient"],
        external_message_id=row["external_message_id"],
        sent_at=_moment(row["sent_at"]),
    )


def _to_outgoing(effect: StoredEffect) -> Outgoing:
    row = effect.row
    return Outgoing(
        lineage=Lineage(row["tenant_id"], row["campaign_id"], row["goal_id"], row["task_id"]),
        decision_id=row["decision_id"],
        channel=row["channel"],
        provider=row["provider"],
        request=effect.request,
        request_hash=row["request_hash"],
        answer=_object(row["answer_json"]),
        error=_object(row["error_json"]),
        idempotency_key=row["idempotency_key"],
        correlation_id=row["correlation_id"],
        attempts=row["attempts"],
        scheduled_at=_moment(row["scheduled_at"]),
        created_by=row["created_by"],
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
    )


def _to_transaction(effect: StoredEffect) -> MoneyTransaction:
    row = effect.row
    names = (
        "tenant_id", "transaction_id", "wallet_id", "campaign_id", "goal_id", "task_id", "decision_id", "budget_id",
        "direction", "amount", "currency", "counterparty", "description", "status", "chain_tx_hash", "provider_ref",
        "reverses", "request_hash", "idempotency_key", "correlation_id", "attempts", "requested_by",
    )  # fmt: skip
    return MoneyTransaction(
        **{name: row[name] for name in names},
        request=effect.request,
        answer=_object(row["answer_json"]),
        error=_object(row["error_json"]),
        requested_at=from_micros(row["requested_at"]),
        executed_at=_moment(row["executed_at"]),
        updated_at=from_micros(row["updated_at"]),
    )


def _object(text: str | None) -> Any:
    return None if text is None else parse_json(text, field="stored")


def _moment(micros: int | None) -> Any:
    return None if micros is None else from_micros(micros)
