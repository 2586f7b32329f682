"""What every door on HTTP shares: who may come in, what listens, and ending in order.

Names are resolved on first use, so that checking an address does not import a web server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.serving.connections import CONNECTIONS, connection_name
    from twinraven.serving.doorkeeper import BELIEVED_S, ENDING, Doorkeeper, is_loopback
    from twinraven.serving.errors import ServerEnding
    from twinraven.serving.listening import (
        AsgiApp,
        Message,
        Receive,
        Scope,
        Send,
        listener,
        open_socket,
        patience_for,
        run,
        serve,
    )
    from twinraven.serving.mounting import Mounted, alive
    from twinraven.serving.processes import keep_running
    from twinraven.serving.signals import ending_with, leave_threads_behind

__all__ = [
    "BELIEVED_S",
    "CONNECTIONS",
    "ENDING",
    "AsgiApp",
    "Doorkeeper",
    "Message",
    "Mounted",
    "Receive",
    "Scope",
    "Send",
    "ServerEnding",
    "alive",
    "connection_name",
    "ending_with",
    "is_loopback",
    "keep_running",
    "leave_threads_behind",
    "listener",
    "open_socket",
    "patience_for",
    "run",
    "serve",
]

_HOMES = {
    "connections": ("CONNECTIONS", "connection_name"),
    "doorkeeper": ("BELIEVED_S", "ENDING", "Doorkeeper", "is_loopback"),
    "errors": ("ServerEnding",),
    "listening": (
        "AsgiApp",
        "Message",
        "Receive",
        "Scope",
        "Send",
        "listener",
        "open_socket",
        "patience_for",
        "run",
        "serve",
    ),
    "mounting": ("Mounted", "alive"),
    "processes": ("keep_running",),
    "signals": ("ending_with", "leave_threads_behind"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'twinraven.serving' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"twinraven.serving.{_HOME_OF[name]}"), name)
    return value
