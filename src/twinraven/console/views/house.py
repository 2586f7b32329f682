"""Shows the house itself: metrics of the process, users, keys, signed-in browsers, policy and settings."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from twinraven.console.api_caller import ApiRefused, items_of
from twinraven.console.drawing.columns import meter
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line

PAGES: Final = PageTable()
_ROLES: Final = ("viewer", "member", "approver", "admin")
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? ([-+0-9.eE]+|NaN|[+-]Inf)$")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a metric."""

    labels: str
    number: float
    by: str = ""
    """What the number is one part by: the names of its labels."""

    @property
    def value(self) -> str:
        return f"{self.number:,g}"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with what it says and its numbers."""

    name: str
    said: str
    samples: list[Sample]

    @property
    def total(self) -> str:
        """All its parts together."""
        return f"{sum(each.number for each in self.samples):,g}"

    @property
    def by(self) -> str:
        return self.samples[0].by


@PAGES.shows("/metrics", "metrics", live="events/10")
async def metrics(visit: PageRequest) -> PageView:
    text = await visit.api.text("/metrics")
    defined = await visit.api.find("metric-definitions", limit=200) if visit.has("metric-definitions") else None
    known = items_of(defined)
    chosen = next((each for each in known if each["metric_id"] == visit.query.get("metric")), None)
    series = None if chosen is None else await visit.api.find("metrics", chosen["metric_id"], "series")
    values = {
        "metrics": _metrics(text),
        "raw": "/metrics",
        "defined": known,
        "chosen": chosen,
        "points": _points(items_of(series)),
        "is_counting": series is not None and series["is_counting"],
    }
    command = command_line("metrics", *(["list"] if chosen is None else ["show", chosen["scope"], chosen["name"]]))
    return PageView("metrics.html", "Metrics", values, command=command)


def _points(found: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Markup]]:
    """Return each stretch of time with a bar, as far as its value is a number."""
    numbers = [each["value"] if isinstance(each["value"], int | float) else 0 for each in found]
    most = max(numbers, default=0) or 1
    return [(each, meter(max(number, 0) / most)) for each, number in zip(found, numbers, strict=True)]


def _metrics(text: str) -> list[Metric]:
    found: dict[str, Metric] = {}
    said: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, words = line.removeprefix("# HELP ").partition(" ")
            said[name] = words
        sample = _SAMPLE.match(line)
        if sample is None or sample[1].endswith("_bucket"):
            continue
        name = sample[1]
        pairs: list[tuple[str, str]] = _LABEL.findall(sample[2] or "")
        labels = ", ".join(f"{key} {value}" for key, value in pairs)
        part = Sample(labels, float(sample[3]), by=", ".join(key for key, _ in pairs))
        help_of = said.get(name) or said.get(re.sub(r"_(sum|count|total)$", "", name), "")
        found.setdefault(name, Metric(name, help_of, [])).samples.append(part)
    return list(found.values())


@PAGES.shows("/settings", "settings")
async def settings(visit: PageRequest) -> PageView:
    return await _settings(visit)


@PAGES.takes("/settings/users", "settings")
async def add_user(visit: PageRequest) -> PageView | Redirect:
    form = visit.form
    body = {"name": form.get("name", ""), "role": form.get("role", "member"), "kind": form.get("kind", "person")}
    return await _act(visit, "POST", "/v1/users", body)


@PAGES.takes("/settings/users/{user_id}", "settings")
async def change_user(visit: PageRequest) -> PageView | Redirect:
    """Another role, or locked out, on the state that was shown."""
    form = visit.form
    body: dict[str, Any] = {"role": form["role"]} if "role" in form else {"active": form.get("active") == "true"}
    target = f"/v1/users/{quote(visit.path['user_id'], safe='')}"
    return await _act(visit, "PATCH", target, body, seen=form.get("seen"))


@PAGES.takes("/settings/keys", "settings")
async def issue_key(visit: PageRequest) -> PageView | Redirect:
    """Make a key; this answer shows it, and nothing does again."""
    form = visit.form
    body: dict[str, Any] = {"label": form.get("label", "")}
    if form.get("user_id"):
        body["user_id"] = form["user_id"]
    if form.get("days", "").isdigit():
        body["expires_in_days"] = int(form["days"])
    try:
        issued = await visit.api.post("keys", body=body)
    except ApiRefused as refusal:
        return await _settings(visit, refusal=_told(refusal))
    return await _settings(visit, new_key=issued["shown_once"])


@PAGES.takes("/settings/keys/{key_id}/revoke", "settings")
async def revoke_key(visit: PageRequest) -> PageView | Redirect:
    return await _act(visit, "DELETE", f"/v1/keys/{quote(visit.path['key_id'], safe='')}", None)


@PAGES.takes("/settings/sign-ins/{sign_in_id}/end", "settings")
async def end_sign_in(visit: PageRequest) -> PageView | Redirect:
    return await _act(visit, "DELETE", f"/v1/sign-ins/{quote(visit.path['sign_in_id'], safe='')}", None)


async def _act(
    visit: PageRequest, method: str, target: str, body: Any, *, seen: str | None = None
) -> PageView | Redirect:
    try:
        await visit.api.send(method, target, body=body, if_match=seen)
    except ApiRefused as refusal:
        return await _settings(visit, refusal=_told(refusal))
    return Redirect("/console/settings")


def _told(refusal: ApiRefused) -> ApiRefused:
    """Return a refusal that the page can show; a fault of ours is raised."""
    if refusal.status >= 500:
        raise refusal
    return refusal


async def _settings(visit: PageRequest, *, refusal: ApiRefused | None = None, new_key: str | None = None) -> PageView:
    days = visit.query.get("days", "")
    users, keys, sign_ins, policy, stated, doctor, retention = await asyncio.gather(
        visit.api.find("users", limit=500),
        visit.api.get("keys", limit=500),
        visit.api.get("sign-ins", limit=500),
        visit.api.find("policy"),
        visit.api.find("settings"),
        visit.api.find("doctor"),
        visit.api.find("retention", days=days if days.isdigit() else None),
    )
    findings: list[Mapping[str, Any]] = items_of(doctor)
    values = {
        "users": None if users is None else users["items"],
        "keys": keys["items"],
        "names": {each["user_id"]: each["name"] for each in items_of(users)},
        "roles": _ROLES,
        "sign_ins": sign_ins["items"],
        "policy": policy,
        "changed": [each for each in items_of(stated) if each["source"] != "default"],
        "defaults": [each for each in items_of(stated) if each["source"] == "default"],
        "findings": [each for each in findings if each["status"] != "info"],
        "extras": [each for each in findings if each["status"] == "info"],
        "is_sound": doctor is not None and doctor["ok"],
        "retention": retention,
        "days": days,
        "new_key": new_key,
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    return PageView("settings.html", "Settings", values, command="twinraven config show", status=status)
