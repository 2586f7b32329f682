"""Agents of other libraries: what their tools do is remembered, and what was learned from it is offered to them.

Each adapter needs its library, an extra, and nothing is imported before an adapter is asked for. No library is patched:
an adapter hands over a callback, a capability or tools, and the agent's owner puts them where they belong.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.integrations.door import BlockingDoor, Door, HomeDoor, Offer, Place, ServerDoor
    from twinraven.integrations.langchain import LangChainAdapter
    from twinraven.integrations.openai_agents import OpenAIAgentsAdapter
    from twinraven.integrations.pydantic_ai import PydanticAIAdapter

__all__ = [
    "BlockingDoor",
    "Door",
    "HomeDoor",
    "LangChainAdapter",
    "Offer",
    "OpenAIAgentsAdapter",
    "Place",
    "PydanticAIAdapter",
    "ServerDoor",
]

_HOMES = {
    "door": ("BlockingDoor", "Door", "HomeDoor", "Offer", "Place", "ServerDoor"),
    "langchain": ("LangChainAdapter",),
    "openai_agents": ("OpenAIAgentsAdapter",),
    "pydantic_ai": ("PydanticAIAdapter",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'twinraven.integrations' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"twinraven.integrations.{_HOME_OF[name]}"), name)
    return value
