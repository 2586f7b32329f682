"""Declares the settings of conversations: the section `conversations` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Integer, Number
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConversationsSettings:
    token_budget: int = setting(
        32_000,
        Integer(100, 100_000_000),
        "Tokens of a working memory; what does not fit is left out in a stated order.",
    )
    answer_timeout_s: float = setting(600.0, Number(1, 86_400), "How long an answer may take before it fails.")
