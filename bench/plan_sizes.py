"""How many cycles of a plan are measured, the same for every contender, and what its model says."""

from __future__ import annotations

CYCLES = 40
ANSWER = "Thought about."
