"""Finds what traces are made of in effects: posts, messages, payments, media assets, and the money behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinraven.effects import (
    EFFECT_KINDS,
    AssetStore,
    EffectKind,
    EffectStore,
    StoredEffect,
    WalletStore,
    budget_account,
    wallet_account,
)
from twinraven.foundation.clock import from_micros, iso
from twinraven.foundation.errors import NotFound
from twinraven.governance import MediaAsset, PlanStore, format_minor
from twinraven.ledger import Ledger, LedgerTransfer
from twinraven.storage import Transaction
from twinraven.tracing.model import MOST_LINKS, Links, TraceKey, TraceNode


class EffectTraces:
    """Posts, messages, payments and the transfers behind them."""

    kinds: Sequence[str] = (
        "transaction", "publish_event", "message", "ledger_transfer", "media_asset", "wallet", "budget",
    )  # fmt: skip

    def __init__(self, ledger: Ledger) -> None:
        self._store = EffectStore()
        self._assets = AssetStore()
        self._wallets = WalletStore()
        self._plans = PlanStore()
        self._ledger = ledger

    def load(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        if key.kind == "ledger_transfer":
            found = self._ledger.transfer(tx, tenant_id, key.id)
            return None if found is None else _transfer_node(found)
        try:
            return self._load(tx, tenant_id, key)
        except NotFound:
            return None

    def _load(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        kind, name = key
        if kind == "media_asset":
            return _asset_node(self._assets.find(tx, tenant_id, name))
        if kind == "wallet":
            wallet = self._wallets.find(tx, tenant_id, name)
            title = f"wallet of {wallet.agent_or_campaign_id} in {wallet.currency}"
            return TraceNode(key, title, iso(wallet.created_at), wallet.status, wallet.created_by)
        if kind == "budget":
            budget = self._plans.budget(tx, tenant_id, name)
            title = f"budget {budget.name} of {format_minor(budget.total, budget.currency)} {budget.currency}"
            facts = {"campaign_id": budget.campaign_id}
            return TraceNode(key, title, iso(budget.created_at), budget.status, budget.created_by, facts)
        return _effect_node(self._store.find(tx, _kind_of(kind), tenant_id, name))

    def identify(self, tx: Transaction, tenant_id: str, id: str) -> Iterable[TraceKey]:
        """Effects by what the outside calls them, and by their idempotency key."""
        for effect in self._store.external(tx, tenant_id, id):
            yield TraceKey(effect.subject, effect.effect_id)
        for kind in EFFECT_KINDS:
            effect = self._store.of_key(tx, kind, tenant_id, id)
            if effect is not None:
                yield TraceKey(effect.subject, effect.effect_id)

    def before(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        del tx, tenant_id
        facts, kind = node.facts, node.key.kind
        if kind == "ledger_transfer":
            yield TraceKey(facts["subject_type"], facts["subject_id"]), "moved money by"
        elif kind == "media_asset" and facts["task_id"] is not None:
            yield TraceKey("task", facts["task_id"]), "made"
        elif kind in ("media_asset", "budget"):
            yield TraceKey("campaign", facts["campaign_id"]), "has"
        elif facts.get("decision_id") is not None:
            yield TraceKey("judge_decision", facts["decision_id"]), "allowed"
        if facts.get("media_asset_id") is not None:
            yield TraceKey("media_asset", facts["media_asset_id"]), "was published as"
        if facts.get("reverses") is not None:
            yield TraceKey(kind, facts["reverses"]), "was taken back by"

    def explains(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        del tx, tenant_id, node
        yield from ()

    def after(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        kind, effect_id = node.key
        if kind == "media_asset":
            yield from self._shown(tx, tenant_id, node)
            return
        if kind in ("wallet", "budget"):
            account = wallet_account(effect_id) if kind == "wallet" else budget_account(effect_id)
            for transfer in self._ledger.moved(tx, tenant_id, account, limit=MOST_LINKS):
                if transfer.subject_type == "transaction":
                    yield TraceKey("transaction", transfer.subject_id), "paid"
                else:
                    yield _transfer_node(transfer), "moved money by"
            return
        if kind == "transaction":
            for transfer in self._ledger.about(tx, tenant_id, "transaction", effect_id):
                yield _transfer_node(transfer), "moved money by"
            reversal = self._store.of_key(tx, "transaction", tenant_id, f"reverse:{effect_id}")
            if reversal is not None:
                yield TraceKey("transaction", reversal.effect_id), "was taken back by"
        if kind != "ledger_transfer":
            yield TraceKey("run", f"effect:{effect_id}"), "was delivered by"

    def _shown(self, tx: Transaction, tenant_id: str, asset: TraceNode) -> Links:
        """Yield the publications of a task's asset; those of an asset without a task are found from their own side."""
        task_id = asset.facts["task_id"]
        for effect in () if task_id is None else self._store.of_task(tx, tenant_id, task_id):
            if effect.row.get("media_asset_id") == asset.key.id:
                yield _effect_node(effect), "was published as"


def _transfer_node(transfer: LedgerTransfer) -> TraceNode:
    amount = format_minor(transfer.amount, transfer.currency)
    title = f"{amount} {transfer.currency} from {transfer.from_account} to {transfer.to_account}"
    names = ("subject_type", "subject_id", "reverses", "amount", "currency")
    facts = {name: getattr(transfer, name) for name in names}
    return TraceNode(
        TraceKey("ledger_transfer", transfer.transfer_id), title, iso(transfer.posted_at), "posted", None, facts
    )


def _asset_node(asset: MediaAsset) -> TraceNode:
    key, facts = TraceKey("media_asset", asset.asset_id), {"campaign_id": asset.campaign_id, "task_id": asset.task_id}
    return TraceNode(key, f"{asset.kind} {asset.storage_uri}", iso(asset.created_at), None, asset.created_by, facts)


def _kind_of(subject: str) -> EffectKind:
    kinds: dict[str, EffectKind] = {"publish_event": "publish", "message": "message", "transaction": "transaction"}
    return kinds[subject]


def _effect_node(effect: StoredEffect) -> TraceNode:
    row = effect.row
    paid = ""
    if effect.kind == "transaction":
        paid = f"{format_minor(row['amount'], row['currency'])} {row['currency']} to {row['counterparty']}"
    titles = {
        "publish": f"publication on {row.get('channel')}",
        "message": f"message to {row.get('recipient')}",
        "transaction": f"payment of {paid}",
    }
    external = row.get("external_post_id") or row.get("external_message_id") or row.get("provider_ref")
    facts = {
        **effect.facts(),
        "external_id": external,
        "correlation_id": effect.correlation_id,
        "reverses": row.get("reverses"),
        "media_asset_id": row.get("media_asset_id"),
    }
    at = iso(from_micros(row["updated_at"]))
    key = TraceKey(effect.subject, effect.effect_id)
    return TraceNode(key, titles[effect.kind], at, effect.status, effect.requested_by, facts)
