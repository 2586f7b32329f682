"""Converts graph values to JSON: nodes, relationships, paths, times, points.

Times are written in ISO 8601, with all the digits the server keeps; a node is its id, its labels and its properties,
so that a property can never be taken for one of the others.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, cast

from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time

from twinraven.foundation.canonical import to_json_value


def as_json(value: Any) -> Any:
    """Return a value the driver gave, as JSON."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [as_json(item) for item in cast("list[Any]", value)]
    if isinstance(value, Node):
        return {"id": value.element_id, "labels": sorted(value.labels), "properties": _properties(value)}
    if isinstance(value, Relationship):
        return _relationship(value)
    if isinstance(value, Path):
        return {
            "nodes": [as_json(node) for node in value.nodes],
            "relationships": [_relationship(edge) for edge in value.relationships],
        }
    if isinstance(value, Mapping):
        return {str(name): as_json(member) for name, member in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (Date, DateTime, Duration, Time)):
        return value.iso_format()
    if isinstance(value, Point):
        return {"srid": value.srid, **dict(zip("xyz", (float(number) for number in value), strict=False))}
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    return to_json_value(value)


def _relationship(edge: Relationship) -> dict[str, Any]:
    start, end = edge.nodes
    return {
        "id": edge.element_id,
        "type": edge.type,
        "start": None if start is None else start.element_id,
        "end": None if end is None else end.element_id,
        "properties": _properties(edge),
    }


def _properties(entity: Node | Relationship) -> dict[str, Any]:
    return {name: as_json(value) for name, value in entity.items()}
