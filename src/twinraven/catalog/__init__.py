"""The catalogue: everything that can be called, as one list of entries.

Sources (Python functions, upstream servers, learned tools) plug in; callers see `ToolEntry` and nothing else.
"""

from __future__ import annotations

from twinraven.catalog.effects import infer_effect
from twinraven.catalog.functions import FunctionTool, FunctionTools, tool
from twinraven.catalog.model import Catalog, Effect, IdempotentBy, Sensitivity, ToolAnswer, ToolEntry, ToolSource

__all__ = [
    "Catalog",
    "Effect",
    "FunctionTool",
    "FunctionTools",
    "IdempotentBy",
    "Sensitivity",
    "ToolAnswer",
    "ToolEntry",
    "ToolSource",
    "infer_effect",
    "tool",
]
