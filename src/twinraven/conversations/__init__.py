"""Keeps branching conversations, and computes the working memory of the next model call.

`Conversations` keeps a tree of turns, each with alternatives of which one is active; an agent's alternative is made by
a durable run of a process. `assemble` computes a working memory from what the tables hold. What is said becomes
episodes of `knowledge` afterwards, by work on the engine.

Names are resolved on first use: every home knows the tools of this package, and few commands need more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.conversations.answering import VARIABLES, ProcessAnswers
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
    from twinraven.conversations.reading import path_episodes
    from twinraven.conversations.records import ConversationParts
    from twinraven.conversations.service import Conversations
    from twinraven.conversations.settings import ConversationsSettings
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
    "ChatConnector",
    "ChatTools",
    "Compressor",
    "Conversation",
    "ConversationArchived",
    "ConversationParts",
    "ConversationStore",
    "ConversationTurn",
    "Conversations",
    "ConversationsSettings",
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
    "ProcessAnswers",
    "ProcessUnsuitable",
    "SummaryItem",
    "TooManyAlternatives",
    "WorkingMemory",
    "assemble",
    "count_tokens",
    "path_episodes",
    "process_users",
]


__getattr__ = lazy_names(__name__)
