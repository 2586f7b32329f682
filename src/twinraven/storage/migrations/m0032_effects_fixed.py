"""Fixes what allows an effect and what it is: the decision, the budget, the channel, the recipient, the provider.

An effect was allowed as it was asked for. Nobody gives it another decision, another place or another payee afterwards,
whatever program writes, and nobody replaces a row that may not be deleted. Payments are found by what their provider
calls them, as posts and messages are; budgets of a campaign and decisions about a task without reading all that a
tenant has.
"""

from __future__ import annotations

from typing import Final

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse, refuse_replacing

_SENT: Final = "decision_id, channel, provider, correlation_id, scheduled_at, created_by"
_FIXED: Final = {
    "publish_events": f"{_SENT}, media_asset_id, disclosure_applied",
    "outgoing_messages": f"{_SENT}, recipient",
    "transactions": "campaign_id, goal_id, decision_id, budget_id, counterparty, description, correlation_id",
    "wallets": "provider, created_by, created_at",
    "budgets": "name, created_by",
}
_KEYS: Final = {
    "publish_events": "publish_id",
    "outgoing_messages": "message_id",
    "transactions": "transaction_id",
    "wallets": "wallet_id",
    "budgets": "budget_id",
    "ledger_accounts": "account_id",
}


def upgrade(ddl: Ddl) -> None:
    for table, columns in _FIXED.items():
        refuse(ddl, table, f"UPDATE OF {columns}", name="fixed_too")
    for table, key in _KEYS.items():
        refuse_replacing(ddl, table, "tenant_id", key)
    for table in ("publish_events", "outgoing_messages", "transactions"):
        if ddl.dialect == "sqlite":
            same = f"SELECT 1 FROM {table} WHERE tenant_id = NEW.tenant_id AND idempotency_key = NEW.idempotency_key"
            refuse(ddl, table, "INSERT", when=f"EXISTS ({same})", name="no_replace_by_key")
    ddl.run(
        "CREATE INDEX transactions_provider_ref ON transactions (tenant_id, provider_ref) "
        "WHERE provider_ref IS NOT NULL",
        "CREATE INDEX budgets_campaign ON budgets (tenant_id, campaign_id, created_at)",
        "CREATE INDEX judge_decisions_task ON judge_decisions (tenant_id, task_id, decided_at)",
    )
