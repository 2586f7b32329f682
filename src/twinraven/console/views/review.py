"""Shows the queue of everything that waits for a decision, and decides items that have no page of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twinraven.console.api_caller import ApiRefused, typed_value
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.evidence import evidence_of
from twinraven.console.views.runs import answer_choices
from twinraven.console.views.waiting_items import (
    AGAIN_S,
    KINDS,
    after_decision,
    cost_of,
    everything_waiting,
    look_at,
    next_waiting,
    task_names,
    waiting_count,
    waiting_of,
)

PAGES: Final = PageTable()
_REFUSED: Final = (400, 409, 412)


@PAGES.shows("/review", "review", live="approvals catalog events/10 runs work reservations")
async def review_queue(visit: PageRequest) -> PageView:
    kind = visit.query.get("kind", "")
    found, in_all = await everything_waiting(visit, kind if kind in KINDS else "")
    last = await visit.api.find("approvals", limit=1)
    numbers = {key: await waiting_count(visit, key) for key in KINDS}
    values = {
        "kind": kind,
        "kinds": [
            ("", "everything", sum(numbers.values())),
            *((key, name, numbers[key]) for key, name in KINDS.items() if numbers[key] or key == kind),
        ],
        "waits": found,
        "in_all": in_all,
        "again_s": AGAIN_S,
        "last": None if last is None or not last["items"] else last["items"][0],
    }
    return PageView("review.html", "Review", values, command="twinraven inbox list")


@PAGES.shows("/review/items/{item_id}", "review", live="approvals catalog events/10 runs work reservations")
async def review_item(visit: PageRequest) -> PageView:
    return await _page(visit, refusal=None)


@PAGES.takes("/review/items/{item_id}", "review")
async def decide_item(visit: PageRequest) -> PageView | Redirect:
    """Decide what was shown: the hash of it is part of the decision."""
    item_id, form = visit.path["item_id"], visit.form
    body: dict[str, Any] = {"choice": form.get("verdict", ""), "bound_to": form.get("bound_to", "")}
    if form.get("note"):
        body["note"] = form["note"]
    if form.get("answer"):
        body["answer"] = typed_value(form["answer"])
    try:
        await visit.api.post("inbox", item_id, "decide", body=body, if_match=form.get("seen", ""))
    except ApiRefused as refusal:
        if refusal.status not in _REFUSED:
            raise
        return await _page(visit, refusal=refusal)
    return await after_decision(visit, item_id)


async def _page(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    item_id = visit.path["item_id"]
    found = await visit.api.show("inbox", item_id)
    item = found.body
    asking = next((each for each in item["choices"] if each["needs"] == "answer"), None)
    is_only = asking is not None and len(item["choices"]) == 1
    label, hint = _answer_words(item["kind"], asking)
    line = waiting_of(item, await task_names(visit, [item]))
    values = {
        "item": item,
        "line": line,
        "evidence": await evidence_of(visit, item),
        "kind_name": KINDS.get(item["kind"], item["kind"]),
        "seen": found.tag,
        "cost": cost_of(item["cost"]),
        "needs_answer": asking is not None,
        "answers": answer_choices(asking["answer_schema"]) if asking is not None and is_only else (),
        "answer_label": label,
        "answer_hint": hint,
        "following": await next_waiting(visit, item_id),
        "form": visit.form,
        "looking": await look_at(visit, item_id) if item["state"] == "open" else "",
        "again_s": AGAIN_S,
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    command = command_line("inbox", "show", item_id)
    return PageView("review_item.html", line.name, values, command=command, status=status)


def _answer_words(kind: str, choice: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return what the field of an answer is called, and what is said of it."""
    if choice is None:
        return "", ""
    labels = {"unknown_effect": "The provider calls it", "unknown_step": "It gave, as JSON"}
    return labels.get(kind, "Answer"), choice["summary"]
