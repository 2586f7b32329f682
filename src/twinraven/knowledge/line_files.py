"""Reads JSON Lines: episodes to import and questions to ask; a wrong line is reported by its number."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import orjson

from twinraven.foundation.errors import InvalidInput
from twinraven.knowledge.model import Ingestion, NewEpisode

_LONGEST_LINE: Final = 32 << 20
_MOST_REFUSALS: Final = 1000
_PORTION_LINES: Final = 10_000
_PORTION_SIZE: Final = 8 << 20


class SkippedLine(NamedTuple):
    """A line that was left out."""

    line: int
    reason: str


class QuestionLine(NamedTuple):
    """One question of a file."""

    id: Any
    group_id: str | None
    query: str


@dataclass(slots=True)
class EpisodeImport:
    """The outcome of importing a file of episodes."""

    done: Ingestion = field(default_factory=Ingestion)
    refused: int = 0
    refusals: list[SkippedLine] = field(default_factory=list)
    """The first thousand."""

    def refuse(self, line: int, reason: str) -> None:
        self.refused += 1
        if len(self.refusals) < _MOST_REFUSALS:
            self.refusals.append(SkippedLine(line, reason))

    def as_json(self) -> dict[str, Any]:
        return {
            "added": self.done.added,
            "present": self.done.present,
            "conflicts": len(self.done.conflicts),
            "refused": self.refused,
            "conflicting_names": list(self.done.conflicts[:_MOST_REFUSALS]),
            "reasons": [each._asdict() for each in self.refusals],
        }


def read_episodes(lines: Iterable[bytes], report: EpisodeImport) -> Iterator[NewEpisode]:
    """Read the episodes of a file; lines that hold none go into the report."""
    for number, line in _written(lines):
        try:
            yield NewEpisode.of_json(_parsed(line))
        except InvalidInput as error:
            report.refuse(number, error.message)


def portions(episodes: Iterable[NewEpisode]) -> Iterator[list[NewEpisode]]:
    """Lists that fit into memory and hold whole dialogues: a list is put in the order in which its turns were said."""
    found: list[NewEpisode] = []
    size = 0
    for each in episodes:
        found.append(each)
        size += len(each.content)
        if len(found) == _PORTION_LINES or size >= _PORTION_SIZE:
            yield found
            found, size = [], 0
    if found:
        yield found


def read_questions(lines: Iterable[bytes]) -> list[QuestionLine]:
    """Read the questions of a file; the first wrong line is an error that names it."""
    found: list[QuestionLine] = []
    for number, line in _written(lines):
        try:
            found.append(_question(_parsed(line)))
        except InvalidInput as error:
            raise InvalidInput(f"line {number}: {error.message}", field="queries", line=number) from error
    return found


def _written(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers; a byte order mark, which editors put first, is no part of them."""
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if text.strip():
            yield number, text


def _question(value: Any) -> QuestionLine:
    if not isinstance(value, dict):
        raise InvalidInput("a question is a JSON object with id, group_id and query", field="queries")
    given = cast("dict[str, Any]", value)
    group_id, query = given.get("group_id"), given.get("query")
    if not isinstance(query, str) or not query.strip():
        raise InvalidInput("query is missing, empty or no text; give a string", field="query")
    if group_id is not None and not isinstance(group_id, str):
        raise InvalidInput("group_id is no text; give a string or leave it out", field="group_id")
    return QuestionLine(given.get("id"), group_id, query)


def _parsed(line: bytes) -> Any:
    if len(line) > _LONGEST_LINE:
        raise InvalidInput(f"the line has {len(line):,} bytes, more than {_LONGEST_LINE:,}", field="line")
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"not JSON in UTF-8: {error}", field="line") from error
