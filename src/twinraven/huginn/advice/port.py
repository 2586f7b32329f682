"""Declares the port to the model that gives advice, and the limits on asking it.

Huginn knows neither protocols nor keys: it gives a question and gets back what was said. Nothing that comes through
here is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Redact = Callable[[str, bytes], bytes]
"""A tenant's JSON text without its secrets; may read the vault, so it is called off the loop."""


class AdviceAnswer(Protocol):
    """A model's answer; `value` is set where its server already parsed it."""

    @property
    def text(self) -> str: ...

    @property
    def value(self) -> Any: ...

    @property
    def stop(self) -> str:
        """`length` where the answer was cut off."""
        ...

    @property
    def input_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...


class Advisor(Protocol):
    """One configured model."""

    @property
    def name(self) -> str: ...

    async def ask(self, tenant_id: str, *, system: str, prompt: str, schema: Mapping[str, Any]) -> AdviceAnswer:
        """Ask for JSON that fits the schema; any TwinRavenError means that there is no answer."""
        ...


@dataclass(frozen=True, slots=True)
class AdviceLimits:
    """Limits on the advice of one round of learning."""

    max_calls: int = 10
    timeout_s: float = 30.0
    """For one question."""
    budget_s: float = 120.0
    """For all questions of a round."""
