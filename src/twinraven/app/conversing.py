"""Opens conversations: dialogue that branches, and what its next call would be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.app.asking import models
from twinraven.app.calling import runs
from twinraven.app.foundations import audit, database, redactor
from twinraven.app.knowing import knowledge
from twinraven.app.parts import Home, Part
from twinraven.app.reflecting import KnowledgeCompressor, KnowledgeSources
from twinraven.app.running import processes

if TYPE_CHECKING:
    from twinraven.conversations import Conversations


@Part
def conversations(home: Home) -> Conversations:
    """Dialogue that branches."""
    from twinraven.conversations import (
        ConversationParts,
        Conversations,
        ConversationStore,
        EpisodeWriter,
        ProcessAnswers,
    )

    store, wanted = ConversationStore(), home.settings.conversations
    episodes = EpisodeWriter(database(home), store, lambda: knowledge(home), lambda: runs(home), micros=home.micros)
    answering = ProcessAnswers(
        store,
        processes(home),
        runs(home),
        episodes,
        check_model=models(home).require,
        redact=redactor(home).redact,
        timeout_s=wanted.answer_timeout_s,
        micros=home.micros,
    )
    parts = ConversationParts(database(home), store, answering, episodes, runs(home), audit(home), home.micros)
    return Conversations(
        parts, sources=KnowledgeSources(), compressor=KnowledgeCompressor(home), budget=wanted.token_budget
    )
