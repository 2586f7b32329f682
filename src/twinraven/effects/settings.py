"""Declares the settings of effects: the section `effects` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinraven.foundation.setting_kinds import Number, ObjectList, Text
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EffectsSettings:
    providers: tuple[dict[str, Any], ...] = setting(
        (),
        ObjectList(),
        "Providers as {name, url, kinds} or {name, folder, kinds}; the outbox of the home is always there.",
    )
    disclosure: str | None = setting(
        None, Text(optional=True), "Words put under every publication that brings none of its own; none: nothing."
    )
    first_pause_s: float = setting(
        1.0, Number(0.01, 3_600), "Pause after a first attempt that reached nobody; each further one is twice as long."
    )
