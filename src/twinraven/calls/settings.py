"""Declares the settings of the call path: the sections `calls` and `policy` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinraven.foundation.setting_kinds import Choice, Integer, Number, ObjectList, TextList
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallsSettings:
    python_threads: int = setting(16, Integer(1, 10_000), "Threads that run synchronous Python tools.")
    default_timeout_ms: int = setting(
        30_000, Integer(1, 86_400_000), "How long a tool may take that states no time-out of its own."
    )
    longest_ms: int = setting(
        3_600_000, Integer(1, 86_400_000), "Longest time of a call whose time begins anew because it reports progress."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PolicySettings:
    rules: tuple[dict[str, Any], ...] = setting(
        (), ObjectList(), "What may be called; the first rule that fits decides."
    )
    approval_ttl_s: float = setting(
        86_400.0, Number(1, 31_536_000), "Seconds after which a request for approval, granted or not, has expired."
    )
    checks: tuple[dict[str, Any], ...] = setting(
        (), ObjectList(), "What the results of tasks are held against; a check that fires rejects, escalates or warns."
    )
    functions: tuple[str, ...] = setting(
        (), TextList(), "Python functions that check results, as module:function; one that raises or hangs denies."
    )
    check_timeout_s: float = setting(5.0, Number(0.05, 600), "Seconds in which such a function must answer.")
    judge: str = setting(
        "house",
        Choice("house", "outside"),
        "Who judges results: the checks of this home, or judges outside.",
    )
