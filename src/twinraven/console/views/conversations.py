"""Shows conversations: the tree of turns with their alternatives, the thread, and what a model would be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup

from twinraven.console.api_caller import ApiRefused, items_of
from twinraven.console.drawing.tree import TreeNode, tree
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line

PAGES: Final = PageTable()
_MOST_TURNS: Final = 500
_BUILT_IN: Final = (("chat", "Chat"), ("chat_with_tools", "Chat with tools"))
"""What answers without anybody having saved a process; the first where nobody chose."""
_PER_PAGE: Final = 100
_REFUSED: Final = (400, 404, 409, 422, 503)


@dataclass(frozen=True, slots=True)
class ThreadTurn:
    """One turn of the thread, as its active alternative says it."""

    turn: Mapping[str, Any]
    active: Mapping[str, Any] | None
    others: Sequence[Mapping[str, Any]]


@PAGES.shows("/talk", "talk", live="conversations", needs="conversations")
async def list_conversations(visit: PageRequest) -> PageView:
    return await _list(visit, refusal=None)


async def _list(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    status = visit.query.get("status", "")
    page = await visit.api.get(
        "conversations", status=status or None, limit=_PER_PAGE, cursor=visit.query.get("cursor")
    )
    more = {"status": status, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "conversations": page["items"],
        "status": status,
        "processes": await _answerers(visit),
        "form": visit.form,
        "refusal": None if refusal is None else refusal.problem,
        "more": None if more is None else f"/console/talk?{urlencode(more)}",
    }
    code = 200 if refusal is None else refusal.status
    return PageView("talks.html", "Conversations", values, command="twinraven conversations list", status=code)


@PAGES.takes("/talk", "talk", needs="conversations")
async def begin_conversation(visit: PageRequest) -> PageView | Redirect:
    form = visit.form
    body = {name: form[name].strip() for name in ("title", "process_id") if form.get(name, "").strip()}
    try:
        made = await visit.api.post("conversations", body=body)
    except ApiRefused as refusal:
        if refusal.status not in _REFUSED:
            raise
        return await _list(visit, refusal=refusal)
    return Redirect(_at(made["id"]))


async def _answerers(visit: PageRequest) -> list[tuple[str, str]]:
    """Return what may answer, by id: the two that are always there, and the tenant's processes."""
    found = items_of(await visit.api.find("processes", limit=500))
    return list((dict(_BUILT_IN) | {each["id"]: each["name"] or each["id"] for each in found}).items())


@PAGES.shows("/talk/{conversation_id}", "talk", live="conversations", needs="conversations")
async def show_conversation(visit: PageRequest) -> PageView:
    return await _page(visit, refusal=None)


@PAGES.takes("/talk/{conversation_id}/say", "talk", needs="conversations")
async def say(visit: PageRequest) -> PageView | Redirect:
    """Say something; with a process it is answered, without one it stands alone."""
    form = visit.form
    body: dict[str, Any] = {"content": form.get("content", "")}
    if form.get("parent_turn"):
        body["parent_turn"] = form["parent_turn"]
    if form.get("answered") == "yes":
        chosen = {"process_id": form["process_id"]} if form.get("process_id") else {}
        return await _act(visit, ("messages",), {**body, **chosen})
    return await _act(visit, ("turns",), {**body, "speaker": "user"})


@PAGES.takes("/talk/{conversation_id}/turns/{turn_id}/again", "talk", needs="conversations")
async def say_again(visit: PageRequest) -> PageView | Redirect:
    """Another wording of what was said, or another answer."""
    content = visit.form.get("content", "")
    body = {"content": content} if content else {}
    return await _act(visit, ("turns", visit.path["turn_id"], "alternatives"), body)


@PAGES.takes("/talk/{conversation_id}/turns/{turn_id}/active", "talk", needs="conversations")
async def switch(visit: PageRequest) -> PageView | Redirect:
    """Make another alternative the active one."""
    body = {"alternative_id": visit.form.get("alternative_id", "")}
    return await _act(visit, ("turns", visit.path["turn_id"], "active"), body)


@PAGES.takes("/talk/{conversation_id}/fork", "talk", needs="conversations")
async def fork(visit: PageRequest) -> PageView | Redirect:
    """Copy the path up to a turn into a conversation of its own."""
    return await _act(visit, ("forks",), {"turn_id": visit.form.get("turn_id", "")}, goes_to_answer=True)


async def _act(
    visit: PageRequest, path: Sequence[str], body: Mapping[str, Any], *, goes_to_answer: bool = False
) -> PageView | Redirect:
    conversation_id = visit.path["conversation_id"]
    try:
        done = await visit.api.post("conversations", conversation_id, *path, body=dict(body))
    except ApiRefused as refusal:
        if refusal.status not in _REFUSED:
            raise
        return await _page(visit, refusal=refusal)
    return Redirect(_at(done["id"] if goes_to_answer else conversation_id))


async def _page(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    conversation_id = visit.path["conversation_id"]
    talk, turns, path, memory, processes = await asyncio.gather(
        visit.api.get("conversations", conversation_id),
        visit.api.get("conversations", conversation_id, "turns", limit=_MOST_TURNS),
        visit.api.get("conversations", conversation_id, "path", turn_id=visit.query.get("turn")),
        visit.api.find("conversations", conversation_id, "memory", turn_id=visit.query.get("turn")),
        _answerers(visit),
    )
    preferred = talk["default_process"]["process_id"] if talk["default_process"] else _BUILT_IN[0][0]
    values = {
        "talk": talk,
        "at": _at(conversation_id),
        "thread": [_said(turn) for turn in path["items"]],
        "tree": _tree(conversation_id, turns["items"], {turn["id"] for turn in path["items"]}),
        "turn_count": len(turns["items"]),
        "memory": memory,
        "bars": None if memory is None else _bars(memory),
        "chosen": visit.query.get("turn", ""),
        "processes": processes,
        "answerer": visit.form.get("process_id") or preferred,
        "typed": visit.form.get("content", ""),
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    command, about = command_line("conversations", "show", conversation_id), {"conversations": [conversation_id]}
    return PageView("talk.html", talk["title"] or "A conversation", values, command=command, status=status, about=about)


def _at(conversation_id: str) -> str:
    return f"/console/talk/{quote(conversation_id, safe='')}"


def _said(turn: Mapping[str, Any]) -> ThreadTurn:
    alternatives = turn["alternatives"]
    active = next((each for each in alternatives if each["is_active"]), None)
    return ThreadTurn(turn, active, alternatives)


def _tree(conversation_id: str, turns: Sequence[Mapping[str, Any]], on_path: set[str]) -> Markup | None:
    """Return every turn below the one it follows; those on the active path are bold."""
    nodes = [
        TreeNode(
            key=turn["id"],
            parent=None if turn["child_of"] is None else turn["child_of"]["turn_id"],
            words=_words(turn),
            dots=tuple(_dot(each) for each in turn["alternatives"]),
            kind=turn["speaker"] + (" active" if turn["id"] in on_path else ""),
            href=f"{_at(conversation_id)}?turn={quote(turn['id'], safe='')}",
        )
        for turn in turns
    ]
    return tree(nodes, title="Turns of the conversation") if nodes else None


def _dot(alternative: Mapping[str, Any]) -> str:
    """Return how an alternative looks in the tree."""
    stale = "" if alternative["cache_status"] in (None, "valid") else " stale"
    return ("shown" if alternative["is_active"] else "other") + stale


def _words(turn: Mapping[str, Any]) -> str:
    said = _said(turn).active
    text = "" if said is None else said["content"] or said["state"]
    return " ".join(str(text).split())


def _bars(memory: Mapping[str, Any]) -> list[tuple[str, int, float, float]]:
    """Return what is inside, group by group: its name, tokens, and where its bar lies on the budget, in percent."""
    whole = max(memory["budget"], memory["total_tokens"], 1)
    groups: dict[str, int] = {}
    for item in memory["items"]:
        groups[item["kind"]] = groups.get(item["kind"], 0) + item["tokens"]
    at, bars = 0.0, list[tuple[str, int, float, float]]()
    for name, tokens in groups.items():
        wide = 100 * tokens / whole
        bars.append((name, tokens, at, wide))
        at += wide
    return bars
