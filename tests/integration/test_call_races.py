"""Sixteen callers in four processes want the same keys: one effect each, and everybody is told the truth about it."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.homes import make_home
from tests.payer import CALLERS, payments, start_payer
from tests.workers import ForkedProcess
from twinraven.app import open_home

PROCESSES = 4


def answer_of(racer: ForkedProcess) -> list[list[Any]]:
    return json.loads(racer.communicate("go\n")[0])


@pytest.mark.req("CH-16")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_racing_callers_cause_one_effect_for_each_key(
    store: str, tmp_path: Path, request: pytest.FixtureRequest, *, full_scale: bool
) -> None:
    """The first request under a key happens once; its equals get its answer, others with the same key a conflict."""
    keys = 1000 if full_scale else 20
    home = make_home(tmp_path, postgres=request.getfixturevalue("postgres_login") if store == "postgres" else None)
    open_home(home).close()
    paid = tmp_path / "paid"
    racers = [start_payer("race", home, paid, keys) for _ in range(PROCESSES)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        answers = list(pool.map(answer_of, racers))
    told: list[list[Any]] = [line for answer in answers for line in answer]
    assert len(told) == keys * PROCESSES * CALLERS
    effects = payments(paid)
    assert sorted(map(len, effects.values())) == [1] * keys
    for number in range(keys):
        (amount,) = effects[f"payee-{number}"]
        here = [line for line in told if line[0] == number]
        outputs = [output for _, asked, code, output in here if (asked, code) == (amount, None)]
        assert all(output == outputs[0] for output in outputs)
        assert Counter((asked == amount, code) for _, asked, code, _ in here) == {
            (True, None): len(outputs),
            (False, "IDEMPOTENCY_CONFLICT"): len(here) - len(outputs),
        }
    with open_home(home) as raven:
        assert (await raven.audit.verify("default")).ok
