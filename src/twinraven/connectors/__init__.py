"""How each kind of service is spoken to; every connector satisfies the port that `calls` owns.

Names are resolved on first use: whoever calls a Python function does not load what speaks HTTP or Bolt.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.connectors.addresses import AddressGuard, AddressRules
    from twinraven.connectors.binding import Binding, BindingSource, Frame, Health, Healthy, RevealSecret
    from twinraven.connectors.breaker import CircuitBreaker
    from twinraven.connectors.delivery import HttpDelivery
    from twinraven.connectors.http_model import HttpLimits
    from twinraven.connectors.python import PythonConnector
    from twinraven.connectors.rest import RestConnector
    from twinraven.connectors.transport import HttpTransport

__all__ = [
    "AddressGuard",
    "AddressRules",
    "Binding",
    "BindingSource",
    "CircuitBreaker",
    "Frame",
    "Health",
    "Healthy",
    "HttpDelivery",
    "HttpLimits",
    "HttpTransport",
    "PythonConnector",
    "RestConnector",
    "RevealSecret",
]

_HOMES = {
    "AddressGuard": "addresses",
    "AddressRules": "addresses",
    "Binding": "binding",
    "BindingSource": "binding",
    "CircuitBreaker": "breaker",
    "Frame": "binding",
    "Health": "binding",
    "Healthy": "binding",
    "HttpDelivery": "delivery",
    "HttpLimits": "http_model",
    "HttpTransport": "transport",
    "PythonConnector": "python",
    "RestConnector": "rest",
    "RevealSecret": "binding",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
