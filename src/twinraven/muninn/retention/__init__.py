"""Prunes whole sessions from the log once their last call is old enough, and keeps a signed note.

It is the only way out of the log and a maintenance path, not application logic: each batch is one audited transaction
in which the guard is lifted, rows leave and the guard stands again. Sessions with events that a stored chain samples
are spared, because what was learned must stay provable.
"""

from __future__ import annotations

from twinraven.muninn.retention.model import NoteSignature, RetentionNote, RetentionReport
from twinraven.muninn.retention.ports import NoteSigner, SparedEvents
from twinraven.muninn.retention.service import Retention
from twinraven.muninn.retention.signing import RingSigner
from twinraven.muninn.retention.sql import SampledByChains

__all__ = [
    "NoteSignature",
    "NoteSigner",
    "Retention",
    "RetentionNote",
    "RetentionReport",
    "RingSigner",
    "SampledByChains",
    "SparedEvents",
]
