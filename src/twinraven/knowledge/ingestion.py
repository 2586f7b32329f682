"""Stores episodes: splits them, reads their words, and appends rows and postings in one transaction.

A group takes one batch at a time (its row is locked), so that numbers have no gaps and nothing is counted twice. An
episode that is there under the same name is left as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from twinraven.foundation.clock import to_micros
from twinraven.foundation.ids import new_id
from twinraven.knowledge.dates import DaySpan, day_terms
from twinraven.knowledge.model import Ingestion, NewEpisode
from twinraven.knowledge.ordering import begins_session, in_spoken_order, session_key
from twinraven.knowledge.parts import split_content
from twinraven.knowledge.postings import pack
from twinraven.knowledge.reading import TurnReading, read_turn, split_speaker
from twinraven.knowledge.sql import (
    GroupState,
    add_episodes,
    add_postings,
    block_of,
    close_chapters,
    open_group,
    save_group,
    stored_hashes,
)
from twinraven.storage import Transaction

_MOST_SPEAKERS: Final = 64
_WRITTEN: Final = frozenset({"summary", "introspection"})
"""Sources of episodes that are no dialogue: they belong to no session."""
_NO_SESSION: Final = -1
_LONGEST_INDEXED: Final = 7
"""Days of a date that a turn is found by: "last week" is one, "last year" names no day."""


@dataclass(frozen=True, slots=True)
class ReadEpisode:
    """An episode whose words were read, before any transaction."""

    new: NewEpisode
    speaker: str | None
    content_hash: str
    parts: tuple[tuple[str, TurnReading], ...]
    vectors: tuple[bytes, ...] = ()
    """One for each part, where an embedder is installed."""


@dataclass(slots=True)
class StoredPart:
    """A part that was stored, for the extraction of entities."""

    seq: int
    text: str
    speaker: str | None
    valid_at: int | None
    vector: bytes | None = None
    is_speaker_known: bool = False
    """An earlier turn of the group has this speaker, who is an entity since then."""


@dataclass(slots=True)
class _Batch:
    rows: list[Sequence[Any]] = field(default_factory=list)
    postings: dict[tuple[str, int], bytearray] = field(default_factory=dict)
    stored: list[StoredPart] = field(default_factory=list)


def read_episode(new: NewEpisode) -> ReadEpisode:
    """Read an episode; a speaker that stands only in its content is taken from there."""
    said_by, text = (new.speaker, new.content) if new.speaker is not None else split_speaker(new.content)
    if new.speaker is not None:
        written, rest = split_speaker(new.content)
        text = rest if written is not None and written.lower() == new.speaker.lower() else new.content
    cut = len(new.content) - len(text)
    said_on = None if new.valid_at is None else new.valid_at.date()
    pieces = split_content(new.content)
    parts = tuple(
        (piece, read_turn(piece[cut:] if number == 0 else piece, said_on)) for number, piece in enumerate(pieces)
    )
    return ReadEpisode(new, said_by, hashlib.sha256(new.content.encode()).hexdigest(), parts)


def store_episodes(
    tx: Transaction, tenant_id: str, group_id: str, batch: Sequence[ReadEpisode], *, at: int
) -> tuple[Ingestion, list[StoredPart]]:
    """Store what a group lacks of a batch; all of it or nothing."""
    state = open_group(tx, tenant_id, group_id, at=at)
    before = state.parts
    present = stored_hashes(tx, tenant_id, group_id, [each.new.name for each in batch])
    made = _Batch()
    added = known = 0
    conflicts: list[str] = []
    for each in batch:
        there = present.get(each.new.name)
        if there is None:
            _append(made, state, each, tenant_id, at)
            present[each.new.name] = each.content_hash
            added += 1
        elif there == each.content_hash:
            known += 1
        else:
            conflicts.append(each.new.name)
    if added:
        add_episodes(tx, made.rows)
        add_postings(tx, tenant_id, group_id, {key: bytes(data) for key, data in made.postings.items()})
        close_chapters(tx, tenant_id, group_id, before, state.parts)
        save_group(tx, tenant_id, state)
    return Ingestion(added, known, tuple(conflicts)), made.stored


def _append(made: _Batch, state: GroupState, each: ReadEpisode, tenant_id: str, at: int) -> None:
    new = each.new
    valid_at = None if new.valid_at is None else to_micros(new.valid_at, field="valid_at")
    is_said = new.source not in _WRITTEN
    if is_said:
        _follow_session(state, new.name, valid_at)
    session = state.session if is_said else _NO_SESSION
    is_speaker_known = each.speaker in state.speakers
    if each.speaker is not None and not is_speaker_known and len(state.speakers) < _MOST_SPEAKERS:
        state.speakers.append(each.speaker)
    said_on = () if new.valid_at is None else (DaySpan(*2 * (new.valid_at.date().toordinal(),)),)
    episode_id = new_id()
    for number, (text, reading) in enumerate(each.parts):
        seq = state.parts
        made.rows.append(
            (
                tenant_id, new.group_id, seq, episode_id, new.name, number, len(each.parts), text, each.content_hash,
                new.source, new.source_description, each.speaker, valid_at, at, session, reading.length,
                int(reading.marks), _dates_text(reading.dates), "\n".join(reading.names),
            )
        )  # fmt: skip
        days = day_terms((*said_on, *reading.dates), longest=_LONGEST_INDEXED)
        for term, count in (*reading.counts.items(), *((day, 1) for day in days)):
            made.postings.setdefault((term, block_of(seq)), bytearray()).extend(pack(seq, count, reading.length))
        vector = each.vectors[number] if each.vectors else None
        made.stored.append(StoredPart(seq, text, each.speaker, valid_at, vector, is_speaker_known))
        state.parts += 1
        state.words += reading.length


def _follow_session(state: GroupState, name: str, valid_at: int | None) -> None:
    key = session_key(name)
    if state.parts and begins_session(key, state.session_key, valid_at, state.last_at):
        state.session += 1
    state.session_key = key or state.session_key
    if valid_at is not None:
        state.last_at = valid_at


def _dates_text(dates: Sequence[DaySpan]) -> str:
    return json.dumps([list(span) for span in dates]) if dates else ""


def by_group(episodes: Sequence[NewEpisode]) -> Iterator[tuple[str, list[NewEpisode]]]:
    """Yield the episodes of each group, as they were said."""
    found: dict[str, list[NewEpisode]] = {}
    for each in episodes:
        found.setdefault(each.group_id, []).append(each)
    for group_id, listed in found.items():
        yield group_id, in_spoken_order(listed)
