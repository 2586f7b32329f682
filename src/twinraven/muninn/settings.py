"""Declares the settings of the event log: the sections `muninn` and `retention` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Choice, Flag, Integer, Number
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MuninnSettings:
    store_outputs: bool = setting(
        True, Flag(), "Keep full outputs; without them no wiring can be inferred and nothing can be replayed."
    )
    summaries: str = setting(
        "deterministic",
        Choice("deterministic", "model", "off"),
        "How output_summary is made; model: that of model.name.",
    )
    summary_chars: int = setting(280, Integer(1, 100_000), "Longest output_summary, in characters.")
    queue_size: int = setting(10_000, Integer(1, 10_000_000), "Events that may wait to be written before callers wait.")
    session_idle_gap_s: float = setting(
        900.0, Number(0), "Idle seconds after which a session without an id of its own is a new one."
    )
    redact_high_entropy: bool = setting(False, Flag(), "Redact strings that look random, besides known secrets.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RetentionSettings:
    days: int | None = setting(None, Integer(1, optional=True), "Sessions older than this may be pruned; none: kept.")
