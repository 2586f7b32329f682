"""Keeps summaries: compressed forms of episodes, made by a replaceable process."""

from __future__ import annotations

from twinraven.knowledge.summaries.model import (
    SUMMARY_SOURCE,
    Compression,
    CompressionRequest,
    ContentBinding,
    Summary,
)
from twinraven.knowledge.summaries.service import COMPRESS_PROCESS, Summaries
from twinraven.knowledge.summaries.sql import done_since, find_summary, list_summaries

__all__ = [
    "COMPRESS_PROCESS",
    "SUMMARY_SOURCE",
    "Compression",
    "CompressionRequest",
    "ContentBinding",
    "Summaries",
    "Summary",
    "done_since",
    "find_summary",
    "list_summaries",
]
