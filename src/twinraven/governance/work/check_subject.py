"""Gathers the subject of a policy check: the task, its campaign, and the result that is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from twinraven.foundation.clock import iso
from twinraven.governance.model import Campaign, Task, TaskSpec
from twinraven.governance.money import Money


@dataclass(frozen=True, slots=True)
class OutgoingContent:
    """The part of an effect that is visible outside."""

    texts: tuple[str, ...] = ()
    channel: str | None = None
    """The channel; None for effects without one."""
    persona_id: str | None = None
    """In whose voice; None where it is the campaign's."""
    is_disclosed: bool = True
    """Whether it says how it was made, or need not."""


@dataclass(frozen=True, slots=True)
class CheckSubject:
    """One result in its surroundings, as checks see it."""

    task: Task
    spec: TaskSpec
    campaign: Campaign
    confidence: float
    risk_tags: tuple[str, ...]
    outputs: Mapping[str, Any]
    evidence: tuple[Mapping[str, Any], ...]
    cost: Money | None
    """What this attempt cost; None where nothing was stated."""
    spent: int
    """What all attempts cost, this one too, in the smallest unit of the budget's currency."""
    has_foreign_cost: bool
    """Whether a cost was stated in another currency than the budget's, or as what is no amount."""
    now: datetime

    @property
    def artifacts(self) -> list[dict[str, Any]]:
        return list(self.outputs.get("artifacts") or [])

    @property
    def channels(self) -> list[str]:
        """The channels that the artifacts are meant for; where none says so, those of the task."""
        said = [str(each["channel"]) for each in self.artifacts if each.get("channel")]
        return said or list(self.spec.constraints.channels)

    @property
    def personas(self) -> list[str]:
        """In whose voice the artifacts speak; where none says so, in that of the campaign."""
        said = [str(each["persona_id"]) for each in self.artifacts if each.get("persona_id")]
        return said or ([] if self.campaign.persona_id is None else [self.campaign.persona_id])

    @property
    def words(self) -> dict[str, list[str]]:
        """Return the texts that patterns of rules are matched against, by the name of the field."""
        return {
            "tenant": [self.task.tenant_id],
            "campaign": [self.task.campaign_id],
            "task_type": [self.task.task_type],
            "channel": self.channels,
            "persona": self.personas,
            "risk_tag": list(self.risk_tags),
            "artifact": [str(each.get("kind")) for each in self.artifacts],
        }

    @property
    def texts(self) -> list[str]:
        """Every text in the outputs."""
        return list(_texts(self.outputs))

    @property
    def budget_left(self) -> Money | None:
        limits = self.spec.constraints
        if limits.max_budget is None or limits.currency is None:
            return None
        return Money(max(0, limits.max_budget - self.spent), limits.currency)

    @property
    def is_disclosed(self) -> bool:
        """Whether every artifact says that it discloses who made it; one with nothing in it need not."""
        return all(bool(each.get("disclosure")) for each in self.artifacts if each.get("kind") != "metadata_only")

    @property
    def is_in_window(self) -> bool:
        limits = self.spec.constraints
        return (limits.starts_at is None or self.now >= limits.starts_at) and (
            limits.ends_at is None or self.now < limits.ends_at
        )

    def showing(self, leaving: OutgoingContent) -> CheckSubject:
        """Return the same task and result, with what leaves the house in place of what the result holds."""
        kinds = [str(each.get("kind")) for each in self.artifacts if each.get("kind") != "metadata_only"] or ["other"]
        shown = {
            "channel": leaving.channel,
            "persona_id": leaving.persona_id,
            "disclosure": leaving.is_disclosed,
            "texts": list(leaving.texts),
        }
        return replace(self, outputs={"artifacts": [{"kind": kind, **shown} for kind in kinds]})

    def as_json(self) -> dict[str, Any]:
        """Return the argument of a check that is a Python function."""
        return {
            "now": iso(self.now),
            "task": self.task.as_json(),
            "campaign": self.campaign.as_json(),
            "result": {
                "confidence_score": self.confidence,
                "risk_tags": list(self.risk_tags),
                "outputs": dict(self.outputs),
                "acceptance_evidence": [dict(each) for each in self.evidence],
                "cost": None if self.cost is None else self.cost.as_json(),
            },
            "channels": self.channels,
            "personas": self.personas,
            "budget_left": None if self.budget_left is None else self.budget_left.as_json(),
            "is_in_window": self.is_in_window,
            "is_disclosed": self.is_disclosed,
        }


def _texts(value: Any) -> Iterator[str]:
    pending: list[Any] = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, dict):
            pending += cast("dict[str, Any]", current).values()
        elif isinstance(current, list | tuple):
            pending += cast("list[Any]", current)
