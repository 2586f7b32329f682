"""Declares the settings of durable runs: the section `engine` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinraven.foundation.setting_kinds import Choice, Flag, Integer, Number, ObjectList, Text
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EngineSettings:
    workers: bool = setting(True, Flag(), "Work on runs in `twinraven up`, too; `twinraven worker` always does.")
    dispatcher: str = setting(
        "embedded", Choice("embedded", "temporal"), "Who decides which worker advances a run: our tables, or Temporal."
    )
    temporal_address: str = setting("127.0.0.1:7233", Text(), "Where Temporal is, if it dispatches.")
    temporal_namespace: str = setting("default", Text(), "Temporal's namespace for runs.")
    pools: tuple[dict[str, Any], ...] = setting(
        (), ObjectList(), "Pools as {queue, slots, per_second}; the queue is runs, or a worker type such as rest_api."
    )
    lease_s: float = setting(
        30.0, Number(0.5, 3_600), "Seconds without a heartbeat after which a worker's runs are taken over."
    )
    poll_s: float = setting(0.5, Number(0.01, 60), "How often a worker looks for runs that others made due.")
    drain_s: float = setting(30.0, Number(0, 3_600), "How long a worker that is stopped lets calls under way end.")
    max_deaths: int = setting(5, Integer(1, 1_000), "Workers that may die with a run before it is set aside.")
    keep_days: int | None = setting(
        30, Integer(1, optional=True), "Days for which runs that ended are kept; none: for ever."
    )
    learning_schedule: str = setting(
        "off", Choice("off", "daily", "weekly", "monthly"), "How often workers start a round of learning, at night."
    )
