"""A source is taken if it explains nearly all votes, however its samples lie, and a hopeless one is soon given up."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from twinraven.huginn.synthesis.sources import FromStep, Samples, Source
from twinraven.huginn.traces import SessionTrace
from twinraven.huginn.voting import Votes

WANTED = FromStep(0, "output", ("id",))
OTHER = FromStep(0, "output", ("other",))
LEAST_SHARE = 0.88
COUNT = 200


def samples_of(count: int = COUNT) -> Samples:
    """One sample in each of so many sessions, all with another value."""
    sessions = [SessionTrace(f"s{number}", None, False, (), True) for number in range(count)]
    votes = Votes(sessions)
    values = [str(number) for number in range(count)]
    return Samples("id", values, sessions, votes.weigh(sessions), votes, LEAST_SHARE)


class Asked:
    """What explains each sample, and how many samples were asked."""

    def __init__(self, answers: list[list[Source]]) -> None:
        self.answers = answers
        self.count = 0

    def __iter__(self) -> Iterator[list[Source]]:
        for answer in self.answers:
            self.count += 1
            yield answer


@pytest.mark.parametrize("explained", [COUNT, 180, 176])
@pytest.mark.parametrize("order", ["first", "last", "mixed"])
def test_enough_votes_win_wherever_they_lie(explained: int, order: str) -> None:
    """Exactly the least share is enough, also if all samples that nothing explains come first."""
    answers: list[list[Source]] = [[WANTED, OTHER] if number % 2 else [WANTED] for number in range(explained)]
    answers += [[] for _ in range(COUNT - explained)]
    if order == "last":
        answers.reverse()
    if order == "mixed":
        random.Random(5).shuffle(answers)
    evidence = samples_of().best(Asked(answers))
    assert evidence is not None
    assert (evidence.source, evidence.explained, evidence.samples) == (WANTED, explained, COUNT)


@pytest.mark.parametrize("order", ["first", "last", "mixed"])
def test_one_vote_less_is_not_enough(order: str) -> None:
    """A source below the least share is none, in whatever order its samples come."""
    answers: list[list[Source]] = [[WANTED] if number < 175 else [OTHER] for number in range(COUNT)]
    if order == "last":
        answers.reverse()
    if order == "mixed":
        random.Random(6).shuffle(answers)
    assert samples_of().best(Asked(answers)) is None


def test_what_nothing_explains_is_given_up_early() -> None:
    """An eighth of the samples shows that no source can explain enough; the others are not asked."""
    nothing = Asked([[] for _ in range(COUNT)])
    assert samples_of().best(nothing) is None
    assert nothing.count <= COUNT // 8 + 1
    each_its_own = Asked([[FromStep(0, "output", (str(number),))] for number in range(COUNT)])
    assert samples_of().best(each_its_own) is None
    assert each_its_own.count <= COUNT // 8 + 2
