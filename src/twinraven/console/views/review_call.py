"""Shows one call that asks to run, with what led to it, and takes the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from twinraven.console.api_caller import ApiRefused
from twinraven.console.drawing.strip import strip
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.waiting_items import AGAIN_S, after_decision, look_at, next_waiting, plain_reason

PAGES: Final = PageTable()
_COMPARED: Final = 300
_SHOWN_BEFORE: Final = 5
_LED: Final = 6
_STALE: Final = (409, 412)


@PAGES.shows("/review/calls/{approval_id}", "review", live="approvals reservations")
async def review_call(visit: PageRequest) -> PageView:
    return await _page(visit, note="", refusal=None)


@PAGES.takes("/review/calls/{approval_id}", "review")
async def decide_call(visit: PageRequest) -> PageView | Redirect:
    """Grant or deny what was shown: the entity tag of the page is part of the decision."""
    approval_id, form = visit.path["approval_id"], visit.form
    word = "grant" if form.get("verdict") == "grant" else "deny"
    try:
        await visit.api.post(
            "approvals", approval_id, word, body={"note": form.get("note", "")}, if_match=form.get("seen", "")
        )
    except ApiRefused as refusal:
        if refusal.status not in _STALE:
            raise
        return await _page(visit, note=form.get("note", ""), refusal=refusal)
    return await after_decision(visit, f"call:{approval_id}")


async def _page(visit: PageRequest, *, note: str, refusal: ApiRefused | None) -> PageView:
    found = await visit.api.show("approvals", visit.path["approval_id"])
    approval = found.body
    earlier = await visit.api.get("events", tool_id=approval["tool_id"], newest=True, limit=_COMPARED)
    ran = [each for each in earlier["items"] if each["error_code"] != "APPROVAL_PENDING"]
    session = await visit.api.find("sessions", approval["session_id"])
    events: list[Mapping[str, Any]] = [] if session is None else session["events"]
    definitions = list(approval["definition"].values()) if approval["definition"] else []
    values = {
        "approval": approval,
        "why": plain_reason(approval),
        "arguments": [(name, value, _strip(name, value, ran)) for name, value in approval["arguments"].items()],
        "inside": [each for each in approval["covers"] if each != approval["tool_id"]],
        "seen": found.tag,
        "definition": definitions[0] if definitions else "",
        "before": ran[:_SHOWN_BEFORE],
        "led": [each for each in events if not each["parent_event_id"] and not _is_ask(each, approval)][-_LED:],
        "following": await next_waiting(visit, f"call:{approval['approval_id']}"),
        "note": note,
        "looking": await look_at(visit, f"call:{approval['approval_id']}") if approval["state"] == "pending" else "",
        "again_s": AGAIN_S,
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    command = command_line("approvals", "show", approval["approval_id"])
    return PageView("review_call.html", f"{approval['tool_id']} asks", values, command=command, status=status)


def _is_ask(event: Mapping[str, Any], approval: Mapping[str, Any]) -> bool:
    """Whether a call of the session is the one that asks, which the page shows whole."""
    asked = ("tool_id", "input_params", "error_code")
    return [event[name] for name in asked] == [approval["tool_id"], approval["arguments"], "APPROVAL_PENDING"]


def _strip(name: str, value: Any, ran: Sequence[Mapping[str, Any]]) -> Any:
    if not _is_number(value):
        return None
    earlier = [each["input_params"].get(name) for each in ran]
    return strip([each for each in earlier if _is_number(each)], value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
