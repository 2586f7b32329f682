"""Shows the queue of everything that waits for a decision, and decides items that have no page of their own."""

from __future__ import annotations

from typing import Any, Final

import orjson

from twinraven.console.asking import ApiRefused
from twinraven.console.views.waiting import KINDS, cost_of, everything_waiting, next_waiting, waiting_of
from twinraven.console.visits import PageTable, Redirect, Shown, Visit

PAGES: Final = PageTable()
_REFUSED: Final = (400, 409, 412)


@PAGES.shows("/review", "review", live="approvals catalog events")
async def review_queue(visit: Visit) -> Shown:
    kind = visit.query.get("kind", "")
    found = await everything_waiting(visit)
    last = await visit.api.find("approvals", limit=1)
    numbers = {key: sum(each.kind == key for each in found) for key in KINDS}
    values = {
        "kind": kind,
        "kinds": [
            ("", "everything", len(found)),
            *((key, name, numbers[key]) for key, name in KINDS.items() if numbers[key] or key == kind),
        ],
        "waits": [each for each in found if kind in ("", each.kind)],
        "last": None if last is None or not last["items"] else last["items"][0],
    }
    return Shown("review.html", "Review", values, command="twinraven inbox list")


@PAGES.shows("/review/items/{item_id}", "review", live="approvals catalog events")
async def review_item(visit: Visit) -> Shown:
    return await _page(visit, refusal=None)


@PAGES.takes("/review/items/{item_id}", "review")
async def decide_item(visit: Visit) -> Shown | Redirect:
    """Decide what was shown: the hash of it is part of the decision."""
    item_id, form = visit.path["item_id"], visit.form
    body: dict[str, Any] = {"choice": form.get("verdict", ""), "bound_to": form.get("bound_to", "")}
    if form.get("note"):
        body["note"] = form["note"]
    if form.get("answer"):
        body["answer"] = _value(form["answer"])
    try:
        await visit.api.post("inbox", item_id, "decide", body=body, if_match=form.get("seen", ""))
    except ApiRefused as refusal:
        if refusal.status not in _REFUSED:
            raise
        return await _page(visit, refusal=refusal)
    return Redirect(await next_waiting(visit, item_id))


async def _page(visit: Visit, *, refusal: ApiRefused | None) -> Shown:
    item_id = visit.path["item_id"]
    found = await visit.api.show("inbox", item_id)
    item = found.body
    run_id = item["evidence"].get("run_id")
    values = {
        "item": item,
        "line": waiting_of(item),
        "kind_name": KINDS.get(item["kind"], item["kind"]),
        "seen": found.tag,
        "cost": cost_of(item["cost"]),
        "run_id": run_id if visit.has("runs") else None,
        "needs_answer": any(each["needs"] == "answer" for each in item["choices"]),
        "following": await next_waiting(visit, item_id),
        "form": visit.form,
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    return Shown("review_item.html", item["target"], values, command=f"twinraven inbox show {item_id}", status=status)


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return text
