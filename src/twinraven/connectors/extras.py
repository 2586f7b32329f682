"""Imports libraries that only some connectors need, and names the extra to install where one is missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from twinraven.foundation.errors import InvalidSetting


def require(module: str, extra: str) -> ModuleType:
    """Return a module that an extra brings along."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            f"this connector needs {error.name}, which is not installed", fix=f"pip install 'twinraven[{extra}]'"
        ) from error
