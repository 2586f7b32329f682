"""Shows entities: what is known of each and from where, its neighbours as rings, and pairs that may be one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup

from twinraven.console.api_caller import ApiRefused, members
from twinraven.console.drawing.marks import label, link, picture, safe
from twinraven.console.formatting import cut, plural, spaced
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line

PAGES: Final = PageTable()
_PER_PAGE: Final = 100
_FIRST_RING: Final = 10
_SECOND_RING: Final = 16
_OF_EACH: Final = 4
_WIDTH: Final = 860.0
_MARGIN: Final = 30.0
_MIDDLE: Final = (430.0, 230.0)
_RADII: Final = (350.0, 205.0)


@dataclass(frozen=True, slots=True)
class NeighbourLine:
    """An entity near another one, and how they are related."""

    key: str
    name: str
    of: str
    words: str


@PAGES.shows("/entities", "entities", needs="entities")
async def list_entities(visit: PageRequest) -> PageView:
    where = {name: visit.query[name] for name in ("category", "group_id", "name") if visit.query.get(name)}
    page = await visit.api.get("entities", limit=_PER_PAGE, cursor=visit.query.get("cursor"), **where)
    more = {**where, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "entities": page["items"],
        "where": where,
        "more": None if more is None else f"/console/entities?{urlencode(more)}",
    }
    return PageView("entities.html", "Entities", values, command="twinraven entities list")


@PAGES.shows("/entities/{entity_id}", "entities", needs="entities")
async def show_entity(visit: PageRequest) -> PageView:
    return await _page(visit, None)


async def _page(visit: PageRequest, refusal: ApiRefused | None) -> PageView:
    entity = await visit.api.get("entities", visit.path["entity_id"])
    around = await _around(visit, entity)
    names = {each.key: each.name for each in around}
    values = {
        "entity": entity,
        "around": around,
        "names": names,
        "picture": _rings(entity, around),
        "refusal": None if refusal is None else refusal.problem,
    }
    command = command_line("entities", "show", entity["entity_id"])
    status = 200 if refusal is None else refusal.status
    return PageView("entity.html", entity["name"], values, command=command, status=status)


@PAGES.takes("/entities/{entity_id}/merge", "entities", needs="entities")
async def merge(visit: PageRequest) -> PageView | Redirect:
    """Make one of two entities."""
    entity_id = visit.path["entity_id"]
    other = visit.form.get("other_id", "").strip()
    try:
        await visit.api.post("entities", entity_id, "merge", body={"other_id": other})
    except ApiRefused as refusal:
        if refusal.status not in (400, 404, 409, 412):
            raise
        return await _page(visit, refusal)
    return Redirect(f"/console/entities/{quote(entity_id, safe='')}")


async def _around(visit: PageRequest, entity: Mapping[str, Any]) -> list[NeighbourLine]:
    """Return who is related to an entity or shares its turns, the closest first, and whom those know in turn."""
    entity_id = entity["entity_id"]
    found = await visit.api.find("entities", entity_id, "neighbourhood")
    names = {each["entity_id"]: each for each in _neighbours(found)}
    words = {other: each["relation"] for each in entity["relations"] if (other := _other(each, entity_id))}
    missing = [key for key in words if key not in names][:_FIRST_RING]
    asked = list(visit.api.asked)
    details = await asyncio.gather(*(visit.api.find("entities", key) for key in missing))
    names |= {each["entity_id"]: {"name": each["name"], "shared_turns": 0} for each in details if each is not None}
    order = sorted(names, key=lambda key: (key not in words, -names[key]["shared_turns"], names[key]["name"]))
    first = [
        NeighbourLine(key, names[key]["name"], entity_id, words.get(key) or _shared(names[key]["shared_turns"]))
        for key in order[:_FIRST_RING]
    ]
    further = await asyncio.gather(*(visit.api.find("entities", each.key, "neighbourhood") for each in first))
    visit.api.asked[:] = asked
    known = {entity_id, *(each.key for each in first)}
    for near, theirs in zip(list(first), further, strict=True):
        for each in _neighbours(theirs)[:_OF_EACH]:
            if each["entity_id"] not in known and len(known) <= _FIRST_RING + _SECOND_RING:
                known.add(each["entity_id"])
                first.append(NeighbourLine(each["entity_id"], each["name"], near.key, ""))
    return first


def _neighbours(found: Any) -> Sequence[Mapping[str, Any]]:
    return members(found).get("neighbours", ())


def _other(relation: Mapping[str, Any], entity_id: str) -> str | None:
    other = relation["object_id"] if relation["entity_id"] == entity_id else relation["entity_id"]
    return None if other == entity_id else other


def _shared(turns: int) -> str:
    return plural(turns, "shared turn") if turns else ""


def _rings(entity: Mapping[str, Any], around: Sequence[NeighbourLine]) -> Markup | None:
    """Return the entity in the middle, its neighbours around it and theirs further out, each a link that centres it."""
    if not around:
        return None
    entity_id = entity["entity_id"]
    near = [each for each in around if each.of == entity_id]
    angles = {each.key: 2 * math.pi * number / len(near) - math.pi / 2 for number, each in enumerate(near)}
    share = 0.56 if len(near) < len(around) else 0.8
    places = {entity_id: _MIDDLE} | {key: _at(angle, share) for key, angle in angles.items()}
    for each in near:
        theirs = [other for other in around if other.of == each.key]
        room = 2 * math.pi / len(near)
        for number, other in enumerate(theirs):
            spread = room * 0.8 * ((number + 0.5) / len(theirs) - 0.5)
            places[other.key] = _at(angles[each.key] + spread, 1.0)
    places, height = _cropped(places)
    lines, words = list[str](), list[str]()
    for each in around:
        (x, y), (to_x, to_y) = places[each.of], places[each.key]
        lines.append(f'<path class="edge" stroke-width="1.4" d="M{x:.0f} {y:.0f}L{to_x:.0f} {to_y:.0f}"/>')
        if each.words:
            words.append(label((x + to_x) / 2, (y + to_y) / 2, cut(spaced(each.words), 24), "note"))
    boxes = [
        link(f"/console/entities/{quote(each.key, safe='')}", _bubble(*places[each.key], each.name, _look(each, near)))
        for each in around
    ]
    inside = "".join([*lines, *words, *boxes, _bubble(*places[entity_id], entity["name"], "chosen")])
    described = "; ".join(f"{each.words or 'beside'} {each.name}" for each in near)
    return picture("graph", _WIDTH, height, inside, title=f"What {entity['name']} is related to", described=described)


def _cropped(places: Mapping[str, tuple[float, float]]) -> tuple[dict[str, tuple[float, float]], float]:
    """Return the same places without the empty room above and below them, and how high the picture is then."""
    heights = [y for _, y in places.values()]
    top = min(heights) - _MARGIN
    return {key: (x, y - top) for key, (x, y) in places.items()}, max(heights) - top + _MARGIN


def _at(angle: float, share: float) -> tuple[float, float]:
    """Return a place on a ring."""
    return _MIDDLE[0] + share * _RADII[0] * math.cos(angle), _MIDDLE[1] + share * _RADII[1] * math.sin(angle)


def _look(each: NeighbourLine, near: Sequence[NeighbourLine]) -> str:
    return "" if each in near else "quiet"


def _bubble(x: float, y: float, name: str, kind: str) -> str:
    width = max(64.0, 7.2 * len(cut(name, 22)) + 22)
    return (
        f'<rect class="box {kind}" x="{x - width / 2:.1f}" y="{y - 15:.1f}" width="{width:.1f}" height="30" rx="15"/>'
        f'<text x="{x:.1f}" y="{y:.1f}">{safe(cut(name, 22))}</text>'
    )
