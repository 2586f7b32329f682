"""Checks what an effect refers to: the wallet, the budget and the media asset must exist and fit.

A campaign that has budgets spends from them and from nothing else: a payment that names none is charged to the one that
fits, so that leaving the name out is no way around it.
"""

from __future__ import annotations

from typing import Any

from twinraven.effects.asset_sql import AssetStore
from twinraven.effects.intents import Intent
from twinraven.effects.model import refuse_closed_wallet
from twinraven.effects.wallet_sql import WalletStore
from twinraven.foundation.errors import IllegalTransition, InvalidInput, NotFound, PolicyViolation
from twinraven.governance import Budget, PlanStore
from twinraven.storage import Transaction

_MOST_BUDGETS = 1_000


class EffectReferences:
    """Checks the wallet, budget and media asset that an effect refers to."""

    def __init__(self) -> None:
        self._wallets = WalletStore()
        self._assets = AssetStore()
        self._plans = PlanStore()

    def checked(self, tx: Transaction, tenant_id: str, campaign_id: str, intent: Intent) -> dict[str, Any]:
        """Return the columns of an intent whose references fit its campaign.

        A payment's with the budget it is charged to.
        """
        columns = intent.columns
        if intent.kind == "publish" and columns["media_asset_id"] is not None:
            self._check_asset(tx, tenant_id, campaign_id, columns["media_asset_id"])
        if intent.kind != "transaction":
            return columns
        self._check_wallet(tx, tenant_id, campaign_id, columns)
        budget = self._budget(tx, tenant_id, campaign_id, columns)
        return {**columns, "budget_id": None if budget is None else budget.budget_id}

    def _check_asset(self, tx: Transaction, tenant_id: str, campaign_id: str, asset_id: str) -> None:
        if self._assets.find(tx, tenant_id, asset_id).campaign_id != campaign_id:
            raise NotFound(f"the campaign has no media asset {asset_id!r}", field="media_asset_id")

    def _check_wallet(self, tx: Transaction, tenant_id: str, campaign_id: str, columns: dict[str, Any]) -> None:
        """Refuse a wallet in another currency, one that is not open, and one that is another campaign's."""
        wallet = self._wallets.find(tx, tenant_id, columns["wallet_id"])
        wallet_id, currency, owner = wallet.wallet_id, columns["currency"], wallet.agent_or_campaign_id
        if wallet.currency != currency:
            raise InvalidInput(f"wallet {wallet_id!r} holds {wallet.currency}, not {currency}", field="currency")
        refuse_closed_wallet(wallet_id, wallet.status)
        if owner != campaign_id and self._plans.has_campaign(tx, tenant_id, owner):
            raise PolicyViolation(
                f"wallet {wallet_id!r} is of campaign {owner!r}, so nothing is paid out of it for another",
                campaign_id=campaign_id,
                wallet_id=wallet_id,
            )

    def _budget(self, tx: Transaction, tenant_id: str, campaign_id: str, columns: dict[str, Any]) -> Budget | None:
        """Return the budget that a payment is charged to; None for a campaign that has none."""
        stated, currency = columns["budget_id"], columns["currency"]
        own = self._plans.listing(tx, "budget", tenant_id, limit=_MOST_BUDGETS, campaign_id=campaign_id)
        if stated is not None:
            return self._named(own, stated, currency)
        fitting = [budget for budget in own if (budget.currency, budget.status) == (currency, "open")]
        if len(fitting) > 1:
            names = ", ".join(budget.budget_id for budget in fitting)
            raise InvalidInput(f"budget_id must name one of the campaign's budgets: {names}", field="budget_id")
        if own and not fitting:
            raise PolicyViolation(
                f"no budget of the campaign is open in {currency}, so nothing is paid for it", campaign_id=campaign_id
            )
        return fitting[0] if fitting else None

    @staticmethod
    def _named(own: list[Budget], budget_id: str, currency: str) -> Budget:
        found = next((budget for budget in own if budget.budget_id == budget_id), None)
        if found is None:
            raise NotFound(f"the campaign has no budget {budget_id!r}", field="budget_id", budget_id=budget_id)
        if found.currency != currency:
            raise InvalidInput(f"budget {budget_id!r} is in {found.currency}, not {currency}", field="currency")
        if found.status != "open":
            raise IllegalTransition(f"budget {budget_id!r} is {found.status}", budget_id=budget_id)
        return found
