"""Declares the settings of learned tools: the section `registry` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Choice, Flag, Integer, Number, Text
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RegistrySettings:
    storage_dir: str = setting("tools/generated", Text(), "Tool definition directory, relative to the home.")
    auto_retire_after_days: int = setting(30, Integer(1), "Retire tools unused for so many days.")
    auto_retire_on_drift: bool = setting(False, Flag(), "Retire on drift instead of flagging.")
    drift_threshold: float = setting(0.5, Number(0, 1), "Least share of its first support that a chain keeps.")
    failure_spike_threshold: float = setting(0.3, Number(0, 1), "Recent failure rate above which a tool is retired.")
    maintenance_schedule: str = setting(
        "weekly", Choice("off", "hourly", "daily", "weekly", "monthly"), "How often staleness and drift are checked."
    )
    require_approval: bool = setting(True, Flag(), "A tool that passed waits for a person before it is promoted.")
