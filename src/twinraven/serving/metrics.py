"""Counts requests of this process as Prometheus metrics, without names of tenants or tools."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _Tally:
    """The answers of one kind."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(_BOUNDS) + 1)


class HttpMetrics:
    """Counts of requests and how long they took."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, int], _Tally] = {}
        self.streams = 0

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        tally = self._answers.get((method, path, status))
        if tally is None:
            # Anybody can think up a method, and each would be a number kept for ever.
            known = method if method in _METHODS else "other"
            tally = self._answers.setdefault((known, path, status), _Tally())
        tally.count += 1
        tally.seconds += seconds
        tally.buckets[bisect_left(_BOUNDS, seconds)] += 1

    def text(self, *, waiting_events: int) -> str:
        return "\n".join([*self._lines(waiting_events), ""])

    def _lines(self, waiting_events: int) -> Iterator[str]:
        yield "# HELP twinraven_http_requests_total Requests answered."
        yield "# TYPE twinraven_http_requests_total counter"
        answers = sorted(self._answers.items(), key=itemgetter(0))
        for (method, path, status), tally in answers:
            yield f'twinraven_http_requests_total{{method="{method}",route="{path}",status="{status}"}} {tally.count}'
        yield "# HELP twinraven_http_request_seconds Time from the first byte of a request to the last of its answer."
        yield "# TYPE twinraven_http_request_seconds histogram"
        for (method, path), found in groupby(answers, key=lambda answer: answer[0][:2]):
            yield from _histogram(f'method="{method}",route="{path}"', [tally for _, tally in found])
        yield "# HELP twinraven_live_streams Streams of live events that are open."
        yield "# TYPE twinraven_live_streams gauge"
        yield f"twinraven_live_streams {self.streams}"
        yield "# HELP twinraven_events_waiting Events that are recorded and not yet on disk."
        yield "# TYPE twinraven_events_waiting gauge"
        yield f"twinraven_events_waiting {waiting_events}"


def _histogram(labels: str, tallies: list[_Tally]) -> Iterator[str]:
    name = "twinraven_http_request_seconds"
    total = 0
    for bound, *counts in zip((*_BOUNDS, "+Inf"), *(tally.buckets for tally in tallies), strict=True):
        total += sum(counts)
        yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
    yield f"{name}_sum{{{labels}}} {sum(tally.seconds for tally in tallies):.6f}"
    yield f"{name}_count{{{labels}}} {total}"
