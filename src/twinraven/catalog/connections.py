"""Validates the connection parameters of a definition with its connector, before it is stored.

A tool's parameters are whole when it is saved. A service and a template state defaults at most, so only what they state
is asked about, and a default with a placeholder in it is left to the tools that replace it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinraven.catalog.service_model import ServiceStructure
from twinraven.catalog.transactions import CatalogTransaction
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidDefinition

_PLACEHOLDER = b"{{"


def check_params(
    act: CatalogTransaction, structure: ServiceStructure, params: Mapping[str, Any], *, has_secret: bool
) -> None:
    """Raise InvalidDefinition if no call of a tool could use its connection parameters."""
    if act.check_connection is not None:
        act.check_connection(structure, params, has_secret=has_secret)


def check_defaults(act: CatalogTransaction, structure: ServiceStructure) -> None:
    """Raise InvalidDefinition if a connection schema fills in what no call could use."""
    from twinraven.foundation.json_schema import compile_schema

    if act.check_connection is None:
        return
    filled: dict[str, Any] = compile_schema(structure.connection_schema).fill({})
    stated = {name: value for name, value in filled.items() if _PLACEHOLDER not in canonical_json(value)}
    try:
        act.check_connection(structure, stated, has_secret=False, is_whole=False)
    except InvalidDefinition as error:
        raise InvalidDefinition(
            f"connection_schema has a default that no tool could use: {error.message}",
            **{**error.details, "field": "connection_schema"},
        ) from None
