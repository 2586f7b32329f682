"""What this process did, in numbers that a monitoring system reads (Prometheus text). No names of tenants or tools."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Final

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts of requests and how long they took."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, str, int]] = Counter()
        self._times: dict[tuple[str, str], list[int]] = {}
        self._seconds: Counter[tuple[str, str]] = Counter()
        self.streams = 0

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        if method not in _METHODS:
            # Anybody can think up a method, and each would be a number kept for ever.
            method = "other"
        self._answers[method, path, status] += 1
        buckets = self._times.setdefault((method, path), [0] * (len(_BOUNDS) + 1))
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[method, path] += seconds  # pyright: ignore[reportArgumentType]

    def text(self, *, waiting_events: int) -> str:
        return "\n".join([*self._lines(waiting_events), ""])

    def _lines(self, waiting_events: int) -> Iterator[str]:
        yield "# HELP twinraven_http_requests_total Requests answered."
        yield "# TYPE twinraven_http_requests_total counter"
        for (method, path, status), count in sorted(self._answers.items()):
            yield f'twinraven_http_requests_total{{method="{method}",route="{path}",status="{status}"}} {count}'
        yield "# HELP twinraven_http_request_seconds Time from the first byte of a request to the last of its answer."
        yield "# TYPE twinraven_http_request_seconds histogram"
        for (method, path), buckets in sorted(self._times.items()):
            yield from self._histogram(f'method="{method}",route="{path}"', buckets, self._seconds[method, path])
        yield "# HELP twinraven_live_streams Streams of live events that are open."
        yield "# TYPE twinraven_live_streams gauge"
        yield f"twinraven_live_streams {self.streams}"
        yield "# HELP twinraven_events_waiting Events that are recorded and not yet on disk."
        yield "# TYPE twinraven_events_waiting gauge"
        yield f"twinraven_events_waiting {waiting_events}"

    def _histogram(self, labels: str, buckets: list[int], seconds: float) -> Iterator[str]:
        name = "twinraven_http_request_seconds"
        total = 0
        for bound, count in zip((*_BOUNDS, "+Inf"), buckets, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {seconds:.6f}"
        yield f"{name}_count{{{labels}}} {total}"
