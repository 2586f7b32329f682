"""Declares the settings of learning: the sections `mining`, `validation` and `learning` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Choice, Flag, Integer, Number
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MiningSettings:
    algorithm: str = setting(
        "contiguous",
        Choice("contiguous", "prefixspan", "gsp"),
        "Chains without gaps, with gaps, or with gaps of bounded time.",
    )
    min_support: float = setting(0.005, Number(0, 1), "Least share of sessions in which a chain occurs.")
    min_sessions: int = setting(
        2, Integer(1), "Fewest sessions in which a chain occurs; learning needs 8 whatever stands here."
    )
    min_confidence: float = setting(0.0, Number(0, 1), "Least mean transition probability along a chain.")
    min_length: int = setting(2, Integer(2, 100), "Fewest tools in a chain.")
    max_length: int = setting(5, Integer(2, 50), "Most tools in a chain.")
    max_gap_ms: int | None = setting(
        None,
        Integer(0, optional=True),
        "Longest idle time between two tools of a chain; for gsp, which needs it.",
    )
    window_days: int | None = setting(
        None, Integer(1, optional=True), "Only calls of the last so many days; none: all."
    )
    last_sessions: int | None = setting(
        None, Integer(1, optional=True), "Only the so many sessions that began last; none: all."
    )
    sample_sessions: int = setting(
        20_000,
        Integer(100),
        "Most sessions that learning reads in full; of more, a uniform sample by hash of id.",
    )
    max_session_calls: int = setting(
        2_000, Integer(10), "Most calls of one session that learning reads in full, from its first on."
    )
    max_patterns: int = setting(
        100_000, Integer(100), "Most chains a run may hold; of more, only the more frequent are looked for."
    )
    max_work: int = setting(
        500_000_000,
        Integer(100_000),
        "Most ends of gapped chains a run may look at, likewise.",
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ValidationSettings:
    similarity: str = setting(
        "exact_match", Choice("exact_match", "cosine_tfidf"), "How a replayed output is compared with the recorded one."
    )
    threshold: float = setting(0.85, Number(0, 1), "Least mean similarity with which a tool passes.")
    min_uses: int = setting(12, Integer(1), "Sessions with a use below which the evidence is called too little.")
    max_latency_ratio: float = setting(
        1.0, Number(0), "Most a tool may take, relative to the calls it replaces, and pass."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LearningSettings:
    """Without `ask_model`, learning asks nobody."""

    max_tools: int = setting(30, Integer(1, 1_000), "Most tools that a round proposes, the most valuable first.")
    max_extra_calls: float = setting(
        0.22,
        Number(0, 10),
        "Most calls that nobody needed which all tools of a round may make, as a share of the recorded calls.",
    )
    max_work: int = setting(
        5_000_000,
        Integer(1_000),
        "Most calls of candidate chains that a round looks at, those of the most valuable chains first.",
    )
    list_writes: bool = setting(
        False, Flag(), "Propose tools that write once for each element of a list that a read gave, too."
    )
    trust_unnamed: bool = setting(
        False, Flag(), "Sessions that name nobody are your own: learn what only few of them do, too."
    )

    ask_model: bool = setting(
        False, Flag(), "Let the configured model word drafts and propose sources for what stayed open."
    )
    model_budget_s: float = setting(120.0, Number(0.1, 86_400), "How long all questions of a round may take.")
    model_max_calls: int = setting(10, Integer(1, 1_000), "Most drafts a round may ask about.")
