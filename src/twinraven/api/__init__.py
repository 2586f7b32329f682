"""Serves the REST API under /v1, described by one OpenAPI document.

Names are resolved on first use: the command line asks for schemas alone and pays for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.api.description import openapi_document
    from twinraven.api.entities import entity_schemas
    from twinraven.api.service import all_routes, api_app

__all__ = ["all_routes", "api_app", "entity_schemas", "openapi_document"]


__getattr__ = lazy_names(__name__)
