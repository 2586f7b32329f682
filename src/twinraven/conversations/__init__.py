"""Conversations: dialogue that branches, and the working memory that the next call of a model would be sent.

`Conversations` keeps a tree of turns, each with alternatives of which one is active; an agent's alternative is made by
a durable run of a process. `assemble` computes a working memory from what the tables hold. What is said becomes
episodes of `knowledge` afterwards, by work on the engine.

Names are resolved on first use: every home knows the tools of this package, and few commands need more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.conversations.answering import VARIABLES, Answering
    from twinraven.conversations.built_in import BUILT_IN
    from twinraven.conversations.chat_connector import ChatConnector
    from twinraven.conversations.chat_tools import ChatTools
    from twinraven.conversations.episodes import EpisodeWriter
    from twinraven.conversations.errors import (
        AnswerInvalid,
        AnswerUnfinished,
        ConversationArchived,
        ProcessUnsuitable,
        TooManyAlternatives,
    )
    from twinraven.conversations.model import (
        MOST_ALTERNATIVES,
        MOST_CONTENT,
        SPEAKERS,
        TURN_TYPES,
        Alternative,
        Conversation,
        ConversationTurn,
        ForkOrigin,
    )
    from twinraven.conversations.ports import (
        Compressor,
        EntityItem,
        MemorySources,
        NoSources,
        NoteItem,
        PathPlace,
        SummaryItem,
    )
    from twinraven.conversations.records import ConversationParts
    from twinraven.conversations.service import Conversations
    from twinraven.conversations.sql import OTHERS_CONVERSATIONS, ConversationStore, process_users
    from twinraven.conversations.streaming import Piece, PieceWriter
    from twinraven.conversations.tokens import count_tokens
    from twinraven.conversations.working_memory import MemoryItem, WorkingMemory, assemble

__all__ = [
    "BUILT_IN",
    "MOST_ALTERNATIVES",
    "MOST_CONTENT",
    "OTHERS_CONVERSATIONS",
    "SPEAKERS",
    "TURN_TYPES",
    "VARIABLES",
    "Alternative",
    "AnswerInvalid",
    "AnswerUnfinished",
    "Answering",
    "ChatConnector",
    "ChatTools",
    "Compressor",
    "Conversation",
    "ConversationArchived",
    "ConversationParts",
    "ConversationStore",
    "ConversationTurn",
    "Conversations",
    "EntityItem",
    "EpisodeWriter",
    "ForkOrigin",
    "MemoryItem",
    "MemorySources",
    "NoSources",
    "NoteItem",
    "PathPlace",
    "Piece",
    "PieceWriter",
    "ProcessUnsuitable",
    "SummaryItem",
    "TooManyAlternatives",
    "WorkingMemory",
    "assemble",
    "count_tokens",
    "process_users",
]

_HOMES = {
    "answering": ("VARIABLES", "Answering"),
    "built_in": ("BUILT_IN",),
    "chat_connector": ("ChatConnector",),
    "chat_tools": ("ChatTools",),
    "episodes": ("EpisodeWriter",),
    "errors": (
        "AnswerInvalid",
        "AnswerUnfinished",
        "ConversationArchived",
        "ProcessUnsuitable",
        "TooManyAlternatives",
    ),
    "model": (
        "MOST_ALTERNATIVES",
        "MOST_CONTENT",
        "SPEAKERS",
        "TURN_TYPES",
        "Alternative",
        "Conversation",
        "ConversationTurn",
        "ForkOrigin",
    ),
    "ports": (
        "Compressor",
        "EntityItem",
        "MemorySources",
        "NoSources",
        "NoteItem",
        "PathPlace",
        "SummaryItem",
    ),
    "records": ("ConversationParts",),
    "service": ("Conversations",),
    "sql": ("OTHERS_CONVERSATIONS", "ConversationStore", "process_users"),
    "streaming": ("Piece", "PieceWriter"),
    "tokens": ("count_tokens",),
    "working_memory": ("MemoryItem", "WorkingMemory", "assemble"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'twinraven.conversations' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"twinraven.conversations.{_HOME_OF[name]}"), name)
    return value
