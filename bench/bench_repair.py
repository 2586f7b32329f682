"""Repairs of malformed model answers: how many rules mend alone, how many a model must mend, and at what cost.

The corpus is that of the tests: good answers damaged in twelve ways, and what a real small model said when it was asked
for plans without a schema. What rules cannot mend is asked of a model once more, here one that then answers well, so
the shares say what each attempt is worth. A share is a ratio to its corpus; nothing that is no valid plan is taken.
"""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from collections import Counter
from typing import Any

from bench.harness import Harness, Row
from tests.unit.models.damage import GOODS, corpus, hostile_texts, real_answers
from tests.unit.plans.world import FakeRun, carry_out
from twinraven.foundation.errors import InvalidOutput
from twinraven.models import mend_json

_REQUEST = "Sell the lamp."
_ALLOWED_S, _ALLOWED_BYTES = 0.1, 64 * 2**20


def measure(harness: Harness) -> list[Row]:
    shares = _shares([(_REQUEST, good, text) for _, good, text in corpus()])
    real = _shares([(request, GOODS[0], text) for request, text in real_answers()])
    texts = [text for _, _, text in corpus()] + [text for _, text in real_answers()] + hostile_texts()
    slowest = lambda: max(_seconds(text) for text in texts)  # noqa: E731
    return [
        _share(harness, "damaged answers that rules do not mend", shares["model"] + shares["lost"], aim=0.25),
        _share(harness, "damaged answers that one question does not mend", shares["lost"], aim=0.0),
        _share(harness, "answers of a real model that rules do not mend", real["model"] + real["lost"], aim=1.0),
        _share(harness, "answers of a real model that one question does not mend", real["lost"], aim=0.0),
        harness.compare("the slowest text, CPU", slowest, lambda: _ALLOWED_S, against="100 ms", aim=1.0),
        harness.compare(
            "the largest text, memory", lambda: _memory(texts), lambda: _ALLOWED_BYTES, against="64 MiB", aim=1.0
        ),
    ]


def _share(harness: Harness, name: str, share: float, *, aim: float) -> Row:
    return harness.compare(name, lambda: share, lambda: 1.0, against="the corpus", aim=aim)


def _shares(damaged: list[tuple[str, Any, str]]) -> Counter[str]:
    """Which share of a corpus becomes a valid plan by rules alone, by one question, or not at all."""
    found: Counter[str] = Counter()
    for request, good, text in damaged:
        said = iter([text, json.dumps(good)])
        run = FakeRun(lambda _, said=said: next(said, "Hm."))
        asyncio.run(carry_out(run, request=request, ttl=1))
        planned = run.cycles[0].plan is not None
        found["lost" if not planned else "rule" if len(run.asked) == 1 else "model"] += 1
    return Counter({how: count / len(damaged) for how, count in found.items()})  # pyright: ignore[reportArgumentType]


def _seconds(text: str) -> float:
    begun = time.process_time()
    _mend(text)
    return time.process_time() - begun


def _memory(texts: list[str]) -> float:
    tracemalloc.start()
    for text in texts:
        _mend(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


def _mend(text: str) -> None:
    try:
        mend_json(text)
    except InvalidOutput:
        return
