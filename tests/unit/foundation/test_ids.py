"""Identifiers: random, opaque, unique."""

from __future__ import annotations

import os
import pickle
import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from uuid import UUID

import pytest

from twinraven.foundation.ids import new_id, new_uuid, read_uuid


@pytest.mark.req("CH-01")
def test_ids_are_128_bits_in_hex() -> None:
    """An id is 32 hex digits, and a thousand of them differ."""
    made = {new_id() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(re.fullmatch(r"[0-9a-f]{32}", text) for text in made)


@pytest.mark.req("CH-01")
def test_every_bit_of_an_id_is_random() -> None:
    """Each of the 128 bits is about as often set as not, so none of them carries a type, a time or a version."""
    rounds = 2_000
    counts = [0] * 128
    for _ in range(rounds):
        bits = int(new_id(), 16)
        for position in range(128):
            counts[position] += bits >> position & 1
    assert all(0.4 * rounds < count < 0.6 * rounds for count in counts)


@pytest.mark.req("CH-01")
def test_ids_say_nothing_of_time() -> None:
    """Ids made one after the other are in no order, and none contains the clock."""
    made: list[str] = []
    clocks: set[str] = set()
    for _ in range(200):
        clocks |= {f"{int(time.time()):08x}", f"{time.time_ns() // 1_000_000:011x}"}
        made.append(new_id())
    rises = sum(earlier < later for earlier, later in pairwise(made))
    assert 50 < rises < 150
    assert not any(clock in text for clock in clocks for text in made)


@pytest.mark.req("CH-01")
def test_uuids_are_version_four() -> None:
    """Events, chains and validation results have random UUIDs, as their seed says."""
    made = {new_uuid() for _ in range(1_000)}
    assert len(made) == 1_000
    assert {one.version for one in made} == {4}
    for one in made:
        told = UUID(str(one))
        assert read_uuid(str(one)) == told
        assert (told, hash(told), told.variant, pickle.loads(pickle.dumps(one))) == (one, hash(one), one.variant, one)


@pytest.mark.req("CH-01")
def test_threads_never_get_the_same_id() -> None:
    """Ids drawn from one store of randomness by eight threads at once all differ."""

    def draw(_: int) -> list[str]:
        return [new_id() for _ in range(2_000)]

    with ThreadPoolExecutor(8) as pool:
        made = [text for part in pool.map(draw, range(8)) for text in part]
    assert len(set(made)) == 16_000


@pytest.mark.req("CH-01")
def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    """What the parent had drawn before it forked is not given out by the child, too."""
    new_id()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "\n".join(new_id() for _ in range(100)).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answers:
        theirs = set(answers.read().split())
    assert len(theirs) == 100
    assert theirs.isdisjoint(new_id() for _ in range(100))
