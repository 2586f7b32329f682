"""Measures evidence recall of the same dialogues in the forms that strangers bring, through the command line.

    python -m bench.recall_forms [--forms lines-shuffled ...] [--dialogues truck ...]

A form changes how the turns are written (who speaks, when, under which name, in which order of lines) or how the
questions are; what was said stays. Whatever a form loses beside `as-written` is a signal that does not act in it.
The command is the one that is installed beside this interpreter, on a home of its own, without vectors.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.annotated_dialogues import TWO_PEOPLE, read_annotated
from bench.dialogue_sets import Dialogue

Line = dict[str, Any]
Form = Callable[[list[Line], random.Random], list[Line]]
_COMMAND: Final = Path(sys.executable).parent / "twinraven"
_SURNAMES: Final = ("Okonkwo", "Lindqvist", "Okonkwo", "Moreau")


def _each(change: Callable[[Line], Line]) -> Form:
    return lambda lines, _: [change(dict(line)) for line in lines]


def _without(*fields: str) -> Callable[[Line], Line]:
    return lambda line: {name: value for name, value in line.items() if name not in fields}


def _prefixed(line: Line) -> Line:
    return {**line, "content": f"{line['speaker']}: {line['content']}"}


def _session_of(line: Line) -> tuple[int, int]:
    session, turn = re.fullmatch(r"D(\d+):(\d+)", line["name"]).groups()  # type: ignore[union-attr]
    return int(session), int(turn)


def _in_session_time(lines: list[Line], _: random.Random) -> list[Line]:
    first: dict[int, str] = {}
    return [{**line, "valid_at": first.setdefault(_session_of(line)[0], line["valid_at"])} for line in lines]


def _on_a_day(line: Line) -> Line:
    return {**line, "valid_at": line["valid_at"][:10]}


def _at_random(lines: list[Line], chance: random.Random) -> list[Line]:
    return [{**line, "name": str(uuid.UUID(int=chance.getrandbits(128)))} for line in lines]


def _surnamed(lines: list[Line], _: random.Random) -> list[Line]:
    people = list(dict.fromkeys(line["speaker"] for line in lines))
    called = {who: f"{who} {_SURNAMES[place]}" for place, who in enumerate(people)}
    return [{**line, "speaker": called[line["speaker"]]} for line in lines]


def _shuffled(lines: list[Line], chance: random.Random) -> list[Line]:
    return chance.sample(lines, len(lines))


def _chain(*forms: Form) -> Form:
    def work(lines: list[Line], chance: random.Random) -> list[Line]:
        for form in forms:
            lines = form(lines, chance)
        return lines

    return work


def _running(lines: list[Line], _: random.Random) -> list[Line]:
    return [{**line, "name": f"conv-26-{place}"} for place, line in enumerate(lines)]


_PREFIX: Final = _each(lambda line: _without("speaker")(_prefixed(line)))
FORMS: Final[dict[str, Form]] = {
    "as-written": _each(dict),
    "prefix": _PREFIX,
    "prefix-and-speaker": _each(_prefixed),
    "session-times": _in_session_time,
    "days": _each(_on_a_day),
    "no-times": _each(_without("valid_at")),
    "long-names": _each(lambda line: {**line, "name": "session_{}-turn-{}".format(*_session_of(line))}),
    "running-names": _running,
    "running-names-session-times": _chain(_in_session_time, _running),
    "random-names": _at_random,
    "random-names-session-times": _chain(_in_session_time, _at_random),
    "random-names-no-times": _chain(_each(_without("valid_at")), _at_random),
    "prefix-session-times-random-names": _chain(_in_session_time, _PREFIX, _at_random),
    "lines-shuffled": _shuffled,
    "lines-shuffled-session-times": _chain(_in_session_time, _shuffled),
    "lines-shuffled-no-times": _chain(_each(_without("valid_at")), _shuffled),
    "newest-first": lambda lines, _: lines[::-1],
    "two-word-speakers": _surnamed,
    "two-word-prefix": _chain(_surnamed, _PREFIX),
    "bare": _each(_without("speaker", "valid_at")),
}
ASKED: Final[dict[str, Callable[[str], str]]] = {
    "asked-lower-case": lambda text: text.lower(),
    "asked-without-apostrophes": lambda text: text.lower().replace("'", "").rstrip("?"),
}


def measure(forms: list[str], dialogues: list[str]) -> None:
    read = [read_annotated(name) for name in dialogues]
    for name in forms:
        shares = _recall(FORMS.get(name, FORMS["as-written"]), ASKED.get(name, str), read)
        print(f"{name:36} R@5/R@10 {shares[0]:.3f}/{shares[1]:.3f}", flush=True)


def _recall(form: Form, asked: Callable[[str], str], dialogues: list[Dialogue]) -> tuple[float, float]:
    episodes: list[Line] = []
    questions: list[Line] = []
    wanted: dict[str, set[str]] = {}
    for dialogue in dialogues:
        lines = _lines(dialogue)
        written = form(lines, random.Random(dialogue.group_id))
        called = {line["key"]: line["name"] for line in written}
        episodes += [_without("key")(line) for line in written]
        for number, each in enumerate(dialogue.questions):
            key = f"{dialogue.group_id}-{number}"
            questions.append({"id": key, "group_id": dialogue.group_id, "query": asked(each.text)})
            wanted[key] = {called[name] for name in each.evidence}
    hits = _answers(episodes, questions)
    found = [[len(each & set(hits[key][:most])) / len(each) for key, each in wanted.items()] for most in (5, 10)]
    return sum(found[0]) / len(wanted), sum(found[1]) / len(wanted)


def _lines(dialogue: Dialogue) -> list[Line]:
    return [
        {
            "group_id": dialogue.group_id,
            "name": turn.name,
            "key": turn.name,
            "content": turn.content,
            "speaker": turn.speaker,
            "valid_at": None if turn.at is None else turn.at.isoformat(),
        }
        for turn in dialogue.turns
    ]


def _answers(episodes: list[Line], questions: list[Line]) -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _run(place, "init")
        (place / "twinraven.yaml").write_text(json.dumps({"knowledge": {"embedder": "off"}}))
        for name, rows in (("episodes.jsonl", episodes), ("questions.jsonl", questions)):
            (place / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        _run(place, "episodes", "import", "episodes.jsonl")
        answers = _run(place, "knowledge", "search", "--queries", "questions.jsonl", "--limit", "10")
    return {each["id"]: each["hits"] for each in map(json.loads, answers.splitlines())}


def _run(folder: Path, *arguments: str) -> str:
    done = subprocess.run([_COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", nargs="*", default=[*FORMS, *ASKED], choices=[*FORMS, *ASKED])
    parser.add_argument("--dialogues", nargs="*", default=[*TWO_PEOPLE])
    options = parser.parse_args()
    measure(options.forms, options.dialogues)
