"""No trace, however odd, breaks a reader: what is not understood is a complaint."""

from __future__ import annotations

import json
import random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces import GOLDEN, read
from twinraven.cli import imports
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.formats import AUTO, FORMATS

SAMPLES = sorted(path for path in GOLDEN.iterdir() if ".expected" not in path.name and path.suffix != ".pb")
ODD: list[Any] = [None, True, -1, 1.5, "", "x", "{'a': 1}", "[1]", [], [[]], [None], {}, {"type": "text"}, {"role": 3}]


def damaged(value: Any, chance: random.Random) -> Any:
    """The value with one odd value somewhere inside it."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        members = cast("dict[str, Any]", value)
        key = chance.choice(list(members))
        if chance.random() < 0.15:
            return {name: each for name, each in members.items() if name != key}
        return {**members, key: damaged(members[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        items = cast("list[Any]", value)
        place = chance.randrange(len(items))
        return [*items[:place], damaged(items[place], chance), *items[place + 1 :]]
    return chance.choice(ODD)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_a_sample_with_odd_values_in_it_is_read_or_complained_of(sample: Any, seed: int) -> None:
    """Whatever stands where, the calls that are understood are calls, and the rest is complaints."""
    chance = random.Random(seed)
    if sample.suffix == ".jsonl":
        values = [json.loads(line) for line in sample.read_bytes().splitlines() if _is_json(line)]
    else:
        values = [json.loads(sample.read_bytes())] if sample.suffix == ".json" else []
    place = chance.randrange(len(values)) if values else 0
    lines = [json.dumps(damaged(each, chance) if n == place else each).encode() for n, each in enumerate(values)]
    for name in (AUTO, chance.choice(list(FORMATS))):
        try:
            calls, errors = read(lines, name)
        except InvalidInput as error:
            assert name == AUTO
            assert error.message
        else:
            assert all(call.tool_id for call in calls)
            assert all(error.reason for error in errors)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_the_command_line_offers_every_format() -> None:
    """The formats that `--format` takes are those that there are."""
    assert set(imports._FORMATS) == {AUTO, *FORMATS}  # pyright: ignore[reportPrivateUsage]
