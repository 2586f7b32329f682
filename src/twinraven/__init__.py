"""Runs agents' tool calls, remembers each of them, and compiles what repeats into verified tools.

The names below are the public Python door. They are resolved on first use, so that importing `twinraven` costs
nothing: a command-line tool is started far more often than it is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.app import TwinRaven, open_home
    from twinraven.catalog import tool
    from twinraven.muninn import Collector, MuninnEvent, Outcome, observed
    from twinraven.sdk import AsyncClient, Client

__version__ = "0.2.0"

__all__ = [
    "AsyncClient",
    "Client",
    "Collector",
    "MuninnEvent",
    "Outcome",
    "TwinRaven",
    "observed",
    "open_home",
    "tool",
]


__getattr__ = lazy_names(__name__)
