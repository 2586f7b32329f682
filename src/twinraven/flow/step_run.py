"""Identifies one attempt of one call of a run: its place in the journal, its part of the idempotency key."""

from __future__ import annotations

from typing import NamedTuple


class StepRun(NamedTuple):
    """Identifies one attempt of one call of a run, as its invoker is told."""

    step_index: int
    item: int | None = None
    """The position in the list of a for_each step."""
    attempt: int = 1
    fallback: int | None = None
    """The position in the step's fallback sequence."""
    id: str | None = None
    """The step's own id, if it has one."""

    @property
    def step_id(self) -> str:
        return str(self.step_index) if self.id is None else self.id

    @property
    def key_suffix(self) -> str:
        """The suffix of this call's idempotency key, unique in the run and the same for every attempt."""
        parts = [self.step_id]
        if self.item is not None:
            parts.append(str(self.item))
        if self.fallback is not None:
            parts.append(f"f{self.fallback}")
        return ":".join(parts)

    @property
    def place(self) -> str:
        """The place of this attempt, unique in the run, such as `3`, `3:17`, `3:f0` or `3#2`."""
        return self.key_suffix if self.attempt == 1 else f"{self.key_suffix}#{self.attempt}"
