"""Keeps campaigns, goals and budgets: shared state with optimistic concurrency control."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import IllegalTransition, InvalidInput, PolicyViolation
from twinraven.foundation.ids import new_id
from twinraven.governance.effect_model import Budget
from twinraven.governance.model import Campaign, Goal, Lineage
from twinraven.governance.money import check_currency, parse_minor
from twinraven.governance.states import BUDGET, CAMPAIGN, BudgetStatus, CampaignStatus
from twinraven.governance.work.moves import TaskMoves
from twinraven.governance.work.plan_sql import Place
from twinraven.muninn import check_name
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

MOST_LISTED: Final = 1_000
_LONGEST: Final = 200
_LONGEST_TEXT: Final = 10_000
_LIVE: Final = ("pending", "in_progress", "review", "escalated")


class Campaigns:
    """The campaigns, goals and budgets of all tenants; all of a tenant see them, owners and admins change them."""

    def __init__(self, database: Database, moves: TaskMoves, *, micros: Callable[[], int]) -> None:
        self._database = database
        self._moves = moves
        self._micros = micros

    async def create(self, name: str, *, by: Principal, persona_id: str | None = None) -> Campaign:
        check_name(name, field="name", limit=_LONGEST)
        if persona_id is not None:
            check_name(persona_id, field="persona_id", limit=_LONGEST)
        campaign_id = new_id()

        def work(tx: Transaction) -> Campaign:
            row = self._row(by, campaign_id=campaign_id, name=name, status="active", persona_id=persona_id)
            self._moves.plans.add(tx, "campaign", row)
            self._note(tx, "campaign.created", ("campaign", campaign_id), campaign_id, by, state_version=1)
            return self._moves.plans.campaign(tx, by.tenant_id, campaign_id)

        return await self._database.write(by.tenant_id, work)

    async def get(self, tenant_id: str, campaign_id: str) -> Campaign:
        return await self._database.read(tenant_id, lambda tx: self._moves.plans.campaign(tx, tenant_id, campaign_id))

    async def list(self, tenant_id: str, *, limit: int = 100, after: str | None = None) -> tuple[Campaign, ...]:
        """In the order of their creation; `after` names the last of the page before."""
        return await self._page("campaign", tenant_id, limit, after)

    async def change(
        self,
        campaign_id: str,
        *,
        by: Principal,
        state_version: int,
        name: str | None = None,
        persona_id: str | None = None,
        status: CampaignStatus | None = None,
    ) -> Campaign:
        """Change a campaign that stands at `state_version`; one that is paused lets no attempt begin."""
        _check_word(status, CAMPAIGN, "status")
        values = {"name": name, "persona_id": persona_id, "status": status}
        stated = {key: value for key, value in values.items() if value is not None}
        for key in ("name", "persona_id"):
            if key in stated:
                check_name(str(stated[key]), field=key, limit=_LONGEST)

        def work(tx: Transaction) -> Campaign:
            before = self._moves.plans.campaign(tx, by.tenant_id, campaign_id)
            _refuse_stranger("campaign", campaign_id, before.created_by, by)
            self._moves.plans.change(
                tx,
                "campaign",
                by.tenant_id,
                campaign_id,
                seen=state_version,
                before=before.status,
                now=self._micros(),
                **stated,
            )
            after = self._moves.plans.campaign(tx, by.tenant_id, campaign_id)
            if after.status != before.status:
                self._move_tasks(tx, after, by)
            self._note(
                tx,
                "campaign.changed",
                ("campaign", campaign_id),
                campaign_id,
                by,
                state_version=after.state_version,
                status=after.status,
            )
            return after

        changed = await self._database.write(by.tenant_id, work)
        self._moves.runs().announce()
        return changed

    def _move_tasks(self, tx: Transaction, campaign: Campaign, by: Principal) -> None:
        """Take tasks off the queue when their campaign stops, and put them back when it goes on."""
        for status in _LIVE if campaign.status == "cancelled" else ("pending",):
            tasks = self._moves.plans.tasks(
                tx, campaign.tenant_id, limit=1_000_000, campaign_id=campaign.campaign_id, status=status
            )
            for task in tasks:
                if campaign.status == "active":
                    self._moves.enqueue(tx, task)
                elif campaign.status == "cancelled":
                    self._moves.cancel(tx, task, by.actor)
                else:
                    self._moves.dequeue(tx, task)

    async def add_goal(self, campaign_id: str, description: str, *, by: Principal) -> Goal:
        _check_text(description, "description")
        goal_id = new_id()

        def work(tx: Transaction) -> Goal:
            campaign = self._moves.plans.campaign(tx, by.tenant_id, campaign_id)
            if campaign.status in ("complete", "cancelled"):
                raise IllegalTransition(
                    f"campaign {campaign_id!r} is {campaign.status}; it takes no goals", campaign_id=campaign_id
                )
            row = self._row(by, goal_id=goal_id, campaign_id=campaign_id, description=description, status="pending")
            self._moves.plans.add(tx, "goal", row)
            self._note(tx, "goal.created", ("goal", goal_id), campaign_id, by, goal_id=goal_id, state_version=1)
            return self._moves.plans.goal(tx, by.tenant_id, goal_id)

        return await self._database.write(by.tenant_id, work)

    async def goal(self, tenant_id: str, goal_id: str) -> Goal:
        return await self._database.read(tenant_id, lambda tx: self._moves.plans.goal(tx, tenant_id, goal_id))

    async def goals(
        self,
        tenant_id: str,
        *,
        campaign_id: str | None = None,
        status: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> tuple[Goal, ...]:
        return await self._page("goal", tenant_id, limit, after, campaign_id=campaign_id, status=status)

    async def cancel_goal(self, goal_id: str, *, by: Principal, state_version: int) -> Goal:
        """Cancel a goal, and those of its tasks that have not ended."""

        def work(tx: Transaction) -> Goal:
            goal = self._moves.plans.goal(tx, by.tenant_id, goal_id)
            _refuse_stranger("goal", goal_id, goal.created_by, by)
            self._moves.plans.change(
                tx,
                "goal",
                by.tenant_id,
                goal_id,
                seen=state_version,
                before=goal.status,
                now=self._micros(),
                status="cancelled",
            )
            for status in _LIVE:
                for task in self._moves.plans.tasks(tx, by.tenant_id, limit=1_000_000, goal_id=goal_id, status=status):
                    self._moves.cancel(tx, task, by.actor)
            self._note(tx, "goal.cancelled", ("goal", goal_id), goal.campaign_id, by, goal_id=goal_id)
            return self._moves.plans.goal(tx, by.tenant_id, goal_id)

        return await self._database.write(by.tenant_id, work)

    async def add_budget(
        self, campaign_id: str, *, total: str, currency: str, by: Principal, name: str = "budget"
    ) -> Budget:
        """Give a campaign a budget in one currency; `total` is decimal text."""
        check_name(name, field="name", limit=_LONGEST)
        minor = parse_minor(total, check_currency(currency), field="total")
        budget_id = new_id()

        def work(tx: Transaction) -> Budget:
            campaign = self._moves.plans.campaign(tx, by.tenant_id, campaign_id)
            _refuse_stranger("campaign", campaign_id, campaign.created_by, by)
            if campaign.status in ("complete", "cancelled"):
                raise IllegalTransition(
                    f"campaign {campaign_id!r} is {campaign.status}; it takes no budgets", campaign_id=campaign_id
                )
            row = self._row(
                by,
                budget_id=budget_id,
                campaign_id=campaign_id,
                name=name,
                status="open",
                currency=currency,
                total=minor,
            )
            self._moves.plans.add(tx, "budget", row)
            self._note(
                tx,
                "budget.created",
                ("budget", budget_id),
                campaign_id,
                by,
                total=total,
                currency=currency,
                state_version=1,
            )
            return self._moves.plans.budget(tx, by.tenant_id, budget_id)

        return await self._database.write(by.tenant_id, work)

    async def budget(self, tenant_id: str, budget_id: str) -> Budget:
        return await self._database.read(tenant_id, lambda tx: self._moves.plans.budget(tx, tenant_id, budget_id))

    async def budgets(
        self, tenant_id: str, *, campaign_id: str | None = None, limit: int = 100, after: str | None = None
    ) -> tuple[Budget, ...]:
        return await self._page("budget", tenant_id, limit, after, campaign_id=campaign_id)

    async def change_budget(
        self,
        budget_id: str,
        *,
        by: Principal,
        state_version: int,
        total: str | None = None,
        status: BudgetStatus | None = None,
    ) -> Budget:
        """Change a budget that stands at `state_version`."""
        _check_word(status, BUDGET, "status")

        def work(tx: Transaction) -> Budget:
            before = self._moves.plans.budget(tx, by.tenant_id, budget_id)
            _refuse_stranger("budget", budget_id, before.created_by, by)
            values: dict[str, Any] = {} if status is None else {"status": status}
            if total is not None:
                values["total"] = parse_minor(total, before.currency, field="total")
            self._moves.plans.change(
                tx,
                "budget",
                by.tenant_id,
                budget_id,
                seen=state_version,
                before=before.status,
                now=self._micros(),
                **values,
            )
            after = self._moves.plans.budget(tx, by.tenant_id, budget_id)
            self._note(
                tx,
                "budget.changed",
                ("budget", budget_id),
                before.campaign_id,
                by,
                total=after.as_json()["total"],
                status=after.status,
                state_version=after.state_version,
            )
            return after

        return await self._database.write(by.tenant_id, work)

    async def _page(self, kind: str, tenant_id: str, limit: int, after: str | None, **where: str | None) -> Any:
        if not 1 <= limit <= MOST_LISTED:
            raise InvalidInput(f"limit must lie between 1 and {MOST_LISTED}", field="limit")

        def work(tx: Transaction) -> tuple[Any, ...]:
            place: Place | None = None
            if after is not None:
                last = getattr(self._moves.plans, kind)(tx, tenant_id, after)
                place = (to_micros(last.created_at), after)
            return tuple(self._moves.plans.listing(tx, kind, tenant_id, limit=limit, after=place, **where))

        return await self._database.read(tenant_id, work)

    def _row(self, by: Principal, **values: Any) -> dict[str, Any]:
        now = self._micros()
        return {
            "tenant_id": by.tenant_id,
            **values,
            "state_version": 1,
            "created_by": by.user_id,
            "created_at": now,
            "updated_at": now,
        }

    def _note(
        self,
        tx: Transaction,
        event: str,
        subject: tuple[str, str],
        campaign_id: str,
        by: Principal,
        **data: Any,
    ) -> None:
        lineage = Lineage(by.tenant_id, campaign_id, data.pop("goal_id", None))
        self._moves.witness.note(tx, event, subject, lineage, by.actor, **data)


def _check_word(word: str | None, table: Any, field: str) -> None:
    if word is not None and word not in table:
        raise InvalidInput(f"{field} must be one of {', '.join(table)}", field=field)


def _check_text(text: str, field: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST_TEXT or "\x00" in text:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{field} must be text of 1 to {_LONGEST_TEXT} characters", field=field)


def _refuse_stranger(kind: str, subject_id: str, owner: str, by: Principal) -> None:
    if by.role != "admin" and owner != by.user_id:
        raise PolicyViolation(f"{kind} {subject_id!r} belongs to somebody else", subject=kind, subject_id=subject_id)
