"""The REST door, under /v1: everything that can be asked of a home, described by one OpenAPI document.

Names are resolved on first use: the command line asks for schemas alone and pays for nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.api.description import openapi_document
    from twinraven.api.entities import entity_schemas
    from twinraven.api.service import all_routes, api_app

__all__ = ["all_routes", "api_app", "entity_schemas", "openapi_document"]

_HOMES = {
    "all_routes": "service",
    "api_app": "service",
    "entity_schemas": "entities",
    "openapi_document": "description",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'twinraven.api' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"twinraven.api.{_HOMES[name]}"), name)
    return value
