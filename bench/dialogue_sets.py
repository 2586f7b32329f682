"""Composes long two-person dialogues with questions and evidence from hand-written exchanges.

A file of bench/dialogues holds exchanges in one voice: turns of A and B, and questions with the numbers of the turns
that answer them. A dialogue takes the exchanges of one file in a random order and with random roles, spreads them over
dated sessions, and puts small talk and the exchanges of other voices between them, whose words distract. Every fifth
question names the other speaker on purpose; its evidence stays where it is.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "dialogues"
VOICES: Final = ("friends", "siblings", "longwinded", "chatty")
HELD_OUT: Final = "pen_pals"
"""A voice that nothing was trained or tuned on."""
_PAIRS: Final = (
    ("Nora", "Felix"), ("Maya", "Jonas"), ("Priya", "Tom"), ("Grace", "Omar"), ("Lena", "Victor"), ("Ruth", "Edgar"),
    ("Chloe", "Marcus"), ("Dana", "Pavel"),
)  # fmt: skip
_KINDS: Final = {"s": "single-hop", "t": "temporal", "o": "open-domain"}
_IN_SESSION: Final = 4
_WRONG_SPEAKER: Final = 0.22


class Asked(NamedTuple):
    """A question and the names of the turns that answer it."""

    kind: str
    text: str
    evidence: tuple[str, ...]


class Said(NamedTuple):
    """One turn."""

    name: str
    speaker: str | None
    content: str
    at: datetime | None


@dataclass
class Exchange:
    """A few turns about one matter."""

    tag: str
    voice: str
    turns: list[tuple[str, str]] = field(default_factory=list)
    questions: list[tuple[str, list[int], str]] = field(default_factory=list)


@dataclass
class Dialogue:
    """A whole dialogue of two people."""

    group_id: str
    turns: list[Said] = field(default_factory=list)
    questions: list[Asked] = field(default_factory=list)


def exchanges(voice: str) -> tuple[list[Exchange], list[tuple[list[tuple[str, int]], str]]]:
    """The exchanges of one voice, and its questions that need several of them."""
    found: list[Exchange] = []
    hops: list[tuple[list[tuple[str, int]], str]] = []
    for line in (FOLDER / f"{voice}.txt").read_text().splitlines():
        if line.startswith("@"):
            found.append(Exchange(line[1:], voice))
        elif line.startswith("?"):
            kind, turns, text = line[1], *line[3:].split(" ", 1)
            found[-1].questions.append((_KINDS[kind], [int(each) for each in turns.split("+")], text))
        elif line.startswith("& "):
            places, text = line[2:].split(" ", 1)
            parts = [each.split(".") for each in places.split(",")]
            hops.append(([(tag, int(turn)) for tag, turn in parts], text))
        elif line.strip():
            found[-1].turns.append((line[0], line[2:]))
    return found, hops


def compose(voice: str, seed: int, *, distractors: bool = True) -> Dialogue:
    """One dialogue whose questions are of one voice."""
    chance = random.Random(f"{voice}-{seed}")
    names = chance.choice(_PAIRS)
    own, hops = exchanges(voice)
    others = [each for other in VOICES if other != voice for each in exchanges(other)[0]] if distractors else []
    dialogue = Dialogue(f"{voice}-{seed}")
    order = own + others
    chance.shuffle(order)
    placed: dict[str, tuple[int, list[str]]] = {}
    at = datetime(2023, 1, 5, 18, tzinfo=UTC)
    for session, start in enumerate(range(0, len(order), _IN_SESSION), start=1):
        at += timedelta(days=chance.randint(2, 16), hours=chance.randint(-5, 5))
        number = 0
        for exchange in order[start : start + _IN_SESSION]:
            first = chance.randrange(2)
            said = [*_small_talk(chance), *exchange.turns]
            talk = len(said) - len(exchange.turns)
            turn_names: list[str] = []
            for role, text in said:
                number += 1
                turn_names.append(f"D{session}:{number}")
                speaker = names[first] if role == "A" else names[1 - first]
                content = filled(text, names[first], names[1 - first])
                dialogue.turns.append(Said(turn_names[-1], speaker, content, at + timedelta(minutes=number)))
            if exchange.voice == voice:
                placed[exchange.tag] = (first, turn_names[talk:])
    _ask(dialogue, own, placed, names, chance)
    _ask_hops(dialogue, hops, placed, names)
    return dialogue


def _ask(
    dialogue: Dialogue,
    own: list[Exchange],
    placed: dict[str, tuple[int, list[str]]],
    names: tuple[str, str],
    chance: random.Random,
) -> None:
    for exchange in own:
        first, turn_names = placed[exchange.tag]
        for kind, turns, text in exchange.questions:
            wrong = chance.random() < _WRONG_SPEAKER and "{A}" in text
            asked = filled(text, names[1 - first] if wrong else names[first], names[1 - first])
            evidence = tuple(turn_names[turn - 1] for turn in turns)
            dialogue.questions.append(Asked("adversarial" if wrong else kind, asked, evidence))


def _ask_hops(
    dialogue: Dialogue,
    hops: list[tuple[list[tuple[str, int]], str]],
    placed: dict[str, tuple[int, list[str]]],
    names: tuple[str, str],
) -> None:
    for parts, text in hops:
        firsts = {placed[tag][0] for tag, _ in parts}
        if len(firsts) == 1:
            first = firsts.pop()
            evidence = tuple(placed[tag][1][turn - 1] for tag, turn in parts)
            dialogue.questions.append(Asked("multi-hop", filled(text, names[first], names[1 - first]), evidence))


def _small_talk(chance: random.Random) -> list[tuple[str, str]]:
    lines = [line for line in (FOLDER / "small_talk.txt").read_text().splitlines() if line]
    begin = chance.randrange(0, len(lines) - 1, 2)
    return [(line[0], line[2:]) for line in lines[begin : begin + 2 * chance.randrange(0, 3)]]


def filled(text: str, first: str, second: str) -> str:
    return re.sub(r"\{([AB])\}", lambda match: first if match[1] == "A" else second, text)
