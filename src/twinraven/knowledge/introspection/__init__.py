"""Keeps introspection notes: what an agent remembers of a user, reconsidered in the background."""

from __future__ import annotations

from twinraven.knowledge.introspection.model import (
    DEFAULT_ROTATION,
    DEFAULT_THRESHOLD,
    INTROSPECTION_SOURCE,
    Introspection,
    Reflection,
    next_position,
)
from twinraven.knowledge.introspection.service import (
    REFLECT_PROCESS,
    REFLECT_WORK,
    CarouselRules,
    Introspections,
)
from twinraven.knowledge.introspection.sql import list_notes

__all__ = [
    "DEFAULT_ROTATION",
    "DEFAULT_THRESHOLD",
    "INTROSPECTION_SOURCE",
    "REFLECT_PROCESS",
    "REFLECT_WORK",
    "CarouselRules",
    "Introspection",
    "Introspections",
    "Reflection",
    "list_notes",
    "next_position",
]
