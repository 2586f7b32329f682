"""Shows entities: what is known of each and from where, its neighbours as rings, and pairs that may be one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup

from twinraven.console.asking import ApiRefused
from twinraven.console.drawing.marks import label, link, picture, safe
from twinraven.console.visits import PageTable, Redirect, Shown, Visit
from twinraven.console.words import cut

PAGES: Final = PageTable()
_PER_PAGE: Final = 100
_MOST_AROUND: Final = 24


@PAGES.shows("/entities", "entities", needs="entities")
async def list_entities(visit: Visit) -> Shown:
    where = {name: visit.query[name] for name in ("category", "group_id", "name") if visit.query.get(name)}
    known = {key: value for key, value in where.items() if key != "name"}
    page = await visit.api.get("entities", limit=_PER_PAGE, cursor=visit.query.get("cursor"), **known)
    wanted = where.get("name", "").casefold()
    more = {**where, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "entities": [each for each in page["items"] if wanted in each["name"].casefold()],
        "where": where,
        "more": None if more is None else f"/console/entities?{urlencode(more)}",
    }
    return Shown("entities.html", "Entities", values, command="twinraven entities list")


@PAGES.shows("/entities/{entity_id}", "entities", needs="entities")
async def show_entity(visit: Visit) -> Shown:
    entity = await visit.api.get("entities", visit.path["entity_id"])
    names = await _names(visit, entity)
    values = {"entity": entity, "names": names, "picture": _rings(entity, names)}
    command = f"twinraven entities show {entity['entity_id']}"
    return Shown("entity.html", entity["name"], values, command=command)


@PAGES.takes("/entities/{entity_id}/merge", "entities", needs="entities")
async def merge(visit: Visit) -> Redirect:
    """Make one of two entities."""
    entity_id = visit.path["entity_id"]
    other = visit.form.get("other_id", "").strip()
    if not other:
        raise ApiRefused(400, {"title": "Bad Request", "detail": "Name the other entity.", "code": "INVALID_INPUT"}, "")
    await visit.api.post("entities", entity_id, "merge", body={"other_id": other})
    return Redirect(f"/console/entities/{quote(entity_id, safe='')}")


async def _names(visit: Visit, entity: Mapping[str, Any]) -> dict[str, str]:
    """What the neighbours are called."""
    ids: set[str | None] = {each["object_id"] for each in entity["relations"]} | {
        each["entity_id"] for each in entity["relations"]
    }
    asked = list(visit.api.asked)
    names: dict[str, str] = {}
    for each in sorted(each for each in ids if each is not None and each != entity["entity_id"])[:_MOST_AROUND]:
        found = await visit.api.find("entities", each)
        if found is not None:
            names[each] = found["name"]
    visit.api.asked[:] = asked
    return names


def _rings(entity: Mapping[str, Any], names: Mapping[str, str]) -> Markup | None:
    """The entity in the middle and its neighbours around it, each a link that puts it into the middle."""
    if not names:
        return None
    wide, tall, middle = 860.0, 380.0, (430.0, 190.0)
    relation = {
        (each["object_id"] if each["object_id"] in names else each["entity_id"]): each["relation"]
        for each in entity["relations"]
    }
    parts: list[str] = []
    for number, (key, name) in enumerate(names.items()):
        angle = 2 * math.pi * number / len(names) - math.pi / 2
        x, y = middle[0] + 320 * math.cos(angle), middle[1] + 145 * math.sin(angle)
        said = relation.get(key, "")
        parts.append(f'<path class="edge" stroke-width="1.4" d="M{middle[0]:.0f} {middle[1]:.0f}L{x:.0f} {y:.0f}"/>')
        parts.append(label((middle[0] + x) / 2, (middle[1] + y) / 2, cut(said, 24), "note"))
        inside = _bubble(x, y, name, "")
        parts.append(link(f"/console/entities/{quote(key, safe='')}", inside))
    parts.append(_bubble(*middle, entity["name"], "chosen"))
    described = "; ".join(f"{relation.get(key, 'related to')} {name}" for key, name in names.items())
    return picture(
        "graph", wide, tall, "".join(parts), title=f"What {entity['name']} is related to", described=described
    )


def _bubble(x: float, y: float, name: str, kind: str) -> str:
    width = max(64.0, 7.2 * len(cut(name, 26)) + 22)
    return (
        f'<rect class="box {kind}" x="{x - width / 2:.1f}" y="{y - 17:.1f}" width="{width:.1f}" height="34" rx="17"/>'
        f'<text x="{x:.1f}" y="{y:.1f}">{safe(cut(name, 26))}</text>'
    )
