"""Chooses the tools that a planner is offered, and their order: learned tools before the parts they are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from twinraven.catalog import ToolEntry

MOST_OFFERED: Final = 60
_WORD: Final = re.compile(r"[a-z0-9]{3,}")


def offer_tools(request: str, tools: Iterable[ToolEntry], *, most: int = MOST_OFFERED) -> list[ToolEntry]:
    """Return the tools a planner sees: composites first, then by how many words they share with the request, then by
    name.
    """
    wanted = _words(request)

    def rank(tool: ToolEntry) -> tuple[bool, int, str]:
        shared = len(wanted & _words(f"{tool.tool_id.replace('_', ' ')} {tool.description}"))
        return (not tool.parts, -shared, tool.tool_id)

    return sorted(tools, key=rank)[:most]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower().replace("_", " ")))
