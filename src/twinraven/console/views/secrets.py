"""Shows secrets without their values: they are written here and never read."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from twinraven.console.api_caller import ApiRefused
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect

PAGES: Final = PageTable()
_TYPES: Final = ("api_key", "oauth_token", "password", "certificate")


@PAGES.shows("/secrets", "secrets")
async def list_secrets(visit: PageRequest) -> PageView:
    return await _page(visit, refusal=None)


@PAGES.takes("/secrets", "secrets")
async def add_secret(visit: PageRequest) -> PageView | Redirect:
    form = visit.form
    body = {"name": form.get("name", ""), "type": form.get("type", ""), "value": form.get("value", "")}
    return await _act(visit, "POST", "/v1/secrets", body)


@PAGES.takes("/secrets/{secret_id}/rotate", "secrets")
async def rotate_secret(visit: PageRequest) -> PageView | Redirect:
    """Replace the value; its id stays."""
    target = f"/v1/secrets/{quote(visit.path['secret_id'], safe='')}/value"
    return await _act(visit, "PUT", target, {"value": visit.form.get("value", "")}, seen=visit.form.get("seen"))


@PAGES.takes("/secrets/{secret_id}/delete", "secrets")
async def delete_secret(visit: PageRequest) -> PageView | Redirect:
    target = f"/v1/secrets/{quote(visit.path['secret_id'], safe='')}"
    return await _act(visit, "DELETE", target, None, seen=visit.form.get("seen"))


async def _act(
    visit: PageRequest, method: str, target: str, body: Any, *, seen: str | None = None
) -> PageView | Redirect:
    try:
        await visit.api.send(method, target, body=body, if_match=seen)
    except ApiRefused as refusal:
        if refusal.status >= 500:
            raise
        return await _page(visit, refusal=refusal)
    return Redirect("/console/secrets")


async def _page(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    page = await visit.api.get("secrets", limit=500)
    tools = await visit.api.get("tools", limit=500)
    values = {
        "secrets": page["items"],
        "types": _TYPES,
        "tool_count": len(tools["items"]),
        "name": visit.form.get("name", ""),
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    return PageView("secrets.html", "Secrets", values, command="twinraven secrets list", status=status)
