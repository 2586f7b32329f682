"""Declares the settings of plans: the section `plans` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Flag, Integer
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlansSettings:
    ttl: int = setting(20, Integer(1, 1_000), "How often a plan may ask the model, if its caller does not say.")
    offer_tool: bool = setting(
        True, Flag(), "Offer run_plan to every caller as a built-in tool, where a model is configured."
    )
