"""Named chance: every random choice of the demo world comes from a seed and a name.

Drawing from one shared generator would make each choice depend on everything drawn before it, and so on how concurrent
calls happen to interleave. A generator per name keeps two runs with the same seed alike, whatever their timing, and
lets an agent with learned tools meet the same luck as one without.
"""

from __future__ import annotations

from random import Random


def chance(*name: object) -> Random:
    """The generator that belongs to this name, always the same."""
    return Random(":".join(map(str, name)))
