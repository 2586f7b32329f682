"""Integrates agents of other libraries: records their tool calls and offers them learned tools.

Each adapter needs its library, an extra, and nothing is imported before an adapter is asked for. No library is patched:
an adapter hands over a callback, a capability or tools, and the agent's owner puts them where they belong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.integrations.door import BlockingDoor, Door, HomeDoor, OfferedAgentTool, ServerDoor, TurnPosition
    from twinraven.integrations.langchain import LangChainAdapter
    from twinraven.integrations.openai_agents import OpenAIAgentsAdapter
    from twinraven.integrations.pydantic_ai import PydanticAIAdapter

__all__ = [
    "BlockingDoor",
    "Door",
    "HomeDoor",
    "LangChainAdapter",
    "OfferedAgentTool",
    "OpenAIAgentsAdapter",
    "PydanticAIAdapter",
    "ServerDoor",
    "TurnPosition",
]


__getattr__ = lazy_names(__name__)
