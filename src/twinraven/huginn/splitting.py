"""Splits sessions into a training part and a held-out part.

By task, where tasks are known: the same task tried twice would let a tool remember the answer. Otherwise by session, or
by time (learn from the past, judge on what came after). Deterministic: a session's side depends on its own name alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import xxhash

from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.traces import SessionTrace

SplitBy = Literal["task", "session", "time"]
FOLDS = 5
_SCALE = 1_000_000


def split_sessions(
    sessions: Sequence[SessionTrace], by: SplitBy, *, share: float, salt: str
) -> tuple[list[SessionTrace], list[SessionTrace]]:
    """Sessions to learn from (about `share` of them) and sessions to judge on."""
    if not 0 < share < 1:
        raise InvalidInput(f"the share to learn from must lie between 0 and 1, not {share}", field="share")
    if by == "time":
        return _by_time(sessions, share)
    if by == "task" and not any(session.task_id for session in sessions):
        raise InvalidInput("no session names its task; split by session or by time instead", field="split")
    left: list[SessionTrace] = []
    right: list[SessionTrace] = []
    for session in sessions:
        side = _place(session, by, salt) % _SCALE < share * _SCALE
        (left if side else right).append(session)
    return left, right


def assign_folds(sessions: Sequence[SessionTrace], *, folds: int = FOLDS) -> dict[SessionTrace, int]:
    """Assign each session to a fold, for cross-fitting: tasks (else sessions) shuffled and dealt out evenly."""
    by = best_split(sessions)
    names = sorted({(_place(session, by, "fold"), _name(session, by)) for session in sessions})
    number = {name: place % folds for place, (_, name) in enumerate(names)}
    return {session: number[_name(session, by)] for session in sessions}


def _name(session: SessionTrace, by: SplitBy) -> str:
    return session.task_id if by == "task" and session.task_id else session.session_id


def _place(session: SessionTrace, by: SplitBy, salt: str) -> int:
    return xxhash.xxh64_intdigest(f"{salt}\0{_name(session, by)}".encode())


def best_split(sessions: Sequence[SessionTrace]) -> SplitBy:
    """By task if most sessions name one, else by session."""
    named = sum(session.task_id is not None for session in sessions)
    return "task" if named * 2 > len(sessions) else "session"


def _by_time(sessions: Sequence[SessionTrace], share: float) -> tuple[list[SessionTrace], list[SessionTrace]]:
    """In the order they began; where times are unknown, in the order they were recorded."""
    numbered = sorted(enumerate(sessions), key=lambda pair: (_began(pair[1]), pair[0]))
    cut = max(1, min(len(numbered) - 1, round(len(numbered) * share))) if len(numbered) > 1 else len(numbered)
    ordered = [session for _, session in numbered]
    return ordered[:cut], ordered[cut:]


def _began(session: SessionTrace) -> int:
    return min((call.start_us or 0 for call in session.calls), default=0)
