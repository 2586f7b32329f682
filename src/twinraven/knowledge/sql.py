"""Stores episodes and postings in SQL, the same for both databases."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, cast

from twinraven.foundation.clock import from_micros, to_micros
from twinraven.knowledge.dates import DaySpan
from twinraven.knowledge.model import Episode, EpisodeFilter
from twinraven.knowledge.postings import BLOCK, CHAPTER, Postings, unpack
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.knowledge.reading import split_speaker
from twinraven.knowledge.turn_features import TurnFeatures, TurnWords
from twinraven.knowledge.words import terms
from twinraven.storage import Row, Transaction, chunks

_EPISODE: Final = (
    "tenant_id", "group_id", "seq", "episode_id", "name", "part", "parts", "content", "content_hash", "source",
    "source_description", "speaker", "valid_at", "created_at", "session", "words", "marks", "dates", "names",
)  # fmt: skip
_POSTINGS: Final = ("tenant_id", "group_id", "term", "block", "data")
_IN_ONE: Final = 400
"""Values in one IN list, below what the older SQLite takes."""
_READ: Final = 600
"""Characters of a part whose words are compared with a question: what it is about stands in its beginning."""
_STEMS_KEPT: Final = 8_192
_DAY_MICROS: Final = 86_400_000_000
_EPOCH_ORDINAL: Final = 719_163
_FOUND: Final = (
    "episode_id, group_id, seq, name, part, parts, content, source, source_description, speaker, valid_at, created_at, "
    "session"
)


@dataclass(slots=True)
class GroupState:
    """The counters of a group."""

    group_id: str
    parts: int = 0
    words: int = 0
    session: int = 0
    session_key: str = ""
    last_at: int | None = None
    speakers: list[str] = field(default_factory=list)

    @property
    def mean_length(self) -> float:
        return self.words / max(1, self.parts)


def group_state(tx: Transaction, tenant_id: str, group_id: str, *, lock: bool = False) -> GroupState | None:
    """Return a group's row; locked, no other transaction adds to the group until this one ends."""
    waits = " FOR UPDATE" if lock and tx.dialect == "postgres" else ""
    row = tx.fetch_one(
        "SELECT group_id, parts, words, session, session_key, last_at, speakers FROM knowledge_groups "
        f"WHERE tenant_id = :tenant AND group_id = :group{waits}",
        tenant=tenant_id,
        group=group_id,
    )
    if row is None:
        return None
    return GroupState(**{**row, "speakers": json.loads(row["speakers"])})


def open_group(tx: Transaction, tenant_id: str, group_id: str, *, at: int) -> GroupState:
    """Open the group's row, made if it is new, and locked."""
    found = group_state(tx, tenant_id, group_id, lock=True)
    if found is None:
        columns = ("tenant_id", "group_id", "parts", "words", "session", "session_key", "speakers", "created_at")
        tx.insert_missing("knowledge_groups", columns, [(tenant_id, group_id, 0, 0, 0, "", "[]", at)])
        found = group_state(tx, tenant_id, group_id, lock=True)
    assert found is not None
    return found


def save_group(tx: Transaction, tenant_id: str, state: GroupState) -> None:
    tx.execute(
        "UPDATE knowledge_groups SET parts = :parts, words = :words, session = :session, session_key = :key, "
        "last_at = :last_at, speakers = :speakers WHERE tenant_id = :tenant AND group_id = :group",
        tenant=tenant_id,
        group=state.group_id,
        parts=state.parts,
        words=state.words,
        session=state.session,
        key=state.session_key,
        last_at=state.last_at,
        speakers=json.dumps(state.speakers),
    )


def groups_of(tx: Transaction, tenant_id: str, *, hidden: HiddenGroups | None = None) -> list[Row]:
    """Return every group with its size, the newest first."""
    where, values = ("", {}) if hidden is None else (hidden.condition("group_id"), hidden.values)
    return tx.fetch_all(
        f"SELECT group_id, parts, speakers, created_at FROM knowledge_groups WHERE tenant_id = :tenant{where} "
        "ORDER BY created_at DESC, group_id",
        tenant=tenant_id,
        **values,
    )


def stored_hashes(tx: Transaction, tenant_id: str, group_id: str, names: Sequence[str]) -> dict[str, str]:
    """Return the hash of the content of each of these names that is there already."""
    found: dict[str, str] = {}
    for some in chunks(names, _IN_ONE):
        listed, values = listed_values(some)
        rows = tx.fetch_all(
            f"SELECT name, content_hash FROM episodes WHERE tenant_id = :tenant AND group_id = :group AND part = 0 "
            f"AND name IN ({listed})",
            tenant=tenant_id,
            group=group_id,
            **values,
        )
        found.update((row["name"], row["content_hash"]) for row in rows)
    return found


def add_episodes(tx: Transaction, rows: Sequence[Sequence[Any]]) -> None:
    tx.insert_rows("episodes", _EPISODE, rows)


def add_postings(tx: Transaction, tenant_id: str, group_id: str, added: Mapping[tuple[str, int], bytes]) -> None:
    """Append to the blocks of terms; the caller holds the group's lock."""
    rows = [(tenant_id, group_id, term, block, data) for (term, block), data in added.items()]
    tx.insert_appending("knowledge_postings", _POSTINGS, rows)


def close_chapters(tx: Transaction, tenant_id: str, group_id: str, before: int, after: int) -> None:
    """Put the blocks of each chapter together that was filled when a group grew; the caller holds the group's lock."""
    turns = BLOCK * CHAPTER
    for chapter in range(before // turns, after // turns):
        first = chapter * CHAPTER
        where = "tenant_id = :tenant AND group_id = :group AND block BETWEEN :first AND :last"
        values: dict[str, Any] = {
            "tenant": tenant_id,
            "group": group_id,
            "first": first,
            "last": first + CHAPTER - 1,
        }
        joined: dict[str, list[bytes]] = {}
        for rows in tx.stream(
            f"SELECT term, data FROM knowledge_postings WHERE {where} ORDER BY term, block", **values
        ):
            for term, data in rows:
                joined.setdefault(term, []).append(data)
        tx.execute(f"DELETE FROM knowledge_postings WHERE {where}", **values)
        rows = [(tenant_id, group_id, term, first, b"".join(data)) for term, data in joined.items()]
        tx.insert_rows("knowledge_postings", _POSTINGS, rows)


def block_of(seq: int) -> int:
    return seq // BLOCK


def read_postings(tx: Transaction, tenant_id: str, group_id: str, wanted: Iterable[str]) -> dict[str, Postings]:
    """Read the postings of each of these terms that the group has."""
    found: dict[str, list[bytes]] = {}
    for some in chunks(wanted, _IN_ONE):
        names, values = listed_values(some)
        for rows in tx.stream(
            "SELECT term, data FROM knowledge_postings WHERE tenant_id = :tenant AND group_id = :group "
            f"AND term IN ({names})",
            tenant=tenant_id,
            group=group_id,
            **values,
        ):
            for term, data in rows:
                found.setdefault(term, []).append(data)
    return {term: unpack(blocks) for term, blocks in found.items()}


def read_turns(tx: Transaction, tenant_id: str, group_id: str, wanted: Iterable[int]) -> dict[int, TurnFeatures]:
    """Read the ranking features of these parts of a group."""
    found: dict[int, TurnFeatures] = {}
    for some in chunks(wanted, _IN_ONE):
        names, values = listed_values(some)
        for rows in tx.stream(
            "SELECT seq, session, speaker, marks, words, valid_at, dates, names FROM episodes "
            f"WHERE tenant_id = :tenant AND group_id = :group AND seq IN ({names})",
            tenant=tenant_id,
            group=group_id,
            **values,
        ):
            found.update((row[0], _to_turn(row)) for row in rows)
    return found


def _to_turn(row: tuple[Any, ...]) -> TurnFeatures:
    seq, session, speaker, marks, words, valid_at, dates, names = row
    return TurnFeatures(
        seq,
        session,
        None if speaker is None else speaker.lower(),
        marks,
        words,
        None if valid_at is None else valid_at // _DAY_MICROS + _EPOCH_ORDINAL,
        tuple(DaySpan(*span) for span in cast("list[list[int]]", json.loads(dates))) if dates else (),
        frozenset(names.split("\n")) if names else frozenset(),
    )


def read_words(tx: Transaction, tenant_id: str, group_id: str, wanted: Iterable[int]) -> dict[int, TurnWords]:
    """Read what passages are compared by, of these parts of a group."""
    found: dict[int, TurnWords] = {}
    for some in chunks(wanted, _IN_ONE):
        names, values = listed_values(some)
        for rows in tx.stream(
            f"SELECT seq, session, speaker, substr(content, 1, {_READ}) FROM episodes "
            f"WHERE tenant_id = :tenant AND group_id = :group AND seq IN ({names})",
            tenant=tenant_id,
            group=group_id,
            **values,
        ):
            found.update((row[0], TurnWords(row[1], _stems(row[3], row[2]))) for row in rows)
    return found


@lru_cache(_STEMS_KEPT)
def _stems(content: str, speaker: str | None) -> tuple[str, ...]:
    """Return the different stems of a turn; kept, because a group that is searched once is searched again."""
    written, rest = split_speaker(content)
    is_named = written is not None and speaker is not None and written.lower() == speaker.lower()
    return tuple(dict.fromkeys(terms(rest if is_named else content)))


def allowed_parts(tx: Transaction, tenant_id: str, group_id: str, wanted: EpisodeFilter) -> list[int]:
    """Return the numbers of the parts that a filter lets through."""
    where, values = _conditions(wanted)
    sql = f"SELECT seq FROM episodes WHERE tenant_id = :tenant AND group_id = :group{where}"
    return [seq for rows in tx.stream(sql, tenant=tenant_id, group=group_id, **values) for (seq,) in rows]


def _conditions(wanted: EpisodeFilter) -> tuple[str, dict[str, Any]]:
    tests: dict[str, tuple[str, Any]] = {
        "speaker": ("lower(speaker) = :speaker", None if wanted.speaker is None else wanted.speaker.lower()),
        "source": ("source = :source", wanted.source),
        "since": ("valid_at >= :since", None if wanted.since is None else to_micros(wanted.since, field="since")),
        "until": ("valid_at < :until", None if wanted.until is None else to_micros(wanted.until, field="until")),
    }
    chosen = {name: test for name, test in tests.items() if test[1] is not None}
    return "".join(f" AND {text}" for text, _ in chosen.values()), {name: value for name, (_, value) in chosen.items()}


def read_parts(tx: Transaction, tenant_id: str, group_id: str, wanted: Sequence[int]) -> dict[int, Row]:
    """These parts with their content, by number."""
    names, values = listed_values(wanted)
    rows = tx.fetch_all(
        f"SELECT {_FOUND} FROM episodes WHERE tenant_id = :tenant AND group_id = :group AND seq IN ({names})",
        tenant=tenant_id,
        group=group_id,
        **values,
    )
    return {row["seq"]: row for row in rows}


def parts_from(tx: Transaction, tenant_id: str, group_id: str, first: int, *, limit: int) -> list[Row]:
    """Return the turns of a group from one part on, in order."""
    return tx.fetch_all(
        "SELECT seq, content, speaker, valid_at, source FROM episodes WHERE tenant_id = :tenant AND group_id = :group "
        "AND seq >= :first ORDER BY seq LIMIT :limit",
        tenant=tenant_id,
        group=group_id,
        first=first,
        limit=limit,
    )


def list_episodes(
    tx: Transaction,
    tenant_id: str,
    group_id: str | None,
    wanted: EpisodeFilter,
    *,
    limit: int,
    after: str | None,
    hidden: HiddenGroups | None = None,
) -> list[Episode]:
    """Episodes in the order of their groups and numbers, going on behind an id; long ones with their first part."""
    where, values = _conditions(wanted)
    if group_id is not None:
        where, values = f"{where} AND group_id = :group", {**values, "group": group_id}
    if hidden is not None:
        where, values = where + hidden.condition("group_id"), {**values, **hidden.values}
    if after is not None:
        where += (
            " AND (group_id, seq) > (SELECT group_id, seq FROM episodes "
            "WHERE tenant_id = :tenant AND episode_id = :after AND part = 0)"
        )
        values = {**values, "after": after}
    rows = tx.fetch_all(
        f"SELECT {_FOUND} FROM episodes WHERE tenant_id = :tenant AND part = 0{where} "
        "ORDER BY group_id, seq LIMIT :limit",
        tenant=tenant_id,
        limit=limit,
        **values,
    )
    return [to_episode(row) for row in rows]


def find_episode(tx: Transaction, tenant_id: str, *, episode_id: str) -> Episode | None:
    """Find one episode whole, by its id."""
    return _whole(
        tx.fetch_all(
            f"SELECT {_FOUND} FROM episodes WHERE tenant_id = :tenant AND episode_id = :id ORDER BY part",
            tenant=tenant_id,
            id=episode_id,
        )
    )


def find_named(tx: Transaction, tenant_id: str, group_id: str, name: str) -> Episode | None:
    """Find one episode whole, by its group and name."""
    return _whole(
        tx.fetch_all(
            f"SELECT {_FOUND} FROM episodes WHERE tenant_id = :tenant AND group_id = :group AND name = :name "
            "ORDER BY part",
            tenant=tenant_id,
            group=group_id,
            name=name,
        )
    )


def recent_episodes(tx: Transaction, tenant_id: str, group_id: str, limit: int) -> list[str]:
    """Return the ids of a group's last episodes, the oldest of them first."""
    rows = tx.fetch_all(
        "SELECT episode_id FROM episodes WHERE tenant_id = :tenant AND group_id = :group AND part = 0 "
        "ORDER BY seq DESC LIMIT :limit",
        tenant=tenant_id,
        group=group_id,
        limit=limit,
    )
    return [row["episode_id"] for row in reversed(rows)]


def whole_contents(tx: Transaction, tenant_id: str, episode_ids: Sequence[str]) -> dict[str, str]:
    """Return the whole content of each of these episodes."""
    found: dict[str, list[str]] = {}
    for some in chunks(episode_ids, _IN_ONE):
        names, values = listed_values(some)
        rows = tx.fetch_all(
            f"SELECT episode_id, content FROM episodes WHERE tenant_id = :tenant AND episode_id IN ({names}) "
            "ORDER BY episode_id, part",
            tenant=tenant_id,
            **values,
        )
        for row in rows:
            found.setdefault(row["episode_id"], []).append(row["content"])
    return {episode_id: "".join(parts) for episode_id, parts in found.items()}


def _whole(rows: Sequence[Row]) -> Episode | None:
    if not rows:
        return None
    return to_episode({**rows[0], "content": "".join(row["content"] for row in rows)})


def to_episode(row: Row) -> Episode:
    return Episode(
        episode_id=row["episode_id"],
        group_id=row["group_id"],
        name=row["name"],
        content=row["content"],
        source=row["source"],
        source_description=row["source_description"],
        speaker=row["speaker"],
        valid_at=moment(row["valid_at"]),
        created_at=from_micros(row["created_at"]),
        session=row["session"],
        parts=row["parts"],
    )


def moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def listed_values(values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """Return the parameters of an IN list."""
    named = {f"v{number}": value for number, value in enumerate(values)}
    return ", ".join(f":{name}" for name in named) or "NULL", named
