"""Arranges the evidence of what waits for a decision: by kind, so that a person reads it instead of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from twinraven.console.api_caller import members
from twinraven.console.formatting import percent
from twinraven.console.page_requests import PageRequest

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: what it is, what it says, and what it opens."""

    name: str
    text: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """Lines of several columns; the tone of a line colours its first tag: good, bad or warn."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[tuple[str, ...], str]]


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """The evidence of a pending decision, arranged for a page."""

    facts: list[Fact] = field(default_factory=list[Fact])
    tables: list[EvidenceTable] = field(default_factory=list[EvidenceTable])
    blocks: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """Values that are shown as JSON, each with its heading."""
    diff: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Lines of a difference: added, taken out or as before."""


async def evidence_of(visit: PageRequest, item: Json) -> EvidenceView:
    """Return the evidence of an item, as its kind is best read."""
    kind, found = item["kind"], item["evidence"]
    if kind == "judgement":
        return await _judgement(visit, found)
    if kind == "duplicate":
        return await _duplicate(visit, found)
    if kind == "question":
        return _question(found)
    if kind == "changed_tool":
        return _changed_tool(found)
    if kind in ("unknown_effect", "unknown_step"):
        return _unknown(found, await _held(visit, item["holds"]), await _lost_call(visit, found))
    return EvidenceView(blocks=[(name.replace("_", " "), value) for name, value in found.items()])


async def _judgement(visit: PageRequest, found: Json) -> EvidenceView:
    task = await visit.api.find("tasks", found["task_id"])
    spec = members(members(task).get("spec_json"))
    facts = [
        Fact("Task", str(spec.get("description") or found["task_id"]), _page("tasks", found["task_id"])),
        Fact("Confidence", percent(found["confidence_score"])),
    ]
    if found["risk_tags"]:
        facts.append(Fact("Risks", ", ".join(found["risk_tags"])))
    criteria = {each.get("id"): each.get("description") for each in spec.get("acceptance_criteria", [])}
    met = [
        ((str(criteria.get(each["criterion_id"]) or each["criterion_id"]), "yes" if each["satisfied"] else "no",
          str(each.get("notes") or "–")), "good" if each["satisfied"] else "bad")
        for each in found["acceptance_evidence"]
    ]  # fmt: skip
    checks = sorted(found["policy_checks"], key=lambda each: each["result"] == "pass")
    tones = {"pass": "good", "fail": "bad"}
    rows = [
        ((str(each["name"]), str(each["result"]), str(each["details"] or "–")), tones.get(each["result"], "warn"))
        for each in checks
    ]
    outputs = members(found["outputs"])
    return EvidenceView(
        facts,
        [
            EvidenceTable("Checks", ("Check", "Result", "Why"), rows),
            EvidenceTable("What was asked of it", ("Criterion", "Met", "How it was seen"), met),
        ],
        [("What the attempt gave", outputs.get("output", outputs))],
    )


async def _duplicate(visit: PageRequest, found: Json) -> EvidenceView:
    ids = (found["first_id"], found["second_id"])
    both = await asyncio.gather(*(visit.api.find("entities", each) for each in ids))
    facts = [
        Fact("Kept" if place == 0 else "Merged into it", str(name), _page("entities", key))
        for place, (key, name) in enumerate(zip(ids, found["names"], strict=True))
    ]
    asked = (("Category", "category"), ("Summary", "summary"), ("Group", "group_id"), ("Mentions", "mentions"))
    rows = [
        ((title, *("–" if each is None or each[name] in (None, "") else str(each[name]) for each in both)), "")
        for title, name in asked
    ]
    rows.append((("Also called", *(", ".join(members(each).get("aliases", ())) or "–" for each in both)), ""))
    alike = [
        (("Names", percent(found["name_similarity"])), ""),
        (("Summaries", percent(found["summary_similarity"])), ""),
        (("Same category", "yes" if found["same_category"] else "no"), ""),
        (("Over all", percent(found["similarity"])), ""),
    ]
    names = tuple(map(str, found["names"]))
    return EvidenceView(
        facts,
        [EvidenceTable("Side by side", ("", *names), rows), EvidenceTable("How alike", ("What", "Alike"), alike)],
    )


def _question(found: Json) -> EvidenceView:
    asked = members(found["question"])
    facts = [Fact("Run", found["run_id"][:12], _page("runs", found["run_id"])), Fact("Step", str(found["asked"]))]
    if not asked:
        return EvidenceView(facts, blocks=[("The question", found["question"])])
    if asked.get("target"):
        facts.append(Fact("Calls", str(asked["target"]), _page("tools", str(asked["target"]))))
    inputs = members(asked.get("inputs"))
    rows = [((str(name), _text(value)), "") for name, value in inputs.items()]
    return EvidenceView(facts, [EvidenceTable("With exactly this", ("Argument", "Value"), rows)] if rows else [])


async def _held(visit: PageRequest, hold: Json | None) -> list[Fact]:
    """Return what a payment holds of its wallet and its budget until the decision, and what is left beside it."""
    if hold is None:
        return []
    facts = [Fact("Holds", f"{hold['amount']} {hold['currency']} until you decide; nothing else can spend it")]
    wallet = await visit.api.find("wallets", hold["wallet_id"])
    if wallet is not None:
        said = f"{wallet['balance']} {wallet['currency']} free, {wallet['held']} held in all"
        facts.append(Fact("Wallet", f"{wallet['provider']}: {said}", "/console/goals#wallets"))
    if hold["budget_id"]:
        facts.append(Fact("Budget", f"{hold['budget_id'][:12]} counts it as spent"))
    return facts


async def _lost_call(visit: PageRequest, found: Json) -> Json:
    """Return the arguments of a run's call whose outcome is unknown."""
    run = await visit.api.find("runs", found["run_id"]) if "run_id" in found else None
    waits: Sequence[Json] = members(run).get("waits", ())
    asked = next((each["question"] for each in waits if each["place"] == found["place"]), None)
    return members(members(asked).get("params"))


def _unknown(found: Json, held: Sequence[Fact], arguments: Json) -> EvidenceView:
    facts: list[Fact] = [*held]
    if "run_id" in found:
        facts.append(Fact("Run", found["run_id"][:12], _page("runs", found["run_id"])))
        facts.append(Fact("Step", str(found["place"])))
    if "task_id" in found:
        facts.append(Fact("Task", str(found["task_id"])[:12], _page("tasks", str(found["task_id"]))))
    if found.get("provider"):
        facts.append(Fact("Provider", str(found["provider"])))
    key = str(found["idempotency_key"])
    facts.append(Fact("Key", key, _page("trace" if "task_id" in found else "keys", key)))
    if "attempts" in found:
        facts.append(Fact("Attempts", str(found["attempts"])))
    error = members(found.get("error"))
    if error and "run_id" not in found:
        facts.append(Fact("Error", f"{error.get('code', '')}: {error.get('message', '')}"))
    request = members(found.get("request")) or arguments
    rows = [((str(name), _text(value)), "") for name, value in request.items() if value not in (None, "")]
    return EvidenceView(facts, [EvidenceTable("What was sent", ("Field", "Value"), rows)] if rows else [])


def _changed_tool(found: Json) -> EvidenceView:
    lines: Sequence[str] = found["diff"]
    kinds = {"+": "add", "-": "del", "@": "at"}
    return EvidenceView(
        [Fact("Server", str(found["server"]))],
        blocks=[("What it says now", found["changed_definition"])],
        diff=[(kinds.get(line[:1], ""), line) for line in lines if not line.startswith(("---", "+++"))],
    )


def _page(folder: str, name: str) -> str:
    return f"/console/{folder}/{quote(name, safe='')}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
