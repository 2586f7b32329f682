"""Defines the errors of conversations."""

from __future__ import annotations

from twinraven.foundation.errors import Conflict, InvalidInput, ToolError


class ConversationArchived(Conflict):
    """the conversation is archived: nothing is added to it or changed until somebody unarchives it"""

    code = "CONVERSATION_ARCHIVED"


class AnswerUnfinished(Conflict):
    """the answer is still being generated; wait for its end, or let another one be generated"""

    code = "ANSWER_UNFINISHED"
    acts = "nobody"
    retryable = True


class TooManyAlternatives(Conflict):
    """the turn has as many alternatives as a turn may have"""

    code = "TOO_MANY_ALTERNATIVES"


class ProcessUnsuitable(InvalidInput):
    """the process cannot answer in a conversation: it is not there, disabled, or asks for a variable that none has"""

    code = "PROCESS_UNSUITABLE"


class AnswerInvalid(ToolError):
    """the process ended without a text that can be kept as an answer: nothing, or more than an answer may hold"""

    code = "ANSWER_INVALID"
    acts = "operator"
