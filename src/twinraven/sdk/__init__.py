"""A TwinRaven server from a program: `Client`, and `AsyncClient` where there is an event loop.

It is a client of the REST API and nothing else: it knows the API's entities and errors, opens no database and starts no
thread. Names are resolved on first use, so that importing this costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.sdk.catalogue_model import KEEP, Keep, ServiceInfo, ServiceTemplate, ToolDefinition, ToolTemplate
    from twinraven.sdk.client import AsyncClient, Client
    from twinraven.sdk.delivery import MOST_AT_ONCE, Turnstile, deliver
    from twinraven.sdk.errors import RemoteError, ServerUnreachable
    from twinraven.sdk.model import (
        Adoption,
        ApprovalInfo,
        AuditEntry,
        AuditReport,
        CallResult,
        Chain,
        Event,
        KeyInfo,
        LearnedTool,
        LearnedVersion,
        LearningRound,
        Me,
        ObservedCall,
        SecretInfo,
        SessionInfo,
        ToolInfo,
        UserInfo,
    )
    from twinraven.sdk.observing import AsyncSessionRecorder, SessionRecorder, failed

__all__ = [
    "KEEP",
    "MOST_AT_ONCE",
    "Adoption",
    "ApprovalInfo",
    "AsyncClient",
    "AsyncSessionRecorder",
    "AuditEntry",
    "AuditReport",
    "CallResult",
    "Chain",
    "Client",
    "Event",
    "Keep",
    "KeyInfo",
    "LearnedTool",
    "LearnedVersion",
    "LearningRound",
    "Me",
    "ObservedCall",
    "RemoteError",
    "SecretInfo",
    "ServerUnreachable",
    "ServiceInfo",
    "ServiceTemplate",
    "SessionInfo",
    "SessionRecorder",
    "ToolDefinition",
    "ToolInfo",
    "ToolTemplate",
    "Turnstile",
    "UserInfo",
    "deliver",
    "failed",
]

_HOMES = {
    "catalogue_model": ("KEEP", "Keep", "ServiceInfo", "ServiceTemplate", "ToolDefinition", "ToolTemplate"),
    "client": ("AsyncClient", "Client"),
    "delivery": ("MOST_AT_ONCE", "Turnstile", "deliver"),
    "errors": ("RemoteError", "ServerUnreachable"),
    "model": (
        "Adoption",
        "ApprovalInfo",
        "AuditEntry",
        "AuditReport",
        "CallResult",
        "Chain",
        "Event",
        "KeyInfo",
        "LearnedTool",
        "LearnedVersion",
        "LearningRound",
        "Me",
        "ObservedCall",
        "SecretInfo",
        "SessionInfo",
        "ToolInfo",
        "UserInfo",
    ),
    "observing": ("AsyncSessionRecorder", "SessionRecorder", "failed"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'twinraven.sdk' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"twinraven.sdk.{_HOME_OF[name]}"), name)
    return value
