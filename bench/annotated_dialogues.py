"""Reads whole dialogues with questions and evidence: two friends over a year, a team's chat, the notes of a club.

They are in other forms than the composed ones (bench.dialogue_sets). A file has sessions
(`== TIME`, or `== -` without one), turns (`Name> text`, or text alone where nobody is named), tags before what answers
a question (`[a1]`), and questions (`?s a1+b2 text`, where the letter says the kind).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from bench.dialogue_sets import FOLDER, HELD_OUT, VOICES, Asked, Dialogue, Said, exchanges, filled

ANNOTATED: Final = (
    "couple", "team", "notes", "rowers", "quarry", "mentors", "truck", "runners", "bakers", "gamers",
    "ferry", "allotment", "studio", "helper", "ward", "tuner", "falcons",
)  # fmt: skip
TWO_PEOPLE: Final = ("couple", "rowers", "quarry", "mentors")
"""Dialogues whose sessions can stand between those of each other."""
EVERYDAY: Final = ("ferry", "allotment")
"""Everyday talk that weights may be trained on; studio, runners, bakers, gamers and truck are for tests alone."""
_KINDS: Final = {"s": "single-hop", "t": "temporal", "m": "multi-hop", "o": "open-domain", "a": "adversarial"}
_TAG: Final = re.compile(r"\[([a-z]\d)\]\s*")
_TURN: Final = re.compile(r"(\w+)> (.*)")


class _Turn(NamedTuple):
    speaker: str
    text: str
    tags: tuple[str, ...] = ()


class _Session(NamedTuple):
    at: str
    turns: list[_Turn]


def read_annotated(name: str, *, distractors: int = 0, seed: int = 0, is_bare: bool = False) -> Dialogue:
    """One dialogue, with so many exchanges of other voices between; a bare one says neither who spoke nor when."""
    sessions, asked = _read(name)
    _distract(sessions, distractors, random.Random(f"{name}-{seed}"))
    return _annotated(f"{name}-{distractors}-{seed}-{is_bare}", sessions, asked, is_bare=is_bare)


def read_mixed(name: str) -> Dialogue:
    """One dialogue of two people with the sessions of all others between its own, said by the same two."""
    sessions, asked = _read(name)
    people = _people(sessions)
    for other in TWO_PEOPLE:
        if other != name:
            told, _ = _read(other)
            sessions.extend(_retold(told, dict(zip(_people(told), people, strict=True))))
    return _annotated(f"{name}-mixed", sorted(sessions, key=lambda each: each.at), asked)


def read_dated(name: str) -> Dialogue:
    """One dialogue whose questions name the day on which their answer was given, save those that ask for it."""
    dialogue = read_annotated(name)
    said_at = {turn.name: turn.at for turn in dialogue.turns}
    asked: list[Asked] = []
    for each in dialogue.questions:
        at = said_at[each.evidence[0]]
        if at is not None and each.kind != "temporal":
            asked.append(each._replace(text=f"{each.text.rstrip('?')} on {at.day} {at:%B %Y}?"))
    return Dialogue(f"{name}-dated", dialogue.turns, asked)


def _read(name: str) -> tuple[list[_Session], list[str]]:
    """The sessions and the questions of a file."""
    lines = (FOLDER / f"annotated_{name}.txt").read_text(encoding="utf-8").splitlines()
    sessions = list(_sessions(line for line in lines if not line.startswith("?")))
    return sessions, [line for line in lines if line.startswith("?")]


def _people(sessions: list[_Session]) -> list[str]:
    return list(dict.fromkeys(turn.speaker for session in sessions for turn in session.turns))


def _retold(sessions: list[_Session], names: dict[str, str]) -> Iterator[_Session]:
    """The same sessions by other people, without tags."""
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    for session in sessions:
        told = [
            _Turn(names[each.speaker], pattern.sub(lambda match: names[match[1]], each.text)) for each in session.turns
        ]
        yield _Session(session.at, told)


def _annotated(group_id: str, sessions: list[_Session], asked: list[str], *, is_bare: bool = False) -> Dialogue:
    dialogue = Dialogue(group_id)
    places: dict[str, str] = {}
    for number, session in enumerate(sessions, start=1):
        for place, turn in enumerate(session.turns, start=1):
            called = f"D{number}:{place}"
            places.update(dict.fromkeys(turn.tags, called))
            at = None if is_bare or session.at == "-" else _moment(session.at) + timedelta(minutes=place)
            dialogue.turns.append(Said(called, None if is_bare else turn.speaker or None, turn.text, at))
    for line in asked:
        kind, tags, text = line[1:].split(" ", 2)
        dialogue.questions.append(Asked(_KINDS[kind], text, tuple(places[tag] for tag in tags.split("+"))))
    return dialogue


def _sessions(lines: Iterator[str]) -> Iterator[_Session]:
    session: _Session | None = None
    for line in lines:
        if line.startswith("=="):
            if session is not None:
                yield session
            session = _Session(line[3:], [])
        elif line.strip() and session is not None:
            text = _TAG.sub("", line)
            match = _TURN.fullmatch(text)
            who, said = (match[1], match[2]) if match else ("", text)
            session.turns.append(_Turn(who, said, tuple(_TAG.findall(line))))
    if session is not None:
        yield session


def _distract(sessions: list[_Session], wanted: int, chance: random.Random) -> None:
    """Put exchanges of other voices before and behind what was said, between the same people."""
    people = sorted({turn.speaker for session in sessions for turn in session.turns})
    others = [each for voice in (*VOICES, HELD_OUT) for each in exchanges(voice)[0]]
    chance.shuffle(others)
    for number, exchange in enumerate(others[:wanted]):
        first, second = chance.sample(people, 2)
        said = [_Turn(first if role == "A" else second, filled(text, first, second)) for role, text in exchange.turns]
        turns = sessions[number % len(sessions)].turns
        turns[0:0] = said if number % 2 else []
        turns.extend([] if number % 2 else said)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
