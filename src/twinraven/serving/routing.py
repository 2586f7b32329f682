"""Finds the route of a path: a look-up where the path is fixed, else a walk down its segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from twinraven.serving.contract import Route
from twinraven.serving.request_parsing import BoundRoute, segments

Routes = Mapping[str, BoundRoute]
"""The routes at one path, by method."""

_NO_VALUES: Final[Sequence[str]] = ()


@dataclass(slots=True)
class _Place:
    below: dict[str, _Place] = field(default_factory=dict[str, "_Place"])
    anything: _Place | None = None
    routes: dict[str, BoundRoute] = field(default_factory=dict[str, BoundRoute])


class Router:
    """All routes as one tree; a segment that is written out wins over one that is a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Place()
        self._fixed: dict[bytes, Routes] = {}
        for route in routes:
            place = self._root
            for part in route.path.split("/")[1:]:
                place = _below(place, part)
            place.routes[route.method] = BoundRoute(route)
            if not route.names:
                self._fixed[route.path.encode()] = place.routes

    def find(self, path: bytes) -> tuple[Routes, Sequence[str]] | None:
        """Find the routes at a path, and what stands in it; None where there is nothing."""
        fixed = self._fixed.get(path)
        return self._walk(segments(path)) if fixed is None else (fixed, _NO_VALUES)

    def _walk(self, parts: list[str] | None) -> tuple[Routes, Sequence[str]] | None:
        place = self._root
        values: list[str] = []
        for part in parts or ():
            known = place.below.get(part)
            if known is None:
                if place.anything is None or not part:
                    return None
                values.append(part)
                known = place.anything
            place = known
        return (place.routes, values) if place.routes else None


def _below(place: _Place, part: str) -> _Place:
    if not part.startswith("{"):
        return place.below.setdefault(part, _Place())
    if place.anything is None:
        place.anything = _Place()
    return place.anything
