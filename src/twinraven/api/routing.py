"""Which route a path leads to: a walk down its segments, whatever the number of routes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from twinraven.api.contract import Route
from twinraven.api.reading import BoundRoute


@dataclass(slots=True)
class _Place:
    below: dict[str, _Place] = field(default_factory=dict[str, "_Place"])
    anything: _Place | None = None
    routes: dict[str, BoundRoute] = field(default_factory=dict[str, BoundRoute])


class Router:
    """All routes as one tree; a segment that is written out wins over one that is a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Place()
        for route in routes:
            place = self._root
            for part in route.path.split("/")[1:]:
                place = _below(place, part)
            place.routes[route.method] = BoundRoute(route)

    def find(self, parts: list[str]) -> tuple[dict[str, BoundRoute], list[str]] | None:
        """The routes at a path, by method, and what stands in it; None where there is nothing."""
        place = self._root
        values: list[str] = []
        for part in parts:
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
